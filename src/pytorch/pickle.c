/* pickle.c - the stack machine that pickles are programs for.
 *
 * The opcodes of protocols 2 to 5 but for extension codes, out-of-band buffers and the textual
 * ones of protocol 0. No opcode runs anything: see pickle.h. What is built takes memory in
 * proportion to the pickle's length. */
#include "pytorch/pickle.h"

#include <string.h>

#include "pytorch/pickle_machine.h"

enum { LONGEST = 1 << 26, NAME_BYTES = 256, NEWEST = 5 };

/* ---- numbers and texts ----------------------------------------------------------------------- */

static qkv_status op_integer(machine *m, unsigned bytes)
{
    uint64_t x;
    qkv_status status = take_number(m, bytes, &x);
    return status ? status : push_integer(m, QKV__VALUE_INT, bytes == 4 ? (int32_t)x : (int64_t)x);
}

/* A value that is bytes of the pickle itself. */
static qkv_status push_bytes(machine *m, qkv__value_kind kind, const uint8_t *p, size_t n)
{
    qkv__value *v = make(m, kind);
    if (v) {
        v->as.text.data = (const char *)p;
        v->as.text.length = n;
    }
    return push(m, v);
}

/* Two's complement, little-endian; no bytes are zero. */
static qkv_status op_long(machine *m, unsigned bytes)
{
    const uint8_t *p = NULL;
    size_t n = 0;
    qkv_status status = take_counted(m, bytes, &p, &n);
    if (status)
        return status;
    uint64_t x = n && n <= 8 && p[n - 1] & 0x80 ? UINT64_MAX : 0;
    if (n <= 8) {
        memcpy(&x, p, n);
        return push_integer(m, QKV__VALUE_INT, (int64_t)x);
    }
    return push_bytes(m, QKV__VALUE_LONG, p, n);
}

static qkv_status op_text(machine *m, unsigned bytes)
{
    const uint8_t *p = NULL;
    size_t n = 0;
    qkv_status status = take_counted(m, bytes, &p, &n);
    return status ? status : push_bytes(m, QKV__VALUE_TEXT, p, n);
}

static qkv_status op_bytes(machine *m, unsigned bytes)
{
    const uint8_t *p = NULL;
    size_t n = 0;
    qkv_status status = take_counted(m, bytes, &p, &n);
    return status ? status : push(m, make(m, QKV__VALUE_OTHER));
}

static qkv_status op_real(machine *m, unsigned bytes)
{
    const uint8_t *p = NULL;
    qkv_status status = take(m, bytes, &p);
    return status ? status : push(m, make(m, QKV__VALUE_OTHER));
}

static qkv_status op_none(machine *m, unsigned unused)
{
    (void)unused;
    return push(m, make(m, QKV__VALUE_NONE));
}

static qkv_status op_bool(machine *m, unsigned x)
{
    return push_integer(m, QKV__VALUE_BOOL, x);
}

/* ---- containers ------------------------------------------------------------------------------ */

static qkv_status op_mark(machine *m, unsigned unused)
{
    (void)unused;
    void *items = m->marks.items;
    if (!grow(m, &items, m->marks.count, &m->marks.room, sizeof *m->marks.items))
        return QKV_E_MEMORY;
    m->marks.items = items;
    m->marks.items[m->marks.count++] = m->stack.count;
    return QKV_OK;
}

static qkv_status op_empty(machine *m, unsigned kind)
{
    return push(m, make(m, (qkv__value_kind)kind));
}

/* The topmost values become one container. */
static qkv_status pickle_collect(machine *m, qkv__value_kind kind, size_t count)
{
    qkv__value *v = make(m, kind);
    if (!v)
        return QKV_E_MEMORY;
    m->stack.count -= count;
    if (count) {
        v->as.list.items = qkv__arena_alloc(m->arena, count * sizeof *v->as.list.items);
        if (!v->as.list.items)
            return QKV_E_MEMORY;
        memcpy(v->as.list.items, m->stack.items + m->stack.count, count * sizeof v);
    }
    v->as.list.count = v->as.list.room = count;
    return push(m, v);
}

static qkv_status op_tuple(machine *m, unsigned count)
{
    qkv_status status = need(m, count);
    return status ? status : pickle_collect(m, QKV__VALUE_TUPLE, count);
}

