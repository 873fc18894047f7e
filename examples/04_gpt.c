/* 04_gpt.c - a GPT: its configuration, its tensors, and why it may be trained on all
 * positions at once: changing a token changes nothing before it.                          */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { T = 8, VOCAB = 50, CHANGED = 5 };

static qkv_status print_row(void *user, const qkv_state_entry *row)
{
    (void)user;
    if (row->kind == QKV_STATE_IGNORED) return QKV_OK; /* old files hold it, nothing reads it */
    printf("  %-48s", row->name);
    for (int i = 0; i < row->ndim; i++) printf("%s%zu", i ? " x " : "", row->shape[i]);
    printf("%s\n", row->kind == QKV_STATE_TIED ? "  (tied)" : "");
    return QKV_OK;
}

/* Logits (T, VOCAB) of ids, copied to out. */
static qkv_status logits(qkv_model *m, qkv_tape *t, const int32_t *ids, qkv_real *out)
{
    const size_t shape[2] = {1, T};
    qkv_tape_reset(t);
    qkv_tensor *hidden = qkv_lm_hidden(m, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, NULL);
    const qkv_real *data = qkv_data(t, qkv_lm_logits(m, t, hidden));
    if (data) memcpy(out, data, sizeof *out * T * VOCAB);
    return qkv_tape_status(t);
}

int main(void)
{
    static qkv_real before[T * VOCAB], after[T * VOCAB];
    const int32_t ids[T] = {3, 1, 4, 1, 5, 9, 2, 6}, others[T] = {3, 1, 4, 1, 5, 7, 2, 6};
    qkv_gpt_config config;
    qkv_context *ctx;
    qkv_model *m;
    qkv_tape *t;
    if (qkv_context_create(&ctx, NULL)) return 1;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &config);
    config.vocab = VOCAB;
    config.positions = T;
    config.width = 64;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2; /* two query heads share a key/value head */
    if (qkv_model_create(&m, ctx, qkv_llama_type(), &config) || qkv_model_init(m, 1) ||
        qkv_tape_create(&t, ctx))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    printf("%s, %zu numbers:\n", qkv_model_type_architecture(qkv_model_type_of(m)),
           qkv_params_elements(qkv_model_params(m)));
    qkv_tape_mode(t, false, false); /* no backward pass: nothing is recorded */
    if (qkv_model_visit(m, print_row, NULL) || logits(m, t, ids, before) ||
        logits(m, t, others, after))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    int same = 0;
    while (same < T && !memcmp(before + same * VOCAB, after + same * VOCAB, VOCAB * sizeof *before))
        same++;
    printf("token %d changed: the %d predictions before it are the same bits\n", CHANGED, same);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return same == CHANGED ? 0 : 2;
}
