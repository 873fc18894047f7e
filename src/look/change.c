/* change.c - changes of tensors at places, as probes that write. */
#include <string.h>

#include "look/look.h"
#include "tensor/make.h"

/* How far the sequences have come at a place. */
typedef struct {
    char *name;
    size_t next; /* the position behind the last pass's */
} place_count;

/* A change that was added. */
typedef struct {
    qkv_context *ctx;
    qkv_change what; /* place and vector are owned */
    size_t made;
    place_count *places;
    size_t place_total, place_room;
} made_change;

struct qkv_changes {
    qkv_context *ctx;
    made_change **all; /* probes point to them */
    size_t count, room;
};

qkv_change qkv_change_defaults(void)
{
    return (qkv_change){.head = -1, .scale = 1, .times = 1};
}

qkv_status qkv_changes_create(qkv_changes **out, qkv_context *ctx)
{
    *out = qkv_calloc(ctx, 1, sizeof **out);
    if (!*out)
        return QKV_E_MEMORY;
    (*out)->ctx = ctx;
    return QKV_OK;
}

static void free_change(made_change *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->place_total; i++)
        qkv_free(m->ctx, m->places[i].name);
    qkv_free(m->ctx, m->places);
    qkv_free(m->ctx, (char *)m->what.place);
    qkv_free(m->ctx, (qkv_real *)m->what.vector);
    qkv_free(m->ctx, m);
}

void qkv_changes_destroy(qkv_changes *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        free_change(c->all[i]);
    qkv_free(c->ctx, c->all);
    qkv_free(c->ctx, c);
}

qkv_status qkv_changes_add(qkv_changes *c, const qkv_change *change)
{
    made_change *m = qkv_calloc(c->ctx, 1, sizeof *m);
    if (!m || !qkv__grow(c->ctx, &c->all, &c->room, c->count + 1, sizeof *c->all)) {
        qkv_free(c->ctx, m);
        return QKV_E_MEMORY;
    }
    qkv_real *vector = NULL;
    if (change->vector && (vector = qkv_malloc(c->ctx, (change->width + 1) * sizeof *vector)))
        memcpy(vector, change->vector, change->width * sizeof *vector);
    *m = (made_change){.ctx = c->ctx, .what = *change};
    m->what.vector = vector;
    m->what.place = qkv_strdup(c->ctx, change->place);
    if (!m->what.place || (change->vector && !vector)) {
        free_change(m);
        return QKV_E_MEMORY;
    }
    c->all[c->count++] = m;
    return QKV_OK;
}

qkv_context *qkv__changes_context(const qkv_changes *c) { return c->ctx; }
size_t qkv_changes_count(const qkv_changes *c) { return c->count; }
size_t qkv_changes_made(const qkv_changes *c, size_t i) { return c->all[i]->made; }
const char *qkv_changes_place(const qkv_changes *c, size_t i) { return c->all[i]->what.place; }

/* ---- a pass ---------------------------------------------------------------------------------- */

/* The position of a tensor's first row of T. false: out of memory. */
static bool begin_at(made_change *m, const char *name, size_t T, size_t *past)
{
    size_t i = 0;
    while (i < m->place_total && strcmp(m->places[i].name, name) != 0)
        i++;
    if (i == m->place_total) {
        if (!qkv__grow(m->ctx, &m->places, &m->place_room, i + 1, sizeof *m->places))
            return false;
        m->places[i] = (place_count){qkv_strdup(m->ctx, name), 0};
        if (!m->places[i].name)
            return false;
        m->place_total++;
    }
    *past = T == 1 ? m->places[i].next : 0;
    m->places[i].next = *past + T;
    return true;
}

/* Which part of a row (of `inner` numbers) is changed: part numbers from `from`. */
typedef struct {
    size_t T, inner, from, part, first, last; /* rows first .. last - 1 of T */
} changed_part;

