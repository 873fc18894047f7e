/* train_unigram.c - the unigram model's pieces and scores from counted words (Kudo
 * 2018): many candidates, expectation and maximisation, and again and again the pieces whose
 * loss costs the least are dropped.
 *
 * Constants as SentencePiece's: two rounds between prunings, which keep three quarters; pieces
 * expected less than half a time go; a tenth more than wanted is left to the last choice. */
#include "tokenizer/trainers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/trie.h"

enum { LONGEST = 16, ROUNDS = 2, MOST_SEEDS = 1000000, WORD_BYTES = 4096 };

typedef struct {
    int32_t seed;  /* in seeds */
    bool single;   /* a character: never dropped */
    double score;  /* log of its probability */
    double count;  /* expected, or of the best cuts */
    double rank;   /* by which is chosen: greater stays */
} piece;

typedef struct {
    qkv_context *ctx;
    const qkv__vocab *words;
    const int64_t *counts;
    qkv__vocab seeds;
    piece *pieces;
    size_t count;
    qkv__trie trie; /* values: indices of pieces */
    double min_score;
    double ahead[WORD_BYTES + 1], behind[WORD_BYTES + 1];
    int32_t last[WORD_BYTES + 1]; /* the best way's last piece; -1 unknown */
    size_t from[WORD_BYTES + 1];  /* and where it begins */
} learner;

/* ---- candidates ---------------------------------------------------------------------- */

static bool all_known(const qkv__vocab *alphabet, const char *s, size_t len)
{
    int32_t cp;
    for (size_t i = 0, n; i < len; i += n) {
        n = qkv__utf8_next(s + i, len - i, &cp);
        if (qkv__vocab_find(alphabet, s + i, n) < 0)
            return false;
    }
    return true;
}

/* Counts every stretch of a word that begins at s. */
static qkv_status count_stretches(learner *l, const qkv__vocab *alphabet, const char *s,
                                  size_t len, int64_t count, int64_t **freq, size_t *cap)
{
    int32_t cp;
    qkv_status status = QKV_OK;
    for (size_t end = 0, chars = 0, n; end < len && chars < LONGEST && !status; chars++) {
        n = qkv__utf8_next(s + end, len - end, &cp);
        if (!all_known(alphabet, s + end, n))
            break;
        end += n;
        int32_t id = qkv__vocab_find(&l->seeds, s, end);
        if (id < 0) {
            id = (int32_t)l->seeds.count;
            if (!qkv__grow(l->ctx, freq, cap, (size_t)id + 1, sizeof **freq))
                return QKV_E_MEMORY;
            (*freq)[id] = 0;
            status = qkv__vocab_add(&l->seeds, s, end, id);
        }
        if (!status)
            (*freq)[id] += count;
    }
    return status;
}

static int by_rank(const void *x, const void *y)
{
    const piece *a = x, *b = y;
    if (a->single != b->single)
        return a->single ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return (a->seed > b->seed) - (a->seed < b->seed);
}

static bool is_single(const qkv__vocab *v, int32_t id)
{
    size_t len;
    int32_t cp;
    const char *text = qkv__vocab_text(v, id, &len);
    return qkv__utf8_next(text, len, &cp) == len;
}

/* The stretches that come twice or more, best by length times frequency. */
static qkv_status choose_seeds(learner *l, const int64_t *freq)
{
    double total = 0;
    l->pieces = qkv_malloc(l->ctx, (l->seeds.count + 1) * sizeof *l->pieces);
    if (!l->pieces)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < l->seeds.count; i++) {
        size_t len;
        bool single = is_single(&l->seeds, (int32_t)i);
        (void)qkv__vocab_text(&l->seeds, (int32_t)i, &len);
        if (single || freq[i] >= 2)
            l->pieces[l->count++] = (piece){(int32_t)i, single, 0, 0,
                                            (double)freq[i] * (double)(single ? 1 : len)};
    }
    qsort(l->pieces, l->count, sizeof *l->pieces, by_rank);
    l->count = l->count < MOST_SEEDS ? l->count : MOST_SEEDS;
    for (size_t i = 0; i < l->count; i++)
        total += l->pieces[i].rank;
    for (size_t i = 0; i < l->count; i++)
        l->pieces[i].score = log(l->pieces[i].rank / total);
    return QKV_OK;
}

static qkv_status find_seeds(learner *l, const qkv__vocab *alphabet)
{
    int64_t *freq = NULL;
    size_t cap = 0;
    qkv_status status = QKV_OK;
    for (size_t w = 0; w < l->words->count && !status; w++) {
        size_t len;
        int32_t cp;
        const char *s = qkv__vocab_text(l->words, (int32_t)w, &len);
        for (size_t i = 0; i < len && !status; i += qkv__utf8_next(s + i, len - i, &cp))
            status = count_stretches(l, alphabet, s + i, len - i, l->counts[w], &freq, &cap);
    }
    if (!status)
        status = choose_seeds(l, freq);
    qkv_free(l->ctx, freq);
    return status;
}

