/* patch_pass.c - passes of activation patching: one on each input, which is kept, and those on the
 * corrupt input with activations of the clean one, which begin at the layer that is patched. */
#include <stdio.h>
#include <string.h>

#include "report/patching.h"

/* ---- what is kept ---------------------------------------------------------------------------- */

static qkv_real *kept_copy(qkv__patching *j, qkv_tape *t, const qkv_tensor *x)
{
    const qkv_real *data = qkv_data(t, x);
    qkv_real *copy = data ? qkv_malloc(j->p->ctx, qkv_count(x) * sizeof *copy) : NULL;
    if (copy)
        memcpy(copy, data, qkv_count(x) * sizeof *copy);
    j->out_of_memory = j->out_of_memory || !copy;
    return copy;
}

static void keep_tensor(qkv__patching *j, qkv_tape *t, const qkv_tensor *x, qkv__patch_tensor *to)
{
    qkv_free(j->p->ctx, to->data);
    *to = (qkv__patch_tensor){.data = kept_copy(j, t, x), .ndim = qkv_ndim(x),
                              .count = qkv_count(x)};
    for (int i = 0; i < to->ndim; i++)
        to->shape[i] = qkv_dim(x, i);
}

/* The stream before layer s->passed; a later pass replaces it. */
static void keep_stream(qkv__patch_stack *s, qkv_tape *t, const qkv_tensor *x)
{
    qkv__patching *j = s->j;
    if (j->out_of_memory)
        return;
    if (!qkv__grow(j->p->ctx, &s->stream, &s->stream_room, s->passed + 1, sizeof *s->stream)) {
        j->out_of_memory = true;
        return;
    }
    while (s->stream_count <= s->passed)
        s->stream[s->stream_count++] = (qkv__patch_tensor){0};
    keep_tensor(j, t, x, &s->stream[s->passed]);
}

static qkv_tensor *keep_before(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    (void)name;
    keep_stream(user, t, x);
    return x;
}

static qkv_tensor *keep_behind(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__patch_stack *s = user;
    (void)name;
    s->passed++;
    keep_stream(s, t, x);
    return x;
}

static qkv_tensor *keep_place(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__patch_stack *s = user;
    qkv__patching *j = s->j;
    char *copy = j->out_of_memory ? NULL : qkv_strdup(j->p->ctx, name);
    if (!copy || !qkv__grow(j->p->ctx, &s->places, &s->place_room, s->place_count + 1,
                            sizeof *s->places)) {
        qkv_free(j->p->ctx, copy);
        j->out_of_memory = true;
        return x;
    }
    qkv__patch_place *p = &s->places[s->place_count++];
    *p = (qkv__patch_place){.name = copy, .layer = s->passed};
    keep_tensor(j, t, x, &p->clean);
    return x;
}

static qkv_status watch_part(qkv__patch_stack *s, const char *prefix, const char *part,
                             qkv_probe_fn *fn)
{
    char pattern[200];
    (void)snprintf(pattern, sizeof pattern, "%s%s%.100s", s->stack, prefix, part);
    return qkv_probe_add(s->j->p->tape, pattern, fn, s);
}

/* The place comes before the stream behind a layer, which may be the same tensor. */
static qkv_status watch_stack(qkv__patch_stack *s, bool places)
{
    const qkv__patch_layers *layers = s->j->layers;
    qkv_status status = QKV_OK;
    s->passed = 0;
    if (layers->before)
        status = watch_part(s, layers->before, "", keep_before);
    if (!status && places)
        status = watch_part(s, layers->place, s->j->o.place, keep_place);
    return status ? status : watch_part(s, layers->behind, "", keep_behind);
}

/* A whole pass on an input; its outputs are copied. */
static qkv_status keep_pass(qkv__patching *j, qkv__looking *l, bool everywhere, qkv_real **outputs)
{
    qkv_tape *t = j->p->tape;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->stack_count && !status; i++)
        status = watch_stack(&j->stacks[i], l == &j->clean);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *y = status ? NULL
                           : j->patch->outputs(l, 1, everywhere ? QKV__EVERYWHERE : (int)j->at);
    y = y ? qkv_contiguous(t, y) : NULL;
    qkv_probes_clear(t);
    if (status || !y || !qkv_data(t, y))
        return status ? status : qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
    *outputs = kept_copy(j, t, y);
    j->choices = qkv_dim(y, -1);
    j->places = qkv_count(y) / j->choices;
    return j->out_of_memory ? QKV_E_MEMORY : QKV_OK;
}

/* The corrupt pass is the last, whose streams stay. */
qkv_status qkv__patch_keep(qkv__patching *j)
{
    bool everywhere;
    qkv_status status = qkv__patch_where(j, &everywhere);
    if (!status)
        status = keep_pass(j, &j->clean, everywhere, &j->outputs[0]);
    if (!status)
        status = keep_pass(j, &j->corrupt, everywhere, &j->outputs[1]);
    if (!status && everywhere)
        qkv__patch_choose(j);
    return status;
}

