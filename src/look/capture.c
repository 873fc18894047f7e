/* capture.c - what probes see, in a safetensors file. Tiles of attention weights go to the file as
 * they come; which sequences and heads they were of is known when the next tensor begins. */
#include "look/look.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    size_t rows, keys;
} span; /* of one sequence */

/* The attention whose tiles are being written. */
typedef struct {
    char name[QKV__LOOK_NAME]; /* full; "": none */
    bool gradient;
    int sequence, head;
    size_t row;    /* behind the last tile */
    size_t heads;  /* of the first sequence */
    span *spans;   /* (count) */
    size_t count, capacity;
} tiles;

/* A tensor whose gradient is to be stored. */
typedef struct {
    char name[QKV__LOOK_NAME];
    const qkv_tensor *x;
} waiting;

/* The newest state of a stack, which is stored if no layer follows. */
typedef struct {
    char prefix[QKV__LOOK_PREFIX]; /* "encoder_" */
    size_t layer;
    qkv_real *data; /* NULL: none yet */
    const qkv_tensor *x; /* whose gradient is to be stored; NULL: none */
    size_t shape[3], count;
} last_state;

enum { STACKS = 4 };

struct qkv_capture {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_capture_options o;
    qkv_names places; /* the options' patterns, copied */
    qkv_safetensors_stream *file;
    qkv_status status; /* of the first failure */
    tiles tiles;
    waiting *waiting;
    size_t waiting_count, waiting_capacity;
    last_state last[STACKS];
    qkv_names stored; /* names in the file, with a repetition once for each time */
};

static void capture_take(qkv_capture *c, qkv_status status)
{
    c->status = c->status ? c->status : status;
}

/* Numbers were put: the file learns their name, made distinct. */
static void name_tensor(qkv_capture *c, const char *name, int ndim, const size_t *shape)
{
    char full[QKV__LOOK_NAME + 32];
    size_t before = 0;
    for (size_t i = 0; i < c->stored.count; i++)
        before += strcmp(c->stored.names[i], name) == 0;
    (void)snprintf(full, sizeof full, before ? "%s@%zu" : "%s", name, before);
    capture_take(c, qkv__names_add(&c->stored, name));
    if (!c->status)
        capture_take(c, qkv_safetensors_stream_entry(c->file, full, ndim, shape));
}

