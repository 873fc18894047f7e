/* classify_text.c - labels for texts. */
#include "pipeline/pipeline.h"
#include "qkv/bert.h"
#include "qkv/pipeline_text.h"
#include "text/texts.h"

enum { BATCH = 256 }; /* texts that are answered at once */

typedef struct {
    qkv_pipeline *p;
    qkv_classified_fn *fn;
    void *user;
    size_t classes;
    qkv_real *probs; /* (BATCH, classes) */
    size_t done, total, cut; /* texts; total 0: not known */
    bool stopped;            /* by fn */
} job;

static qkv_status pipeline_classify_text_begin(job *j)
{
    if (!qkv_model_can(j->p->model, QKV_CAN_CLASSIFY_TEXT))
        return qkv__pipeline_refuse_head(j->p, "classify texts");
    j->classes = ((const qkv_bert_config *)qkv_model_config(j->p->model))->classes;
    j->probs = qkv_calloc(j->p->ctx, BATCH * j->classes, sizeof *j->probs);
    return j->probs ? qkv__pipeline_text(j->p) : QKV_E_MEMORY;
}

/* Labels at most BATCH texts. */
static qkv_status label(job *j, const qkv_text_pair *texts, size_t count)
{
    size_t cut = 0;
    qkv_status status = qkv_classify(j->p->model, j->p->tokenizer, texts, count, j->probs, &cut);
    for (size_t i = 0; i < count && !status && !j->stopped; i++) {
        const qkv_real *p = j->probs + i * j->classes;
        qkv_classified c = {.text = j->done + i, .probabilities = p, .classes = j->classes};
        for (size_t k = 1; k < j->classes; k++)
            if (p[k] > p[c.best])
                c.best = k;
        j->stopped = !j->fn(j->user, &c);
    }
    j->cut += cut;
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
        status = label(&j, texts + j.done, left < BATCH ? left : BATCH);
    }
    return classify_text_end(&j, status);
}

qkv_status qkv_pipeline_classify_lines(qkv_pipeline *p, const char *path, qkv_classified_fn *fn,
                                       void *user)
{
    job j = {.p = p, .fn = fn, .user = user};
    qkv_texts x = {0};
    qkv_text_pair texts[BATCH];
    qkv_line line;
    qkv_status status = pipeline_classify_text_begin(&j);
    if (!status)
        status = qkv_texts_open_one(&x, p->ctx, path);
    const char *at = status ? NULL : x.spans[0].data;
    const char *text_end = status ? NULL : at + x.spans[0].len;
    while (!status && !j.stopped && at < text_end) {
        size_t n = 0;
        while (n < BATCH && qkv_next_line(&at, text_end, &line))
            texts[n++] = qkv_text_pair_of(line.data, line.len);
        status = label(&j, texts, n);
    }
    qkv_texts_close(&x);
    return classify_text_end(&j, status);
}
