/* frechet.c - how far apart two sets of rows are, as Gaussians of their means and covariances
 * (Frechet's distance: Dowson and Landau 1982).
 *
 * With covariances S0 = A At and S1 = B Bt, the eigenvalues of S0 S1 are the squares of the
 * singular values of At B, so that the trace of the root of S0 S1 is their sum. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/score.h"

enum { SIDES = 2, MOST_WIDTH = 4096, SWEEPS = 60 };
static const double RIGHT_ANGLE = 1e-12; /* cosines below it count as 0 */

typedef struct {
    size_t rows;
    double *sum, *products; /* (C), (C, C) of rows less the origin; the products' lower half */
} side;

struct qkv_frechet {
    qkv_context *ctx;
    size_t C;
    bool begun;
    double *origin; /* (C): the first row that came, so that little is lost in differences */
    double *row;    /* (C) */
    side side[SIDES];
};

/* ---- taking rows in ----------------------------------------------------------------------- */

qkv_status qkv_frechet_create(qkv_frechet **out, qkv_context *ctx, size_t width)
{
    *out = NULL;
    if (!width || width > MOST_WIDTH)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "rows of %zu numbers: 1 to %d expected", width,
                        MOST_WIDTH);
    qkv_frechet *f = qkv_calloc(ctx, 1, sizeof *f);
    if (!f)
        return QKV_E_MEMORY;
    f->ctx = ctx;
    f->C = width;
    f->origin = qkv_calloc(ctx, width, sizeof *f->origin);
    f->row = qkv_calloc(ctx, width, sizeof *f->row);
    bool fine = f->origin && f->row;
    for (int i = 0; i < SIDES && fine; i++) {
        f->side[i].sum = qkv_calloc(ctx, width, sizeof(double));
        f->side[i].products = qkv_calloc(ctx, width * width, sizeof(double));
        fine = f->side[i].sum && f->side[i].products;
    }
    if (!fine) {
        qkv_frechet_destroy(f);
        return QKV_E_MEMORY;
    }
    *out = f;
    return QKV_OK;
}

void qkv_frechet_destroy(qkv_frechet *f)
{
    if (!f)
        return;
    for (int i = 0; i < SIDES; i++) {
        qkv_free(f->ctx, f->side[i].sum);
        qkv_free(f->ctx, f->side[i].products);
    }
    qkv_free(f->ctx, f->row);
    qkv_free(f->ctx, f->origin);
    qkv_free(f->ctx, f);
}

void qkv_frechet_add(qkv_frechet *f, bool second, const qkv_real *rows, size_t n)
{
    side *s = &f->side[second];
    size_t C = f->C;
    for (size_t c = 0; n && !f->begun && c < C; c++)
        f->origin[c] = (double)rows[c];
    f->begun = f->begun || n;
    for (size_t i = 0; i < n; i++, rows += C) {
        for (size_t c = 0; c < C; c++) {
            f->row[c] = (double)rows[c] - f->origin[c];
            s->sum[c] += f->row[c];
        }
        for (size_t c = 0; c < C; c++)
            for (size_t d = 0; d <= c; d++)
                s->products[c * C + d] += f->row[c] * f->row[d];
    }
    s->rows += n;
}

/* ---- matrices ----------------------------------------------------------------------------- */

/* S (C, C), divided by one less than the rows there are. Its trace. */
static double covariance(double *S, const side *s, size_t C)
{
    double n = (double)s->rows, trace = 0;
    for (size_t c = 0; c < C; c++)
        for (size_t d = 0; d <= c; d++) {
            double x = (s->products[c * C + d] - s->sum[c] * s->sum[d] / n) / (n - 1);
            S[c * C + d] = S[d * C + c] = x;
            trace += c == d ? x : 0;
        }
    return trace;
}

/* A (C, C), of whose columns the first r are used, with A At = S; returns r. Each column takes away
 * the largest diagonal that is left (Cholesky's method with pivots), until none counts. left: (C)
 * for work. */