static void capture_put(qkv_capture *c, const char *name, const qkv_real *x, int ndim,
                       const size_t *shape)
{
    size_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    if (!c->status)
        capture_take(c, x ? qkv_safetensors_stream_put(c->file, x, count)
                          : qkv_tape_status(c->t) ? qkv_tape_status(c->t) : QKV_E_MEMORY);
    name_tensor(c, name, ndim, shape);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* "" for a model's only stack, else "encoder_", "decoder_". */
static void stack_prefix(char out[QKV__LOOK_PREFIX], const qkv_place *p)
{
    size_t length = strcspn(p->stack, ".");
    length = length < p->stack_length ? length : p->stack_length;
    bool only = (length == 1 && *p->stack == 'h') ||
                (length == 5 && strncmp(p->stack, "layer", 5) == 0);
    (void)snprintf(out, QKV__LOOK_PREFIX, "%.*s%s", only ? 0 : (int)length, p->stack,
                   only ? "" : "_");
}

void qkv__look_attention_name(char out[QKV__LOOK_NAME], const char *name)
{
    qkv_place p;
    char prefix[QKV__LOOK_PREFIX];
    bool block = qkv_place_parse(&p, name);
    if (block && strcmp(p.part, "cross") == 0)
        (void)snprintf(out, QKV__LOOK_NAME, "cross_attentions.%zu", p.layer);
    else if (block && strcmp(p.part, "attn") == 0) {
        stack_prefix(prefix, &p);
        (void)snprintf(out, QKV__LOOK_NAME, "%sattentions.%zu", prefix, p.layer);
    } else {
        (void)snprintf(out, QKV__LOOK_NAME, "%.200s.weights", name);
    }
}

/* ---- attention weights ---------------------------------------------------------------------- */

static bool equal_spans(const tiles *a)
{
    for (size_t i = 1; i < a->count; i++)
        if (a->spans[i].rows != a->spans[0].rows || a->spans[i].keys != a->spans[0].keys)
            return false;
    return true;
}

/* The tiles that were written become a tensor, or one for each sequence. */
static void end_tiles(qkv_capture *c)
{
    tiles *a = &c->tiles;
    char plain[QKV__LOOK_NAME], name[QKV__LOOK_NAME + 32];
    if (!a->name[0])
        return;
    qkv__look_attention_name(plain, a->name);
    (void)snprintf(name, sizeof name, "%s%s", a->gradient ? "grad." : "", plain);
    if (equal_spans(a)) {
        name_tensor(c, name, 4, (size_t[]){a->count, a->heads, a->spans[0].rows,
                                           a->spans[0].keys});
    } else {
        size_t length = strlen(name);
        for (size_t i = 0; i < a->count; i++) {
            (void)snprintf(name + length, sizeof name - length, ".%zu", i);
            name_tensor(c, name, 3, (size_t[]){a->heads, a->spans[i].rows, a->spans[i].keys});
        }
    }
    a->name[0] = 0;
    a->count = 0;
}

static bool begins_tiles(const tiles *a, const char *name, bool gradient, int sequence, int head,
                         size_t row)
{
    if (gradient != a->gradient || strcmp(a->name, name) != 0 || sequence < a->sequence)
        return true;
    return sequence == a->sequence && (head < a->head || (head == a->head && row < a->row));
}

static void take_tile(qkv_capture *c, bool gradient, const char *name, int sequence, int head,
                      size_t row, size_t rows, size_t S, const qkv_real *weights)
{
    tiles *a = &c->tiles;
    qkv_place p;
    if (c->status || (c->o.layer >= 0 && (!qkv_place_parse(&p, name) ||
                                          p.layer != (size_t)c->o.layer)))
        return;
    if (!a->name[0] || begins_tiles(a, name, gradient, sequence, head, row)) {
        end_tiles(c);
        (void)snprintf(a->name, sizeof a->name, "%s", name);
        a->gradient = gradient;
        a->sequence = a->head = -1;
        a->heads = 0;
    }
    if (sequence != a->sequence) {
        if (!qkv__grow(c->ctx, &a->spans, &a->capacity, a->count + 1, sizeof *a->spans)) {
            capture_take(c, QKV_E_MEMORY);
            return;
        }
        a->spans[a->count++] = (span){0, S};
        a->head = -1;
    }
    span *s = &a->spans[a->count - 1];
    a->heads += head != a->head && a->count == 1;
    s->rows = head == a->head ? s->rows + rows : rows;
    a->sequence = sequence;
    a->head = head;
    a->row = row + rows;
    capture_take(c, qkv_safetensors_stream_put(c->file, weights, rows * S));
}

static void capture_weights(void *user, const char *name, int sequence, int head, size_t row,
                            size_t rows, size_t S, const qkv_real *weights)
{
    take_tile(user, false, name, sequence, head, row, rows, S, weights);
}

static void capture_weight_gradients(void *user, const char *name, int sequence, int head,
                                     size_t row, size_t rows, size_t S, const qkv_real *weights)
{
    take_tile(user, true, name, sequence, head, row, rows, S, weights);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void capture_tensor(qkv_capture *c, qkv_tape *t, const char *name, qkv_tensor *x)
{
    size_t shape[QKV_MAX_DIMS];
    if (c->status || !x)
        return;
    end_tiles(c);
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    capture_put(c, name, qkv_data(t, x), qkv_ndim(x), shape);
    if (!c->o.gradients || c->status)
        return;
    if (!qkv__grow(c->ctx, &c->waiting, &c->waiting_capacity, c->waiting_count + 1,
                   sizeof *c->waiting)) {
        capture_take(c, QKV_E_MEMORY);
        return;
    }
    waiting *w = &c->waiting[c->waiting_count++];
    (void)snprintf(w->name, sizeof w->name, "grad.%.240s", name);
    w->x = qkv_require_grad(t, x);
}

static qkv_tensor *capture_place(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    capture_tensor(user, t, name, x);
    return x;
}

/* The stream's norm at every position. */
static qkv_tensor *capture_norms(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv_capture *c = user;
    char full[QKV__LOOK_NAME];
    const qkv_real *data = c->status ? NULL : qkv_data(t, x);
    size_t width = qkv_dim(x, -1), rows = qkv_count(x) / (width ? width : 1);
    size_t shape[] = {qkv_dim(x, 0), qkv_dim(x, 1)};
    qkv_real *norms = data ? qkv_malloc(c->ctx, (rows + 1) * sizeof *norms) : NULL;
    if (!data || !norms) {
        capture_take(c, c->status ? c->status : QKV_E_MEMORY);
        return x;
    }
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < width; k++)
            sum += (double)data[i * width + k] * (double)data[i * width + k];
        norms[i] = (qkv_real)sqrt(sum);
    }
    (void)snprintf(full, sizeof full, "norms.%.240s", name);
    end_tiles(c);
    capture_put(c, full, norms, 2, shape);
    qkv_free(c->ctx, norms);
    return x;
}

