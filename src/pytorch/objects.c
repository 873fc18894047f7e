/* objects.c - the classes and functions that a PyTorch file may ask for, and what becomes
 * of them. This table is the whole of it: what is not in it is refused by name. */
#include "pytorch/objects.h"

#include <string.h>

typedef struct global global;
typedef qkv_status call_fn(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out);

struct global {
    const char *module, *name;
    call_fn *call;   /* NULL: cannot be called */
    qkv_store store; /* of a storage's class or of a type */
    enum { PLAIN, STORAGE, TYPE, TENSOR } kind;
};

static qkv_status odd(const qkv__pytorch_objects *o, const char *what)
{
    return qkv_fail(o->ctx, QKV_E_FORMAT, "%s: pickle: %s", o->path, what);
}

static const qkv__value *argument(const qkv__value *args, size_t i, qkv__value_kind kind)
{
    if (i >= args->as.list.count || args->as.list.items[i]->kind != kind)
        return NULL;
    return args->as.list.items[i];
}

/* ---- containers ------------------------------------------------------------------------------ */

static qkv_status call_nothing(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    (void)o, (void)args;
    out->kind = QKV__VALUE_OTHER;
    return QKV_OK;
}

/* torch.Size, set: made of a sequence. */
static qkv_status call_sequence(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    if (args->as.list.count != 1 || args->as.list.items[0]->kind < QKV__VALUE_TUPLE ||
        args->as.list.items[0]->kind > QKV__VALUE_SET)
        return odd(o, "a sequence is made of what is none");
    *out = *args->as.list.items[0];
    return QKV_OK;
}

/* Pairs become items; a list of pairs is how Python 2 wrote an OrderedDict. */
static qkv_status take_pairs(qkv__pytorch_objects *o, const qkv__value *pairs, qkv__value *out)
{
    size_t n = pairs->as.list.count;
    out->as.list.items = qkv__arena_alloc(o->arena, (2 * n + 1) * sizeof *out->as.list.items);
    if (!out->as.list.items)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const qkv__value *pair = pairs->as.list.items[i];
        bool two = pair->kind == QKV__VALUE_LIST || pair->kind == QKV__VALUE_TUPLE;
        if (!two || pair->as.list.count != 2)
            return odd(o, "a dict is made of what are no pairs");
        out->as.list.items[2 * i] = pair->as.list.items[0];
        out->as.list.items[2 * i + 1] = pair->as.list.items[1];
    }
    out->as.list.count = out->as.list.room = 2 * n;
    return QKV_OK;
}

