/* retrieval.c - which rows are nearest to which, by the cosine: recall and neighbours. */
#include <math.h>

#include "dist/map.h"
#include "qkv/embed.h"
#include "qkv/extend.h"
#include "task/common.h"
#include "task/vectors.h"

enum { QUERIES = 128, RANK = 5 }; /* rows whose similarities are computed at once; of recall at 5 */
static const double EPS = 1e-12;

/* Cosines (n, count) of rows from `begin` on of `queries` with all of `rows`. */
static qkv_tensor *similarities(qkv_tape *t, const qkv_real *queries, size_t begin, size_t n,
                                const qkv_real *rows, size_t count, size_t width)
{
    qkv__begin_inference(t);
    qkv_tensor *q = qkv_tensor_from(t, queries + begin * width, 2, (size_t[]){n, width});
    qkv_tensor *k = qkv_tensor_from(t, rows, 2, (size_t[]){count, width});
    return qkv_matmul(t, qkv_l2_normalize(t, q, EPS), false, qkv_l2_normalize(t, k, EPS), true);
}

/* How many others are not below the most similar of a row's partners [from, to); to *loss the mean
 * over the partners of -log softmax of theirs among all. */
static size_t rank_partners(const qkv_real *s, size_t count, size_t from, size_t to,
                            double temperature, double *loss)
{
    size_t rank = 0;
    double most = (double)s[0], sum = 0, own = 0;
    qkv_real best = s[from];
    for (size_t i = from; i < to; i++) {
        best = s[i] > best ? s[i] : best;
        own += (double)s[i] / (double)(to - from);
    }
    for (size_t i = 0; i < count; i++) {
        rank += (i < from || i >= to) && !(s[i] < best);
        most = (double)s[i] > most ? (double)s[i] : most;
    }
    for (size_t i = 0; i < count; i++) /* the greatest adds 1 */
        sum += exp(((double)s[i] - most) / temperature);
    *loss += log(fmax(sum, 1)) + (most - own) / temperature;
    return rank;
}

/* Rows, each with its partners among other rows. */
typedef struct {
    const qkv_real *rows;
    size_t count;
    const size_t *begins; /* NULL: row i's partner is row i */
    size_t owners; /* 0: begins (count + 1) are those of the rows' partners; else begins (owners +
                      1) are those of the partners' rows, which are these */
} side;