/* ---- hidden states -------------------------------------------------------------------------- */

static void end_state(qkv_capture *c, last_state *s)
{
    char name[QKV__LOOK_NAME];
    if (s->data && !c->status) {
        end_tiles(c);
        (void)snprintf(name, sizeof name, "%shidden_states.%zu", s->prefix, s->layer);
        capture_put(c, name, s->data, 3, s->shape);
    }
    qkv_free(c->ctx, s->data);
    *s = (last_state){.data = NULL};
}

/* The stack's newest state; an unused one if it has none; NULL if there are too many stacks. */
static last_state *state_of(qkv_capture *c, const char *prefix)
{
    last_state *unused = NULL;
    for (size_t i = STACKS; i-- > 0;) {
        if (c->last[i].data && strcmp(c->last[i].prefix, prefix) == 0)
            return &c->last[i];
        unused = c->last[i].data ? unused : &c->last[i];
    }
    return unused;
}

static void keep_state(qkv_capture *c, qkv_tape *t, last_state *s, qkv_tensor *x)
{
    const qkv_real *data = qkv_data(t, x);
    if (!data || qkv_ndim(x) != 3)
        return;
    if (s->count != qkv_count(x)) {
        qkv_free(c->ctx, s->data);
        s->count = qkv_count(x);
        s->data = qkv_malloc(c->ctx, (s->count + 1) * sizeof *s->data);
    }
    if (!s->data) {
        capture_take(c, QKV_E_MEMORY);
        return;
    }
    memcpy(s->data, data, s->count * sizeof *data);
    s->x = c->o.gradients ? qkv_require_grad(t, x) : NULL;
    for (int i = 0; i < 3; i++)
        s->shape[i] = qkv_dim(x, i);
}

static qkv_tensor *capture_state(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv_capture *c = user;
    qkv_place p;
    char prefix[QKV__LOOK_PREFIX], full[QKV__LOOK_NAME];
    if (c->status || !qkv_place_parse(&p, name))
        return x;
    stack_prefix(prefix, &p);
    last_state *s = state_of(c, prefix);
    if (strcmp(p.part, "resid_pre") == 0) {
        if (s && !p.layer) /* a new pass */
            end_state(c, s);
        (void)snprintf(full, sizeof full, "%shidden_states.%zu", prefix, p.layer);
        capture_tensor(c, t, full, x);
    } else if (s) {
        keep_state(c, t, s, x);
        memcpy(s->prefix, prefix, sizeof prefix);
        s->layer = p.layer + 1;
    }
    return x;
}

/* "norm", "encoder.norm": the last state, where the final norm's output is to be that. */
static qkv_tensor *capture_final(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv_capture *c = user;
    char prefix[QKV__LOOK_PREFIX] = "";
    if (strchr(name, '.'))
        (void)snprintf(prefix, sizeof prefix, "%.*s_", (int)strcspn(name, "."), name);
    last_state *s = state_of(c, prefix);
    if (s && s->data && !c->status)
        keep_state(c, t, s, x);
    return x;
}

/* ---- the capture ---------------------------------------------------------------------------- */

