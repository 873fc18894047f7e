/* unigram.c - the model "Unigram": pieces with scores (logarithms of probabilities);
 * of all ways to cut a text into pieces the one of greatest sum, or one drawn at random
 * (Kudo 2018).
 *
 * The reference libraries differ in their arithmetic: SentencePiece rounds each sum to float,
 * tokenizer.json's keeps doubles. So does this, by where the model came from. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/models.h"

/* The best way to a place: its sum, the last piece (-1: none yet) and where that begins. */
typedef struct {
    double score;
    int32_t id;
    size_t start;
} best_way;

/* A piece between two places, for drawing. */
typedef struct {
    size_t start, end;
    int32_t id;
    double score, total; /* total: log of the sum over all ways up to the piece's end */
} way;

struct qkv__unigram {
    qkv__trie trie;
    double *scores;
    size_t count, score_cap;
    double min_score;
    int32_t unk; /* -1: none */
    bool byte_fallback;
    const qkv__spm *spm;  /* or NULL: of a tokenizer.json */
    const int32_t *to_id; /* a piece's id in t->vocab; NULL: the same */
    best_way *best;
    size_t best_cap;
    way *ways;
    size_t way_count, way_cap;
    size_t *cuts; /* start, end, start, end, ... from the last piece to the first */
    size_t cut_cap;
};

typedef struct qkv__unigram unigram;

/* ---- cutting ------------------------------------------------------------------------- */

enum { UNKNOWN_PIECE = INT32_MAX }; /* where the model has no piece for it */

static double unknown_score(const unigram *u)
{
    return u->spm ? (double)((float)u->min_score - 10.0f) : u->min_score - 10.0;
}

/* Gives all pieces that begin at a place to take. Returns where the next place is, 0 when
 * memory is out. */
static size_t each_piece(qkv_tokenizer *t, const char *s, size_t len, size_t start,
                         bool (*take)(qkv_tokenizer *t, size_t start, size_t end, int32_t id,
                                      double score))
{
    const unigram *u = t->model;
    int32_t cp, id;
    uint32_t node = 0;
    size_t n = qkv__utf8_next(s + start, len - start, &cp);
    bool single = false, ok = true;
    for (size_t i = start; i < len && ok && qkv__trie_step(&u->trie, &node, s[i], &id); i++) {
        if (id < 0)
            continue;
        ok = take(t, start, i + 1, id, u->scores[id]);
        single = single || i + 1 - start == n;
    }
    if (ok && !single)
        ok = take(t, start, start + n, UNKNOWN_PIECE, unknown_score(u));
    return ok ? start + n : 0;
}

static bool improve(qkv_tokenizer *t, size_t start, size_t end, int32_t id, double score)
{
    const unigram *u = t->model;
    best_way *b = &u->best[end];
    double sum = u->best[start].score + score;
    sum = u->spm ? (double)(float)sum : sum;
    if (b->id == -1 || sum > b->score)
        *b = (best_way){sum, id, start};
    return true;
}

static qkv_status unigram_find_best(qkv_tokenizer *t, const char *s, size_t len, size_t *count)
{
    unigram *u = t->model;
    if (!qkv__grow(t->ctx, &u->best, &u->best_cap, len + 1, sizeof *u->best) ||
        !qkv__grow(t->ctx, &u->cuts, &u->cut_cap, 2 * len + 2, sizeof *u->cuts))
        return QKV_E_MEMORY;
    for (size_t i = 0; i <= len; i++)
        u->best[i] = (best_way){0, -1, 0};
    for (size_t i = 0; i < len;)
        i = each_piece(t, s, len, i, improve);
    *count = 0;
    for (size_t end = len; end > 0; end = u->best[end].start) {
        u->cuts[2 * *count] = u->best[end].start;
        u->cuts[2 * (*count)++ + 1] = end;
    }
    return QKV_OK;
}

/* ---- drawing ------------------------------------------------------------------------- */

static double unigram_log_sum(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return isinf(high) ? high : high + log1p(exp(low - high));
}

static bool add_way(qkv_tokenizer *t, size_t start, size_t end, int32_t id, double score)
{
    unigram *u = t->model;
    score *= t->sampling.amount;
    if (!qkv__grow(t->ctx, &u->ways, &u->way_cap, u->way_count + 1, sizeof *u->ways))
        return false;
    u->ways[u->way_count++] = (way){start, end, id, score, u->best[start].score + score};
    u->best[end].score = unigram_log_sum(u->best[end].score, u->best[start].score + score);
    return true;
}

