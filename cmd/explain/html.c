/* html.c - `qkv explain --out`: the lesson as a page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/html.h"

enum { FILES = 5 };

/* The words of a text, in place; how many. */
static size_t html_words(char *text, const char **words)
{
    size_t n = 0;
    for (char *at = strtok(text, " \t\n"); at; at = strtok(NULL, " \t\n")) {
        if (n < QKV_EXPLAIN_ROWS)
            words[n] = at;
        n++;
    }
    return n;
}

/* A matrix of a file: X of any size, which becomes the lesson's, or weights of that width. */
static qkv_status html_load(cli *c, const char *file, bool weights, qkv_array *out,
                              qkv_explain_options *o)
{
    qkv_status status = qkv_array_load(out, c->ctx, file);
    if (status)
        return status;
    if (out->ndim != 2 || !out->count)
        return qkv_fail(c->ctx, QKV_E_SHAPE, "%s: a matrix expected: rows and columns", file);
    size_t width = o->width ? o->width : 4;
    if (weights && (out->shape[0] != width || out->shape[1] != width))
        return qkv_fail(c->ctx, QKV_E_SHAPE,
                        "%s: %zu x %zu numbers; the page needs %zu x %zu, as wide as X", file,
                        out->shape[0], out->shape[1], width, width);
    if (!weights) {
        o->rows = out->shape[0];
        o->width = out->shape[1];
    }
    return QKV_OK;
}

/* With an X of the user's, queries, keys and values are X where no weights are given. */
static void html_identity(qkv_explain_options *o, qkv_real identity[])
{
    const qkv_real **const weights[] = {&o->wq, &o->wk, &o->wv};
    if (!o->x || o->width > QKV_EXPLAIN_WIDTH)
        return;
    for (size_t i = 0; i < o->width * o->width; i++)
        identity[i] = i % (o->width + 1) ? 0 : 1;
    for (int i = 0; i < 3; i++)
        *weights[i] = *weights[i] ? *weights[i] : identity;
}

/* Everything the page starts with; false after a message in the context. */
static bool html_gather(cli *c, const explain_own *own, qkv_array arrays[FILES],
                          qkv_explain_options *o)
{
    const char *const files[FILES] = {own->x, own->wq, own->wk, own->wv, own->wo};
    const qkv_real **const to[FILES] = {&o->x, &o->wq, &o->wk, &o->wv, &o->wo};
    if (own->q || own->k || own->v) {
        qkv_fail(c->ctx, QKV_E_ARGUMENT, "--out takes --x and its projections, not --q, --k, --v");
        return false;
    }
    if (own->scale != 0.0 && own->scale != 1.0) {
        qkv_fail(c->ctx, QKV_E_ARGUMENT, "--out: the page scales by 1/sqrt(d_k), or --scale 1");
        return false;
    }
    for (int i = 0; i < FILES; i++) {
        if (files[i] && html_load(c, files[i], i > 0, &arrays[i], o))
            return false;
        *to[i] = arrays[i].data;
    }
    return true;
}

int explain_lesson(cli *c, const explain_own *own, const char *file)
{
    qkv_array arrays[FILES] = {{0}};
    const char *words[QKV_EXPLAIN_ROWS];
    char *text = own->words ? qkv_strdup(c->ctx, own->words) : NULL;
    size_t count = text ? html_words(text, words) : 0;
    qkv_explain_options o = {.heads = own->heads, .unscaled = own->scale == 1.0,
                             .causal = own->causal, .biases = own->biases,
                             .positions = own->positions};
    qkv_real identity[QKV_EXPLAIN_WIDTH * QKV_EXPLAIN_WIDTH];
    bool good = html_gather(c, own, arrays, &o);
    html_identity(&o, identity);
    if (good && own->words && (count == 0 || (o.rows && o.rows != count))) {
        qkv_fail(c->ctx, QKV_E_ARGUMENT, "--words: %zu words; X has %zu rows", count,
                 o.rows ? o.rows : 6);
        good = false;
    }
    if (count) {
        o.words = words;
        o.rows = count;
    }
    good = good && qkv_explain_page(c->ctx, &o, file) == QKV_OK;
    for (int i = 0; i < FILES; i++)
        qkv_array_free(&arrays[i]);
    qkv_free(c->ctx, text);
    if (!good)
        return cli_error(c);
    if (!c->common.json)
        return CLI_DONE;
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "out", file);
    return cli_answer(c, &w);
}
