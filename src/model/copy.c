/* copy.c - the parameters of one model that another has too. */
#include <math.h>
#include <string.h>

#include "model/model.h"
#include "qkv/ops.h"
#include "tensor/make.h"

enum { MOST_FIRST = 2 };

typedef struct {
    qkv_model *to, *from;
    const qkv_state_entry *wanted;
    size_t copied;
} copying;

static bool has_values(const qkv_state_entry *row)
{
    return (row->kind == QKV_STATE_PARAM || row->kind == QKV_STATE_FIXED) &&
           !qkv__param_left_out(row->param);
}

/* A table of positions, (1, first + side^2, width): first is how many tokens that are no places
 * come before the places, 0 to 2. Only one of these can be. */
typedef struct {
    size_t first, side, width;
} places;

static bool is_places(const qkv_state_entry *row, places *out)
{
    if (row->ndim != 3 || row->shape[0] != 1)
        return false;
    for (size_t n = row->shape[1], first = 0; first <= MOST_FIRST && first < n; first++) {
        size_t side = (size_t)(sqrt((double)(n - first)) + 0.5);
        *out = (places){first, side, row->shape[2]};
        if (first + side * side == n)
            return true;
    }
    return false;
}

/* The places of one grid for another, as for images of another size. */
static void copy_places(qkv_context *ctx, const qkv_state_entry *to, const places *t,
                        const qkv_state_entry *from, const places *f)
{
    qkv_real *out = qkv_param_data(to->param) + to->offset + t->first * t->width;
    qkv_real *in = qkv_param_data(from->param) + from->offset;
    size_t shape[] = {f->first + f->side * f->side, f->width}, n = t->side * t->side * t->width;
    qkv_tape *tape;
    if (qkv_tape_create(&tape, ctx))
        return;
    const qkv_real *table = qkv_data(
        tape, qkv_interpolate_positions(tape, qkv_tensor_from(tape, in, 2, shape), QKV_BICUBIC,
                                        f->first, f->side, f->side, t->side, t->side));
    if (table)
        memcpy(out, table + f->first * f->width, n * sizeof *out);
    size_t both = t->first < f->first ? t->first : f->first;
    if (table)
        memcpy(out - t->first * t->width, in, both * t->width * sizeof *out);
    qkv_tape_destroy(tape);
}

/* The same name, which one of the two models perhaps has under a prefix, or each under its own. */
static bool copy_same_name(const qkv_model *to, const char *a, const qkv_model *from,
                           const char *b)
{
    const char *p = qkv_model_type_prefix(qkv_model_type_of(to));
    const char *q = qkv_model_type_prefix(qkv_model_type_of(from));
    size_t m = strlen(*p ? p : q), n = strlen(*q ? q : p);
    a += strncmp(a, *p ? p : q, m) == 0 ? m : 0;
    b += strncmp(b, *q ? q : p, n) == 0 ? n : 0;
    return strcmp(a, b) == 0;
}

/* Copies the row when it is the wanted one. */
static qkv_status copy_offer(void *user, const qkv_state_entry *row)
{
    copying *c = user;
    const qkv_state_entry *to = c->wanted;
    places a, b;
    if (!has_values(row) || row->ndim != to->ndim ||
        !copy_same_name(c->to, to->name, c->from, row->name) ||
        memcmp(row->perm, to->perm, (size_t)row->ndim * sizeof *row->perm) != 0)
        return QKV_OK;
    bool same = memcmp(row->shape, to->shape, (size_t)row->ndim * sizeof *row->shape) == 0;
    if (!same && !(is_places(to, &a) && is_places(row, &b) && a.width == b.width))
        return QKV_OK;
    if (same)
        memcpy(qkv_param_data(to->param) + to->offset, qkv_param_data(row->param) + row->offset,
               qkv_state_entry_count(to) * sizeof(qkv_real));
    else
        copy_places(qkv_model_context(c->from), to, &a, row, &b);
    qkv_param_touch(to->param);
    c->copied++;
    return QKV_OK;
}

static qkv_status want(void *user, const qkv_state_entry *row)
{
    copying *c = user;
    c->wanted = row;
    return has_values(row) ? qkv_model_visit(c->from, copy_offer, c) : QKV_OK;
}

size_t qkv_model_copy(qkv_model *to, qkv_model *from)
{
    copying c = {.to = to, .from = from};
    (void)qkv_model_visit(to, want, &c);
    return c.copied;
}
