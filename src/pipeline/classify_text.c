/* classify_text.c - labels for texts. */
#include "dist/map.h"
#include "pipeline/pipeline.h"
#include "pipeline/ranks.h"
#include "qkv/bert.h"
#include "qkv/pipeline_text.h"
#include "text/texts.h"

enum { BATCH = 256 }; /* texts that a rank labels at once */

typedef struct {
    qkv_pipeline *p;
    qkv_classified_fn *fn;
    void *user;
    size_t classes, room; /* room: texts that all ranks label at once */
    qkv_real *probs; /* (BATCH, classes) */
    double *parts;   /* (ranks, 1 + BATCH classes): how many texts were cut, probabilities */
    const qkv_text_pair *texts; /* (count) those at hand */
    size_t count;
    size_t done, total, cut; /* texts; total 0: not known */
    bool stopped;            /* by fn */
} job;

static qkv_status pipeline_classify_text_begin(job *j)
{
    if (!qkv_model_can(j->p->model, QKV_CAN_CLASSIFY_TEXT))
        return qkv__pipeline_refuse_head(j->p, "classify texts");
    j->classes = ((const qkv_bert_config *)qkv_model_config(j->p->model))->classes;
    size_t ranks = (size_t)qkv_dist_size(j->p->ctx);
    j->room = BATCH * ranks;
    j->probs = qkv_calloc(j->p->ctx, BATCH * j->classes, sizeof *j->probs);
    j->parts = qkv_calloc(j->p->ctx, ranks, (1 + BATCH * j->classes) * sizeof *j->parts);
    return j->probs && j->parts ? qkv__pipeline_text(j->p) : QKV_E_MEMORY;
}

/* BATCH of the texts at hand, or what is left of them. */
static qkv_status label_part(void *user, size_t part, double *out)
{
    job *j = user;
    size_t from = part * BATCH, n = j->count - from < BATCH ? j->count - from : BATCH, cut = 0;
    qkv_status status = qkv_classify(j->p->model, j->p->tokenizer, j->texts + from, n, j->probs,
                                     &cut);
    out[0] = (double)cut;
    for (size_t i = 0; i < n * j->classes && !status; i++)
        out[1 + i] = (double)j->probs[i];
    return status;
}

/* Hands on the i-th of the texts at hand. */
static void hand_on(job *j, size_t i)
{
    size_t width = 1 + BATCH * j->classes;
    const double *from = j->parts + i / BATCH * width + 1 + i % BATCH * j->classes;
    qkv_classified c = {.text = j->done + i, .probabilities = j->probs, .classes = j->classes};
    for (size_t k = 0; k < j->classes; k++) {
        j->probs[k] = (qkv_real)from[k];
        if (j->probs[k] > j->probs[c.best])
            c.best = k;
    }
    j->stopped = !j->fn(j->user, &c);
}

/* Labels at most `room` texts. */
static qkv_status label(job *j, const qkv_text_pair *texts, size_t count)
{
    size_t parts = (count + BATCH - 1) / BATCH, width = 1 + BATCH * j->classes;
    j->texts = texts;
    j->count = count;
    qkv_status status = qkv__dist_map(j->p->ctx, parts, width, label_part, j, j->parts);
    for (size_t i = 0; i < parts && !status; i++)
        j->cut += (size_t)j->parts[i * width];
    for (size_t i = 0; i < count && !status && !j->stopped; i++)
        hand_on(j, i);
    if (!status)
        status = qkv__dist_broadcast(j->p->ctx, &j->stopped, sizeof j->stopped);
    j->done += count;
    if (!status && !j->stopped)
        status = qkv__progress(j->p->ctx, "classifying", "texts", j->done, j->total);
    return status;
}

static qkv_status classify_text_end(job *j, qkv_status status)
{
    if (j->cut)
        qkv__note(j->p->ctx, "texts longer than the model reads, whose ends were not read: %zu",
                  j->cut);
    qkv_free(j->p->ctx, j->parts);
    qkv_free(j->p->ctx, j->probs);
    return status;
}

qkv_status qkv_pipeline_classify_texts(qkv_pipeline *p, const qkv_text_pair *texts, size_t count,
                                       qkv_classified_fn *fn, void *user)
{
    job j = {.p = p, .fn = fn, .user = user, .total = count};
    qkv_status status = pipeline_classify_text_begin(&j);
    while (!status && !j.stopped && j.done < count) {
        size_t left = count - j.done;
        status = label(&j, texts + j.done, left < j.room ? left : j.room);
    }
    return classify_text_end(&j, status);
}

/* The next lines at *at, as many as all ranks label at once. */
static qkv_status take_lines(const job *j, const char **at, const char *end, qkv_str *text,
                             size_t *lines)
{
    const char *begin = *at;
    qkv_line line;
    while (*lines < j->room && qkv_next_line(at, end, &line))
        ++*lines;
    if (*lines)
        qkv_str_add(text, begin, (size_t)(*at - begin));
    return text->failed ? QKV_E_MEMORY : QKV_OK;
}

static qkv_status label_text(job *j, const qkv_str *text, size_t lines)
{
    const char *at = text->data, *end = at + text->len;
    qkv_text_pair *texts = qkv_calloc(j->p->ctx, lines, sizeof *texts);
    qkv_line line;
    size_t n = 0;
    while (texts && n < lines && qkv_next_line(&at, end, &line))
        texts[n++] = qkv_text_pair_of(line.data, line.len);
    qkv_status status = texts ? label(j, texts, n) : QKV_E_MEMORY;
    qkv_free(j->p->ctx, texts);
    return status;
}

/* Lines of the file x, which rank 0 has open; the others' is empty. */
static qkv_status label_file(job *j, const qkv_texts *x)
{
    qkv_status status = QKV_OK;
    const char *at = x->count ? x->spans[0].data : "", *end = at + (x->count ? x->spans[0].len : 0);
    size_t lines;
    qkv_str text;
    qkv_str_init(&text, j->p->ctx);
    do {
        lines = 0;
        qkv_str_clear(&text);
        if (!j->stopped)
            status = take_lines(j, &at, end, &text, &lines);
        status = qkv__share_lines(j->p->ctx, status, &text, &lines);
        if (!status && lines)
            status = label_text(j, &text, lines);
    } while (!status && lines);
    qkv_str_free(&text);
    return status;
}

qkv_status qkv_pipeline_classify_lines(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                       void *user)
{
    job j = {.p = p, .fn = fn, .user = user};
    qkv_texts x = {0};
    qkv_status status = pipeline_classify_text_begin(&j);
    if (!status && qkv_dist_rank(p->ctx) == 0)
        status = qkv_texts_open_one(&x, p->ctx, path);
    status = qkv__dist_agree(p->ctx, status);
    if (!status)
        status = label_file(&j, &x);
    qkv_texts_close(&x);
    return classify_text_end(&j, status);
}