static qkv_status op_collect(machine *m, unsigned kind)
{
    size_t count = 0;
    qkv_status status = pop_mark(m, &count);
    if (!status && kind == QKV__VALUE_DICT && count % 2)
        status = broken(m, "a key has no value");
    return status ? status : pickle_collect(m, (qkv__value_kind)kind, count);
}

/* The topmost count values go into the container below them. */
static qkv_status extend(machine *m, unsigned kind, size_t count)
{
    qkv_status status = need(m, count + 1);
    if (status)
        return status;
    qkv__value *v = m->stack.items[m->stack.count - count - 1];
    if (v->kind == QKV__VALUE_UNKNOWN) {
        m->stack.count -= count;
        return QKV_OK;
    }
    if (v->kind != (qkv__value_kind)kind || (kind == QKV__VALUE_DICT && count % 2))
        return broken(m, "values are put into what cannot hold them");
    pointers to = {v->as.list.items, v->as.list.count, v->as.list.room};
    for (size_t i = 0; i < count && !status; i++)
        status = append(m, &to, m->stack.items[m->stack.count - count + i]);
    v->as.list.items = to.items;
    v->as.list.count = to.count;
    v->as.list.room = to.room;
    m->stack.count -= count;
    return status;
}

static qkv_status op_append(machine *m, unsigned unused)
{
    (void)unused;
    return extend(m, QKV__VALUE_LIST, 1);
}

static qkv_status op_set_item(machine *m, unsigned unused)
{
    (void)unused;
    return extend(m, QKV__VALUE_DICT, 2);
}

static qkv_status op_extend(machine *m, unsigned kind)
{
    size_t count = 0;
    qkv_status status = pop_mark(m, &count);
    return status ? status : extend(m, kind, count);
}

/* ---- the stack and the memo ------------------------------------------------------------------ */

static qkv_status op_pop(machine *m, unsigned unused)
{
    (void)unused;
    if (m->marks.count && height(m) == 0) {
        m->marks.count--;
        return QKV_OK;
    }
    qkv_status status = need(m, 1);
    if (!status)
        (void)pop(m);
    return status;
}

static qkv_status op_pop_mark(machine *m, unsigned unused)
{
    (void)unused;
    size_t count = 0;
    qkv_status status = pop_mark(m, &count);
    if (!status)
        m->stack.count -= count;
    return status;
}

static qkv_status op_duplicate(machine *m, unsigned unused)
{
    (void)unused;
    qkv_status status = need(m, 1);
    return status ? status : push(m, top(m));
}

/* Picklers count; a place that the pickle has not the bytes to reach is a lie. */
static qkv_status pickle_remember(machine *m, uint64_t place)
{
    qkv_status status = need(m, 1);
    if (!status && place >= (size_t)(m->p - m->begin))
        status = broken(m, "a memo index is too large");
    while (!status && m->memo.count <= place)
        status = append(m, &m->memo, NULL);
    if (!status) {
        m->remembered += !m->memo.items[place];
        m->memo.items[place] = top(m);
    }
    return status;
}

static qkv_status op_put(machine *m, unsigned bytes)
{
    uint64_t place;
    qkv_status status = take_number(m, bytes, &place);
    return status ? status : pickle_remember(m, place);
}

static qkv_status op_memoize(machine *m, unsigned unused)
{
    (void)unused;
    return pickle_remember(m, m->remembered);
}

static qkv_status op_get(machine *m, unsigned bytes)
{
    uint64_t place;
    qkv_status status = take_number(m, bytes, &place);
    if (!status && (place >= m->memo.count || !m->memo.items[place]))
        status = broken(m, "a memo index names nothing");
    return status ? status : push(m, m->memo.items[place]);
}

/* ---- names and calls ------------------------------------------------------------------------- */

static qkv_status push_global(machine *m, const char *module, size_t module_length,
                              const char *name, size_t name_length)
{
    char a[NAME_BYTES], b[NAME_BYTES];
    qkv__pickle_plain(a, sizeof a, module, module_length);
    qkv__pickle_plain(b, sizeof b, name, name_length);
    qkv__value *v = make(m, QKV__VALUE_OTHER);
    qkv_status status = v ? m->host->global(m->host->user, a, b, v) : QKV_E_MEMORY;
    return status ? status : push(m, v);
}

