/* train_words.c - what trainers count: words and their characters. */
#include "tokenizer/trainers.h"

#include <stdlib.h>

#include "base/utf8.h"

enum { CODE_POINTS = 0x110000 };

typedef struct {
    int32_t cp;
    int64_t count;
} counted;

static int by_count(const void *x, const void *y)
{
    const counted *a = x, *b = y;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return (a->cp > b->cp) - (a->cp < b->cp);
}

static int by_code(const void *x, const void *y)
{
    const counted *a = x, *b = y;
    return (a->cp > b->cp) - (a->cp < b->cp);
}

/* Characters and how often they come, by code point. */
static int64_t *count_alphabet(const qkv_tokenizer_trainer *tr)
{
    int64_t *counts = qkv_calloc(tr->ctx, CODE_POINTS, sizeof *counts);
    for (size_t i = 0; i < tr->words.count && counts; i++) {
        size_t len;
        int32_t cp;
        const char *word = qkv__vocab_text(&tr->words, (int32_t)i, &len);
        for (size_t k = 0; k < len;) {
            k += qkv__utf8_next(word + k, len - k, &cp);
            if (cp > 0)
                counts[cp] += tr->counts[i];
        }
    }
    return counts;
}

qkv_status qkv__train_add(qkv__vocab *v, const char *text, size_t len)
{
    if (qkv__vocab_find(v, text, len) >= 0)
        return QKV_OK;
    return qkv__vocab_add(v, text, len, (int32_t)v->count);
}

qkv_status qkv__train_alphabet(const qkv_tokenizer_trainer *tr, qkv__vocab *v)
{
    int64_t *counts = count_alphabet(tr), total = 0, covered = 0;
    counted *list = NULL;
    size_t count = 0, kept = 0;
    for (int32_t cp = 0; cp < CODE_POINTS && counts; cp++) {
        count += counts[cp] > 0;
        total += counts[cp];
    }
    list = counts ? qkv_malloc(tr->ctx, (count + 1) * sizeof *list) : NULL;
    qkv_status status = list ? QKV_OK : QKV_E_MEMORY;
    count = 0;
    for (int32_t cp = 0; cp < CODE_POINTS && list; cp++)
        if (counts[cp] > 0)
            list[count++] = (counted){cp, counts[cp]};
    if (count)
        qsort(list, count, sizeof *list, by_count);
    while (kept < count && (double)covered < tr->options.coverage * (double)total)
        covered += list[kept++].count;
    if (kept)
        qsort(list, kept, sizeof *list, by_code);
    for (size_t i = 0; i < kept && !status; i++) {
        char c[4];
        size_t len = qkv__utf8_put(c, list[i].cp);
        status = qkv__train_add(v, c, len);
    }
    qkv_free(tr->ctx, counts);
    qkv_free(tr->ctx, list);
    return status;
}

qkv_status qkv__train_count_word(qkv_tokenizer_trainer *tr, const char *word, size_t len)
{
    int32_t id = qkv__vocab_find(&tr->words, word, len);
    if (id < 0) {
        id = (int32_t)tr->words.count;
        if (id == INT32_MAX || len >= UINT32_MAX)
            return qkv_fail(tr->ctx, QKV_E_UNSUPPORTED, "more distinct words than 2^31");
        if (!qkv__grow(tr->ctx, &tr->counts, &tr->count_cap, (size_t)id + 1,
                       sizeof *tr->counts) ||
            qkv__vocab_add(&tr->words, word, len, id))
            return QKV_E_MEMORY;
        tr->counts[id] = 0;
    }
    tr->counts[id]++;
    return QKV_OK;
}