/* Sums over all ways to each place into u->best, the last step of each way into u->ways. */
static qkv_status sum_ways(qkv_tokenizer *t, const char *s, size_t len)
{
    unigram *u = t->model;
    u->way_count = 0;
    for (size_t i = 0; i <= len; i++)
        u->best[i] = (best_way){i ? -INFINITY : 0, -1, 0};
    for (size_t i = 0; i < len;) {
        i = each_piece(t, s, len, i, add_way);
        if (!i)
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

/* From the end backwards, each step with its share of the ways to where it ends. */
static qkv_status unigram_draw(qkv_tokenizer *t, const char *s, size_t len, size_t *count)
{
    unigram *u = t->model;
    if (!qkv__grow(t->ctx, &u->best, &u->best_cap, len + 1, sizeof *u->best) ||
        !qkv__grow(t->ctx, &u->cuts, &u->cut_cap, 2 * len + 2, sizeof *u->cuts) ||
        sum_ways(t, s, len))
        return QKV_E_MEMORY;
    *count = 0;
    for (size_t end = len, w = u->way_count; end > 0;) {
        double left = qkv_rng_uniform(&t->sampling.rng);
        size_t taken = u->way_count;
        /* Ways lie by where they start, so those that end here lie before any after it. */
        for (size_t i = w; i-- > 0 && left >= 0;) {
            if (u->ways[i].end != end)
                continue;
            taken = i;
            left -= exp(u->ways[i].total - u->best[end].score);
        }
        u->cuts[2 * *count] = u->ways[taken].start;
        u->cuts[2 * (*count)++ + 1] = end;
        end = u->ways[taken].start;
        w = taken;
    }
    return QKV_OK;
}

/* ---- ids ----------------------------------------------------------------------------- */

/* A stretch of which no character is known. */
static qkv_status put_unknown(qkv_tokenizer *t, const char *s, size_t len, qkv_ids *out)
{
    const unigram *u = t->model;
    const qkv__vocab *pieces = u->spm ? &u->spm->pieces : &t->vocab;
    int32_t known = u->spm && !u->to_id ? -1 : qkv__vocab_find(&t->vocab, s, len);
    if (known < 0 && u->byte_fallback &&
        qkv__fallback_put(out, t->ctx, pieces, u->to_id, s, len))
        return QKV_OK;
    int32_t id = known >= 0 ? known : u->unk < 0 ? -1 : u->to_id ? u->to_id[u->unk] : u->unk;
    if (id < 0)
        return qkv__tokenizer_unknown(t, s, len);
    return qkv__ids_push(t->ctx, out, id) ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status unigram_encode(qkv_tokenizer *t, const char *piece, size_t len, qkv_ids *out)
{
    unigram *u = t->model;
    size_t count = 0;
    qkv_status status = t->sampling.amount > 0 ? unigram_draw(t, piece, len, &count)
                                               : unigram_find_best(t, piece, len, &count);
    for (size_t i = count; i > 0 && !status; i--) {
        size_t start = u->cuts[2 * i - 2], end = u->cuts[2 * i - 1];
        int32_t id = qkv__unigram_piece(u, piece + start, end - start);
        if (id >= 0 && id != u->unk) {
            if (!qkv__ids_push(t->ctx, out, u->to_id ? u->to_id[id] : id))
                status = QKV_E_MEMORY;
            continue;
        }
        /* What is unknown stands together. */
        for (; i > 1; end = u->cuts[2 * --i - 1]) {
            size_t next = u->cuts[2 * i - 4];
            id = qkv__unigram_piece(u, piece + next, u->cuts[2 * i - 3] - next);
            if (id >= 0 && id != u->unk)
                break;
        }
        status = put_unknown(t, piece + start, end - start, out);
    }
    return status;
}

int32_t qkv__unigram_piece(const qkv__unigram *u, const char *s, size_t len)
{
    int32_t id = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++)
        if (!qkv__trie_step(&u->trie, &node, s[i], &id))
            return -1;
    return id;
}

double qkv__unigram_score(const qkv__unigram *u, int32_t piece) { return u->scores[piece]; }

/* ---- making -------------------------------------------------------------------------- */

static qkv_status unigram_create(qkv_tokenizer *t)
{
    unigram *u = qkv_calloc(t->ctx, 1, sizeof *u);
    if (!u)
        return QKV_E_MEMORY;
    u->unk = -1;
    t->kind = &qkv__model_unigram;
    t->model = u;
    return QKV_OK;
}

static qkv_status add_piece(qkv_tokenizer *t, const char *text, size_t len, double score,
                            bool found)
{
    unigram *u = t->model;
    size_t id = u->count;
    if (!qkv__grow(t->ctx, &u->scores, &u->score_cap, id + 1, sizeof *u->scores))
        return QKV_E_MEMORY;
    u->scores[id] = score;
    u->count++;
    return found ? qkv__trie_add(&u->trie, t->ctx, text, len, (int32_t)id) : QKV_OK;
}

qkv_status qkv__unigram_from_spm(qkv_tokenizer *t, const qkv__spm *m, const int32_t *to_id)
{
    qkv_status status = unigram_create(t);
    unigram *u = t->model;
    if (status)
        return status;
    u->spm = m;
    u->to_id = to_id;
    u->unk = m->unk;
    u->byte_fallback = m->byte_fallback;
    bool any = false;
    for (size_t i = 0; i < m->pieces.count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&m->pieces, (int32_t)i, &len);
        int type = m->info[i].type;
        double score = (double)m->info[i].score;
        if (type == QKV__PIECE_NORMAL) {
            u->min_score = any && u->min_score < score ? u->min_score : score;
            any = true;
        }
        status = add_piece(t, text, len, score,
                           type == QKV__PIECE_NORMAL || type == QKV__PIECE_USER);
    }
    return status;
}

/* ---- tokenizer.json ------------------------------------------------------------------ */

static qkv_status unigram_read_piece(qkv_tokenizer *t, const qkv__json *list, size_t i)
{
    qkv__json at, score_at, text_at;
    const char *text = NULL;
    double score = 0;
    unigram *u = t->model;
    qkv__json_item(list, i, &at);
    if (qkv__json_count(&at) != 2 || !json_is_array(at.value))
        return qkv__json_fail(&at, NULL, "expected a piece and its score");
    qkv__json_item(&at, 0, &text_at);
    qkv__json_item(&at, 1, &score_at);
    qkv_status status = qkv__json_get_string(&text_at, NULL, &text);
    if (!status)
        status = qkv__json_get_real(&score_at, NULL, -1e30, 1e30, &score);
    if (status)
        return status;
    size_t len = strlen(text);
    if (qkv__vocab_find(&t->vocab, text, len) >= 0)
        return qkv__json_fail(&at, NULL, "the piece \"%.60s\" is given twice", text);
    u->min_score = score < u->min_score || i == 0 ? score : u->min_score;
    status = qkv__vocab_add(&t->vocab, text, len, (int32_t)i);
    return status ? status : add_piece(t, text, len, score, len > 0);
}

static qkv_status unigram_read(qkv_tokenizer *t, const qkv__json *at)
{
    qkv__json list;
    int64_t unk = -1;
    qkv_status status = unigram_create(t);
    unigram *u = t->model;
    if (!status)
        status = qkv__json_get_array(at, "vocab", &list);
    if (status)
        return status;
    size_t count = qkv__json_count(&list);
    if (count == 0 || count >= QKV_TOKENIZER_ID_LIMIT)
        return qkv__json_fail(&list, NULL, "expected 1 to %d pieces, found %zu",
                              QKV_TOKENIZER_ID_LIMIT - 1, count);
    for (size_t i = 0; i < count && !status; i++)
        status = unigram_read_piece(t, &list, i);
    if (!status)
        status = qkv__json_opt_int(at, "unk_id", 0, (int64_t)count - 1, &unk);
    if (!status)
        status = qkv__json_opt_bool(at, "byte_fallback", &u->byte_fallback);
    u->unk = (int32_t)unk;
    return status;
}

static void unigram_write(const qkv_tokenizer *t, qkv_json_writer *w)
{
    const unigram *u = t->model;
    qkv_json_begin_array(w, "vocab");
    for (size_t i = 0; i < u->count; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&t->vocab, (int32_t)i, &len);
        qkv_json_begin_array(w, NULL);
        qkv_json_put_bytes(w, NULL, text, len);
        qkv_json_put_real(w, NULL, u->scores[i]);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

static void unigram_destroy(qkv_tokenizer *t)
{
    unigram *u = t->model;
    qkv__trie_free(&u->trie, t->ctx);
    qkv_free(t->ctx, u->scores);
    qkv_free(t->ctx, u->best);
    qkv_free(t->ctx, u->ways);
    qkv_free(t->ctx, u->cuts);
    qkv_free(t->ctx, u);
}

const qkv__model_kind qkv__model_unigram = {"Unigram", false, true, 1000, unigram_read,
                                            unigram_encode, unigram_write,
                                             unigram_destroy};
