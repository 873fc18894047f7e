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
    qkv_real *kept = (qkv_real *)user;
    printf("weights of %s, sequence %d, head %d\n", name, sequence, head);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < S; j++) {
            printf(" %.3f", (double)weights[i * S + j]);
            kept[(row + i) * S + j] = weights[i * S + j];
        }
        printf("\n");
    }
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
    qkv_tensor *q = qkv_tensor_from(t, NULL, 2, matrix);
    qkv_tensor *k = qkv_tensor_from(t, NULL, 2, matrix);
    qkv_tensor *v = qkv_tensor_from(t, NULL, 2, matrix);
    if (qkv_tape_status(t) != QKV_OK) return 1;
    for (size_t i = 0; i < (size_t)T * D; i++) {
        qkv_tensor_fill(q)[i] = (qkv_real)sin(1.0 + (double)i);
        qkv_tensor_fill(k)[i] = (qkv_real)cos(2.0 * (double)i);
        qkv_tensor_fill(v)[i] = (qkv_real)sin(0.5 * (double)i);
    }

    /* By hand. */
    qkv_tensor *scores = qkv_scale(t, qkv_matmul(t, q, false, k, true), 1 / sqrt((double)D));
    qkv_tensor *weights = qkv_softmax(t, scores);
    qkv_tensor *by_hand = qkv_matmul(t, weights, false, v, false);

    /* As the op: the same numbers, seen as batch 1, T rows, 1 head. */
    qkv_real probed[T * T];
    qkv_attention_probe probe;
    memset(&probe, 0, sizeof probe);
    probe.sequence = probe.head = -1; /* all of them; rows 0: all rows */
    probe.fn = show_weights;
    probe.user = probed;
    if (qkv_attention_probe_add(t, &probe) != QKV_OK) return 1;

    qkv_attention_options options;
    memset(&options, 0, sizeof options); /* scale 1/sqrt(D), no mask, no dropout */
    qkv_tensor *fused = qkv_attention(t, qkv_reshape(t, q, 4, one_head),
                                      qkv_reshape(t, k, 4, one_head),
                                      qkv_reshape(t, v, 4, one_head), &options);
    if (qkv_tape_status(t) != QKV_OK) return 1;

    double outputs = largest_difference(qkv_data(t, by_hand), qkv_data(t, fused), T * D);
    double rows = largest_difference(qkv_data(t, weights), probed, T * T);
    printf("largest difference: outputs %.1e, weights %.1e\n", outputs, rows);
    return outputs <= 1e-6 && rows <= 1e-6 ? 0 : 2;
}

int main(void)
{
    qkv_context *ctx = NULL;
    qkv_tape *t = NULL;
    if (qkv_context_create(&ctx, NULL) != QKV_OK) return 1;
    int status = qkv_tape_create(&t, ctx) == QKV_OK ? run(t) : 1;
    if (status == 1) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (status == 2) fprintf(stderr, "the two ways disagree\n");
    qkv_tape_destroy(t);
    qkv_context_destroy(ctx);
    return status;
}