static size_t frechet_factor(double *A, double *left, const double *S, size_t C)
{
    double most = 0;
    size_t r = 0;
    for (size_t c = 0; c < C; c++) {
        left[c] = S[c * C + c];
        most = left[c] > most ? left[c] : most;
    }
    for (; r < C; r++) {
        size_t p = 0;
        for (size_t c = 1; c < C; c++)
            p = left[c] > left[p] ? c : p;
        if (left[p] <= most * DBL_EPSILON * (double)C)
            break;
        double root = sqrt(left[p]);
        for (size_t c = 0; c < C; c++) {
            double x = S[c * C + p];
            for (size_t j = 0; j < r; j++)
                x -= A[c * C + j] * A[p * C + j];
            A[c * C + r] = c == p ? root : left[c] > 0 ? x / root : 0;
            left[c] -= A[c * C + r] * A[c * C + r];
        }
        left[p] = 0;
    }
    return r;
}

/* Turns two rows within their plane until they stand at right angles (Hestenes 1958). False if they
 * did. */
static bool turn(double *x, double *y, size_t n)
{
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        xx += x[i] * x[i];
        yy += y[i] * y[i];
        xy += x[i] * y[i];
    }
    if (fabs(xy) <= RIGHT_ANGLE * sqrt(xx) * sqrt(yy))
        return false;
    double half = (yy - xx) / (2 * xy);
    double tangent = (half < 0 ? -1 : 1) / (fabs(half) + sqrt(1 + half * half));
    double cosine = 1 / sqrt(1 + tangent * tangent), sine = tangent * cosine;
    for (size_t i = 0; i < n; i++) {
        double u = x[i];
        x[i] = cosine * u - sine * y[i];
        y[i] = sine * u + cosine * y[i];
    }
    return true;
}

/* The sum of the singular values of M (rows, stride), n of whose columns are used: the lengths of
 * its rows once all stand at right angles. */
static double sum_of_singular(double *M, size_t rows, size_t n, size_t stride)
{
    bool turned = true;
    double sum = 0;
    for (int i = 0; i < SWEEPS && turned; i++) {
        turned = false;
        for (size_t p = 0; p < rows; p++)
            for (size_t q = p + 1; q < rows; q++)
                turned = turn(M + p * stride, M + q * stride, n) || turned;
    }
    for (size_t p = 0; p < rows; p++) {
        double square = 0;
        for (size_t i = 0; i < n; i++)
            square += M[p * stride + i] * M[p * stride + i];
        sum += sqrt(square);
    }
    return sum;
}

/* M (rows, C) = At B, of the first columns of both. */
static void frechet_cross(double *M, const double *A, size_t rows, const double *B, size_t n,
                          size_t C)
{
    memset(M, 0, rows * C * sizeof *M);
    for (size_t c = 0; c < C; c++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < n; j++)
                M[i * C + j] += A[c * C + i] * B[c * C + j];
}

/* ---- the distance ------------------------------------------------------------------------- */

qkv_status qkv_frechet_distance(const qkv_frechet *f, double *out)
{
    const side *s = f->side;
    size_t C = f->C, rank[SIDES];
    *out = NAN;
    if (s[0].rows < 2 || s[1].rows < 2)
        return qkv_fail(f->ctx, QKV_E_ARGUMENT, "Frechet distance of %zu rows and %zu: 2 at least "
                        "expected of either", s[0].rows, s[1].rows);
    double *work = qkv_malloc(f->ctx, (3 * C + 1) * C * sizeof *work), apart = 0;
    if (!work)
        return QKV_E_MEMORY;
    double *S = work + 2 * C * C, *left = S + C * C;
    for (size_t c = 0; c < C; c++) {
        double d = s[0].sum[c] / (double)s[0].rows - s[1].sum[c] / (double)s[1].rows;
        apart += d * d;
    }
    for (int i = 0; i < SIDES && isfinite(apart); i++) {
        apart += covariance(S, &s[i], C);
        rank[i] = frechet_factor(work + (size_t)i * C * C, left, S, C);
    }
    if (isfinite(apart)) {
        frechet_cross(S, work, rank[0], work + C * C, rank[1], C);
        apart -= 2 * sum_of_singular(S, rank[0], rank[1], C);
        *out = apart > 0 ? apart : 0;
    }
    qkv_free(f->ctx, work);
    return isfinite(*out) ? QKV_OK : qkv_fail(f->ctx, QKV_E_NUMERIC, "Frechet distance of rows "
                                              "that are not all finite");
}
