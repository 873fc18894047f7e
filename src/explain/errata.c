/* errata.c - the worked example as it is printed in a copy in circulation, entry by entry beside
 * what the library computes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/encode.h"
#include "draw/page.h"
#include "explain/lesson.h"
#include "qkv/ops.h"

enum { ROWS = 6, WIDTH = 4, MATRICES = 6, MAX_ENTRIES = 3 * 24 + 36 + 24 + 4, BYTES = 32 };

/* As printed. */
static const double errata_q[] = {0.3, 0.4, 0.5, 0.6, 0.4, 0.5, 0.6, 0.7, 0.5, 0.6, 0.7, 0.8,
                                  0.6, 0.7, 0.8, 0.9, 0.7, 0.8, 0.9, 1.0, 0.8, 0.9, 1.0, 1.1};
static const double errata_k[] = {0.7, 0.8, 0.9, 1.0, 0.8, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1, 1.2,
                                  1.0, 1.1, 1.2, 1.3, 1.1, 1.2, 1.3, 1.4, 1.2, 1.3, 1.4, 1.5};
static const double errata_v[] = {1.0, 1.1, 1.2, 1.3, 1.1, 1.2, 1.3, 1.4, 1.2, 1.3, 1.4, 1.5,
                                  1.3, 1.4, 1.5, 1.6, 1.4, 1.5, 1.6, 1.7, 1.5, 1.6, 1.7, 1.8};
static const double errata_scores[] = {
    1.54, 1.78, 2.02, 2.26, 2.50, 2.74, 1.78, 2.06, 2.34, 2.62, 2.90, 3.18,
    2.02, 2.34, 2.66, 2.98, 3.30, 3.62, 2.26, 2.62, 2.98, 3.34, 3.70, 4.06,
    2.50, 2.90, 3.30, 3.70, 4.10, 4.50, 2.74, 3.18, 3.62, 4.06, 4.50, 4.94};
static const double errata_output[] = {1.48, 1.62, 1.76, 1.90, 1.68, 1.84, 2.00, 2.16,
                                       1.88, 2.06, 2.24, 2.42, 2.08, 2.28, 2.48, 2.68,
                                       2.28, 2.50, 2.72, 2.94, 2.48, 2.72, 2.96, 3.20};
static const double errata_pe[] = {0.8415, 0.5403, 0.0001, 1.0000};

static const struct {
    const char *matrix, *formula, *key; /* key: of the lesson without scale; NULL: PE_1 */
    const double *printed;
    size_t rows, columns;
    int decimals; /* as printed */
    double tolerance;
} copies[MATRICES] = {
    {"Q", "X W_Q", "Q", errata_q, ROWS, WIDTH, 1, 0.005},
    {"K", "X W_K", "K", errata_k, ROWS, WIDTH, 1, 0.005},
    {"V", "X W_V", "V", errata_v, ROWS, WIDTH, 1, 0.005},
    {"scores", "Q K^T", "scores_1", errata_scores, ROWS, ROWS, 2, 0.005},
    {"output", "softmax(Q K^T) V, not scaled as there", "output", errata_output, ROWS, WIDTH, 2,
     0.005},
    {"PE_1", "(sin 1, cos 1, sin 0.01, cos 0.01)", NULL, errata_pe, 1, WIDTH, 4, 0.00005},
};

/* Compares one matrix; right (rows, columns). */
static void errata_compare(qkv_errata *out, size_t which, const qkv_real *right)
{
    size_t n = copies[which].rows * copies[which].columns, columns = copies[which].columns;
    double unit = pow(10.0, copies[which].decimals);
    qkv_errata_count *count = &out->matrices[which];
    *count = (qkv_errata_count){copies[which].matrix, copies[which].formula, 0, n};
    for (size_t i = 0; i < n; i++) {
        double printed = copies[which].printed[i], value = (double)right[i];
        if (fabs(printed - value) <= copies[which].tolerance + 1e-6)
            continue;
        bool rounds = fabs(round(value * unit - 1e-4) / unit - printed) < 0.01 / unit ||
                      fabs(round(value * unit + 1e-4) / unit - printed) < 0.01 / unit;
        out->entries[out->count++] = (qkv_erratum){copies[which].matrix, i / columns + 1,
                                                   i % columns + 1, printed, value, rounds};
        count->wrong++;
    }
}

