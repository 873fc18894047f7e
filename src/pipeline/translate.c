/* translate.c - translating lines of a text in memory, or of a file of any length. */
#include <stdlib.h>

#include "dist/map.h"
#include "pipeline/pipeline.h"
#include "pipeline/ranks.h"
#include "qkv/marian.h"
#include "qkv/pipeline_text.h"
#include "text/texts.h"

enum { CHUNK_BYTES = 1 << 20 }; /* of a file's text, from which on no more lines are read */

#define FIELD(member) .offset = offsetof(qkv_pipeline_translate_options, member)
static const qkv_option rows[] = {
    {.flag = "beam", .key = "beam", .type = QKV_OPT_SIZE, .min = 1, .max = QKV_BEAMS,
     FIELD(beams), .value = "N", .initial = "4",
     .help = "hypotheses kept of each line; 1: greedy"},
    {.flag = "n-best", .key = "n_best", .type = QKV_OPT_SIZE, .min = 1,
     .max = QKV_BEAMS, FIELD(n_best), .value = "N", .initial = "1",
     .help = "answers to every line, with scores; --beam at most"},
    {.flag = "length-penalty", .key = "length_penalty", .type = QKV_OPT_REAL, .min = -100,
     .max = 100, FIELD(length_penalty), .value = "A", .initial = "1",
     .help = "scores are log p / length^A: above 0 favours long answers"},
    {.flag = "gnmt", .key = "gnmt", .type = QKV_OPT_BOOL, FIELD(gnmt),
     .help = "scores are log p / ((5 + length) / 6)^A"},
    {.flag = "max-length", .key = "max_length", .type = QKV_OPT_SIZE, .min = 2, .max = 16777216,
     FIELD(max_length), .initial = "512",
     .help = "most tokens of an answer, the first input counted"},
    {.flag = "max-length-factor", .key = "max_length_factor", .type = QKV_OPT_REAL, .max = 1e6,
     FIELD(length_factor), .value = "F", .initial = "3",
     .help = "at most F tokens for each of the line's, and 10; 0: as long as --max-length says"},
    {.flag = "batch", .key = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 65536,
     FIELD(batch), .initial = "64", .help = "lines searched at once"},
    {.flag = "shortlist", .key = "shortlist", .type = QKV_OPT_STRING, FIELD(shortlist),
     .value = "FILE",
     .help = "choose among the tokens that it has for a batch's words (qkv shortlist): faster"},
    {.flag = "shortlist-first", .key = "shortlist_first", .type = QKV_OPT_SIZE,
     .max = QKV_TOKENIZER_ID_LIMIT, FIELD(list.first), .initial = "1000",
     .help = "most frequent tokens that are in every list"},
    {.flag = "shortlist-best", .key = "shortlist_best", .type = QKV_OPT_SIZE,
     .max = QKV_TOKENIZER_ID_LIMIT, FIELD(list.best), .initial = "100",
     .help = "translations of each source token that are in the list"},
    {.flag = "ensemble", .key = "ensemble", .type = QKV_OPT_LIST, FIELD(ensemble), .value = "DIR",
     .help = "translators with DIR's tokenizer that choose together with it: better, and slower"},
    {.flag = "reverse", .key = "reverse", .type = QKV_OPT_STRING, FIELD(reverse), .value = "DIR",
     .help = "a translator of the other direction that rescores the hypotheses: better, slower"},
    {.flag = "reverse-weight", .key = "reverse_weight", .type = QKV_OPT_REAL, .max = 100,
     FIELD(reverse_weight), .value = "W", .initial = "0.1",
     .help = "scores are those of the search + W log p(line | hypothesis) / tokens of the line"},
    {.key = "lines", .type = QKV_OPT_SIZE, .flags = QKV_OPT_HIDDEN, .min = 1, .max = 1e9,
     FIELD(lines), .initial = "4096", .help = "lines of a file read and sorted together"},
};
static const qkv_option_table table = {"Translating", rows, sizeof rows / sizeof *rows,
                                sizeof(qkv_pipeline_translate_options)};

