/* forecast_decoder.c - from an encoded window to the rows that follow: all at once, or by a causal
 * decoder, one token after the other. */
#include "base/base.h"
#include "model/forecaster.h"
#include "model/model.h"
#include "tensor/make.h"

typedef qkv__forecaster forecaster;
typedef qkv__series_tower tower;
typedef qkv__forecast_view view;

qkv_tensor *qkv__forecast_run(forecaster *m, qkv_tape *t, const tower *s, qkv_tensor *x,
                              qkv_tensor *memory, size_t first, qkv_block_cache *caches)
{
    double p = m->c->dropout;
    qkv_sequence seq = {.memory = memory};
    qkv_tensor *at = qkv_use(t, s->positions);
    x = qkv_add(t, x, caches ? qkv_slice(t, at, 0, first, first + 1) : at);
    x = p > 0 ? qkv_dropout(t, x, p, s->input_dropout_id) : x;
    return qkv__stack_forward(&s->stack, t, x, &seq, caches);
}

/* The last layer of y (B, tokens, width): (B, tokens patch, targets), horizon rows at most. */
static qkv_tensor *token_rows(forecaster *m, qkv_tape *t, qkv_tensor *y)
{
    const qkv_forecast_config *c = m->c;
    if (!y)
        return NULL;
    size_t rows_ = qkv_dim(y, 1) * c->patch, shape[] = {qkv_dim(y, 0), rows_, c->targets};
    if (c->head_dropout > 0)
        y = qkv_dropout(t, y, c->head_dropout, QKV__FORECAST_DROPOUT_IDS + QKV__FORECAST_HEAD);
    y = qkv_reshape(t, qkv_linear_forward(&m->head, t, y, QKV_ACT_NONE), 3, shape);
    return rows_ > c->horizon ? qkv_slice(t, y, 1, 0, c->horizon) : y;
}

qkv_tensor *qkv__forecast_joint(forecaster *m, qkv_tape *t, qkv_tensor *e, qkv_tensor *y)
{
    const qkv_forecast_config *c = m->c;
    size_t T = m->encoder.tokens;
    if (m->decoder.stack.count)
        return token_rows(m, t, qkv__forecast_run(m, t, &m->decoder,
                                                   qkv_slice(t, e, 1, T - 1, T), y, 0, NULL));
    size_t B = qkv_dim(e, 0), flat[] = {B, T * c->width}, rows_[] = {B, c->horizon, c->targets};
    if (c->head_dropout > 0)
        y = qkv_dropout(t, y, c->head_dropout, QKV__FORECAST_DROPOUT_IDS + QKV__FORECAST_HEAD);
    y = qkv_linear_forward(&m->head, t, qkv_reshape(t, y, 2, flat), QKV_ACT_NONE);
    return qkv_reshape(t, y, 3, rows_);
}

/* ---- the causal decoder -------------------------------------------------------------------- */

/* The window's last token, of the targets alone: (B, 1, patch targets). */
static qkv_tensor *last_token(const qkv_forecast_config *c, qkv_tape *t, qkv_tensor *x)
{
    size_t B = qkv_dim(x, 0), N = c->context, rows_[] = {B, N, c->columns};
    size_t token[] = {B, 1, c->patch * c->targets};
    qkv_tensor *last = qkv_slice(t, qkv_reshape(t, x, 3, rows_), 1, N - c->patch, N);
    return qkv_reshape(t, qkv_slice(t, last, 2, 0, c->targets), 3, token);
}

qkv_tensor *qkv__forecast_forced(forecaster *m, qkv_tape *t, const view *in, qkv_tensor *memory,
                                 qkv_tensor *target, qkv_tensor *l)
{
    const qkv_forecast_config *c = m->c;
    size_t D = m->decoder.tokens, tokens[] = {qkv_dim(in->x, 0), D - 1, c->patch * c->targets};
    qkv_tensor *seen[] = {last_token(c, t, in->x), NULL};
    if (in->center)
        target = qkv_div(t, qkv_sub(t, target, in->center), in->scale);
    if (D > 1)
        seen[1] = qkv_reshape(t, qkv_slice(t, target, 1, 0, (D - 1) * c->patch), 3, tokens);
    qkv_tensor *x = D > 1 ? qkv_concat(t, 1, 2, seen) : seen[0];
    x = qkv_linear_forward(&m->embed_rows, t, x, QKV_ACT_NONE);
    qkv_tensor *y = token_rows(m, t, qkv__forecast_run(m, t, &m->decoder, x, memory, 0, NULL));
    return l ? qkv_add(t, y, l) : y;
}

/* Token after token, each from the forecasts before it. */
static qkv_tensor *rolled_out(forecaster *m, qkv_tape *t, const view *in, qkv_tensor *memory,
                              qkv_tensor *l, qkv_block_cache *caches)
{
    const qkv_forecast_config *c = m->c;
    size_t P = c->patch, shape[] = {qkv_dim(in->x, 0), 1, P * c->targets};
    qkv_tensor *seen = last_token(c, t, in->x), *all = NULL;
    for (size_t i = 0; i < m->decoder.tokens && seen; i++) {
        size_t rows_ = c->horizon - i * P < P ? c->horizon - i * P : P;
        qkv_tensor *x = qkv_linear_forward(&m->embed_rows, t, seen, QKV_ACT_NONE);
        qkv_tensor *y = token_rows(m, t, qkv__forecast_run(m, t, &m->decoder, x, memory, i,
                                                            caches));
        y = rows_ < P ? qkv_slice(t, y, 1, 0, rows_) : y;
        y = l ? qkv_add(t, y, qkv_slice(t, l, 1, i * P, i * P + rows_)) : y;
        qkv_tensor *both[] = {all, y};
        all = i ? qkv_concat(t, 1, 2, both) : y;
        seen = rows_ == P ? qkv_reshape(t, y, 3, shape) : y; /* a shorter one is the last */
    }
    return seen ? all : NULL;
}

qkv_tensor *qkv__forecast_roll_out(forecaster *m, qkv_tape *t, const view *in,
                                   qkv_tensor *memory, qkv_tensor *l)
{
    const qkv_forecast_config *c = m->c;
    size_t n = m->decoder.stack.count, D = c->width / c->heads, B = qkv_dim(in->x, 0);
    qkv_block_cache *caches = qkv_calloc(m->base->ctx, n, sizeof *caches);
    qkv_status status = caches ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++) {
        status = qkv_kv_cache_create(&caches[i].self, m->base->ctx, B, m->decoder.tokens, c->heads,
                                     D, D);
        if (!status)
            status = qkv_kv_cache_create(&caches[i].cross, m->base->ctx, B, m->encoder.tokens,
                                         c->heads, D, D);
    }
    qkv_tensor *y = qkv__take_status(t, status) ? rolled_out(m, t, in, memory, l, caches) : NULL;
    for (size_t i = 0; i < n && caches; i++) {
        qkv_kv_cache_destroy(caches[i].self);
        qkv_kv_cache_destroy(caches[i].cross);
    }
    qkv_free(m->base->ctx, caches);
    return y;
}
