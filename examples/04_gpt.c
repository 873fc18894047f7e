/* 04_gpt.c - a GPT: its configuration, its tensors, and why it may be trained on all
 * positions at once: changing a token changes nothing before it.                          */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { T = 8, VOCAB = 50 };

static qkv_status print_row(void *user, const qkv_state_entry *row)
{
    size_t *rows = (size_t *)user;
    if (row->kind == QKV_STATE_IGNORED) return QKV_OK; /* old files hold it, nothing reads it */
    *rows += 1;
    printf("  %-48s", row->name);
    for (int i = 0; i < row->ndim; i++) printf("%s%zu", i ? " x " : "", row->shape[i]);
    printf("%s\n", row->kind == QKV_STATE_TIED ? "  (tied)" : "");
    return QKV_OK;
}

/* Logits (T, VOCAB) of ids, copied to out. */
static int logits(qkv_model *m, qkv_tape *t, const int32_t *ids, qkv_real *out)
{
    const size_t shape[2] = {1, T};
    qkv_tape_reset(t);
    qkv_tensor *hidden = qkv_lm_hidden(m, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, NULL);
    const qkv_real *data = qkv_data(t, qkv_lm_logits(m, t, hidden));
    if (qkv_tape_status(t) != QKV_OK) return 1;
    memcpy(out, data, sizeof *out * T * VOCAB);
    return 0;
}

static int run(qkv_context *ctx, qkv_model *m)
{
    static qkv_real before[T * VOCAB], after[T * VOCAB];
    int32_t ids[T] = {3, 1, 4, 1, 5, 9, 2, 6};
    const int changed = 5;
    size_t rows = 0;
    int same = 0;
    qkv_tape *t = NULL;

    printf("%s, %zu parameters, %zu numbers:\n",
           qkv_model_type_architecture(qkv_model_type_of(m)),
           qkv_params_count(qkv_model_params(m)), qkv_params_elements(qkv_model_params(m)));
    if (qkv_model_visit(m, print_row, &rows) != QKV_OK || qkv_tape_create(&t, ctx) != QKV_OK)
        return 1;
    qkv_tape_mode(t, false, false); /* no backward pass: nothing is recorded */
    int failed = logits(m, t, ids, before);
    ids[changed] = 7;
    failed = failed || logits(m, t, ids, after);
    qkv_tape_destroy(t);
    if (failed) return 1;

    while (same < T && !memcmp(before + same * VOCAB, after + same * VOCAB, VOCAB * sizeof *before))
        same++;
    printf("token %d changed: the predictions before it, %d rows, are the same bits\n", changed,
           same);
    return same == changed && rows > 0 ? 0 : 2;
}

int main(void)
{
    qkv_gpt_config config;
    qkv_context *ctx = NULL;
    qkv_model *m = NULL;
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;

    qkv_option_defaults(qkv_model_type_config(&qkv_llama_type), &config);
    config.vocab = VOCAB;
    config.positions = T;
    config.width = 64;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2; /* two query heads share a key/value head */

    int status = 1;
    if (qkv_model_create(&m, ctx, &qkv_llama_type, &config) == QKV_OK &&
        qkv_model_init(m, 1) == QKV_OK)
        status = run(ctx, m);
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the model looks ahead\n");
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return status;
}
