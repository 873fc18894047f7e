/* 06_look_inside.c - watch attention learn where to look.
 *
 * The task: a key, then noise, then a question mark; the answer is the key. One layer with one
 * head can only solve it by looking from the question mark back to the key, and the probe shows
 * that it does: the weights of the last row, before and after training.                      */
#include <stdio.h>

#include <qkv.h>

enum { KEYS = 8, QUESTION = KEYS, VOCAB = KEYS + 1, T = 8, B = 16, STEPS = 600 };

/* Loss at the last position of B sequences, which the step decides; others are ignored. */
static qkv_tensor *ask(void *model, qkv_tape *t, const qkv_micro_batch *part)
{
    const size_t shape[2] = {B, T};
    int32_t ids[B * T], targets[B * T];
    qkv_rng random;
    qkv_rng_init(&random, 1, part->step);
    for (int i = 0; i < B * T; i++) {
        ids[i] = i % T < T - 1 ? (int32_t)qkv_rng_below(&random, KEYS) : (int32_t)QUESTION;
        targets[i] = i % T < T - 1 ? (int32_t)QKV_IGNORED : ids[i - i % T];
    }
    qkv_model *m = (qkv_model *)model;
    qkv_tensor *h = qkv_lm_hidden(m, t, qkv_tensor_ids(t, ids, 2, shape), 0, NULL, NULL);
    return qkv_lm_loss(m, t, h, qkv_tensor_ids(t, targets, 2, shape), NULL);
}

static void see(void *share, const char *name, int sequence, int head, size_t row, size_t rows,
                size_t S, const qkv_real *weights)
{
    printf("%s %d, head %d, %zu row from %zu looks at:", name, sequence, head, rows, row);
    for (size_t j = 0; j < S; j++) printf(" %.2f%s", (double)weights[j], j + 1 < S ? "" : "\n");
    *(double *)share = (double)weights[0];
}

/* One forward pass with the probe on; the share of attention that the key gets. */
static double look(qkv_model *m, qkv_tape *t)
{
    double share = -1;
    const qkv_attention_probe probe = {.row = T - 1, .rows = 1, .fn = see, .user = &share};
    const qkv_micro_batch other = {STEPS + 1, 0, 0, B, B, NULL};
    if (!qkv_attention_probe_add(t, &probe)) (void)ask(m, t, &other);
    qkv_probes_clear(t);
    return share;
}

int main(void)
{
    const qkv_task_type type = qkv_task_type_defaults("keys", ask);
    qkv_train_options o = qkv_train_defaults();
    qkv_gpt_config config;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_model *m;
    o.steps = STEPS;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx)) return 1;
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &config);
    config.vocab = VOCAB;
    config.positions = T;
    config.width = 32;
    config.layers = config.heads = 1;
    if (qkv_model_create(&m, ctx, qkv_gpt2_type(), &config) || qkv_model_init(m, 1)) return 1;
    qkv_task task = {&type, m, m, 1, false};
    const double before = look(m, t);
    if (qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    const double after = look(m, t);
    printf("the key gets %.0f %% of the attention, %.0f %% before\n", 100 * after, 100 * before);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return after > 0.5 && after > before ? 0 : 2;
}
