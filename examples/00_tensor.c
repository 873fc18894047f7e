/* 00_tensor.c - tensors, broadcasting, and going backward.
 *
 * y = mean((x w + b)^2) with x (3, 2), w (2, 2) and one b (2) for all rows of x. The gradient
 * with respect to b is 2/6 of the column sums of x w + b: checked at the end.             */
#include <math.h>
#include <stdio.h>

#include <qkv.h>

static void print_matrix(const char *name, const qkv_real *a, size_t rows, size_t columns)
{
    printf("%s\n", name);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) printf(" %8.4f", (double)a[i * columns + j]);
        printf("\n");
    }
}

static int run(qkv_tape *t)
{
    const qkv_real x_data[6] = {1, 2, 3, 4, 5, 6};
    const qkv_real w_data[4] = {1, -1, 0.5f, 2};
    const qkv_real b_data[2] = {0.1f, -0.2f};
    const size_t x_shape[2] = {3, 2}, w_shape[2] = {2, 2}, b_shape[1] = {2};

    qkv_tensor *x = qkv_tensor_from(t, x_data, 2, x_shape);
    qkv_tensor *w = qkv_require_grad(t, qkv_tensor_from(t, w_data, 2, w_shape));
    qkv_tensor *b = qkv_require_grad(t, qkv_tensor_from(t, b_data, 1, b_shape));

    /* b (2) meets (3, 2): it is added to every row, as in NumPy. */
    qkv_tensor *h = qkv_add(t, qkv_matmul(t, x, false, w, false), b);
    qkv_tensor *y = qkv_mean(t, qkv_mul(t, h, h));
    qkv_backward(t, y);

    /* Errors are sticky: whatever failed above is known here, and NULLs went through. */
    if (qkv_tape_status(t) != QKV_OK) return 1;

    const qkv_real *sums = qkv_data(t, h);
    const qkv_real *db = qkv_data(t, qkv_grad_of(t, b));
    print_matrix("x w + b", sums, 3, 2);
    printf("mean of squares %.4f\n", (double)qkv_item(t, y));
    print_matrix("gradient of w", qkv_data(t, qkv_grad_of(t, w)), 2, 2);
    print_matrix("gradient of b", db, 1, 2);

    for (size_t j = 0; j < 2; j++) {
        double expected = 2.0 / 6.0 * (double)(sums[j] + sums[2 + j] + sums[4 + j]);
        if (!(fabs((double)db[j] - expected) <= 1e-5)) return 2;
    }
    return 0;
}

int main(void)
{
    qkv_context *ctx = NULL;
    qkv_tape *t = NULL;
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;
    int status = qkv_tape_create(&t, ctx) == QKV_OK ? run(t) : 1;
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the gradient of b is not what the formula says\n");
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return status;
}