/* ---- words --------------------------------------------------------------------------- */

static qkv_status index_pieces(learner *l)
{
    qkv_status status = QKV_OK;
    qkv__trie_free(&l->trie, l->ctx);
    l->min_score = 0;
    for (size_t i = 0; i < l->count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&l->seeds, l->pieces[i].seed, &len);
        if (l->pieces[i].score < l->min_score)
            l->min_score = l->pieces[i].score;
        status = qkv__trie_add(&l->trie, l->ctx, text, len, (int32_t)i);
    }
    return status;
}

static double train_unigram_log_sum(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return high == -INFINITY ? high : high + log1p(exp(low - high));
}

/* Calls take for every piece that begins at a place; an unknown character is piece -1. */
typedef void take_fn(learner *l, size_t start, size_t end, int32_t id, double score);

static size_t each(learner *l, const char *s, size_t len, size_t start, take_fn *take)
{
    uint32_t node = 0;
    int32_t id, cp;
    bool single = false;
    size_t n = qkv__utf8_next(s + start, len - start, &cp);
    for (size_t i = start; i < len && qkv__trie_step(&l->trie, &node, s[i], &id); i++) {
        if (id < 0)
            continue;
        take(l, start, i + 1, id, l->pieces[id].score);
        single = single || i + 1 - start == n;
    }
    if (!single)
        take(l, start, start + n, -1, l->min_score - 10);
    return start + n;
}

static void sum_ahead(learner *l, size_t start, size_t end, int32_t id, double score)
{
    (void)id;
    l->ahead[end] = train_unigram_log_sum(l->ahead[end], l->ahead[start] + score);
}

static void sum_behind(learner *l, size_t start, size_t end, int32_t id, double score)
{
    (void)id;
    l->behind[start] = train_unigram_log_sum(l->behind[start], l->behind[end] + score);
}

static void keep_best(learner *l, size_t start, size_t end, int32_t id, double score)
{
    double sum = l->ahead[start] + score;
    if (sum > l->ahead[end]) {
        l->ahead[end] = sum;
        l->last[end] = id;
        l->from[end] = start;
    }
}

static void train_unigram_clear(double *a, size_t len)
{
    for (size_t i = 0; i <= len; i++)
        a[i] = -INFINITY;
}

/* Adds to each piece how often it is expected in a word that comes count times. */
static void expect(learner *l, const char *s, size_t len, double count)
{
    train_unigram_clear(l->ahead, len);
    train_unigram_clear(l->behind, len);
    l->ahead[0] = l->behind[len] = 0;
    for (size_t i = 0; i < len;)
        i = each(l, s, len, i, sum_ahead);
    for (size_t i = len; i-- > 0;) {
        uint32_t node = 0;
        int32_t id;
        if (l->ahead[i] == -INFINITY)
            continue;
        (void)each(l, s, len, i, sum_behind);
        for (size_t k = i; k < len && qkv__trie_step(&l->trie, &node, s[k], &id); k++)
            if (id >= 0)
                l->pieces[id].count += count * exp(l->ahead[i] + l->pieces[id].score +
                                                   l->behind[k + 1] - l->ahead[len]);
    }
}

/* The best cut into l->last and l->from. */
static void cut_best(learner *l, const char *s, size_t len)
{
    train_unigram_clear(l->ahead, len);
    l->ahead[0] = 0;
    for (size_t i = 0; i < len;)
        i = each(l, s, len, i, keep_best);
}

static void count_best(learner *l, const char *s, size_t len, double count)
{
    cut_best(l, s, len);
    for (size_t end = len; end > 0; end = l->from[end])
        if (l->last[end] >= 0)
            l->pieces[l->last[end]].count += count;
}

static void each_word(learner *l, void (*run)(learner *l, const char *s, size_t len, double count))
{
    for (size_t i = 0; i < l->count; i++)
        l->pieces[i].count = 0;
    for (size_t w = 0; w < l->words->count; w++) {
        size_t len;
        const char *s = qkv__vocab_text(l->words, (int32_t)w, &len);
        if (len <= WORD_BYTES)
            run(l, s, len, (double)l->counts[w]);
    }
}

/* ---- learning ------------------------------------------------------------------------ */

/* The derivative of log gamma, x > 0 (recurrence, then its asymptotic series). */
static double digamma(double x)
{
    double result = 0;
    for (; x < 7; x++)
        result -= 1 / x;
    x -= 0.5;
    double i2 = 1 / (x * x), i4 = i2 * i2;
    return result + log(x) + i2 / 24 - 7 * i4 / 960 + 31 * i4 * i2 / 8064 - 127 * i4 * i4 / 30720;
}

