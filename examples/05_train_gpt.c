/* 05_train_gpt.c - a GPT learns one verse by heart, letter by letter, and recites it.
 *
 * Each step is the whole of training: batch, forward, backward, update. Reciting keeps the
 * keys and values of what was read, so that every letter costs one row.                  */
#include <stdio.h>

#include <qkv.h>

static const char verse[] = "Tyger Tyger, burning bright, in the forests of the night";
enum { N = sizeof verse - 2, STEPS = 40 }; /* N letters have a successor */

static const size_t whole[2] = {1, N}, one[2] = {1, 1}; /* shapes of batches: one text */

static bool train(qkv_model *m, qkv_tape *t, qkv_optimizer *o)
{
    const qkv_optimizer_step_args args = {5e-3, 0, 1}; /* gradients are clipped to norm 1 */
    int32_t ids[N + 1];
    for (int i = 0; i <= N; i++) ids[i] = verse[i];
    for (int step = 1; step <= STEPS; step++) {
        qkv_tape_reset(t);
        qkv_tensor *x = qkv_tensor_ids(t, ids, 2, whole), *y = qkv_tensor_ids(t, ids + 1, 2, whole);
        qkv_tensor *loss = qkv_lm_loss(m, t, qkv_lm_hidden(m, t, x, 0, NULL, NULL), y, NULL);
        if (qkv_backward(t, loss) || qkv_optimizer_step(o, &args, NULL)) return false;
        if (step % 10 == 0) printf("step %3d  loss %.4f nats\n", step, (double)qkv_item(t, loss));
        qkv_params_zero_grad(qkv_model_params(m));
    }
    return true;
}

/* Given the first letter, always takes the likeliest next one. */
static bool recite(qkv_model *m, qkv_tape *t, qkv_lm_cache *cache)
{
    const qkv_topk_options likeliest = {1, NULL, 0, false};
    qkv_real log_p;
    int32_t letter = verse[0];
    qkv_tape_mode(t, false, false);
    for (int i = 0; i < N && letter == verse[i]; i++) {
        printf("%c", letter);
        qkv_tape_reset(t);
        qkv_tensor *h = qkv_lm_hidden(m, t, qkv_tensor_ids(t, &letter, 2, one), 0, NULL, cache);
        if (!qkv_topk(t, qkv_lm_logits(m, t, h), &likeliest, &log_p, &letter)) return false;
    }
    printf("%c\n", letter);
    return letter == verse[N];
}

int main(void)
{
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_gpt_config config;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_model *m;
    qkv_optimizer *o;
    qkv_lm_cache *cache;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx)) return 1;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &config);
    (void)qkv_model_type_preset(qkv_llama_type(), "nano", &config);
    config.vocab = 128; /* ASCII */
    config.positions = N;
    if (qkv_model_create(&m, ctx, qkv_llama_type(), &config) || qkv_model_init(m, 1) ||
        qkv_optimizer_create(&o, qkv_model_params(m), &adamw, NULL, 0) ||
        qkv_lm_cache_create(&cache, m, 1, N) || !train(m, t, o) || !recite(m, t, cache))
        return fprintf(stderr, "the verse was not learnt %s\n", qkv_context_message(ctx)), 1;
    qkv_lm_cache_destroy(cache);
    qkv_optimizer_destroy(o);
    qkv_model_destroy(m);
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return 0;
}
