/* param_store.c - parameters in fewer bits, for inference: their values move to an arena of the
 * size that they need then. */
#include "kernel/small.h"
#include "tensor/make.h"
#include "tensor/param.h"

qkv_k_small_type qkv__small_type(qkv_weights weights)
{
    static const qkv_k_small_type types[] = {[QKV_WEIGHTS_BF16] = QKV_K_BF16,
                                             [QKV_WEIGHTS_INT8] = QKV_K_INT8,
                                             [QKV_WEIGHTS_INT4] = QKV_K_INT4};
    return types[weights];
}

qkv_param *qkv__param_linear(qkv_param *p)
{
    if (p)
        p->role = QKV__LINEAR;
    return p;
}

qkv_param *qkv__param_table(qkv_param *p)
{
    if (p)
        p->role = QKV__TABLE;
    return p;
}

void qkv__param_keep_full(qkv_param *p) { p->role = QKV__FULL; }
bool qkv__param_is_linear(const qkv_param *p) { return p->role == QKV__LINEAR; }
bool qkv__param_is_table(const qkv_param *p) { return p->role == QKV__TABLE; }

/* ---- for files ----------------------------------------------------------------------------- */

static void pack_row8(const qkv_real *x, size_t k, int32_t *words, qkv_real *scale)
{
    float of_row, inverse = qkv__small_inverse8(x, k, &of_row);
    for (size_t i = 0; i < k; i += 4) {
        uint32_t word = 0;
        for (size_t j = 0; j < 4; j++)
            word |= (uint32_t)(qkv__small_int8((float)x[i + j], inverse) + 128) << 8 * j;
        words[i / 4] = (int32_t)word;
    }
    *scale = (qkv_real)of_row;
}

static void pack_row4(const qkv_real *x, size_t k, int32_t *words, qkv_real *scales)
{
    for (size_t at = 0; at < k; at += QKV_K_INT4_BLOCK) {
        int8_t q[QKV_K_INT4_BLOCK];
        scales[at / QKV_K_INT4_BLOCK] = (qkv_real)qkv__small_int4(q, x + at, QKV_K_INT4_BLOCK);
        for (size_t i = 0; i < QKV_K_INT4_BLOCK; i += 8) {
            uint32_t word = 0;
            for (size_t j = 0; j < 8; j++)
                word |= (uint32_t)(q[i + j] + 8) << 4 * j;
            words[(at + i) / 8] = (int32_t)word;
        }
    }
}

void qkv__pack_rows(qkv_weights weights, const qkv_real *x, size_t n, size_t k, int32_t *words,
                    qkv_real *scales, int threads)
{
    bool bytes = weights == QKV_WEIGHTS_INT8;
#pragma omp parallel for num_threads(threads) schedule(static) default(none)                       \
    shared(x, n, k, words, scales, bytes)
    for (size_t i = 0; i < n; i++) {
        if (bytes)
            pack_row8(x + i * k, k, words + i * k / 4, scales + i);
        else
            pack_row4(x + i * k, k, words + i * k / 8, scales + i * k / QKV_K_INT4_BLOCK);
    }
}

/* ---- in memory ----------------------------------------------------------------------------- */

/* How p is to be kept. */
static qkv_weights weights_of(const qkv_param *p, qkv_weights asked)
{
    bool fewer = p->role != QKV__FULL && p->weights == QKV_WEIGHTS_F32 && p->ndim == 2;
    if (!fewer)
        return p->weights;
    return p->role == QKV__TABLE && asked == QKV_WEIGHTS_INT4 ? QKV_WEIGHTS_INT8 : asked;
}

/* Where a parameter's values go. */
typedef struct {
    qkv_weights weights;
    qkv_k_small small;
    qkv_real *data;
} place;

static bool move_bytes(place *to, qkv_param *p, qkv__arena *fresh, const qkv__device *device)
{
    if (to->weights == QKV_WEIGHTS_F32) {
        to->data = qkv__arena_alloc(fresh, p->count * sizeof *to->data);
        if (to->data)
            device->copy(to->data, p->data, p->count * sizeof *to->data);
        return to->data;
    }
    to->small = p->small;
    size_t words = qkv__small_word_bytes(&p->small), scales = qkv__small_scale_bytes(&p->small);
    to->small.words = qkv__arena_alloc(fresh, words);
    to->small.scales = scales ? qkv__arena_alloc(fresh, scales) : NULL;
    if (!to->small.words || (scales && !to->small.scales))
        return false;
    device->copy(to->small.words, p->small.words, words);
    if (scales)
        device->copy(to->small.scales, p->small.scales, scales);
    return true;
}