const qkv_option_table *qkv_pipeline_translate_table(void) { return &table; }

qkv_pipeline_translate_options qkv_pipeline_translate_defaults(const qkv_pipeline *p)
{
    qkv_pipeline_translate_options o;
    qkv_option_defaults(&table, &o);
    if (qkv_model_can(p->model, QKV_CAN_TRANSLATE)) {
        o.beams = p->generation.beams;
        o.length_penalty = p->generation.length_penalty;
        o.max_length = 0;
        o.length_factor = qkv_model_type_of(p->model) == qkv_t5_type() ? 0 : o.length_factor;
    }
    return o;
}

typedef struct {
    qkv_pipeline *p;
    qkv_pipeline_translate_options o;
    qkv_pipeline_translate_fn *fn;
    void *user;
    qkv_beam_search *search;
    size_t lines; /* of the chunks before */
    size_t total; /* lines; 0: not known */
    size_t cut;   /* lines that were longer than the model reads */
    bool stopped; /* by fn */
} job;

static qkv_status add_ensemble(job *j)
{
    qkv_pipeline *p = j->p;
    qkv_status status = qkv__pipeline_ensemble(p, &j->o.ensemble);
    for (size_t i = 0; i < p->ensemble_count && !status; i++)
        if (qkv_beam_search_add(j->search, p->ensemble[i]->model))
            status = qkv_fail_prefix(p->ctx, p->ensemble[i]->dir);
    return status;
}

static qkv_status open_search(job *j)
{
    const qkv_pipeline_translate_options *o = &j->o;
    qkv_generation g = j->p->generation;
    if (!qkv_model_can(j->p->model, QKV_CAN_TRANSLATE))
        return qkv__pipeline_refuse(j->p, "translate");
    if (qkv__pipeline_text(j->p))
        return j->p->no_tokenizer_status;
    g.beams = o->beams;
    g.length_penalty = o->length_penalty;
    g.gnmt = o->gnmt;
    g.length_factor = o->length_factor;
    if (o->max_length) {
        g.max_length = o->max_length;
        g.max_new_tokens = 0;
    }
    if (o->n_best > g.beams)
        return qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "--n-best: at most as many as there are beams, "
                        "%zu, expected, found %zu", g.beams, o->n_best);
    const qkv_shortlist *list = NULL;
    if (o->shortlist && !(list = qkv__pipeline_shortlist(j->p, o->shortlist)))
        return qkv_context_status(j->p->ctx);
    qkv_status status = qkv_beam_search_create(&j->search, j->p->model, &g);
    if (!status)
        status = qkv_beam_search_shortlist(j->search, list, &o->list);
    if (status)
        return qkv_fail_prefix(j->p->ctx, j->p->dir);
    if (o->reverse)
        status = qkv__pipeline_reverse(j->p, o->reverse);
    return status ? status : add_ensemble(j);
}

static void pipeline_translate_on_line(void *user, size_t line, const qkv_translated *found)
{
    job *j = user;
    j->cut += found->cut;
    if (!j->stopped)
        j->stopped = !j->fn(j->user, j->lines + line, found);
}

static bool translate_on_progress(void *user, size_t lines)
{
    job *j = user;
    return !qkv__progress(j->p->ctx, "translating", "lines", j->lines + lines, j->total);
}

static qkv_status pipeline_translate(job *j, const char *text, size_t len, size_t lines)
{
    qkv_translate_text_options o = qkv_translate_text_defaults();
    o.batch = j->o.batch;
    o.n_best = j->o.n_best;
    o.first_line = j->lines + 1;
    if (j->o.reverse)
        o.reverse = (qkv_reverse){j->p->reverse->model, j->p->reverse->tokenizer,
                                  j->o.reverse_weight};
    o.progress = translate_on_progress;
    o.user = j;
    if (!translate_on_progress(j, 0))
        return QKV_E_CANCELLED;
    qkv_status status = qkv_translate(j->search, j->p->tokenizer, text, len, &o,
                                      pipeline_translate_on_line, j);
    j->lines += lines;
    return status;
}

