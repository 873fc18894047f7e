/* 05_train_gpt.c - a GPT learns one verse by heart, letter by letter, and recites it.
 *
 * Each step is the whole of training: batch, forward, backward, update. Reciting keeps the
 * keys and values of what was read, so that every letter costs one row.                  */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { VOCAB = 128, STEPS = 120 }; /* ASCII */

static const char verse[] = "Tyger Tyger, burning bright, in the forests of the night";
enum { N = sizeof verse - 2 }; /* letters with a successor */

static int train(qkv_model *m, qkv_tape *t, qkv_optimizer *o)
{
    const size_t shape[2] = {1, N};
    int32_t ids[N], next[N];
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    qkv_optimizer_step_args args = {0, 0, 1}; /* gradients are clipped to norm 1 */
    schedule.lr = 5e-3;
    schedule.warmup = 10;
    schedule.steps = STEPS;
    for (int i = 0; i < N; i++) {
        ids[i] = verse[i];
        next[i] = verse[i + 1];
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        qkv_tape_reset(t);
        qkv_tensor *x = qkv_tensor_ids(t, ids, 2, shape);
        qkv_tensor *y = qkv_tensor_ids(t, next, 2, shape);
        qkv_tensor *loss = qkv_lm_loss(m, t, qkv_lm_hidden(m, t, x, 0, NULL, NULL), y, NULL);
        if (qkv_backward(t, loss) != QKV_OK) return 1;
        if ((step + 1) % 20 == 0)
            printf("step %3d  loss %.4f nats\n", (int)step + 1, (double)qkv_item(t, loss));
        args.lr = qkv_schedule_lr(&schedule, step);
        if (qkv_optimizer_step(o, &args, NULL) != QKV_OK) return 1;
        qkv_params_zero_grad(qkv_model_params(m));
    }
    return 0;
}

/* Given the first letter, always takes the likeliest next one. 0, 1 failed, 2 forgot. */
static int recite(qkv_model *m, qkv_tape *t)
{
    const size_t one[2] = {1, 1};
    qkv_lm_cache *cache = NULL;
    int32_t letter = verse[0];
    int wrong = 0;
    if (qkv_lm_cache_create(&cache, m, 1, N) != QKV_OK) return 1;
    qkv_tape_mode(t, false, false);
    printf("%c", letter);
    for (int i = 0; i < N; i++) {
        qkv_tape_reset(t);
        qkv_tensor *x = qkv_tensor_ids(t, &letter, 2, one);
        qkv_tensor *h = qkv_lm_hidden(m, t, x, 0, NULL, cache);
        const qkv_real *logits = qkv_data(t, qkv_lm_logits(m, t, h));
        if (qkv_tape_status(t) != QKV_OK) break;
        letter = 0;
        for (int32_t j = 1; j < VOCAB; j++)
            if (logits[j] > logits[letter]) letter = j;
        wrong += letter != verse[i + 1];
        printf("%c", letter);
    }
    printf("\n");
    qkv_lm_cache_destroy(cache);
    if (qkv_tape_status(t) != QKV_OK) return 1;
    return wrong ? 2 : 0;
}

int main(void)
{
    qkv_gpt_config config;
    qkv_context *ctx = NULL;
    qkv_tape *t = NULL;
    qkv_model *m = NULL;
    qkv_optimizer *o = NULL;
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;

    qkv_option_defaults(qkv_model_type_config(&qkv_llama_type), &config);
    config.vocab = VOCAB;
    config.positions = N;
    config.width = 64;
    config.layers = 2;
    config.heads = config.kv_heads = 4;
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);

    int status = 1;
    if (qkv_tape_create(&t, ctx) == QKV_OK &&
        qkv_model_create(&m, ctx, &qkv_llama_type, &config) == QKV_OK &&
        qkv_model_init(m, 1) == QKV_OK &&
        qkv_optimizer_create(&o, qkv_model_params(m), &adamw, qkv_optimizer_decay_matrices(),
                             1) == QKV_OK &&
        train(m, t, o) == 0)
        status = recite(m, t);
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the verse was not learnt\n");
    qkv_optimizer_destroy(o);
    qkv_model_destroy(m);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return status;
}
