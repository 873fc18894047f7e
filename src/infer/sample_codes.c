/* sample_codes.c - drawing grids of codes, with keys and values kept while the window stands
 * still. */
#include "model/model.h"
#include "qkv/sample_codes.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/gpt.h"

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_sample_codes_options *o;
    qkv_tape *tape;
    qkv_lm_cache *cache;
    size_t n, V, before;
    size_t rows, columns;  /* of the grid */
    size_t height, width;  /* of the window */
    size_t top, left;      /* where it stands: what the cache holds was read there */
    bool follows;          /* conditions are a grid, and the window moves over it too */
    int32_t *codes;        /* (n, rows, columns) */
    int32_t *ids;          /* (n, window) */
    qkv_real *logits;      /* (n, V) */
    qkv_real *own;         /* (n, V) the model's distributions; NULL: not asked for */
    int32_t *order;        /* (2 V) */
} sampling;

/* The first row (column) of a window of `window` that has i near its middle, within `all`. */
static size_t origin_of(size_t i, size_t window, size_t all)
{
    size_t first = i > window / 2 ? i - window / 2 : 0;
    return first + window > all ? all - window : first;
}

/* Token k of what grid i's window shows: what stands before the codes, and these row by row. */
static int32_t token_at(const sampling *g, size_t i, size_t k)
{
    bool before = k < g->before;
    size_t place = before ? k : k - g->before;
    size_t at = (g->top + place / g->width) * g->columns + g->left + place % g->width;
    if (!before)
        return g->codes[i * g->rows * g->columns + at];
    if (!g->o->conditions)
        return 0;
    return g->follows ? g->o->conditions[i * g->rows * g->columns + at]
                      : g->o->conditions[i * g->before + k];
}

/* Logits of the token after the first `length` of the window, of every grid. */
static qkv_status sample_codes_step(sampling *g, size_t length)
{
    size_t held = qkv_lm_cache_length(g->cache), fresh = length - held;
    const size_t shape[] = {g->n, fresh};
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < fresh; k++)
            g->ids[i * fresh + k] = token_at(g, i, held + k);
    qkv_tape_reset(g->tape);
    qkv_tape_mode(g->tape, false, false);
    qkv_tensor *x = qkv_tensor_ids(g->tape, g->ids, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(g->model, g->tape, x, 0, NULL, g->cache);
    h = h ? qkv_slice(g->tape, h, 1, fresh - 1, fresh) : NULL;
    const qkv_real *logits = qkv_data(g->tape, qkv_lm_logits(g->model, g->tape, h));
    if (!logits)
        return qkv_tape_status(g->tape);
    memcpy(g->logits, logits, g->n * g->V * sizeof *logits);
    for (size_t i = 0; i < g->n * g->V; i++)
        if (isnan(logits[i]))
            return qkv_fail(g->ctx, QKV_E_NUMERIC, "after %zu tokens the model's logit of code "
                            "%zu is not a number", length, i % g->V);
    return QKV_OK;
}

/* Moves the window to the place and reads what is new of it. */
static qkv_status sample_codes_look(sampling *g, size_t row, size_t column)
{
    size_t top = origin_of(row, g->height, g->rows);
    size_t left = origin_of(column, g->width, g->columns);
    if (top != g->top || left != g->left)
        qkv_lm_cache_truncate(g->cache, 0);
    g->top = top;
    g->left = left;
    return sample_codes_step(g, g->before + (row - top) * g->width + column - left);
}

static qkv_status sample_codes_draw(sampling *g, size_t row, size_t column, qkv_rng *rngs,
                                    qkv_sample_codes_fn *fn, void *user)
{
    size_t at = row * g->columns + column, size = g->rows * g->columns;
    size_t codes = g->o->codes && g->o->codes < g->V ? g->o->codes : g->V;
    qkv_status status = sample_codes_look(g, row, column);
    for (size_t i = 0; i < g->n && !status; i++) {
        qkv_real *p = g->logits + i * g->V;
        for (size_t v = codes; v < g->V; v++)
            p[v] = -(qkv_real)INFINITY;
        if (g->own) {
            memcpy(g->own + i * g->V, p, g->V * sizeof *p);
            qkv_sampling_distribution(&(qkv_sampling){.temperature = 1}, g->own + i * g->V, g->V,
                                      NULL, 0, g->order);
        }
        qkv_sampling_distribution(&g->o->sampling, p, g->V, NULL, 0, g->order);
    }
    if (!status && fn && !fn(user, row, column, g->logits, g->own))
        return qkv_fail(g->ctx, QKV_E_CANCELLED, "stopped at row %zu, column %zu", row, column);
    for (size_t i = 0; i < g->n && !status; i++) {
        int32_t id = qkv_sampling_draw(g->logits + i * g->V, g->V, qkv_rng_uniform(&rngs[i]));
        if (id < 0)
            status = qkv_fail(g->ctx, QKV_E_NUMERIC, "row %zu, column %zu: no code is possible",
                              row, column);
        g->codes[i * size + at] = id;
    }
    return status;
}

