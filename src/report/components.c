/* components.c - principal components by orthogonal iteration: a block of vectors is
 * multiplied by the covariance and made orthonormal until its variances stand still (Golub and Van
 * Loan, Matrix Computations, 8.2.4). */
#include <math.h>
#include <string.h>

#include "report/patches.h"

enum { EXTRA = 8, MOST_ROUNDS = 100 }; /* vectors beside those asked for; steps */
static const double STILL = 1e-9;      /* change of the sum of variances, as a share */

typedef struct {
    const double *rows; /* (n, width), centred */
    size_t n, width, count;
    size_t wanted;      /* of count: the others converge more slowly */
    double *block;      /* (count, width) */
    double *product;    /* (count, width) */
    double *variance;   /* (count) */
} iteration;

static double look_dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* product = block rowsT rows. */
static void multiply(iteration *x)
{
    memset(x->product, 0, x->count * x->width * sizeof *x->product);
    for (size_t i = 0; i < x->n; i++) {
        const double *row = x->rows + i * x->width;
        for (size_t k = 0; k < x->count; k++) {
            double share = look_dot(row, x->block + k * x->width, x->width);
            for (size_t j = 0; j < x->width; j++)
                x->product[k * x->width + j] += share * row[j];
        }
    }
}

/* Gram-Schmidt, twice for its rounding, of product into block; lengths are the variances. */
static void make_orthonormal(iteration *x)
{
    memcpy(x->block, x->product, x->count * x->width * sizeof *x->block);
    for (size_t k = 0; k < x->count; k++) {
        double *v = x->block + k * x->width, length;
        for (int pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < k; i++) {
                const double *u = x->block + i * x->width;
                double share = look_dot(u, v, x->width);
                for (size_t j = 0; j < x->width; j++)
                    v[j] -= share * u[j];
            }
        length = sqrt(look_dot(v, v, x->width));
        x->variance[k] = length;
        for (size_t j = 0; j < x->width && length > 0; j++)
            v[j] /= length;
    }
}

static void iterate(iteration *x, uint64_t seed)
{
    qkv_rng r;
    double before = 0;
    qkv_rng_init(&r, seed, 0);
    for (size_t i = 0; i < x->count * x->width; i++)
        x->product[i] = qkv_rng_uniform(&r) - 0.5;
    make_orthonormal(x);
    for (size_t round = 0; round < MOST_ROUNDS; round++) {
        double sum = 0;
        multiply(x);
        make_orthonormal(x);
        for (size_t k = 0; k < x->wanted; k++)
            sum += x->variance[k];
        if (fabs(sum - before) <= STILL * sum)
            return;
        before = sum;
    }
}

/* Rows less their mean; the sum of their squares. */
static double centre(double *out, const double *rows, size_t n, size_t width)
{
    double squares = 0;
    for (size_t j = 0; j < width; j++) {
        double mean = 0;
        for (size_t i = 0; i < n; i++)
            mean += rows[i * width + j] / (double)n;
        for (size_t i = 0; i < n; i++) {
            out[i * width + j] = rows[i * width + j] - mean;
            squares += out[i * width + j] * out[i * width + j];
        }
    }
    return squares;
}

static void point_upward(double *v, size_t width)
{
    double largest = 0;
    for (size_t j = 0; j < width; j++)
        largest = fabs(v[j]) > fabs(largest) ? v[j] : largest;
    for (size_t j = 0; j < width && largest < 0; j++)
        v[j] = -v[j];
}

qkv_status qkv__look_components(qkv_context *ctx, const double *rows, size_t n, size_t width,
                                size_t count, double *components, double *shares)
{
    size_t least = n < width ? n : width, block = count + EXTRA < least ? count + EXTRA : least;
    double *centred = qkv_malloc(ctx, n * width * sizeof *centred);
    iteration x = {.rows = centred, .n = n, .width = width, .count = block,
                   .wanted = count,
                   .block = qkv_malloc(ctx, block * width * sizeof *x.block),
                   .product = qkv_malloc(ctx, block * width * sizeof *x.product),
                   .variance = qkv_calloc(ctx, block, sizeof *x.variance)};
    qkv_status status = centred && x.block && x.product && x.variance ? QKV_OK : QKV_E_MEMORY;
    if (!status) {
        double total = centre(centred, rows, n, width);
        iterate(&x, 1);
        for (size_t k = 0; k < count; k++) {
            shares[k] = total > 0 ? x.variance[k] / total : 0;
            memcpy(components + k * width, x.block + k * width, width * sizeof *components);
            point_upward(components + k * width, width);
        }
    }
    qkv_free(ctx, centred);
    qkv_free(ctx, x.block);
    qkv_free(ctx, x.product);
    qkv_free(ctx, x.variance);
    return status;
}
