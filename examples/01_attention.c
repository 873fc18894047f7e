/* 01_attention.c - one head of attention, by hand and as the op.
 *
 * softmax(q k^T / sqrt(D)) v, from two products and a softmax, is what qkv_attention
 * computes without ever holding the whole matrix of weights. A probe shows the weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { T = 5, D = 4 }; /* rows, and the width of the head */

/* Called while the fused attention runs, with the rows that were asked for. */
static void show_weights(void *user, const char *name, int sequence, int head, size_t row,
                         size_t rows, size_t S, const qkv_real *weights)
{
    printf("weights of %s, sequence %d, head %d\n", name, sequence, head);
    for (size_t i = 0; i < rows * S; i++)
        printf(" %.3f%s", (double)weights[i], i % S == S - 1 ? "\n" : "");
    memcpy((qkv_real *)user + row * S, weights, rows * S * sizeof *weights);
}

static double largest_difference(const qkv_real *a, const qkv_real *b, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
    return largest;
}

static int run(qkv_tape *t)
{
    const size_t matrix[2] = {T, D}, one_head[4] = {1, T, 1, D};
    qkv_real x[3][T * D], probed[T * T];
    for (size_t i = 0; i < (size_t)T * D; i++) {
        x[0][i] = (qkv_real)sin(1.0 + (double)i);
        x[1][i] = (qkv_real)cos(2.0 * (double)i);
        x[2][i] = (qkv_real)sin(0.5 * (double)i);
    }
    qkv_tensor *q = qkv_tensor_from(t, x[0], 2, matrix);
    qkv_tensor *k = qkv_tensor_from(t, x[1], 2, matrix);
    qkv_tensor *v = qkv_tensor_from(t, x[2], 2, matrix);

    /* By hand. */
    qkv_tensor *scores = qkv_scale(t, qkv_matmul(t, q, false, k, true), 1 / sqrt((double)D));
    qkv_tensor *weights = qkv_softmax(t, scores);
    qkv_tensor *by_hand = qkv_matmul(t, weights, false, v, false);

    /* As the op: the same numbers, seen as batch 1, T rows, 1 head. Of all sequences, heads and
     * rows (0: to the end) the weights are shown. */
    const qkv_attention_probe probe = {.sequence = -1, .head = -1, .fn = show_weights,
                                       .user = probed};
    if (qkv_attention_probe_add(t, &probe)) return 1;
    qkv_tensor *fused = qkv_attention(t, qkv_reshape(t, q, 4, one_head),
                                      qkv_reshape(t, k, 4, one_head),
                                      qkv_reshape(t, v, 4, one_head), NULL);
    if (qkv_tape_status(t)) return 1;

    double outputs = largest_difference(qkv_data(t, by_hand), qkv_data(t, fused), T * D);
    double rows = largest_difference(qkv_data(t, weights), probed, T * T);
    printf("largest difference: outputs %.1e, weights %.1e\n", outputs, rows);
    return outputs <= 1e-6 && rows <= 1e-6 ? 0 : 2;
}

int main(void)
{
    qkv_context *ctx;
    qkv_tape *t;
    if (qkv_context_create(&ctx, NULL) || qkv_tape_create(&t, ctx)) return 1;
    const int failed = run(t);
    if (failed == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (failed == 2) fprintf(stderr, "the two ways disagree\n");
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return failed;
}