/* OrderedDict, Counter: empty, of a dict, or of pairs. */
static qkv_status call_dict(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    const qkv__value *pairs = argument(args, 0, QKV__VALUE_LIST);
    const qkv__value *dict = argument(args, 0, QKV__VALUE_DICT);
    if (args->as.list.count > 1 || (args->as.list.count && !pairs && !dict))
        return odd(o, "a dict is made of what is none");
    memset(&out->as, 0, sizeof out->as);
    out->kind = QKV__VALUE_DICT;
    if (pairs)
        return take_pairs(o, pairs, out);
    if (dict && dict->as.list.count) {
        size_t bytes = dict->as.list.count * sizeof *dict->as.list.items;
        out->as.list.items = qkv__arena_alloc(o->arena, bytes);
        if (!out->as.list.items)
            return QKV_E_MEMORY;
        memcpy(out->as.list.items, dict->as.list.items, bytes);
        out->as.list.count = out->as.list.room = dict->as.list.count;
    }
    return QKV_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static qkv_status take_sizes(qkv__pytorch_objects *o, const qkv__value *from, int ndim,
                             size_t **out)
{
    *out = qkv__arena_alloc(o->arena, (size_t)ndim * sizeof **out);
    if (!*out)
        return QKV_E_MEMORY;
    for (int i = 0; i < ndim; i++) {
        const qkv__value *x = from->as.list.items[i];
        if (x->kind != QKV__VALUE_INT || x->as.integer < 0)
            return odd(o, "a tensor's shape or stride is no number, or negative");
        (*out)[i] = (size_t)x->as.integer;
    }
    return QKV_OK;
}

/* What would change a tensor once it is made: hooks, a conjugate or negative view. */
static bool has_more(const qkv__value *args, size_t i)
{
    const qkv__value *v = i < args->as.list.count ? args->as.list.items[i] : NULL;
    return v && v->kind != QKV__VALUE_NONE && (v->kind != QKV__VALUE_DICT || v->as.list.count);
}

/* (storage, offset, shape, stride), which all three functions begin with. store NONE: as the
 * storage says. */
static qkv_status make_tensor(qkv__pytorch_objects *o, const qkv__value *args, qkv_store store,
                              qkv__value *out)
{
    const qkv__value *storage = argument(args, 0, QKV__VALUE_OBJECT);
    const qkv__value *offset = argument(args, 1, QKV__VALUE_INT);
    const qkv__value *shape = argument(args, 2, QKV__VALUE_TUPLE);
    const qkv__value *stride = argument(args, 3, QKV__VALUE_TUPLE);
    if (!storage || storage->what != QKV__IS_STORAGE || !offset || offset->as.integer < 0 ||
        !shape || !stride ||
        shape->as.list.count != stride->as.list.count || shape->as.list.count > QKV__PICKLED_DIMS)
        return odd(o, "a tensor is not made of a storage, an offset, a shape and strides");
    qkv__pickled_tensor *t = qkv__arena_alloc(o->arena, sizeof *t);
    if (!t)
        return QKV_E_MEMORY;
    const qkv__storage *s = storage->as.object;
    *t = (qkv__pickled_tensor){.storage = s, .store = store ? store : s->store,
                               .offset = (size_t)offset->as.integer,
                               .ndim = (int)shape->as.list.count};
    *out = (qkv__value){.kind = QKV__VALUE_OBJECT, .what = QKV__IS_TENSOR, .as.object = t};
    qkv_status status = take_sizes(o, shape, t->ndim, &t->shape);
    return status ? status : take_sizes(o, stride, t->ndim, &t->stride);
}

/* _rebuild_tensor(storage, offset, shape, stride). */
static qkv_status call_tensor(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    return make_tensor(o, args, QKV_STORE_NONE, out);
}

/* _rebuild_tensor_v2(.., requires_grad, hooks, metadata). */
static qkv_status call_tensor_v2(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    if (has_more(args, 5) || has_more(args, 6))
        return odd(o, "a tensor has hooks, or is a conjugate or negative view");
    return make_tensor(o, args, QKV_STORE_NONE, out);
}

/* _rebuild_tensor_v3(.., requires_grad, hooks, type, metadata), of a storage of bytes. */
static qkv_status call_tensor_v3(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    const qkv__value *type = argument(args, 6, QKV__VALUE_GLOBAL);
    const global *g = type ? type->as.object : NULL;
    if (!g || g->kind != TYPE)
        return odd(o, "a tensor has no type");
    if (has_more(args, 5) || has_more(args, 7))
        return odd(o, "a tensor has hooks, or is a conjugate or negative view");
    return make_tensor(o, args, g->store, out);
}

/* _rebuild_parameter(tensor, requires_grad, hooks), or with the parameter's own state behind,
 * which is left out. */
static qkv_status call_parameter(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    const qkv__value *tensor = argument(args, 0, QKV__VALUE_OBJECT);
    if (!tensor || tensor->what != QKV__IS_TENSOR)
        return odd(o, "a parameter is made of what is no tensor");
    if (has_more(args, 2))
        return odd(o, "a parameter has hooks");
    *out = *tensor;
    return QKV_OK;
}

static call_fn call_typed;

/* ---- names ----------------------------------------------------------------------------------- */

static const global globals[] = {
    {"collections", "OrderedDict", call_dict, QKV_STORE_NONE, PLAIN},
    {"collections", "Counter", call_dict, QKV_STORE_NONE, PLAIN},
    {"builtins", "set", call_sequence, QKV_STORE_NONE, PLAIN},
    {"__builtin__", "set", call_sequence, QKV_STORE_NONE, PLAIN},
    {"torch", "Size", call_sequence, QKV_STORE_NONE, PLAIN},
    {"torch", "device", call_nothing, QKV_STORE_NONE, PLAIN},
    {"_codecs", "encode", call_nothing, QKV_STORE_NONE, PLAIN}, /* bytes, in protocol 2 */
    {"torch._utils", "_rebuild_tensor", call_tensor, QKV_STORE_NONE, PLAIN},
    {"torch._utils", "_rebuild_tensor_v2", call_tensor_v2, QKV_STORE_NONE, PLAIN},
    {"torch._utils", "_rebuild_tensor_v3", call_tensor_v3, QKV_STORE_NONE, PLAIN},
    {"torch._utils", "_rebuild_parameter", call_parameter, QKV_STORE_NONE, PLAIN},
    {"torch._utils", "_rebuild_parameter_with_state", call_parameter, QKV_STORE_NONE, PLAIN},
    {"torch._tensor", "_rebuild_from_type_v2", call_typed, QKV_STORE_NONE, PLAIN},
    {"torch._tensor", "Tensor", NULL, QKV_STORE_NONE, TENSOR},
    {"torch", "Tensor", NULL, QKV_STORE_NONE, TENSOR},
    {"torch.nn.parameter", "Parameter", NULL, QKV_STORE_NONE, TENSOR},
    {"torch.nn.parameter", "Buffer", NULL, QKV_STORE_NONE, TENSOR},
    {"torch", "DoubleStorage", NULL, QKV_STORE_F64, STORAGE},
    {"torch", "FloatStorage", NULL, QKV_STORE_F32, STORAGE},
    {"torch", "HalfStorage", NULL, QKV_STORE_F16, STORAGE},
    {"torch", "BFloat16Storage", NULL, QKV_STORE_BF16, STORAGE},
    {"torch", "LongStorage", NULL, QKV_STORE_I64, STORAGE},
    {"torch", "IntStorage", NULL, QKV_STORE_I32, STORAGE},
    {"torch", "ShortStorage", NULL, QKV_STORE_I16, STORAGE},
    {"torch", "CharStorage", NULL, QKV_STORE_I8, STORAGE},
    {"torch", "ByteStorage", NULL, QKV_STORE_U8, STORAGE},
    {"torch", "BoolStorage", NULL, QKV_STORE_BOOL, STORAGE},
    {"torch.storage", "UntypedStorage", NULL, QKV_STORE_U8, STORAGE},
    {"torch", "float64", NULL, QKV_STORE_F64, TYPE},
    {"torch", "float32", NULL, QKV_STORE_F32, TYPE},
    {"torch", "float16", NULL, QKV_STORE_F16, TYPE},
    {"torch", "bfloat16", NULL, QKV_STORE_BF16, TYPE},
    {"torch", "int64", NULL, QKV_STORE_I64, TYPE},
    {"torch", "int32", NULL, QKV_STORE_I32, TYPE},
    {"torch", "int16", NULL, QKV_STORE_I16, TYPE},
    {"torch", "int8", NULL, QKV_STORE_I8, TYPE},
    {"torch", "uint64", NULL, QKV_STORE_U64, TYPE},
    {"torch", "uint32", NULL, QKV_STORE_U32, TYPE},
    {"torch", "uint16", NULL, QKV_STORE_U16, TYPE},
    {"torch", "uint8", NULL, QKV_STORE_U8, TYPE},
    {"torch", "bool", NULL, QKV_STORE_BOOL, TYPE},
};

/* _rebuild_from_type_v2(function, class, its arguments, state): a tensor with attributes, which
 * are left out. */
static qkv_status call_typed(qkv__pytorch_objects *o, const qkv__value *args, qkv__value *out)
{
    const qkv__value *function = argument(args, 0, QKV__VALUE_GLOBAL);
    const qkv__value *type = argument(args, 1, QKV__VALUE_GLOBAL);
    const qkv__value *rest = argument(args, 2, QKV__VALUE_TUPLE);
    const global *f = function ? function->as.object : NULL, *g = type ? type->as.object : NULL;
    if (!f || !g || !rest || g->kind != TENSOR || !f->call || f->call == call_typed)
        return odd(o, "a tensor with attributes is made of something else");
    return f->call(o, rest, out);
}

/* Where the functions and classes live that tensors are made with. */
static bool makes_tensors(const char *module)
{
    static const char *const modules[] = {"torch", "torch._utils", "torch._tensor",
                                          "torch.storage", "torch.cuda"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(module, modules[i]) == 0)
            return true;
    return false;
}

static qkv_status find_global(void *user, const char *module, const char *name, qkv__value *out)
{
    qkv__pytorch_objects *o = user;
    /* Before 1.6 a tensor on a GPU named its storage's class there. */
    const char *home = strcmp(module, "torch.cuda") == 0 ? "torch" : module;
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        const global *g = &globals[i];
        if (strcmp(g->name, name) != 0 || strcmp(g->module, home) != 0 ||
            (home != module && g->kind != STORAGE))
            continue;
        out->kind = QKV__VALUE_GLOBAL;
        out->as.object = g;
        return QKV_OK;
    }
    if (o->skip_objects && !makes_tensors(module)) {
        out->kind = QKV__VALUE_UNKNOWN;
        return QKV_OK;
    }
    return qkv_fail(o->ctx, QKV_E_UNSUPPORTED, "%s: refused: its pickle asks for %s.%s; only "
                    "tensors and containers are read, and no code is run", o->path, module,
                    name);
}

