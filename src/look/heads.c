/* heads.c - figures of heads: where their rows look, as means. */
#include <math.h>
#include <string.h>

#include "look/look.h"

/* Of one row. */
typedef struct {
    double entropy, distance, first, previous, same, most;
} row_figures;

struct qkv_head_table {
    qkv_context *ctx;
    qkv_head_figures *heads; /* sums until the head's last row came */
    size_t count, capacity;
    qkv_names names; /* what .attention points to: names[i] of head i */
    bool failed;
};

static row_figures figures_of_row(const qkv_real *w, size_t S, size_t i)
{
    row_figures f = {0};
    for (size_t j = 0; j < S; j++) {
        double p = (double)w[j];
        if (p <= 0)
            continue;
        f.entropy -= p * (double)logf((float)p);
        f.distance += p * fabs((double)i - (double)j);
        f.most = p > f.most ? p : f.most;
    }
    f.first = (double)w[0];
    f.previous = i > 0 && i <= S ? (double)w[i - 1] : 0;
    f.same = i < S ? (double)w[i] : 0;
    return f;
}

static qkv_head_figures *head_of(qkv_head_table *h, const char *name, int sequence, int head,
                                 size_t S)
{
    qkv_head_figures *last = h->count ? &h->heads[h->count - 1] : NULL;
    if (last && last->sequence == sequence && last->head == head &&
        strcmp(h->names.names[h->count - 1], name) == 0)
        return last;
    if (!qkv__grow(h->ctx, &h->heads, &h->capacity, h->count + 1, sizeof *h->heads) ||
        qkv__names_add(&h->names, name)) {
        h->failed = true;
        return NULL;
    }
    h->heads[h->count] = (qkv_head_figures){.sequence = sequence, .head = head, .keys = S};
    return &h->heads[h->count++];
}

static void head_figures_rows(void *user, const char *name, int sequence, int head, size_t row,
                      size_t rows, size_t S, const qkv_real *weights)
{
    qkv_head_table *h = user;
    qkv_head_figures *f = h->failed ? NULL : head_of(h, name, sequence, head, S);
    if (!f)
        return;
    for (size_t r = 0; r < rows; r++) {
        row_figures one = figures_of_row(weights + r * S, S, row + r);
        f->entropy += one.entropy;
        f->distance += one.distance;
        f->first += one.first;
        f->previous += one.previous;
        f->same += one.same;
        f->most += one.most;
    }
    f->rows += rows;
}

qkv_status qkv_head_table_open(qkv_head_table **out, qkv_context *ctx, qkv_tape *t,
                               const char *pattern)
{
    qkv_head_table *h = *out = qkv_calloc(ctx, 1, sizeof *h);
    if (!h)
        return QKV_E_MEMORY;
    h->ctx = h->names.ctx = ctx;
    const qkv_attention_probe probe = {.name = pattern, .sequence = -1, .head = -1,
                                       .fn = head_figures_rows, .user = h};
    if (!qkv_attention_probe_add(t, &probe))
        return QKV_OK;
    qkv_head_table_free(h);
    *out = NULL;
    return QKV_E_MEMORY;
}

bool qkv_head_table_at(const qkv_head_table *h, size_t i, qkv_head_figures *out)
{
    if (h->failed || i >= h->count)
        return false;
    *out = h->heads[i];
    double rows = (double)out->rows;
    out->attention = h->names.names[i];
    out->entropy /= rows;
    out->distance /= rows;
    out->first /= rows;
    out->previous /= out->rows > 1 ? rows - 1 : 1;
    out->same /= rows;
    out->most /= rows;
    return true;
}

void qkv_head_table_free(qkv_head_table *h)
{
    if (!h)
        return;
    qkv_free(h->ctx, h->heads);
    qkv_names_free(&h->names);
    qkv_free(h->ctx, h);
}