static qkv_status sample_codes_run(sampling *g, qkv_sample_codes_fn *fn, void *user)
{
    size_t size = g->rows * g->columns;
    qkv_rng *rngs = qkv_calloc(g->ctx, g->n, sizeof *rngs);
    qkv_status status = rngs ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < g->n && !status; i++)
        qkv_rng_init(&rngs[i], g->o->seed, qkv_hash64("imagine", 7) + g->o->first + i);
    for (size_t at = 0; at < size && !status; at++) {
        int32_t given = g->o->given ? g->o->given[at] : -1;
        for (size_t i = 0; i < g->n && given >= 0; i++)
            g->codes[i * size + at] = given;
        if (given < 0)
            status = sample_codes_draw(g, at / g->columns, at % g->columns, rngs, fn, user);
    }
    qkv_free(g->ctx, rngs);
    return status;
}

/* ---- what is asked for --------------------------------------------------------------------- */

static qkv_status sample_codes_check_tokens(const sampling *g, const int32_t *ids, size_t n,
                                            const char *what, int32_t least)
{
    for (size_t i = 0; ids && i < n; i++)
        if (ids[i] < least || (int64_t)ids[i] >= (int64_t)g->V)
            return qkv_fail(g->ctx, QKV_E_ARGUMENT, "%s %zu is %d; below %zu expected", what, i,
                            (int)ids[i], g->V);
    return QKV_OK;
}

static qkv_status sample_codes_check(sampling *g, const qkv_gpt_config *c)
{
    bool larger = g->rows > c->rows || g->columns > c->columns;
    bool grid = g->before == c->rows * c->columns && g->before > 1;
    if (c->before + c->rows * c->columns > c->positions + 1)
        return qkv_fail(g->ctx, QKV_E_ARGUMENT, "block_size: %zu expected for %zu tokens and %zu "
                        "x %zu codes, found %zu", c->before + c->rows * c->columns - 1, c->before,
                        c->rows, c->columns, c->positions);
    if (g->columns < c->columns)
        return qkv_fail(g->ctx, QKV_E_ARGUMENT, "%zu columns of codes; at least the trained %zu "
                        "expected", g->columns, c->columns);
    if (larger && g->before > 1 && !grid)
        return qkv_fail(g->ctx, QKV_E_ARGUMENT, "%zu x %zu codes: after %zu tokens, which are no "
                        "grid like theirs, at most %zu x %zu expected", g->rows, g->columns,
                        g->before, c->rows, c->columns);
    g->follows = larger && grid;
    if (g->follows && g->rows < c->rows)
        return qkv_fail(g->ctx, QKV_E_ARGUMENT, "%zu rows of codes, more across than trained: at "
                        "least the trained %zu expected after a grid", g->rows, c->rows);
    size_t tokens = g->follows ? g->rows * g->columns : g->before;
    qkv_status status = sample_codes_check_tokens(g, g->o->conditions, g->n * tokens, "condition",
                                                  0);
    return status ? status : sample_codes_check_tokens(g, g->o->given, g->rows * g->columns,
                                                       "given code", -1);
}

static qkv_status sample_codes_set_up(sampling *g)
{
    const qkv_gpt_config *c = qkv_model_config(g->model);
    g->n = g->o->count ? g->o->count : 1;
    g->V = c->vocab;
    g->before = c->before;
    g->rows = g->o->rows ? g->o->rows : c->rows;
    g->columns = g->o->columns ? g->o->columns : c->columns;
    g->height = g->rows < c->rows ? g->rows : c->rows;
    g->width = c->columns;
    qkv_status status = sample_codes_check(g, c);
    size_t window = g->before + g->height * g->width;
    if (!status)
        status = qkv_tape_create(&g->tape, g->ctx);
    if (!status)
        status = qkv_lm_cache_create(&g->cache, g->model, g->n, window);
    if (status)
        return status;
    g->ids = qkv_calloc(g->ctx, g->n, window * sizeof *g->ids);
    g->logits = qkv_calloc(g->ctx, g->n, g->V * sizeof *g->logits);
    g->order = qkv_calloc(g->ctx, 2 * g->V, sizeof *g->order);
    if (g->o->model_distribution)
        g->own = qkv_calloc(g->ctx, g->n, g->V * sizeof *g->own);
    return g->ids && g->logits && g->order && (g->own || !g->o->model_distribution)
               ? QKV_OK
               : QKV_E_MEMORY;
}

qkv_status qkv_sample_codes(qkv_model *m, const qkv_sample_codes_options *options,
                            qkv_sample_codes_fn *fn, void *user, int32_t *codes)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_SAMPLE_CODES))
        return QKV_E_ARGUMENT;
    sampling g = {.ctx = qkv_model_context(m), .model = m, .o = options, .codes = codes};
    qkv_status status = sample_codes_set_up(&g);
    if (!status)
        status = sample_codes_run(&g, fn, user);
    qkv_lm_cache_destroy(g.cache);
    qkv_tape_destroy(g.tape);
    qkv_free(g.ctx, g.ids);
    qkv_free(g.ctx, g.logits);
    qkv_free(g.ctx, g.own);
    qkv_free(g.ctx, g.order);
    return status;
}
