/* param.c - parameters: named values that outlive steps. All of a model's, their gradients and
 * optimiser state live in one arena. */
#include "tensor/param.h"

#include <stdatomic.h>
#include <string.h>

#include "base/device.h"

/* Packing a matrix takes as long as four products of 4 rows or a sixth of one of 256, and saves a
 * quarter or a twentieth of those that follow. */
enum { PACK_AFTER = 3 };

const char *const qkv__weights_names[] = {"auto", "f32", "bf16", "int8", "int4", NULL};

struct qkv_params {
    qkv_context *ctx;
    const qkv__device *device;
    qkv__arena *memory, *scratch; /* the device's */
    qkv__arena *host;             /* the host's */
    qkv_param **list;
    size_t count, room;
    qkv__grad_memory_fn *grad_memory; /* NULL: gradients are in memory, once made */
    void *grad_user;
    qkv__lending lending;
    bool pack;
    qkv_status status; /* of the last that could not be made */
};

uint64_t qkv__new_version(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

qkv_status qkv_params_create(qkv_params **out, qkv_context *ctx)
{
    *out = NULL;
    qkv_params *ps = qkv_calloc(ctx, 1, sizeof *ps);
    if (!ps)
        return QKV_E_MEMORY;
    ps->ctx = ctx;
    ps->device = qkv__context_device(ctx);
    ps->lending.owner = ps;
    if (qkv__arena_create_on(&ps->memory, ctx, ps->device, "parameter") ||
        qkv__arena_create_on(&ps->scratch, ctx, ps->device, "scratch") ||
        qkv__arena_create(&ps->host, ctx, "parameter")) {
        qkv_params_destroy(ps);
        return QKV_E_MEMORY;
    }
    *out = ps;
    return QKV_OK;
}

void qkv_params_destroy(qkv_params *ps)
{
    if (!ps)
        return;
    qkv__lend_forget(&ps->lending);
    qkv_free(ps->ctx, ps->list);
    qkv__arena_destroy(ps->memory);
    qkv__arena_destroy(ps->scratch);
    qkv__arena_destroy(ps->host);
    qkv_free(ps->ctx, ps);
}

/* NULL, remembered. */
static void *failed(qkv_params *ps)
{
    ps->status = qkv_context_status(ps->ctx);
    return NULL;
}

/* The elements of a parameter of this shape; 0 when they cannot be counted or named. */
static size_t shape_count(qkv_context *ctx, const char *name, int ndim, const size_t *shape)
{
    size_t count = 1;
    if (ndim < 0 || ndim > QKV_MAX_DIMS) {
        qkv_fail(ctx, QKV_E_SHAPE, "parameter %s: %d dimensions; at most %d are possible", name,
                 ndim, QKV_MAX_DIMS);
        return 0;
    }
    for (int i = 0; i < ndim; i++)
        if (!shape[i] || !qkv__mul_size(count, shape[i], &count) ||
            count > SIZE_MAX / 2 / sizeof(qkv_real)) {
            qkv_fail(ctx, QKV_E_SHAPE, "parameter %s: dimension %d is %zu: no such size", name, i,
                     shape[i]);
            return 0;
        }
    return count;
}

qkv_param *qkv__param_declare(qkv_params *ps, const char *name, int ndim, const size_t *shape)
{
    size_t count = shape_count(ps->ctx, name, ndim, shape);
    if (!count || !qkv__grow(ps->ctx, &ps->list, &ps->room, ps->count + 1, sizeof *ps->list))
        return failed(ps);
    size_t name_bytes = strlen(name) + 1;
    qkv_param *p = qkv__arena_zalloc(ps->host, sizeof *p);
    char *copy = p ? qkv__arena_alloc(ps->host, name_bytes) : NULL;
    if (!copy)
        return failed(ps);
    memcpy(copy, name, name_bytes);
    p->owner = ps;
    p->name = copy;
    p->ndim = ndim;
    if (ndim > 0) /* shape may be NULL */
        memcpy(p->shape, shape, (size_t)ndim * sizeof *shape);
    p->count = count;
    p->weights = QKV_WEIGHTS_F32;
    qkv__param_changed(p);
    return p;
}

void *qkv__param_memory(qkv_param *p, size_t bytes)
{
    void *memory = qkv__params_memory(p->owner, bytes);
    return memory ? memory : failed(p->owner);
}

qkv_param *qkv__param_enter(qkv_param *p)
{
    p->index = p->owner->count;
    p->owner->list[p->owner->count++] = p;
    return p;
}

qkv_param *qkv_param_create(qkv_params *ps, const char *name, int ndim, const size_t *shape)
{
    qkv_param *p = qkv__param_declare(ps, name, ndim, shape);
    p = p && (p->data = qkv__param_memory(p, p->count * sizeof *p->data)) ? p : NULL;
    if (!p)
        return NULL;
    ps->device->clear(ps->ctx, p->data, p->count * sizeof *p->data);
    return qkv__param_enter(p);
}

void qkv__params_forget(qkv_params *ps, size_t count) { ps->count = count; }
size_t qkv_params_count(const qkv_params *ps) { return ps->count; }

size_t qkv_params_elements(const qkv_params *ps)
{
    size_t n = 0;
    for (size_t i = 0; i < ps->count; i++)
        n += ps->list[i]->count;
    return n;
}

size_t qkv_params_bytes(const qkv_params *ps) { return qkv__arena_used(ps->memory); }

qkv_param *qkv_params_at(const qkv_params *ps, size_t i)
{
    return i < ps->count ? ps->list[i] : NULL;
}

qkv_param *qkv_params_find(const qkv_params *ps, const char *name)
{
    for (size_t i = 0; i < ps->count; i++)
        if (strcmp(ps->list[i]->name, name) == 0)
            return ps->list[i];
    return NULL;
}

const char *qkv_param_name(const qkv_param *p) { return p->name; }
size_t qkv_param_count(const qkv_param *p) { return p->count; }
int qkv_param_ndim(const qkv_param *p) { return p->ndim; }
const char *qkv_weights_name(qkv_weights weights)
{
    return weights <= QKV_WEIGHTS_INT4 ? qkv__weights_names[weights] : "?";
}

qkv_weights qkv_param_weights(const qkv_param *p) { return p->weights; }

size_t qkv_param_dim(const qkv_param *p, int axis)
{
    if (axis < 0)
        axis += p->ndim;
    return axis >= 0 && axis < p->ndim ? p->shape[axis] : 1;
}

/* The array as the host sees it; NULL: out of memory, which the owner remembers. */
static qkv_real *host_of(qkv_param *p, qkv__host_copy *copy, qkv_real *array, uint64_t version)
{
    const qkv__device *device = p->owner->device;
    if (device->host)
        return array;
    bool stale = !copy->data || copy->version != version;
    if (!copy->data)
        copy->data = qkv__params_alloc(p->owner, p->count * sizeof *array);
    if (copy->data && stale)
        device->copy_out(copy->data, array, p->count * sizeof *array);
    copy->version = version;
    return copy->data;
}

/* The host wrote: the array becomes what the copy is, and has another version. */
static void touch(qkv_param *p, qkv__host_copy *copy, qkv_real *array, uint64_t *version,
                  uint64_t becomes)
{
    if (copy->data && copy->version == *version) {
        p->owner->device->copy_in(array, copy->data, p->count * sizeof *array);
        copy->version = becomes;
    }
    *version = becomes;
}

qkv_real *qkv_param_data(qkv_param *p)
{
    if (p->data)
        return host_of(p, &p->host, p->data, p->version);
    qkv_fail(p->owner->ctx, QKV_E_UNSUPPORTED,
             "parameter %s is kept in %s: it has no values in f32", p->name,
             qkv__weights_names[p->weights]);
    return NULL;
}

void qkv_param_touch(qkv_param *p)
{
    touch(p, &p->host, p->data, &p->version, qkv__new_version());
}

void qkv__param_set_running(qkv_param *p)
{
    p->running = true;
    p->frozen = true;
}

bool qkv__param_running(const qkv_param *p) { return p->running; }

void qkv__param_fix(qkv_param *p)
{
    p->fixed = true;
    p->frozen = true;
}

bool qkv__param_fixed(const qkv_param *p) { return p->fixed; }

void qkv__param_hold_row(qkv_param *p, size_t row) { p->held = row + 1; }

size_t qkv__param_index(const qkv_param *p) { return p->index; }
bool qkv__param_has_grad(const qkv_param *p) { return p->has_grad; }

qkv_real *qkv_param_grad(qkv_param *p)
{
    return p->has_grad ? host_of(p, &p->host_grad, p->grad, p->grad_version) : NULL;
}

void qkv_param_touch_grad(qkv_param *p)
{
    touch(p, &p->host_grad, p->grad, &p->grad_version, p->grad_version + 1);
}

void qkv_params_zero_grad(qkv_params *ps)
{
    for (size_t i = 0; i < ps->count; i++)
        ps->list[i]->has_grad = false;
}

void qkv_param_freeze(qkv_param *p, bool frozen) { p->frozen = frozen; }
bool qkv_param_frozen(const qkv_param *p) { return p->frozen; }

void qkv__param_leave_out(qkv_param *p) { p->left_out = true; }
bool qkv__param_left_out(const qkv_param *p) { return p->left_out; }

void qkv_params_freeze(qkv_params *ps, bool frozen)
{
    for (size_t i = 0; i < ps->count; i++)
        qkv_param_freeze(ps->list[i], frozen);
}

qkv_param **qkv__params_list(const qkv_params *ps) { return ps->list; }
const qkv__device *qkv__params_device(const qkv_params *ps) { return ps->device; }
qkv__arena *qkv__params_exchange(qkv_params *ps, qkv__arena *fresh)
{
    qkv__arena *old = ps->memory;
    qkv__lend_forget(&ps->lending);
    ps->memory = fresh;
    return old;
}

qkv_status qkv_param_set_hidden(qkv_param *p, size_t n, const size_t *rows)
{
    size_t left = p->ndim > 1 ? p->shape[0] : 0;
    bool fits = left && n >= 1 && n <= QKV_PARAM_MATRICES;
    for (size_t i = 0; i < n && fits; i++) {
        fits = rows[i] && rows[i] <= left;
        left -= rows[i];
    }
    if (!fits || left)
        return qkv_fail(p->owner->ctx, QKV_E_ARGUMENT, "%s: 1 to %d matrices expected whose rows "
                        "add up to its first axis of two at least", p->name, QKV_PARAM_MATRICES);
    for (size_t i = 0; i < QKV_PARAM_MATRICES; i++)
        p->matrix_rows[i] = i < n ? rows[i] : 0;
    return QKV_OK;
}

size_t qkv_param_hidden(const qkv_param *p, size_t i)
{
    return i < QKV_PARAM_MATRICES ? p->matrix_rows[i] : 0;
}

qkv_context *qkv__params_context(const qkv_params *ps) { return ps->ctx; }
qkv_context *qkv__param_context(const qkv_param *p) { return p->owner->ctx; }
void *qkv__params_alloc(qkv_params *ps, size_t bytes)
{
    void *p = qkv__arena_alloc(ps->host, bytes);
    return p ? p : failed(ps);
}

qkv_status qkv__params_status(const qkv_params *ps) { return ps->status; }

const qkv_kernels *qkv__params_kernels(const qkv_params *ps)
{
    return qkv__kernels_of(ps->ctx, false);
}

qkv_exec qkv__params_exec(const qkv_params *ps)
{
    return qkv__exec_of(ps->ctx, ps->scratch);
}

void qkv__params_on_grad_memory(qkv_params *ps, qkv__grad_memory_fn *fn, void *user)
{
    ps->grad_memory = fn;
    ps->grad_user = user;
}

void *qkv__params_memory(qkv_params *ps, size_t bytes)
{
    return qkv__arena_alloc(ps->memory, bytes);
}

static size_t grad_bytes(const qkv_param *p)
{
    const size_t bytes = p->count * sizeof *p->grad;
    return (bytes + QKV__LEND_ALIGN - 1) / QKV__LEND_ALIGN * QKV__LEND_ALIGN;
}

/* Tables are used first, and often again by the output layer. */
static bool grad_will_lend(const qkv_param *p)
{
    return !p->frozen && !p->grad && p->role != QKV__TABLE;
}

bool qkv__params_lay_out_grads(qkv_params *ps)
{
    size_t at = 0;
    if (ps->lending.laid_out || ps->device->keeps || ps->grad_memory)
        return true;
    for (size_t i = 0; i < ps->count; i++)
        at += grad_will_lend(ps->list[i]) ? grad_bytes(ps->list[i]) : 0;
    char *begin = at ? qkv__params_memory(ps, at) : NULL;
    if (at && !begin)
        return false;
    qkv__lend_lay_out(&ps->lending, begin, at);
    for (size_t i = 0; i < ps->count; i++)
        if (grad_will_lend(ps->list[i]))
            ps->list[i]->grad = (qkv_real *)(void *)(begin + (at -= grad_bytes(ps->list[i])));
    return true;
}

/* NULL: activations borrow nothing. */
qkv__lending *qkv__params_lending(qkv_params *ps)
{
    return ps->device->keeps || ps->grad_memory ? NULL : &ps->lending;
}

qkv_real *qkv__param_grad_memory(qkv_param *p)
{
    if (!p->grad && p->owner->grad_memory)
        p->owner->grad_memory(p->owner->grad_user, p);
    if (!p->grad && !qkv__params_lay_out_grads(p->owner))
        return NULL;
    const size_t bytes = p->count * sizeof *p->grad;
    if (!p->grad || qkv__lend_holds(&p->owner->lending, p->grad, bytes))
        p->grad = qkv__params_memory(p->owner, bytes);
    return p->grad;
}

void qkv_params_pack(qkv_params *ps, bool pack) { ps->pack = pack; }
bool qkv__param_packs(const qkv_param *p) { return p->owner->pack; }

static bool param_pack(qkv_param *p, const qkv_kernels *k, const qkv_exec *e)
{
    size_t n = p->shape[0], width = p->shape[1];
    size_t groups = (n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    if (!p->packed)
        p->packed = qkv__arena_alloc(p->owner->memory,
                                     groups * QKV_K_PACKED * width * sizeof *p->packed);
    if (!p->packed)
        return false;
    k->pack(e, p->packed, p->data, n, width);
    p->has_packed = true;
    return true;
}

bool qkv__param_packed(const qkv_real **out, qkv_param *p, const qkv_kernels *k,
                       const qkv_exec *e, bool now)
{
    *out = NULL;
    if (p->packed_version != p->version) {
        p->packed_version = p->version;
        p->has_packed = false;
        p->unpacked_uses = 0;
    }
    if (!p->has_packed && !now && p->unpacked_uses < PACK_AFTER)
        p->unpacked_uses++;
    else if (!p->has_packed && !param_pack(p, k, e))
        return false;
    if (p->has_packed)
        *out = p->packed;
    return true;
}