static qkv_status take_line(machine *m, const char **out, size_t *length)
{
    const uint8_t *end = memchr(m->p, '\n', (size_t)(m->end - m->p));
    if (!end)
        return broken(m, "it ends early");
    *out = (const char *)m->p;
    *length = (size_t)(end - m->p);
    m->p = end + 1;
    return QKV_OK;
}

static qkv_status op_global(machine *m, unsigned unused)
{
    (void)unused;
    const char *module = NULL, *name = NULL;
    size_t module_length = 0, name_length = 0;
    qkv_status status = take_line(m, &module, &module_length);
    if (!status)
        status = take_line(m, &name, &name_length);
    return status ? status : push_global(m, module, module_length, name, name_length);
}

static qkv_status op_stack_global(machine *m, unsigned unused)
{
    (void)unused;
    qkv_status status = need(m, 2);
    if (status)
        return status;
    const qkv__value *name = pop(m), *module = pop(m);
    if (name->kind != QKV__VALUE_TEXT || module->kind != QKV__VALUE_TEXT)
        return broken(m, "a name is no text");
    return push_global(m, module->as.text.data, module->as.text.length, name->as.text.data,
                       name->as.text.length);
}

static qkv_status op_call(machine *m, unsigned unused)
{
    (void)unused;
    qkv_status status = need(m, 2);
    if (status)
        return status;
    const qkv__value *args = pop(m), *callable = pop(m);
    if (callable->kind == QKV__VALUE_UNKNOWN)
        return push(m, make(m, QKV__VALUE_UNKNOWN));
    if (args->kind != QKV__VALUE_TUPLE || callable->kind != QKV__VALUE_GLOBAL)
        return broken(m, "it calls what is no function");
    qkv__value *v = make(m, QKV__VALUE_OTHER);
    status = v ? m->host->call(m->host->user, callable, args, v) : QKV_E_MEMORY;
    return status ? status : push(m, v);
}

static qkv_status op_persistent(machine *m, unsigned unused)
{
    (void)unused;
    qkv_status status = need(m, 1);
    if (status)
        return status;
    const qkv__value *id = pop(m);
    qkv__value *v = make(m, QKV__VALUE_OTHER);
    status = v ? m->host->persistent(m->host->user, id, v) : QKV_E_MEMORY;
    return status ? status : push(m, v);
}

/* What a dict has beside its items (a state dict's versions of layers) is left out. */
static qkv_status op_build(machine *m, unsigned unused)
{
    (void)unused;
    qkv_status status = need(m, 2);
    if (status)
        return status;
    const qkv__value *state = pop(m);
    if (top(m)->kind == QKV__VALUE_UNKNOWN)
        return QKV_OK;
    if (top(m)->kind != QKV__VALUE_DICT || state->kind != QKV__VALUE_DICT)
        return qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "%s: pickle: it sets the state of %s; only "
                        "tensors and containers are read", m->path, qkv__value_name(top(m)));
    return QKV_OK;
}

static qkv_status op_protocol(machine *m, unsigned unused)
{
    (void)unused;
    uint64_t version;
    qkv_status status = take_number(m, 1, &version);
    if (!status && version > NEWEST)
        status = qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "%s: pickle: expected protocol 2 to %d, "
                          "found %d", m->path, NEWEST, (int)version);
    return status;
}

/* Frames only help readers that fetch bytes. */
static qkv_status op_frame(machine *m, unsigned bytes)
{
    const uint8_t *p = NULL;
    return take(m, bytes, &p);
}

/* ---- the machine ----------------------------------------------------------------------------- */

enum { STOP = '.' };

