/* masking.c - which words are hidden. */
#include "task/masking.h"

static const uint32_t HIDE = 0x4D41534Bu, DROP = 0x44524F50u; /* streams of numbers */

qkv_status qkv__masking_check_drop(qkv_context *ctx, double drop, const qkv_tokenizer *tokenizer)
{
    if (!(drop >= 0 && drop < 1))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the share of dropped words is in [0, 1), not %g",
                        drop);
    return drop > 0 && !tokenizer
               ? qkv_fail(ctx, QKV_E_ARGUMENT, "dropping words needs the tokenizer") : QKV_OK;
}

qkv_status qkv__masking_init(qkv__masking *m, qkv_context *ctx, const qkv_tokenizer *tokenizer,
                             size_t vocab, double share, uint64_t seed)
{
    *m = (qkv__masking){.seed = seed, .share = share, .vocab = vocab,
                        .mask = qkv_tokenizer_special(tokenizer, QKV_TOKEN_MASK)};
    if (m->mask < 0 || (size_t)m->mask >= vocab)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the tokenizer has no mask token");
    m->special = qkv_calloc(ctx, vocab, sizeof *m->special);
    if (!m->special)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < vocab; i++)
        m->special[i] = qkv_tokenizer_is_special(tokenizer, (int32_t)i);
    return QKV_OK;
}

void qkv__masking_free(qkv__masking *m, qkv_context *ctx)
{
    qkv_free(ctx, m->special);
    m->special = NULL;
}

/* Four words for the id at `place` of a sample. */
static void masking_draw(const qkv__masking *m, uint32_t stream, uint64_t sample, size_t place,
                         uint32_t word[4])
{
    const uint32_t key[2] = {(uint32_t)m->seed, (uint32_t)(m->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)place, (uint32_t)sample, (uint32_t)(sample >> 32),
                                 stream};
    qkv__philox(word, counter, key);
}

static double uniform(uint32_t word) { return word / 4294967296.0; } /* [0, 1) */

size_t qkv__masking_hide(const qkv__masking *m, uint64_t sample, int32_t *ids, size_t n,
                         size_t first, int32_t *rows, int32_t *targets)
{
    size_t hidden = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        masking_draw(m, HIDE, sample, i, word);
        if (m->special[ids[i]] || uniform(word[0]) >= m->share)
            continue;
        rows[hidden] = (int32_t)(first + i);
        targets[hidden++] = ids[i];
        double way = uniform(word[1]);
        if (way < 0.8)
            ids[i] = m->mask;
        else if (way < 0.9)
            ids[i] = (int32_t)(uniform(word[2]) * (double)m->vocab);
    }
    return hidden;
}

void qkv__masking_drop(const qkv__masking *m, uint64_t sample, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n && m->share > 0; i++) {
        uint32_t word[4];
        masking_draw(m, DROP, sample, i, word);
        if (!m->special[ids[i]] && uniform(word[0]) < m->share)
            ids[i] = m->mask;
    }
}
