/* retrieval.c - which rows are nearest to which, by the cosine: recall and neighbours. */
#include <math.h>

#include "qkv/embed.h"
#include "qkv/extend.h"
#include "task/common.h"

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

/* -log softmax of the partner among a row's similarities, and how many are not below it. */
static size_t rank_partner(const qkv_real *s, size_t count, size_t partner, double temperature,
                           double *loss)
{
    size_t rank = 0;
    double most = (double)s[0], sum = 0;
    for (size_t i = 0; i < count; i++) {
        rank += i != partner && !(s[i] < s[partner]);
        most = (double)s[i] > most ? (double)s[i] : most;
    }
    for (size_t i = 0; i < count; i++) /* the greatest adds 1 */
        sum += exp(((double)s[i] - most) / temperature);
    *loss += log(fmax(sum, 1)) + (most - (double)s[partner]) / temperature;
    return rank;
}

qkv_status qkv_recall(qkv_tape *t, const qkv_real *a, const qkv_real *b, size_t n, size_t width,
                      double temperature, qkv_recall_score *out)
{
    *out = (qkv_recall_score){.pairs = n};
    qkv_tape_reset(t);
    if (!n || !(temperature > 0)) {
        (void)qkv_tape_fail(t, "recall", "%zu pairs at temperature %g: at least one and above 0 "
                            "expected", n, temperature);
        return qkv_tape_status(t);
    }
    for (int way = 0; way < 2; way++)
        for (size_t begin = 0; begin < n; begin += QUERIES) {
            size_t some = n - begin < QUERIES ? n - begin : QUERIES;
            qkv_tensor *x = similarities(t, way ? b : a, begin, some, way ? a : b, n, width);
            const qkv_real *s = qkv_data(t, x);
            if (!s)
                return qkv_tape_status(t);
            for (size_t i = 0; i < some; i++) {
                size_t rank = rank_partner(s + i * n, n, begin + i, temperature, &out->loss);
                out->recall1[way] += (double)(rank < 1) / (double)n;
                out->recall5[way] += (double)(rank < RANK) / (double)n;
            }
        }
    out->loss /= 2 * (double)n;
    qkv_tape_reset(t);
    return QKV_OK;
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
