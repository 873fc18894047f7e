/* ref_group_norm.c - group norm with or without the SiLU that follows it, in plain C. */
#include "kernel/ref_math.h"

/* What one group of one image needs; channels first .. first + width - 1. */
typedef struct {
    const qkv_k_group_norm_args *a;
    size_t image, first, width; /* image: offset of its first number */
    double mean, rstd;
} group;

static group group_of(const qkv_k_group_norm_args *a, size_t i)
{
    size_t width = a->C / a->G;
    return (group){.a = a, .image = i / a->G * a->N * a->C, .first = i % a->G * width,
                   .width = width};
}

static void ref_group_norm_measure(group *g, const qkv_real *x)
{
    double sum = 0, squares = 0, count = (double)(g->a->N * g->width);
    for (size_t n = 0; n < g->a->N; n++)
        for (size_t c = g->first; c < g->first + g->width; c++)
            sum += (double)x[g->image + n * g->a->C + c];
    g->mean = sum / count;
    for (size_t n = 0; n < g->a->N; n++)
        for (size_t c = g->first; c < g->first + g->width; c++) {
            double d = (double)x[g->image + n * g->a->C + c] - g->mean;
            squares += d * d;
        }
    g->rstd = 1 / sqrt(squares / count + g->a->eps);
}

static double ref_group_norm_sigmoid(double u) { return 1 / (1 + exp(-u)); }

static void ref_group_norm(const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd,
                           const qkv_real *x, const qkv_real *weight, const qkv_real *bias,
                           const qkv_k_group_norm_args *args)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(y, mean, rstd, x, weight, bias, args) if (args->B * args->N * args->C >= REF_GRAIN)
    for (size_t i = 0; i < args->B * args->G; i++) {
        group g = group_of(args, i);
        ref_group_norm_measure(&g, x);
        mean[i] = (qkv_real)g.mean;
        rstd[i] = (qkv_real)g.rstd;
        for (size_t n = 0; n < args->N; n++)
            for (size_t c = g.first; c < g.first + g.width; c++) {
                size_t at = g.image + n * args->C + c;
                double u = ((double)x[at] - g.mean) * g.rstd * (double)weight[c] + (double)bias[c];
                y[at] = (qkv_real)(args->silu ? u * ref_group_norm_sigmoid(u) : u);
            }
    }
}

/* d(loss)/du at one number, and how far it lies from the mean, in standard deviations. */
static double ref_group_norm_slope(const group *g, double dy, double x, double weight, double bias,
                                   double *far)
{
    *far = (x - g->mean) * g->rstd;
    if (!g->a->silu)
        return dy;
    double u = *far * weight + bias, s = ref_group_norm_sigmoid(u);
    return dy * s * (1 + u * (1 - s));
}

/* dx = rstd (g weight - mean of it - far times the mean of far times it). */
static void ref_group_norm_bwd(const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
                               qkv_real *dbias, const qkv_real *dy, const qkv_real *x,
                               const qkv_real *mean, const qkv_real *rstd, const qkv_real *weight,
                               const qkv_real *bias, const qkv_k_group_norm_args *args)
{
    const size_t width = args->C / args->G;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(dx, acc, dweight, dbias, dy, x, mean, rstd, weight, bias, args, width) \
    if (args->B * args->N * args->C >= REF_GRAIN)
    for (size_t first = 0; first < args->C; first += width) {
        for (size_t c = first; c < first + width; c++) {
            if (dweight)
                dweight[c] = 0;
            if (dbias)
                dbias[c] = 0;
        }
        for (size_t b = 0; b < args->B; b++) {
            size_t i = b * args->G + first / width;
            group g = group_of(args, i);
            g.mean = (double)mean[i];
            g.rstd = (double)rstd[i];
            double sum = 0, dot = 0, far, count = (double)(args->N * width);
            for (size_t c = first; c < first + width; c++) {
                double s = 0, d = 0;
                for (size_t n = 0; n < args->N; n++) {
                    size_t at = g.image + n * args->C + c;
                    double du = ref_group_norm_slope(&g, (double)dy[at], (double)x[at],
                                                     (double)weight[c], (double)bias[c], &far);
                    s += du;
                    d += du * far;
                }
                sum += s * (double)weight[c];
                dot += d * (double)weight[c];
                if (dweight)
                    dweight[c] += (qkv_real)d;
                if (dbias)
                    dbias[c] += (qkv_real)s;
            }
            for (size_t n = 0; dx && n < args->N; n++)
                for (size_t c = first; c < first + width; c++) {
                    size_t at = g.image + n * args->C + c;
                    double du = ref_group_norm_slope(&g, (double)dy[at], (double)x[at],
                                                     (double)weight[c], (double)bias[c], &far);
                    double d = g.rstd * (du * (double)weight[c] - sum / count - far * dot / count);
                    dx[at] = (qkv_real)(acc ? (double)dx[at] + d : d);
                }
        }
    }
}

void qkv__kernels_ref_group_norm(qkv_kernels *k)
{
    k->group_norm = ref_group_norm;
    k->group_norm_bwd = ref_group_norm_bwd;
}