static void partners_of(const side *x, size_t i, size_t *from, size_t *to)
{
    size_t low = 0, high = x->owners;
    while (high - low > 1) { /* begins[low] <= i < begins[high] */
        size_t middle = low + (high - low) / 2;
        if (x->begins[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    *from = !x->begins ? i : x->owners ? low : x->begins[i];
    *to = x->begins && !x->owners ? x->begins[i + 1] : *from + 1;
}

/* How rows find their partners, QUERIES of them a part. */
typedef struct {
    qkv_tape *t;
    const side *of, *among;
    size_t width;
    double temperature;
} ranking;
enum { FIRST, FIRST_FIVE, LOSS, SUMS }; /* of a part's rows: found at once, among RANK; losses */

static qkv_status recall_part(void *user, size_t part, double *sums)
{
    const ranking *r = user;
    const side *among = r->among;
    size_t begin = part * QUERIES, left = r->of->count - begin, from, to;
    size_t some = left < QUERIES ? left : QUERIES;
    qkv_tensor *x = similarities(r->t, r->of->rows, begin, some, among->rows, among->count,
                                 r->width);
    const qkv_real *s = qkv_data(r->t, x);
    if (!s)
        return qkv_tape_status(r->t);
    for (size_t i = 0; i < some; i++) {
        partners_of(r->of, begin + i, &from, &to);
        size_t rank = rank_partners(s + i * among->count, among->count, from, to, r->temperature,
                                    &sums[LOSS]);
        sums[FIRST] += rank < 1;
        sums[FIRST_FIVE] += rank < RANK;
    }
    return QKV_OK;
}

/* ctx: of the ranks that share the parts; NULL: this one does all. */
static qkv_status recall_sides(qkv_context *ctx, qkv_tape *t, const side sides[2], size_t width,
                               double temperature, qkv_recall_score *out)
{
    qkv_tape_reset(t);
    *out = (qkv_recall_score){.pairs = sides[1].count};
    if (!sides[0].count || !(temperature > 0)) {
        (void)qkv_tape_fail(t, "recall", "%zu pairs at temperature %g: at least one and above 0 "
                            "expected", sides[0].count, temperature);
        return qkv_tape_status(t);
    }
    for (int way = 0; way < 2; way++) {
        ranking r = {t, &sides[way], &sides[!way], width, temperature};
        double sums[SUMS] = {0}, n = (double)r.of->count;
        size_t parts = (r.of->count + QUERIES - 1) / QUERIES;
        qkv_status status = ctx ? qkv__dist_map_sum(ctx, parts, SUMS, recall_part, &r, sums)
                                : QKV_OK;
        for (size_t i = 0; i < parts && !ctx && !status; i++)
            status = recall_part(&r, i, sums);
        if (status)
            return status;
        out->recall1[way] = sums[FIRST] / n;
        out->recall5[way] = sums[FIRST_FIVE] / n;
        out->loss += sums[LOSS] / (2 * n);
    }
    qkv_tape_reset(t);
    return QKV_OK;
}

qkv_status qkv__recall(qkv_context *ctx, qkv_tape *t, const qkv_real *a, const qkv_real *b,
                       size_t n, size_t width, double temperature, qkv_recall_score *out)
{
    const side sides[] = {{.rows = a, .count = n}, {.rows = b, .count = n}};
    return recall_sides(ctx, t, sides, width, temperature, out);
}

qkv_status qkv_recall(qkv_tape *t, const qkv_real *a, const qkv_real *b, size_t n, size_t width,
                      double temperature, qkv_recall_score *out)
{
    return qkv__recall(NULL, t, a, b, n, width, temperature, out);
}

qkv_status qkv__recall_many(qkv_context *ctx, qkv_tape *t, const qkv_real *a, size_t n,
                            const qkv_real *b, const size_t *begins, size_t width,
                            double temperature, qkv_recall_score *out)
{
    const side sides[] = {{.rows = a, .count = n, .begins = begins},
                          {.rows = b, .count = begins[n], .begins = begins, .owners = n}};
    return recall_sides(ctx, t, sides, width, temperature, out);
}

qkv_status qkv_recall_many(qkv_tape *t, const qkv_real *a, size_t n, const qkv_real *b,
                           const size_t *begins, size_t width, double temperature,
                           qkv_recall_score *out)
{
    return qkv__recall_many(NULL, t, a, n, b, begins, width, temperature, out);
}

/* The k greatest of s, by insertion: k is small. */
static void find_nearest(const qkv_real *s, size_t count, size_t k, int32_t *ids,
                         qkv_real *cosines)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (found == k && !(s[i] > cosines[k - 1]))
            continue;
        size_t at = found < k ? found++ : k - 1;
        for (; at > 0 && cosines[at - 1] < s[i]; at--) {
            cosines[at] = cosines[at - 1];
            ids[at] = ids[at - 1];
        }
        cosines[at] = s[i];
        ids[at] = (int32_t)i;
    }
}

qkv_status qkv_nearest(qkv_tape *t, const qkv_real *queries, size_t n, const qkv_real *rows,
                       size_t count, size_t width, size_t k, int32_t *ids, qkv_real *cosines)
{
    qkv_tape_reset(t);
    if (k < 1 || k > count || count > INT32_MAX) {
        (void)qkv_tape_fail(t, "nearest", "%zu of %zu rows: 1 to as many expected", k, count);
        return qkv_tape_status(t);
    }
    for (size_t begin = 0; begin < n; begin += QUERIES) {
        size_t some = n - begin < QUERIES ? n - begin : QUERIES;
        const qkv_real *s =
            qkv_data(t, similarities(t, queries, begin, some, rows, count, width));
        if (!s)
            return qkv_tape_status(t);
        for (size_t i = 0; i < some; i++)
            find_nearest(s + i * count, count, k, ids + (begin + i) * k,
                         cosines + (begin + i) * k);
    }
    qkv_tape_reset(t);
    return QKV_OK;
}

/* The most frequent class among ids (k), but for `own`; the first among equals. */
static int32_t vote(const int32_t *ids, size_t k, const int32_t *classes, int32_t own)
{
    size_t most = 0;
    int32_t best = -1;
    for (size_t i = 0; i < k; i++) {
        size_t votes = 0;
        for (size_t j = 0; j < k && ids[i] != own; j++)
            votes += ids[j] != own && classes[ids[j]] == classes[ids[i]];
        if (votes > most) {
            most = votes;
            best = classes[ids[i]];
        }
    }
    return best;
}

qkv_status qkv_knn_accuracy(qkv_tape *t, const qkv_real *queries, const int32_t *expected, size_t n,
                            const qkv_real *rows, const int32_t *classes, size_t count,
                            size_t width, size_t k, double *accuracy)
{
    enum { MOST = 64 };
    int32_t ids[QUERIES * (MOST + 1)];
    qkv_real cosines[QUERIES * (MOST + 1)];
    size_t all = rows ? count : n, right = 0, with_own = rows ? 0 : 1;
    k = k < MOST ? k : MOST;
    k = k + with_own < all ? k + with_own : all;
    *accuracy = 0;
    qkv_status status = QKV_OK;
    for (size_t begin = 0; begin < n && !status; begin += QUERIES) {
        size_t some = n - begin < QUERIES ? n - begin : QUERIES;
        status = qkv_nearest(t, queries + begin * width, some, rows ? rows : queries, all, width, k,
                             ids, cosines);
        for (size_t i = 0; i < some && !status; i++)
            right += vote(ids + i * k, k, rows ? classes : expected,
                          rows ? -1 : (int32_t)(begin + i)) == expected[begin + i];
    }
    if (!status && n)
        *accuracy = (double)right / (double)n;
    return status;
}
