/* shortlist.c - shortlists of translators: made from sentence pairs, opened for a search. */
#include <string.h>

#include "io/file.h"
#include "model/model.h"
#include "pipeline/options.h"
#include "pipeline/pipeline.h"
#include "qkv/marian.h"
#include "qkv/pipeline_text.h"
#include "text/pairs.h"

#define FIELD(member) .offset = offsetof(qkv_make_shortlist_options, member)
static const qkv_option rows[] = {
    {.flag = "source", .key = "source", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED,
     FIELD(source), .value = "FILE", .help = "sentences of the source language, one a line"},
    {.flag = "target", .key = "target", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED,
     FIELD(target), .value = "FILE", .help = "their translations, line by line"},
    {.flag = "pairs", .key = "pairs", .type = QKV_OPT_SIZE, .min = 1, .max = 4294967295.0,
     FIELD(pairs), .initial = "1000000", .help = "most pairs to read, from the first on"},
    {.flag = "iterations", .key = "iterations", .type = QKV_OPT_SIZE, .min = 1, .max = 1000,
     FIELD(learn.iterations), .initial = "5", .help = "of expectation maximisation"},
    {.flag = "most", .key = "most", .type = QKV_OPT_SIZE, .min = 1, .max = QKV_TOKENIZER_ID_LIMIT,
     FIELD(learn.most), .initial = "100", .help = "translations kept of a source token"},
    {.flag = "least", .key = "least", .type = QKV_OPT_REAL, .max = 1, FIELD(learn.least),
     .initial = "1e-6", .help = "less probable translations are left out"},
};
QKV__OPTIONS(qkv_make_shortlist, "Shortlist")

/* ---- making ------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    const qkv_make_shortlist_options *o;
    qkv_model *model; /* without its weights */
    qkv_tokenizer *tokenizer;
    qkv__pairs text;
    qkv_records *pairs;
    qkv_shortlist *list;
} maker;

/* Can the file be written? Better known before hours of learning than after. */
static qkv_status check_file(qkv_context *ctx, const char *file)
{
    qkv__writer *w;
    if (qkv_file_exists(file)) /* it may be a pipe, which is opened once */
        return QKV_OK;
    qkv_status status = qkv__writer_open(&w, ctx, file);
    if (!status)
        qkv__writer_abandon(w);
    return status;
}

static qkv_status open_translator(maker *m, const char *dir)
{
    qkv_status status = qkv_hub_load_config(&m->model, m->ctx, dir);
    if (status)
        return status;
    const qkv_marian_config *c = qkv_model_config(m->model);
    if (!qkv_model_can(m->model, QKV_CAN_TRANSLATE))
        return qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "%s: a translator expected, found a %s model",
                        dir, qkv_model_type_name(qkv_model_type_of(m->model)));
    if (c->eos < 0)
        return qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "%s: the model has no token that ends a "
                        "sentence", dir);
    return qkv_hub_load_tokenizer(&m->tokenizer, m->ctx, dir);
}

static qkv_status read_pairs(maker *m)
{
    const qkv_marian_config *c = qkv_model_config(m->model);
    const qkv__pairs_coding coding = {m->tokenizer, c->eos, c->positions};
    qkv_status status = qkv__pairs_open(&m->text, m->ctx, m->o->source, m->o->target);
    if (status)
        return status;
    size_t read = m->text.lines < m->o->pairs ? m->text.lines : m->o->pairs;
    if (read < m->text.lines)
        qkv__note(m->ctx, "%s: the first %zu of %zu pairs are read", m->o->source, read,
                  m->text.lines);
    return qkv__pairs_records(&m->pairs, &m->text, &coding, 0, read, NULL);
}

static void count_made(const maker *m, qkv_made_shortlist *made)
{
    const qkv_shortlist_entry *e = qkv_shortlist_entries(m->list, &made->entries);
    made->pairs = qkv_records_count(m->pairs);
    made->sources = 0;
    for (size_t i = 0; i < made->entries; i++)
        made->sources += i == 0 || e[i].source != e[i - 1].source;
}

qkv_status qkv_make_shortlist(qkv_context *ctx, const char *dir, const char *file,
                              const qkv_make_shortlist_options *options, qkv_made_shortlist *made)
{
    maker m = {.ctx = ctx, .o = options};
    if (!options->source || !options->target)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--source and --target: two files of sentences "
                        "expected");
    qkv_status status = check_file(ctx, file);
    if (!status)
        status = open_translator(&m, dir);
    if (!status)
        status = read_pairs(&m);
    if (!status)
        status = qkv_shortlist_learn(&m.list, ctx, m.pairs,
                                     ((const qkv_marian_config *)qkv_model_config(m.model))->vocab,
                                     &options->learn);
    if (!status)
        status = qkv_shortlist_save(m.list, m.tokenizer, file);
    if (!status && made)
        count_made(&m, made);
    qkv_shortlist_destroy(m.list);
    qkv_records_close(m.pairs);
    qkv__pairs_close(&m.text);
    qkv_tokenizer_destroy(m.tokenizer);
    qkv_model_destroy(m.model);
    return status;
}

/* ---- using -------------------------------------------------------------------------------- */

const qkv_shortlist *qkv__pipeline_shortlist(qkv_pipeline *p, const char *file)
{
    if (p->shortlist && strcmp(p->shortlist_file, file) == 0)
        return p->shortlist;
    const qkv_marian_config *c = qkv_model_config(p->model);
    qkv_shortlist *list = NULL;
    char *name = qkv_strdup(p->ctx, file);
    if (!name || qkv_shortlist_load(&list, p->ctx, p->tokenizer, c->vocab, file)) {
        qkv_free(p->ctx, name);
        return NULL;
    }
    qkv_shortlist_destroy(p->shortlist);
    qkv_free(p->ctx, p->shortlist_file);
    p->shortlist = list;
    p->shortlist_file = name;
    return list;
}