void qkv__patch_free_stacks(qkv__patching *j)
{
    qkv_context *ctx = j->p->ctx;
    for (qkv__patch_stack *s = j->stacks; s < j->stacks + j->stack_count; s++) {
        for (size_t i = 0; i < s->stream_count; i++)
            qkv_free(ctx, s->stream[i].data);
        for (size_t i = 0; i < s->place_count; i++) {
            qkv_free(ctx, s->places[i].name);
            qkv_free(ctx, s->places[i].clean.data);
        }
        qkv_free(ctx, s->stream);
        qkv_free(ctx, s->places);
    }
}

/* ---- patching -------------------------------------------------------------------------------- */

/* Numbers of a tensor: `runs` runs of `length`, the first at `first`, `apart` from each other. */
typedef struct {
    size_t first, length, runs, apart;
} patched_part;

bool qkv__patch_fits(const qkv__patching *j, const qkv__patch_stack *s, const qkv__patch_place *x)
{
    const qkv_look_axis *a = &j->corrupt.out->axes[s->axis];
    const size_t *shape = x->clean.shape;
    if (j->layers->maps)
        return x->clean.ndim == 4 && shape[1] % a->rows == 0 && shape[2] % a->columns == 0;
    return x->clean.ndim >= 2 && shape[1] == s->T;
}

/* Position i of a tensor that fits, or its head i. Of a map a position is the cell that it has of
 * the grid. */
static patched_part patched_numbers(const qkv__patching *j, const qkv__patch_tensor *x, size_t i)
{
    const qkv__patch_stack *s = j->now;
    const qkv_look_axis *a = &j->corrupt.out->axes[s->axis];
    if (j->layers->maps) {
        size_t line = x->shape[2] * x->shape[3], height = x->shape[1] / a->rows;
        size_t width = line / a->columns;
        return (patched_part){i / a->columns * height * line + i % a->columns * width, width,
                              height, line};
    }
    size_t size = x->count / s->T, head = j->o.heads ? x->shape[3] : size;
    return (patched_part){i * head, head, j->o.heads ? s->T : 1, size};
}

/* Sequence i of a pass gets the clean activation at position, or of head, first + i. */
static qkv_tensor *patch_replace(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    const qkv__patching *j = user;
    const qkv__patch_tensor *clean = &j->now->places[j->layer].clean;
    size_t shape[QKV_MAX_DIMS], n = qkv_count(x) / j->count, skipped = clean->count - n;
    (void)name;
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    const qkv_real *data = qkv_data(t, x);
    qkv_tensor *y = data ? qkv_tensor_from(t, data, qkv_ndim(x), shape) : NULL;
    qkv_real *to = qkv_tensor_fill(y);
    for (size_t i = 0; to && i < j->count; i++) {
        const patched_part part = patched_numbers(j, clean, j->first + i);
        for (size_t k = 0; k < part.runs; k++) {
            size_t at = part.first + k * part.apart;
            memcpy(to + i * n + at - skipped, clean->data + at, part.length * sizeof *to);
        }
    }
    return y;
}

/* Copies of the stream before that layer with which stack s goes on, one for each sequence. Where
 * the stream is not known, the pass begins with the inputs. */
static qkv_status enter_stack(qkv__patching *j, const qkv__patch_stack *s, size_t layer)
{
    qkv_tape *t = j->p->tape;
    char name[96];
    const qkv__patch_tensor *stream = &s->stream[layer];
    size_t shape[QKV_MAX_DIMS], skipped = j->from * (stream->count / s->T);
    size_t size = stream->count - skipped;
    if (!stream->data)
        return QKV_OK;
    memcpy(shape, stream->shape, sizeof shape);
    shape[0] = j->layers->packed ? 1 : j->count;
    shape[1] = (shape[1] - j->from) * (j->layers->packed ? j->count : 1);
    qkv_tensor *x = qkv_tensor_from(t, NULL, stream->ndim, shape);
    qkv_real *to = qkv_tensor_fill(x);
    for (size_t i = 0; to && i < j->count; i++)
        memcpy(to + i * size, stream->data + skipped, size * sizeof *to);
    (void)snprintf(name, sizeof name, "%s.%zu", s->stack, layer);
    return x ? qkv_tape_enter(t, name, x) : qkv_tape_status(t);
}

qkv_status qkv__patch_pass(qkv__patching *j, double *measured)
{
    qkv_tape *t = j->p->tape;
    const qkv__patch_place *place = &j->now->places[j->layer];
    qkv_status status = QKV_OK;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    for (qkv__patch_stack *s = j->stacks; s < j->now && !status; s++)
        if (s->stream_count)
            status = enter_stack(j, s, s->stream_count - 1);
    if (!status)
        status = enter_stack(j, j->now, place->layer);
    if (!status)
        status = qkv_probe_add(t, place->name, patch_replace, j);
    qkv_tensor *y = status ? NULL : j->patch->outputs(&j->corrupt, j->count, (int)j->at);
    const qkv_real *outputs = y ? qkv_data(t, qkv_contiguous(t, y)) : NULL;
    for (size_t i = 0; i < j->count && outputs; i++)
        measured[i] = qkv__patch_measure(j, outputs + i * j->choices);
    qkv_probes_clear(t);
    if (!status && !outputs)
        status = qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
    return status;
}
