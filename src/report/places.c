/* places.c - the names of all places of a model's pass, found by a pass over a sample. */
#include <string.h>

#include "report/looking.h"

typedef struct {
    qkv_look_places *out;
    size_t room;
    bool failed;
} place_list;

/* The place of that name, added if it is new. NULL: out of memory. */
static qkv_look_place *place_of(place_list *x, const char *name, bool weights)
{
    qkv_look_places *out = x->out;
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].weights == weights && strcmp(out->items[i].name, name) == 0)
            return &out->items[i];
    char *copy = qkv_strdup(out->ctx, name);
    if (!copy || !qkv__grow(out->ctx, &out->items, &x->room, out->count + 1, sizeof *out->items)) {
        qkv_free(out->ctx, copy);
        x->failed = true;
        return NULL;
    }
    out->items[out->count] = (qkv_look_place){.name = copy, .weights = weights};
    return &out->items[out->count++];
}

static qkv_tensor *list_place(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv_look_place *p = place_of(user, name, false);
    (void)t;
    for (int i = 0; p && i < qkv_ndim(x); i++)
        p->shape[i] = qkv_dim(x, i);
    if (p)
        p->ndim = qkv_ndim(x);
    return x;
}

static void list_weights(void *user, const char *name, int sequence, int head, size_t row,
                         size_t rows, size_t S, const qkv_real *weights)
{
    qkv_look_place *p = place_of(user, name, true);
    (void)weights;
    if (!p)
        return;
    p->ndim = 4;
    p->shape[0] = (size_t)sequence + 1;
    p->shape[1] = (size_t)head + 1;
    p->shape[2] = row + rows;
    p->shape[3] = S;
}

static qkv_status pass_sample(qkv_pipeline *p, const qkv_look_input *sample, place_list *list)
{
    const qkv__look_kind *kind = qkv__look_kind_of(p, sample);
    qkv_look_input in = *sample;
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_look found;
    o.weights = o.panels = false;
    o.top = 0;
    if (kind && (kind->can & QKV__CAN_READ_TWO))
        in.second = "a";
    qkv_status status = qkv_probe_add(p->tape, NULL, list_place, list);
    if (!status)
        status = qkv_attention_probe_add(p->tape, &(qkv_attention_probe){
            .sequence = -1, .head = -1, .fn = list_weights, .user = list});
    if (!status)
        status = qkv_pipeline_look(p, &in, &o, &found);
    if (!status)
        qkv_look_free(&found);
    qkv_probes_clear(p->tape);
    return status;
}

/* A model of texts and images passes over each. */
qkv_status qkv_pipeline_places(qkv_pipeline *p, qkv_look_places *out)
{
    enum { SIDE = 16 };
    uint8_t half[SIDE * SIDE * 3];
    const qkv_image grey = {.data = half, .height = SIDE, .width = SIDE, .channels = 3};
    qkv_array series;
    qkv_look_input sample = {.text = "a", .image = {.image = &grey}}, text = {.text = "a"};
    place_list list = {.out = out};
    *out = (qkv_look_places){.ctx = p->ctx};
    memset(half, 127, sizeof half);
    qkv_status status = qkv__look_sample_rows(p, &series);
    sample.rows = series.data ? &series : NULL;
    if (!status)
        status = pass_sample(p, &sample, &list);
    if (!status && qkv__look_kind_of(p, &text) != qkv__look_kind_of(p, &sample))
        status = pass_sample(p, &text, &list);
    if (!status && list.failed)
        status = QKV_E_MEMORY;
    qkv_array_free(&series);
    if (status)
        qkv_look_places_free(out);
    return status;
}

void qkv_look_places_free(qkv_look_places *x)
{
    for (size_t i = 0; i < x->count; i++)
        qkv_free(x->ctx, x->items[i].name);
    if (x->ctx)
        qkv_free(x->ctx, x->items);
    *x = (qkv_look_places){0};
}