static qkv_status call_global(void *user, const qkv__value *callable, const qkv__value *args,
                              qkv__value *out)
{
    qkv__pytorch_objects *o = user;
    const global *g = callable->as.object;
    if (!g->call)
        return qkv_fail(o->ctx, QKV_E_UNSUPPORTED, "%s: refused: its pickle calls %s.%s",
                        o->path, g->module, g->name);
    return g->call(o, args, out);
}

static qkv_status keep_storage(qkv__pytorch_objects *o, qkv__storage *s)
{
    if (o->count == o->room) {
        size_t more = o->room ? 2 * o->room : 64;
        qkv__storage **wider = qkv__arena_alloc(o->arena, more * sizeof *wider);
        if (!wider)
            return QKV_E_MEMORY;
        if (o->count)
            memcpy(wider, o->storages, o->count * sizeof *wider);
        o->storages = wider;
        o->room = more;
    }
    o->storages[o->count++] = s;
    return QKV_OK;
}

/* An offset or size in numbers, as bytes; absent ones are 0. */
static bool take_bytes(const qkv__value *numbers, qkv_store store, size_t *out)
{
    *out = 0;
    return !numbers || (numbers->as.integer >= 0 &&
                        qkv__mul_size((size_t)numbers->as.integer, qkv_store_bytes(store), out));
}