static bool fits(const made_change *m, qkv_tape *t, const char *name, const qkv_tensor *x,
                 changed_part *c)
{
    const qkv_change *w = &m->what;
    int dims = qkv_ndim(x);
    size_t heads = dims == 4 ? qkv_dim(x, 2) : 0;
    if (dims < 3 || (w->head >= 0 && (size_t)w->head >= heads)) {
        (void)qkv__op_fail(t, "change", dims < 3 ? "%s has no positions" : heads
                           ? "%s has %zu heads, found head=%d" : "%s has no heads", name, heads,
                           w->head);
        return false;
    }
    c->T = qkv_dim(x, 1);
    c->inner = qkv_count(x) / (qkv_dim(x, 0) * c->T);
    c->part = w->head >= 0 ? qkv_dim(x, 3) : c->inner;
    c->from = w->head >= 0 ? (size_t)w->head * c->part : 0;
    if (w->vector && w->width != c->part)
        (void)qkv__op_fail(t, "change", "%s takes a vector of %zu numbers, found %zu", name,
                           c->part, w->width);
    return !w->vector || w->width == c->part;
}

/* The rows of a pass from position `past` on that are changed; none: first == last. */
static void changed_rows(const qkv_change *w, size_t past, changed_part *c)
{
    size_t end = w->count ? w->first + w->count : SIZE_MAX;
    c->first = w->first > past ? w->first - past : 0;
    c->first = c->first < c->T ? c->first : c->T;
    c->last = end > past ? end - past : 0;
    c->last = c->last < c->T ? c->last : c->T;
    c->last = c->last > c->first ? c->last : c->first;
}

/* What x is multiplied by: 1 but for the changed part. NULL: failed. */
static qkv_tensor *factors(qkv_tape *t, const qkv_tensor *x, const changed_part *c, double factor)
{
    size_t shape[QKV_MAX_DIMS];
    for (int i = 1; i < qkv_ndim(x); i++)
        shape[i - 1] = qkv_dim(x, i);
    qkv_tensor *y = qkv_tensor_from(t, NULL, qkv_ndim(x) - 1, shape);
    qkv_real *to = qkv_tensor_fill(y);
    for (size_t i = 0; to && i < c->T * c->inner; i++) {
        size_t row = i / c->inner, at = i % c->inner;
        bool changed = row >= c->first && row < c->last && at >= c->from && at < c->from + c->part;
        to[i] = changed ? (qkv_real)factor : 1;
    }
    return y;
}

/* What is added to x: the vector, and of `mean` the scaled mean over a sequence's positions. */
static qkv_tensor *summands(const qkv_change *w, qkv_tape *t, const qkv_tensor *x,
                            const changed_part *c)
{
    size_t shape[QKV_MAX_DIMS], B = qkv_dim(x, 0);
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    const qkv_real *data = w->mean ? qkv_data(t, x) : NULL;
    qkv_tensor *y = w->mean && !data ? NULL : qkv_tensor_from(t, NULL, qkv_ndim(x), shape);
    qkv_real *to = qkv_tensor_fill(y);
    if (!to)
        return NULL;
    memset(to, 0, qkv_count(x) * sizeof *to);
    for (size_t b = 0; b < B; b++)
        for (size_t k = 0; k < c->part; k++) {
            size_t at = b * c->T * c->inner + c->from + k;
            double sum = 0;
            for (size_t i = 0; data && i < c->T; i++)
                sum += (double)data[at + i * c->inner];
            sum *= w->scale / (double)c->T;
            sum += w->vector ? w->times * (double)w->vector[k] : 0;
            for (size_t i = c->first; i < c->last; i++)
                to[at + i * c->inner] = (qkv_real)sum;
        }
    return y;
}

static qkv_tensor *make_change(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    made_change *m = user;
    const qkv_change *w = &m->what;
    changed_part c;
    size_t past;
    if (!fits(m, t, name, x, &c))
        return NULL;
    if (!begin_at(m, name, c.T, &past)) {
        (void)qkv__take_status(t, QKV_E_MEMORY);
        return NULL;
    }
    changed_rows(w, past, &c);
    m->made++;
    if (c.first == c.last)
        return x;
    double factor = w->mean ? 0 : w->scale;
    bool adds = w->mean || w->vector;
    qkv_tensor *plus = adds ? summands(w, t, x, &c) : NULL;
    if (factor < 1 || factor > 1)
        x = qkv_mul(t, x, factors(t, x, &c, factor));
    return adds ? qkv_add(t, x, plus) : x;
}

qkv_status qkv_changes_apply(qkv_changes *c, qkv_tape *t)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->all[i]->place_total; k++)
            c->all[i]->places[k].next = 0;
    for (size_t i = 0; i < c->count && !status; i++)
        status = qkv_probe_add(t, c->all[i]->what.place, make_change, c->all[i]);
    return status;
}