static qkv_status capture_probes(qkv_capture *c)
{
    const qkv_capture_options *o = &c->o;
    qkv_attention_probe probe = {.sequence = -1, .head = o->head, .row = o->row, .rows = o->rows,
                                 .fn = capture_weights, .user = c};
    qkv_status status = o->attentions ? qkv_attention_probe_add(c->t, &probe) : QKV_OK;
    probe.fn = capture_weight_gradients;
    probe.gradient = true;
    if (!status && o->attentions && o->gradients)
        status = qkv_attention_probe_add(c->t, &probe);
    if (!status && o->hidden_states)
        status = qkv_probe_add(c->t, "*.resid_pre", capture_state, c);
    if (!status && o->hidden_states)
        status = qkv_probe_add(c->t, "*.resid_post", capture_state, c);
    if (!status && o->hidden_states && o->final_norm)
        status = qkv_probe_add(c->t, "*norm", capture_final, c);
    if (!status && o->norms)
        status = qkv_probe_add(c->t, "*.resid_*", capture_norms, c);
    for (size_t i = 0; i < c->places.count && !status; i++)
        status = qkv_probe_add(c->t, c->places.names[i], capture_place, c);
    return status;
}

qkv_capture_options qkv_capture_defaults(void)
{
    return (qkv_capture_options){.store = QKV_STORE_F32, .layer = -1, .head = -1};
}

qkv_status qkv_capture_open(qkv_capture **out, qkv_context *ctx, qkv_tape *t,
                            const qkv_capture_options *options)
{
    qkv_capture *c = qkv_calloc(ctx, 1, sizeof *c);
    qkv_status status = QKV_OK;
    *out = NULL;
    if (!c)
        return QKV_E_MEMORY;
    c->ctx = c->stored.ctx = c->places.ctx = ctx;
    c->t = t;
    c->o = *options;
    for (size_t i = 0; i < options->places.count && !status; i++)
        status = qkv__names_add(&c->places, options->places.items[i]);
    if (!status)
        status = qkv_safetensors_stream_open(&c->file, ctx, options->file,
                                             options->store ? options->store : QKV_STORE_F32);
    if (!status)
        status = capture_probes(c);
    if (status)
        qkv_capture_abandon(c);
    else
        *out = c;
    return status;
}

static void put_gradient(qkv_capture *c, const char *name, const qkv_tensor *x)
{
    const qkv_tensor *g = qkv_grad_of(c->t, x);
    size_t shape[QKV_MAX_DIMS];
    for (int k = 0; g && k < qkv_ndim(g); k++)
        shape[k] = qkv_dim(g, k);
    if (g && !c->status) /* NULL: the objective does not depend on it */
        capture_put(c, name, qkv_data(c->t, g), qkv_ndim(g), shape);
}

qkv_status qkv_capture_gradients(qkv_capture *c)
{
    end_tiles(c);
    for (size_t i = 0; i < c->waiting_count; i++)
        put_gradient(c, c->waiting[i].name, c->waiting[i].x);
    c->waiting_count = 0;
    for (size_t i = 0; i < STACKS; i++) {
        char name[QKV__LOOK_NAME];
        last_state *s = &c->last[i];
        (void)snprintf(name, sizeof name, "grad.%shidden_states.%zu", s->prefix, s->layer);
        if (s->x)
            put_gradient(c, name, s->x);
        s->x = NULL;
    }
    return c->status;
}

static void capture_free(qkv_capture *c)
{
    qkv_probes_clear(c->t);
    for (size_t i = 0; i < STACKS; i++)
        qkv_free(c->ctx, c->last[i].data);
    qkv_names_free(&c->stored);
    qkv_names_free(&c->places);
    qkv_free(c->ctx, c->tiles.spans);
    qkv_free(c->ctx, c->waiting);
    qkv_free(c->ctx, c);
}

qkv_status qkv_capture_close(qkv_capture *c)
{
    end_tiles(c);
    for (size_t i = 0; i < STACKS; i++)
        end_state(c, &c->last[i]);
    qkv_status status = c->status;
    if (!status)
        status = qkv_safetensors_stream_close(c->file);
    else
        qkv_safetensors_stream_abandon(c->file);
    capture_free(c);
    return status;
}

void qkv_capture_abandon(qkv_capture *c)
{
    if (!c)
        return;
    qkv_safetensors_stream_abandon(c->file);
    capture_free(c);
}