/* ("storage", class, key, device, numbers), and in the older format a view of it behind: None or
 * (key, offset, numbers). */
static qkv_status find_storage(void *user, const qkv__value *id, qkv__value *out)
{
    qkv__pytorch_objects *o = user;
    if (id->kind != QKV__VALUE_TUPLE)
        return odd(o, "expected a storage, found a persistent id that is no tuple");
    const qkv__value *tag = argument(id, 0, QKV__VALUE_TEXT);
    const qkv__value *type = argument(id, 1, QKV__VALUE_GLOBAL);
    const qkv__value *key = argument(id, 2, QKV__VALUE_TEXT);
    const qkv__value *numbers = argument(id, 4, QKV__VALUE_INT);
    const qkv__value *view = argument(id, 5, QKV__VALUE_TUPLE);
    const global *g = type ? type->as.object : NULL;
    if (!tag || tag->as.text.length != 7 || memcmp(tag->as.text.data, "storage", 7) != 0 || !g ||
        g->kind != STORAGE || !key || !numbers)
        return odd(o, "expected a storage: its class, key, device and size");
    qkv__storage *s = qkv__arena_alloc(o->arena, sizeof *s);
    if (!s)
        return QKV_E_MEMORY;
    *s = (qkv__storage){.key = key->as.text.data, .key_length = key->as.text.length,
                        .store = g->store};
    if (!take_bytes(numbers, s->store, &s->bytes) ||
        !take_bytes(view ? argument(view, 1, QKV__VALUE_INT) : NULL, s->store, &s->skip) ||
        s->skip > s->bytes)
        return odd(o, "a storage's size makes no sense");
    *out = (qkv__value){.kind = QKV__VALUE_OBJECT, .what = QKV__IS_STORAGE, .as.object = s};
    return keep_storage(o, s);
}

qkv__pickle_host qkv__pytorch_host(qkv__pytorch_objects *objects)
{
    return (qkv__pickle_host){objects, find_global, call_global, find_storage};
}