static void maximise(learner *l)
{
    size_t kept = 0;
    double total = 0;
    for (size_t i = 0; i < l->count; i++) {
        piece p = l->pieces[i];
        if (!p.single && p.count < 0.5)
            continue;
        p.count = p.count < 0.5 ? 0.5 : p.count;
        total += p.count;
        l->pieces[kept++] = p;
    }
    l->count = kept;
    for (size_t i = 0; i < kept; i++)
        l->pieces[i].score = digamma(l->pieces[i].count) - digamma(total);
}

/* What dropping a piece costs: its places go to the pieces of the best other cut. total: of all
 * pieces' counts. */
static double train_unigram_loss(learner *l, size_t i, double total)
{
    size_t len;
    piece *p = &l->pieces[i];
    const char *text = qkv__vocab_text(&l->seeds, p->seed, &len);
    double score = p->score, others = 0;
    size_t parts = 0;
    if (p->count <= 0)
        return -INFINITY;
    p->score = -INFINITY; /* so that it is not found in its own text */
    cut_best(l, text, len);
    p->score = score;
    if (l->ahead[len] >= score) /* the best cut does without it */
        return -INFINITY;
    for (size_t end = len; end > 0; end = l->from[end])
        parts++;
    double total_after = log(total + p->count * ((double)parts - 1));
    for (size_t end = len; end > 0; end = l->from[end]) {
        double has = l->last[end] >= 0 ? l->pieces[l->last[end]].count : 0;
        others += log(has + p->count) - total_after;
    }
    return p->count / total * (log(p->count) - log(total) - others);
}

static void prune(learner *l, size_t wanted)
{
    double total = 0;
    each_word(l, count_best);
    for (size_t i = 0; i < l->count; i++)
        total += l->pieces[i].count;
    for (size_t i = 0; i < l->count; i++)
        l->pieces[i].rank = l->pieces[i].single ? 0 : train_unigram_loss(l, i, total);
    qsort(l->pieces, l->count, sizeof *l->pieces, by_rank);
    size_t keep = l->count / 4 * 3;
    keep = keep > wanted ? keep : wanted;
    l->count = keep < l->count ? keep : l->count;
}

static qkv_status train_unigram_learn(learner *l, size_t wanted)
{
    size_t nearly = wanted + wanted / 10;
    for (;;) {
        for (int i = 0; i < ROUNDS; i++) {
            if (index_pieces(l))
                return QKV_E_MEMORY;
            each_word(l, expect);
            maximise(l);
        }
        if (l->count <= nearly)
            return QKV_OK;
        if (index_pieces(l))
            return QKV_E_MEMORY;
        prune(l, nearly);
    }
}

static int by_score(const void *x, const void *y)
{
    const piece *a = x, *b = y;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (a->seed > b->seed) - (a->seed < b->seed);
}

/* The best by score, characters in any case. */
static qkv_status train_unigram_choose(learner *l, size_t wanted, qkv__vocab *pieces,
                                       float **scores)
{
    for (size_t i = 0; i < l->count; i++)
        l->pieces[i].rank = l->pieces[i].score;
    qsort(l->pieces, l->count, sizeof *l->pieces, by_rank);
    l->count = l->count < wanted ? l->count : wanted;
    qsort(l->pieces, l->count, sizeof *l->pieces, by_score);
    *scores = qkv_malloc(l->ctx, (l->count + 1) * sizeof **scores);
    qkv_status status = *scores ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < l->count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&l->seeds, l->pieces[i].seed, &len);
        (*scores)[i] = (float)l->pieces[i].score;
        status = qkv__vocab_add(pieces, text, len, (int32_t)i);
    }
    return status;
}

qkv_status qkv__train_unigram(qkv_context *ctx, const qkv__vocab *alphabet,
                              const qkv__vocab *words, const int64_t *counts, size_t wanted,
                              qkv__vocab *pieces, float **scores)
{
    learner *l = qkv_calloc(ctx, 1, sizeof *l);
    *scores = NULL;
    if (!l)
        return QKV_E_MEMORY;
    l->ctx = ctx;
    l->words = words;
    l->counts = counts;
    qkv__vocab_init(&l->seeds, ctx);
    qkv_status status = find_seeds(l, alphabet);
    if (!status)
        status = train_unigram_learn(l, wanted);
    if (!status)
        status = train_unigram_choose(l, wanted, pieces, scores);
    qkv__vocab_free(&l->seeds);
    qkv__trie_free(&l->trie, ctx);
    qkv_free(ctx, l->pieces);
    qkv_free(ctx, l);
    return status;
}
