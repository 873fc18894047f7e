/* errata.c - `qkv explain --errata`: the wrong entries of a printed copy, each beside the right
 * one. */
#include <stdio.h>
#include <string.h>

#include "explain/html.h"

/* One line a row of the matrix: [column] printed, right. */
static void errata_rows(const page *p, const qkv_errata *e, const char *matrix)
{
    char line[256] = "";
    size_t row = 0, n = 0;
    bool pe = strcmp(matrix, "PE_1") == 0, scores = *matrix == 's';
    int decimals = pe ? 4 : *matrix == 'o' || scores ? 2 : 1;
    for (size_t i = 0; i < e->count; i++) {
        const qkv_erratum *x = &e->entries[i];
        if (strcmp(x->matrix, matrix) != 0)
            continue;
        if (x->row != row || n > 66) {
            if (row)
                page_line(p, "%s", line);
            n = (size_t)snprintf(line, sizeof line, x->row != row ? "row %zu" : "     ", x->row);
        }
        row = x->row;
        n += (size_t)snprintf(line + n, sizeof line - n, "  [%zu] %.*f → %.*f%s", x->column,
                              decimals, x->printed, decimals > 1 ? 4 : 2, x->right,
                              x->rounds ? "*" : "");
    }
    if (row)
        page_line(p, "%s", line);
}

static void errata_json(const page *p, const qkv_errata *e)
{
    qkv_json_writer *w = p->json;
    qkv_json_begin_array(w, "matrices");
    for (size_t i = 0; i < sizeof e->matrices / sizeof *e->matrices; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "matrix", e->matrices[i].matrix);
        qkv_json_put_string(w, "formula", e->matrices[i].formula);
        qkv_json_put_int(w, "wrong", (int64_t)e->matrices[i].wrong);
        qkv_json_put_int(w, "entries", (int64_t)e->matrices[i].entries);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "entries");
    for (size_t i = 0; i < e->count; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "matrix", e->entries[i].matrix);
        qkv_json_put_int(w, "row", (int64_t)e->entries[i].row);
        qkv_json_put_int(w, "column", (int64_t)e->entries[i].column);
        qkv_json_put_real(w, "printed", e->entries[i].printed);
        qkv_json_put_float(w, "right", (float)e->entries[i].right);
        qkv_json_put_bool(w, "rounds", e->entries[i].rounds);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

void explain_errata(page *p)
{
    qkv_errata e;
    page_begin(p, "errata", "Wrong entries of a printed copy");
    p->failed = qkv_explain_errata(&e, p->c->ctx) != QKV_OK;
    if (p->failed)
        return;
    page_text(p, "This example and its PE_1 circulate with other numbers. %zu entries differ from "
                 "what X and the weights give by more than 0.005 (PE_1: 0.00005). Behind "
                 "[column] is the printed number → the right one; * is right when rounded to the "
                 "printed decimals.",
              e.count);
    for (size_t i = 0; !p->json && i < sizeof e.matrices / sizeof *e.matrices; i++) {
        const qkv_errata_count *m = &e.matrices[i];
        page_heading(p, "%s = %s: %zu of %zu entries", m->matrix, m->formula, m->wrong,
                     m->entries);
        errata_rows(p, &e, m->matrix);
    }
    page_text(p, "The copy contradicts itself: its largest output is %.2f, its largest value %.2f, "
                 "and a weighted mean cannot exceed its values.",
              e.largest_output, e.largest_value);
    if (p->json)
        errata_json(p, &e);
    page_number(p, "largest_output", e.largest_output);
    page_number(p, "largest_value", e.largest_value);
    qkv_errata_free(&e);
    page_end(p);
}