qkv_status qkv_explain_errata(qkv_errata *out, qkv_context *ctx)
{
    qkv__lesson l;
    qkv_real pe[WIDTH];
    *out = (qkv_errata){.ctx = ctx};
    qkv_status status = qkv__lesson_create(&l, ctx, &(qkv_explain_options){.unscaled = true});
    if (!status)
        status = qkv_sinusoid_table(ctx, pe, 1, WIDTH, QKV_SINUSOID_PAPER, 1, 0);
    if (!status && !(out->entries = qkv_malloc(ctx, MAX_ENTRIES * sizeof *out->entries)))
        status = QKV_E_MEMORY;
    for (size_t i = 0; !status && i < MATRICES; i++) {
        const char *key = copies[i].key;
        const qkv_real *right = key ? qkv_data(l.t, qkv__lesson_find(&l, key)->x) : pe;
        status = qkv_tape_status(l.t);
        if (!status)
            errata_compare(out, i, right);
    }
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        out->largest_value = fmax(out->largest_value, errata_v[i]);
        out->largest_output = fmax(out->largest_output, errata_output[i]);
    }
    qkv__lesson_destroy(&l);
    if (status)
        qkv_errata_free(out);
    return status;
}

void qkv_errata_free(qkv_errata *errata)
{
    if (errata->ctx)
        qkv_free(errata->ctx, errata->entries);
    *errata = (qkv_errata){0};
}

/* ---- on the page ----------------------------------------------------------------------------- */

static void errata_number(char out[BYTES], qkv_str *room, double value, int decimals)
{
    qkv_str_clear(room);
    qkv__put_real(room, value, decimals, false);
    (void)snprintf(out, BYTES, "%s", room->failed ? "" : room->data);
}

static void errata_table(qkv_page *p, const qkv_errata *e, size_t which)
{
    static const char *const columns[] = {"row, column", "printed", "right", ""};
    char text[ROWS * ROWS][3][BYTES], caption[160];
    const char *names[ROWS * ROWS], *cells[ROWS * ROWS * 3];
    const char *matrix = e->matrices[which].matrix;
    qkv_str room;
    size_t n = 0;
    qkv_str_init(&room, e->ctx);
    for (size_t i = 0; i < e->count; i++) {
        const qkv_erratum *x = &e->entries[i];
        if (strcmp(x->matrix, matrix) != 0)
            continue;
        (void)snprintf(text[n][0], BYTES, "%zu, %zu", x->row, x->column);
        errata_number(text[n][1], &room, x->printed, copies[which].decimals);
        errata_number(text[n][2], &room, x->right, 4);
        names[n] = text[n][0];
        cells[3 * n] = text[n][1];
        cells[3 * n + 1] = text[n][2];
        cells[3 * n + 2] = x->rounds ? "rounded" : NULL;
        n++;
    }
    if (room.failed)
        qkv__page_fail(p, QKV_E_MEMORY);
    qkv_str_free(&room);
    (void)snprintf(caption, sizeof caption, "%s = %s: %zu of %zu entries", matrix,
                   e->matrices[which].formula, n, e->matrices[which].entries);
    qkv_page_begin(p, QKV_PAGE_DETAILS, NULL, caption);
    qkv_page_table(p, &(qkv_page_table_options){.caption = caption, .columns = columns,
                                                .rows = names, .cells = cells, .row_count = n,
                                                .column_count = 3, .numbers = true});
    qkv_page_end(p);
}

void qkv__lesson_errata(qkv_page *p, qkv_context *ctx)
{
    qkv_errata e;
    if (!qkv_page_status(p))
        qkv__page_fail(p, qkv_explain_errata(&e, ctx));
    if (qkv_page_status(p))
        return;
    qkv_page_heading(p, 2, "errata", "Wrong entries of a printed copy");
    qkv_page_printf(p,
                    "This example circulates with other numbers. %zu of its entries differ from "
                    "what its own X and weights give, by more than 0.005 (PE_1 by more than "
                    "0.00005). Entries marked \"rounded\" are right to the decimals that are "
                    "printed.",
                    e.count);
    qkv_page_printf(p,
                    "One look shows that the copy cannot be right: its largest output is %.2f, and "
                    "its largest value %.2f. A weighted mean lies between the values.",
                    e.largest_output, e.largest_value);
    for (size_t i = 0; i < MATRICES; i++)
        if (e.matrices[i].wrong)
            errata_table(p, &e, i);
    qkv_errata_free(&e);
}