static const struct {
    qkv_status (*run)(machine *m, unsigned operand);
    unsigned operand; /* bytes of a number or length, kind of a container, .. */
} opcodes[256] = {
    [0x80] = {op_protocol, 0}, [0x95] = {op_frame, 8},
    ['('] = {op_mark, 0}, ['0'] = {op_pop, 0}, ['1'] = {op_pop_mark, 0}, ['2'] = {op_duplicate, 0},
    ['N'] = {op_none, 0}, [0x88] = {op_bool, 1}, [0x89] = {op_bool, 0},
    ['J'] = {op_integer, 4}, ['K'] = {op_integer, 1}, ['M'] = {op_integer, 2},
    [0x8a] = {op_long, 1}, [0x8b] = {op_long, 4}, ['G'] = {op_real, 8},
    ['X'] = {op_text, 4}, [0x8c] = {op_text, 1}, [0x8d] = {op_text, 8},
    ['T'] = {op_text, 4}, ['U'] = {op_text, 1}, /* Python 2's strings */
    ['B'] = {op_bytes, 4}, ['C'] = {op_bytes, 1}, [0x8e] = {op_bytes, 8}, [0x96] = {op_bytes, 8},
    [')'] = {op_empty, QKV__VALUE_TUPLE}, ['t'] = {op_collect, QKV__VALUE_TUPLE},
    [0x85] = {op_tuple, 1}, [0x86] = {op_tuple, 2}, [0x87] = {op_tuple, 3},
    [']'] = {op_empty, QKV__VALUE_LIST}, ['l'] = {op_collect, QKV__VALUE_LIST},
    ['a'] = {op_append, 0}, ['e'] = {op_extend, QKV__VALUE_LIST},
    ['}'] = {op_empty, QKV__VALUE_DICT}, ['d'] = {op_collect, QKV__VALUE_DICT},
    ['s'] = {op_set_item, 0}, ['u'] = {op_extend, QKV__VALUE_DICT},
    [0x8f] = {op_empty, QKV__VALUE_SET}, [0x90] = {op_extend, QKV__VALUE_SET},
    [0x91] = {op_collect, QKV__VALUE_SET},
    ['q'] = {op_put, 1}, ['r'] = {op_put, 4}, [0x94] = {op_memoize, 0},
    ['h'] = {op_get, 1}, ['j'] = {op_get, 4},
    ['c'] = {op_global, 0}, [0x93] = {op_stack_global, 0},
    ['R'] = {op_call, 0}, [0x81] = {op_call, 0}, ['b'] = {op_build, 0}, ['Q'] = {op_persistent, 0},
    ['i'] = {op_global, 0}, /* a class and a call at once: no host knows such a class */
};

static qkv_status pickle_run(machine *m)
{
    while (m->p < m->end) {
        unsigned code = *m->p++;
        if (code == STOP)
            return QKV_OK;
        if (!opcodes[code].run)
            return qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "%s: pickle: byte %zu: opcode 0x%02x is "
                            "none of those that model files need", m->path,
                            (size_t)(m->p - m->begin) - 1, code);
        qkv_status status = opcodes[code].run(m, opcodes[code].operand);
        if (status)
            return status;
    }
    return broken(m, "it ends early");
}

/* ---- values ---------------------------------------------------------------------------------- */

const char *qkv__value_name(const qkv__value *v)
{
    static const char *const names[] = {"None", "a truth value", "an integer", "a long integer",
                                        "a text", "a number or bytes", "a tuple", "a list",
                                        "a set", "a dict", "a class", "an object",
                                        "an unknown object"};
    return names[v->kind];
}

const qkv__value *qkv__value_find(const qkv__value *dict, const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 0; dict->kind == QKV__VALUE_DICT && i < dict->as.list.count; i += 2) {
        const qkv__value *k = dict->as.list.items[i];
        if (k->kind == QKV__VALUE_TEXT && k->as.text.length == length &&
            memcmp(k->as.text.data, key, length) == 0)
            return dict->as.list.items[i + 1];
    }
    return NULL;
}

/* ---- shared ---------------------------------------------------------------------------------- */

void qkv__pickle_plain(char *out, size_t size, const char *text, size_t length)
{
    size_t n = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    out[n] = 0;
}

qkv_status qkv__pickle_read(qkv__value **out, qkv_context *ctx, qkv__arena *arena,
                            const char *path, const uint8_t **at, const uint8_t *end,
                            const qkv__pickle_host *host)
{
    machine m = {.ctx = ctx, .arena = arena, .path = path, .host = host, .begin = *at, .p = *at,
                 .end = end};
    if (end - *at > LONGEST)
        m.end = *at + LONGEST;
    qkv_status status = pickle_run(&m);
    if (!status && (m.marks.count || m.stack.count != 1))
        status = broken(&m, "it ends with more or less than one value");
    *out = status ? NULL : m.stack.items[0];
    *at = m.p;
    return status;
}
