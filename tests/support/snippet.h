/* snippet.h - what the C snippets of docs/ stand in: docs/README.md says how they are run. */
#ifndef QKV_TESTS_SNIPPET_H
#define QKV_TESTS_SNIPPET_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkv.h>

static inline void show_row(const char *name, const qkv_real *x, size_t n)
{
    printf("%s", name);
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        printf(" %7.4f", fabs(v) < 5e-5 ? 0.0 : v);
    }
    printf("\n");
}

/* Prints the rows of x behind its name. */
static inline void show(qkv_tape *t, const char *name, const qkv_tensor *x)
{
    const qkv_real *data = qkv_data(t, x);
    size_t columns = x && qkv_ndim(x) ? qkv_dim(x, -1) : 1;
    char space[64] = "";
    snprintf(space, sizeof space, "%*s", (int)strlen(name), "");
    for (size_t i = 0; data && i < qkv_count(x); i += columns)
        show_row(i ? space : name, data + i, columns);
}

/* Answers an attention probe by printing the rows it gets. */
static inline void show_weights(void *user, const char *name, int sequence, int head, size_t row,
                                size_t rows, size_t S, const qkv_real *weights)
{
    (void)user, (void)sequence;
    for (size_t i = 0; i < rows; i++) {
        char label[64];
        snprintf(label, sizeof label, "%s, head %d, row %zu:", name, head, row + i);
        show_row(label, weights + i * S, S);
    }
}

#endif