/* A part for each rank: its searches. */
static qkv_status searched_part(void *user, size_t part, double sums[2])
{
    const job *j = user;
    qkv_beam_stats stats = qkv_beam_search_stats(j->search);
    (void)part;
    sums[0] = (double)stats.choices;
    sums[1] = (double)stats.rows;
    return QKV_OK;
}

static qkv_status tell_choices(job *j)
{
    const qkv_marian_config *c = qkv_model_config(j->p->model);
    double sums[2] = {0, 0};
    if (!j->o.shortlist)
        return QKV_OK;
    qkv_status status = qkv__dist_map_sum(j->p->ctx, (size_t)qkv_dist_size(j->p->ctx), 2,
                                          searched_part, j, sums);
    if (!status && sums[1] > 0)
        qkv__note(j->p->ctx, "the shortlist left %zu of %zu tokens on the average",
                  (size_t)sums[0] / (size_t)sums[1], c->vocab);
    return status;
}

/* Ends the call: says what was cut. */
static qkv_status translate_end(job *j, qkv_status status)
{
    if (!status && j->cut)
        qkv__note(j->p->ctx, "%zu lines were longer than the model can read: their ends are "
                  "missing", j->cut);
    if (!status)
        status = tell_choices(j);
    qkv_beam_search_destroy(j->search);
    return status;
}

static job pipeline_translate_begin(qkv_pipeline *p, const qkv_pipeline_translate_options *options,
                                    qkv_pipeline_translate_fn *fn, void *user)
{
    return (job){.p = p, .o = options ? *options : qkv_pipeline_translate_defaults(p), .fn = fn,
                 .user = user};
}

qkv_status qkv_pipeline_translate(qkv_pipeline *p, const char *text, size_t len,
                                  const qkv_pipeline_translate_options *options,
                                  qkv_pipeline_translate_fn *fn, void *user)
{
    job j = pipeline_translate_begin(p, options, fn, user);
    const qkv_text_span part = {.data = text, .len = len};
    qkv_status status = open_search(&j);
    j.total = qkv__count_lines(&part);
    if (!status)
        status = pipeline_translate(&j, text, len, j.total);
    return translate_end(&j, status);
}

/* The next lines of the file; none at its end. */
static qkv_status read_chunk(const job *j, FILE *file, qkv_str *text, size_t *lines)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len = 0;
    while (*lines < j->o.lines && text->len < CHUNK_BYTES && len >= 0) {
        len = getline(&line, &room, file);
        if (len >= 2 && line[len - 2] == '\r' && line[len - 1] == '\n')
            line[--len - 1] = '\n';
        if (len >= 0) {
            qkv_str_add(text, line, (size_t)len);
            ++*lines;
        }
    }
    free(line);
    return text->failed ? QKV_E_MEMORY : QKV_OK;
}

/* Lines of the file, which rank 0 reads, translated as soon as there are enough. */
static qkv_status translate_chunks(job *j, FILE *file, qkv_str *text)
{
    qkv_status status = QKV_OK;
    size_t lines;
    do {
        lines = 0;
        qkv_str_clear(text);
        if (qkv_dist_rank(j->p->ctx) == 0 && !j->stopped)
            status = read_chunk(j, file, text, &lines);
        status = qkv__share_lines(j->p->ctx, status, text, &lines);
        if (!status && lines)
            status = pipeline_translate(j, text->data, text->len, lines);
    } while (!status && lines);
    return status;
}

qkv_status qkv_pipeline_translate_file(qkv_pipeline *p, FILE *file, const char *name,
                                       const qkv_pipeline_translate_options *options,
                                       qkv_pipeline_translate_fn *fn, void *user)
{
    job j = pipeline_translate_begin(p, options, fn, user);
    qkv_str text;
    qkv_str_init(&text, p->ctx);
    qkv_status status = open_search(&j);
    if (!status)
        status = translate_chunks(&j, file, &text);
    if (!status && ferror(file))
        status = qkv_fail(p->ctx, QKV_E_IO, "%s: cannot be read", name);
    qkv_str_free(&text);
    return translate_end(&j, status);
}