/* Rounded on the host, then brought to the device. */
static bool move_rounded(place *to, qkv_param *p, qkv__arena *fresh, const qkv__device *device)
{
    qkv_context *ctx = qkv__param_context(p);
    qkv_k_small *small = &to->small;
    *small = (qkv_k_small){
        .type = qkv__small_type(to->weights), .n = p->shape[0], .k = p->shape[1]};
    size_t words = qkv__small_word_bytes(small), scales = qkv__small_scale_bytes(small);
    void *device_words = qkv__arena_alloc(fresh, words);
    void *device_scales = scales ? qkv__arena_alloc(fresh, scales) : NULL;
    const qkv_real *values = qkv_param_data(p);
    qkv_k_small host = *small;
    host.words = qkv_malloc(ctx, words);
    host.scales = qkv_malloc(ctx, scales + 1);
    bool fine = device_words && (device_scales || !scales) && values && host.words && host.scales;
    if (fine) {
        qkv__small_round_all(&host, values, qkv_context_threads(ctx));
        device->copy_in(device_words, host.words, words);
        if (scales)
            device->copy_in(device_scales, host.scales, scales);
        small->words = device_words;
        small->scales = device_scales;
    }
    qkv_free(ctx, host.words);
    qkv_free(ctx, host.scales);
    return fine;
}

static void settle(qkv_param *p, const place *at)
{
    bool fewer = at->weights != QKV_WEIGHTS_F32;
    p->weights = at->weights;
    p->small = at->small;
    p->data = at->data;
    p->grad = p->packed = NULL;
    p->has_grad = p->has_packed = false;
    p->unpacked_uses = 0;
    p->leaf_tape = NULL;
    p->frozen = p->frozen || fewer;
    qkv__param_changed(p);
}

struct qkv__storing {
    qkv_params *ps;
    qkv_weights weights;
    qkv__arena *fresh;
    place *places;     /* (count) */
    size_t *coming;    /* (count) parts of values that are to come, once expected */
    bool *done;        /* (count) */
    size_t count;
};

qkv_status qkv__storing_begin(qkv__storing **out, qkv_params *ps, qkv_weights weights)
{
    qkv_context *ctx = qkv__params_context(ps);
    qkv__storing *s = qkv_calloc(ctx, 1, sizeof *s);
    *out = s;
    if (!s)
        return QKV_E_MEMORY;
    s->ps = ps;
    s->weights = weights;
    s->count = qkv_params_count(ps);
    s->places = qkv_calloc(ctx, s->count + 1, sizeof *s->places);
    s->coming = qkv_calloc(ctx, s->count + 1, sizeof *s->coming);
    s->done = qkv_calloc(ctx, s->count + 1, sizeof *s->done);
    return s->places && s->coming && s->done
               ? qkv__arena_create_on(&s->fresh, ctx, qkv__params_device(ps), "parameter")
               : QKV_E_MEMORY;
}

static bool store_one(qkv__storing *s, size_t i)
{
    qkv_param *p = qkv__params_list(s->ps)[i];
    s->places[i].weights = weights_of(p, s->weights);
    bool same = s->places[i].weights == p->weights;
    s->done[i] = (same ? move_bytes : move_rounded)(&s->places[i], p, s->fresh,
                                                    qkv__params_device(s->ps));
    return s->done[i];
}

/* Which of the parameters p is; count: none of them. */
static size_t storing_place(const qkv__storing *s, const qkv_param *p)
{
    size_t i = 0;
    while (i < s->count && qkv__params_list(s->ps)[i] != p)
        i++;
    return i;
}

void qkv__storing_expect(qkv__storing *s, const qkv_param *p)
{
    s->coming[storing_place(s, p)]++; /* there is one more place than parameters */
}

qkv_status qkv__storing_came(qkv__storing *s, qkv_param *p)
{
    size_t i = storing_place(s, p);
    if (i == s->count || s->done[i] || s->coming[i] == 0 || --s->coming[i] > 0)
        return QKV_OK;
    if (!store_one(s, i))
        return QKV_E_MEMORY;
    if (p->weights == QKV_WEIGHTS_F32) {
        qkv__params_device(s->ps)->clear(qkv__params_context(s->ps), p->data,
                                         p->count * sizeof *p->data);
        qkv__param_changed(p);
    }
    return QKV_OK;
}

qkv_status qkv__storing_end(qkv__storing *s, qkv_status status)
{
    if (!s)
        return status;
    qkv_context *ctx = qkv__params_context(s->ps);
    for (size_t i = 0; i < s->count && !status; i++)
        if (!s->done[i] && !store_one(s, i))
            status = QKV_E_MEMORY;
    for (size_t i = 0; i < s->count && !status; i++)
        settle(qkv__params_list(s->ps)[i], &s->places[i]);
    qkv__arena_destroy(status ? s->fresh : qkv__params_exchange(s->ps, s->fresh));
    qkv_free(ctx, s->places);
    qkv_free(ctx, s->coming);
    qkv_free(ctx, s->done);
    qkv_free(ctx, s);
    return status;
}

qkv_status qkv_params_store(qkv_params *ps, qkv_weights weights)
{
    qkv__storing *s = NULL;
    if (weights <= QKV_WEIGHTS_F32)
        return QKV_OK;
    if (weights > QKV_WEIGHTS_INT4)
        return qkv_fail(qkv__params_context(ps), QKV_E_ARGUMENT, "no weights of kind %d",
                        (int)weights);
    qkv_status status = qkv__storing_begin(&s, ps, weights);
    return qkv__storing_end(s, status);
}
