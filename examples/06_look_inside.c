/* 06_look_inside.c - watch attention learn where to look.
 *
 * The task: a key, then noise, then a question mark; the answer is the key. One layer with one
 * head can only solve it by looking from the question mark back to the key, and the probe shows
 * that it does: the weights of the last row, before and after training.                      */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { KEYS = 8, QUESTION = KEYS, VOCAB = KEYS + 1, T = 8, B = 16, STEPS = 200 };

typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    qkv_optimizer *optimizer;
    uint32_t random;
    qkv_real last_row[T]; /* what the probe saw */
} lesson;

static int32_t draw_key(lesson *l)
{
    l->random = l->random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
    return (int32_t)((l->random >> 16) % KEYS);
}

/* Loss at the last position of B sequences; the other positions are ignored. */
static qkv_tensor *ask(lesson *l)
{
    const size_t shape[2] = {B, T};
    int32_t ids[B * T], targets[B * T];
    qkv_cross_entropy_options options;
    memset(&options, 0, sizeof options);
    options.has_ignore = true;
    options.ignore = -1;
    for (int b = 0; b < B; b++) {
        for (int i = 0; i < T; i++) {
            ids[b * T + i] = i == T - 1 ? (int32_t)QUESTION : draw_key(l);
            targets[b * T + i] = i == T - 1 ? ids[b * T] : -1;
        }
    }
    qkv_tape_reset(l->tape);
    qkv_tensor *x = qkv_tensor_ids(l->tape, ids, 2, shape);
    qkv_tensor *y = qkv_tensor_ids(l->tape, targets, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(l->model, l->tape, x, 0, NULL, NULL);
    return qkv_lm_loss(l->model, l->tape, h, y, &options);
}

static void see(void *user, const char *name, int sequence, int head, size_t row, size_t rows,
                size_t S, const qkv_real *weights)
{
    lesson *l = (lesson *)user;
    (void)rows;
    printf("%s, sequence %d, head %d, row %zu looks at:", name, sequence, head, row);
    for (size_t j = 0; j < S; j++) printf(" %.2f", (double)weights[j]);
    printf("\n");
    memcpy(l->last_row, weights, S * sizeof *weights);
}

/* One forward pass with the probe on; the share of attention that the key gets, or -1. */
static double look(lesson *l)
{
    qkv_attention_probe probe;
    memset(&probe, 0, sizeof probe);
    probe.sequence = probe.head = 0;
    probe.row = T - 1;
    probe.rows = 1;
    probe.fn = see;
    probe.user = l;
    if (qkv_attention_probe_add(l->tape, &probe) != QKV_OK) return -1;
    ask(l);
    qkv_attention_probes_clear(l->tape);
    return qkv_tape_status(l->tape) == QKV_OK ? (double)l->last_row[0] : -1;
}

static int teach(lesson *l)
{
    qkv_optimizer_step_args args = {1e-2, 0, 1};
    double before = look(l);
    for (int step = 1; step <= STEPS; step++) {
        qkv_tensor *loss = ask(l);
        if (qkv_backward(l->tape, loss) != QKV_OK) return 1;
        if (step % 50 == 0)
            printf("step %d  loss %.4f nats\n", step, (double)qkv_item(l->tape, loss));
        if (qkv_optimizer_step(l->optimizer, &args, NULL) != QKV_OK) return 1;
        qkv_params_zero_grad(qkv_model_params(l->model));
    }
    double after = look(l);
    if (before < 0 || after < 0) return 1;
    printf("the key gets %.0f %% of the attention, %.0f %% before\n", 100 * after, 100 * before);
    return after > 0.5 && after > before ? 0 : 2;
}

int main(void)
{
    qkv_gpt_config config;
    qkv_context *ctx = NULL;
    lesson l;
    memset(&l, 0, sizeof l);
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;

    qkv_option_defaults(qkv_model_type_config(&qkv_gpt2_type), &config);
    config.vocab = VOCAB;
    config.positions = T;
    config.width = 32;
    config.layers = config.heads = 1;
    config.embd_dropout = config.dropout = config.attention_dropout = 0;
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);

    int status = 1;
    if (qkv_tape_create(&l.tape, ctx) == QKV_OK &&
        qkv_model_create(&l.model, ctx, &qkv_gpt2_type, &config) == QKV_OK &&
        qkv_model_init(l.model, 1) == QKV_OK &&
        qkv_optimizer_create(&l.optimizer, qkv_model_params(l.model), &adamw, NULL, 0) == QKV_OK)
        status = teach(&l);
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the head did not learn where to look\n");
    qkv_optimizer_destroy(l.optimizer);
    qkv_model_destroy(l.model);
    qkv_tape_destroy(l.tape);
    qkv_context_destroy(ctx);
    return status;
}
