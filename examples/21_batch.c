/* 21_batch.c - many texts from one model at once: prompts come while others are being continued,
 * each with settings of its own, and what a text becomes does not depend on the others. */
#include <qkv.h>
#include <stdio.h>

enum { VOCAB = 50, PROMPTS = 6, TOKENS = 12, ALL = PROMPTS * TOKENS };

/* A tiny GPT with random weights: a real program opens a directory (qkv_hub_load). */
static qkv_status make(qkv_context *ctx, qkv_model **m)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_gpt2_type()), &c);
    c.layers = 2, c.heads = 4, c.width = 64, c.vocab = VOCAB, c.positions = 64, c.init_range = 0.3;
    return qkv_model_create(m, ctx, qkv_gpt2_type(), &c) || qkv_model_init(*m, 1)
               ? qkv_context_status(ctx) : QKV_OK;
}

/* Prompts 0 .. n-1 begin with the same eight tokens and go on with one of their own. */
static qkv_status add(qkv_batch *b, size_t i, uint64_t *id)
{
    int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 10, 11, 12, 13};
    static qkv_generate_options zeros;
    qkv_generate_options o = zeros;
    o.tokens = TOKENS, o.seed = 7, o.index = i, o.sampling = qkv_sampling_defaults();
    o.sampling.temperature = i % 2 ? 1 : 0, prompt[8] = (int32_t)i;
    return qkv_batch_add(b, prompt, sizeof prompt / sizeof *prompt, &o, id);
}

/* Prompts from .. to-1 in a batch of `at_once`; one comes with every other step. */
static qkv_status run(qkv_model *m, size_t from, size_t to, size_t at_once, int32_t *out,
                      qkv_batch_stats *stats)
{
    qkv_batch *b;
    qkv_batch_options o = qkv_batch_defaults();
    uint64_t id[PROMPTS] = {0};
    size_t next = from, end[PROMPTS] = {0, 12, 24, 36, 48, 60}; /* TOKENS apart */
    o.sequences = at_once;
    qkv_status status = qkv_batch_create(&b, m, &o);
    for (size_t step = 0; !status && (next < to || qkv_batch_live(b)); step++) {
        const qkv_batch_event *e;
        if (next < to && step % 2 == 0) status = add(b, next, &id[next]), next++;
        if (!status) status = qkv_batch_step(b);
        for (size_t n = qkv_batch_events(b, &e); n-- > 0; e++)
            for (size_t i = from; i < next; i++)
                if (e->sequence == id[i] && e->kind == QKV_BATCH_TOKEN) out[end[i]++] = e->id;
    }
    if (!status) *stats = qkv_batch_statistics(b);
    qkv_batch_destroy(b);
    return status;
}

int main(void)
{
    qkv_context *ctx;
    qkv_model *m = NULL;
    qkv_batch_stats all, one;
    int32_t together[ALL] = {0}, alone[ALL] = {0};
    size_t equal = 0, n = PROMPTS;
    qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = make(ctx, &m);
    if (!status) status = run(m, 0, n, 4, together, &all);
    for (size_t i = 0; i < n && !status; i++) status = run(m, i, i + 1, 1, alone, &one);
    if (status) return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    for (size_t i = 0; i < ALL; i++) equal += together[i] == alone[i];
    printf("%zu tokens made in %zu passes; %zu of %zu prompt tokens shared; %zu equal alone\n",
           all.made, all.passes, all.shared_tokens, all.prompt_tokens, equal);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
    return equal != ALL;
}
