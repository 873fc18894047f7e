/* muon.c - the arithmetic of Muon: momentum, and the orthogonalisation of a matrix by
 * Newton-Schulz's iteration (Jordan et al. 2024). With A the Gram matrix of the shorter side,
 *     A = X X^T;  X = a X + (b A + c A^2) X
 * takes every singular value s to a s + b s^3 + c s^5, so that five steps bring all that are not
 * tiny to about 0.7 .. 1.2. Of the symmetric A and A^2 the part left of the diagonal's blocks is
 * computed, and the rest copied from it. Products are training's: in bf16 where those are. */
#include <math.h>

#include "base/device.h"
#include "tensor/param.h"
#include "tensor/update.h"

static const double ns_a = 3.4445, ns_b = -4.7750, ns_c = 2.0315;
/* Rows of a symmetric product that are computed together: on the processor; on a card, where few
 * large products take less time than many small ones. */
enum { PANEL = 128, CARD_PANEL = 1024 };

void qkv__param_momentum(qkv_param *p, const qkv__update *u, qkv_real *buffer, qkv_real *out,
                         double momentum, bool nesterov)
{
    const qkv_kernels *k = qkv__params_kernels(p->owner);
    qkv_exec e = qkv__params_exec(p->owner);
    k->axpy(&e, out, u->grad ? u->grad : p->grad, u->grad_scale, false, p->count);
    k->lerp(&e, buffer, out, 1 - momentum, p->count);
    if (nesterov)
        k->lerp(&e, out, buffer, momentum, p->count);
    else
        k->axpy(&e, out, buffer, 1, false, p->count);
}

void qkv__param_add(qkv_param *p, size_t from, const qkv_real *x, double keep, double rate,
                    size_t n)
{
    const qkv_kernels *k = qkv__params_kernels(p->owner);
    qkv_exec e = qkv__params_exec(p->owner);
    if (keep != 1)
        k->axpy(&e, p->data + from, p->data + from, keep, false, n);
    k->axpy(&e, p->data + from, x, rate, true, n);
    qkv__param_changed(p);
}

/* ---- Newton-Schulz ------------------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

size_t qkv__orthogonalize_work(size_t rows, size_t columns)
{
    size_t d = smaller(rows, columns);
    return rows * columns + 2 * d * d;
}

double qkv__orthogonalize_flops(size_t rows, size_t columns, int steps)
{
    size_t d = smaller(rows, columns), computed = 0; /* elements of a symmetric product */
    for (size_t i = 0; i < d; i += PANEL)
        computed += smaller(d - i, PANEL) * smaller(d, i + PANEL);
    double both = (double)computed * (double)(rows + columns); /* A's k and A^2's: both sides */
    return 2 * steps * (both + (double)d * (double)(rows * columns));
}

/* y (d, d) = x x^T, x (d, k); or x^T x, x (k, d). */
static void symmetric(const qkv_kernels *kernels, const qkv_exec *e, qkv_real *y, const qkv_real *x,
                      size_t d, size_t k, bool transposed, size_t panel)
{
    size_t ld = transposed ? d : k, step = transposed ? 1 : k;
    for (size_t i = 0; i < d; i += panel) {
        size_t rows = smaller(d - i, panel);
        const qkv_k_gemm_args args = {.ta = transposed, .tb = !transposed, .m = rows,
                                      .n = i + rows, .k = k, .lda = ld, .ldb = ld, .ldc = d};
        kernels->gemm(e, y + i * d, x + i * step, x, &args);
        const size_t to[] = {d, 1}, from[] = {1, d}, shape[] = {i, rows};
        if (i)
            kernels->copy(e, y + i, to, y + i * d, from, shape, 2, false);
    }
}

qkv_real *qkv__orthogonalize(const qkv_param *p, qkv_real *x, size_t rows, size_t columns,
                             int steps, double eps, qkv_real *work)
{
    qkv_context *ctx = qkv__params_context(p->owner);
    const qkv_kernels *k = qkv__kernels_of(ctx, true);
    const size_t panel = qkv__context_device(ctx)->host ? PANEL : CARD_PANEL;
    qkv_exec e = qkv__params_exec(p->owner);
    bool tall = rows > columns;
    size_t n = rows * columns, d = tall ? columns : rows;
    qkv_real *y = work, *gram = work + n, *square = gram + d * d;
    /* The polynomial of A stands on the side of the Gram matrix. */
    const qkv_k_gemm_args args = {.acc = true, .m = rows, .n = columns, .k = d,
                                  .lda = tall ? columns : d, .ldb = columns, .ldc = columns};
    k->axpy(&e, x, x, 1 / fmax(sqrt(k->sum_squares(&e, x, n)), eps), false, n);
    for (int i = 0; i < steps; i++) {
        symmetric(k, &e, gram, x, d, n / d, tall, panel);
        symmetric(k, &e, square, gram, d, d, false, panel);
        k->axpy(&e, square, square, ns_c, false, d * d);
        k->axpy(&e, square, gram, ns_b, true, d * d);
        k->axpy(&e, y, x, ns_a, false, n);
        k->gemm(&e, y, tall ? x : square, tall ? square : x, &args);
        qkv_real *last = x;
        x = y;
        y = last;
    }
    return qkv__param_lacked_scratch(p) ? NULL : x;
}
