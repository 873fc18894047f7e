/* patch.c - activation patching: where in a model the difference between two inputs is made.
 * A pass on the corrupt input gets the clean pass's activation at one layer and position; only the
 * layers from there on are computed, for many positions at once. */
#include <stdio.h>
#include <string.h>

#include "pipeline/options.h"
#include "report/patching.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_patch_options, member)
static const qkv_option rows[] = {
    {.flag = "answer", .key = "answer", .type = QKV_OPT_STRING, FIELD(answer), .value = "NAME",
     .help = "what is measured: a text (its first token), class, channel or column; without it "
             "the clean input's likeliest"},
    {.flag = "other", .key = "other", .type = QKV_OPT_STRING, FIELD(other), .value = "NAME",
     .help = "measure logit(answer) - logit(other), not log p(answer)"},
    {.flag = "place", .key = "place", .type = QKV_OPT_STRING, FIELD(place), .value = "NAME",
     .initial = "resid_pre", .help = "of a layer: resid_pre, resid_mid, attn.out, ff.out, attn.z"},
    {.flag = "heads", .key = "heads", .type = QKV_OPT_BOOL, FIELD(heads),
     .help = "patch each head by itself, at all positions (with --place attn.z, q, k or v)"},
    {.key = "pixel", .type = QKV_OPT_STRING, .flags = QKV_OPT_HIDDEN, FIELD(pixel), .value = "X,Y",
     .help = "where the answer is, in the model's own size; without it where the two differ most"},
    {.key = "at", .type = QKV_OPT_INT, .flags = QKV_OPT_HIDDEN, .min = -1, .max = 16777215,
     FIELD(at), .initial = "-1", .help = "where the answer is: a token or row"},
    {.key = "mask", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW | QKV_OPT_HIDDEN, .max = 1,
     FIELD(mask), .initial = "0.75", .help = "masked autoencoder: share of patches to mask"},
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "selects them"},
};
QKV__OPTIONS(qkv_pipeline_patch, "Patching")

/* Rows of a pass: positions at once times tokens. Of a causal model a pass has fewer positions, and
 * begins at the first of them: a share of all, but not so few that products become small. */
enum { MOST_ROWS = 2048, PARTS = 8, FEW = 8 };

/* ---- passes ---------------------------------------------------------------------------------- */

static qkv__patch_stack *stack_of(qkv__patching *j, const qkv_place *at)
{
    for (size_t i = 0; i < j->stack_count; i++)
        if (strlen(j->stacks[i].stack) == at->stack_length &&
            strncmp(j->stacks[i].stack, at->stack, at->stack_length) == 0)
            return &j->stacks[i];
    return NULL;
}

static void keep_copy(qkv__patching *j, qkv_tape *t, const qkv_tensor *x, qkv_real **to)
{
    const qkv_real *data = qkv_data(t, x);
    qkv_free(j->p->ctx, *to);
    *to = data ? qkv_malloc(j->p->ctx, qkv_count(x) * sizeof **to) : NULL;
    if (*to)
        memcpy(*to, data, qkv_count(x) * sizeof **to);
    j->out_of_memory = j->out_of_memory || !*to;
}

/* The corrupt stream before each layer, and after it. */
static qkv_tensor *keep_stream(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__patching *j = user;
    qkv_place at;
    qkv__patch_stack *s = qkv_place_parse(&at, name) ? stack_of(j, &at) : NULL;
    if (!s || j->out_of_memory)
        return x;
    size_t i = at.layer + (strcmp(at.part, "resid_post") == 0);
    if (!qkv__grow(j->p->ctx, &s->stream, &s->stream_room, i + 1, sizeof *s->stream)) {
        j->out_of_memory = true;
        return x;
    }
    while (s->stream_count <= i)
        s->stream[s->stream_count++] = NULL;
    s->layers = at.layer + 1 > s->layers ? at.layer + 1 : s->layers;
    s->width = qkv_dim(x, -1);
    keep_copy(j, t, x, &s->stream[i]);
    return x;
}

static qkv_tensor *keep_clean(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__patching *j = user;
    qkv_place at;
    qkv__patch_stack *s = qkv_place_parse(&at, name) ? stack_of(j, &at) : NULL;
    if (!s || j->out_of_memory || at.layer >= s->layers)
        return x;
    s->size = qkv_dim(x, 1) == s->T ? qkv_count(x) / s->T : 0;
    s->heads = qkv_ndim(x) == 4 ? qkv_dim(x, 2) : 0;
    keep_copy(j, t, x, &s->kept[at.layer]);
    return x;
}

/* Sequence i of a pass gets the clean activation at position, or of head, first + i. */
static qkv_tensor *patch_replace(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    const qkv__patching *j = user;
    const qkv__patch_stack *s = j->now;
    size_t shape[QKV_MAX_DIMS], n = (s->T - j->from) * s->size, skipped = j->from * s->size;
    (void)name;
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    const qkv_real *data = qkv_data(t, x), *kept = s->kept[j->layer];
    qkv_tensor *y = data ? qkv_tensor_from(t, data, qkv_ndim(x), shape) : NULL;
    qkv_real *to = qkv_tensor_fill(y);
    size_t part = j->o.heads ? s->size / s->heads : s->size; /* numbers that are replaced */
    for (size_t i = 0; to && i < j->count; i++)
        for (size_t k = 0; k < (j->o.heads ? s->T : 1); k++) {
            size_t at = k * s->size + (j->first + i) * part;
            memcpy(to + i * n + at - skipped, kept + at, part * sizeof *to);
        }
    return y;
}

/* A whole pass on an input; its outputs are copied. */
static qkv_status keep_pass(qkv__patching *j, qkv__looking *l, bool everywhere, qkv_real **outputs)
{
    qkv_tape *t = j->p->tape;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *y = j->patch->outputs(l, 1, everywhere ? QKV__EVERYWHERE : (int)j->at);
    y = y ? qkv_contiguous(t, y) : NULL;
    if (!y || !qkv_data(t, y))
        return qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
    keep_copy(j, t, y, outputs);
    j->choices = qkv_dim(y, -1);
    j->places = qkv_count(y) / j->choices;
    return j->out_of_memory ? QKV_E_MEMORY : QKV_OK;
}

/* Copies of the stream in which stack s goes on with that layer, one for each sequence. */
static qkv_status enter_stack(qkv__patching *j, const qkv__patch_stack *s, size_t layer)
{
    qkv_tape *t = j->p->tape;
    char name[96];
    size_t T = s->T - j->from, size = T * s->width;
    qkv_tensor *x = qkv_tensor_from(t, NULL, 3, (size_t[]){j->count, T, s->width});
    qkv_real *to = qkv_tensor_fill(x);
    for (size_t i = 0; to && i < j->count; i++)
        memcpy(to + i * size, s->stream[layer] + j->from * s->width, size * sizeof *to);
    (void)snprintf(name, sizeof name, "%s.%zu", s->stack, layer);
    return x ? qkv_tape_enter(t, name, x) : qkv_tape_status(t);
}

/* Positions of one layer, as many as a pass takes. */
static qkv_status patch_pass(qkv__patching *j, double *measured)
{
    qkv_tape *t = j->p->tape;
    char name[160];
    qkv_status status = QKV_OK;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    for (qkv__patch_stack *s = j->stacks; s < j->now && !status; s++)
        status = enter_stack(j, s, s->layers);
    if (!status)
        status = enter_stack(j, j->now, j->layer);
    (void)snprintf(name, sizeof name, "%s.%zu.%s", j->now->stack, j->layer, j->o.place);
    if (!status)
        status = qkv_probe_add(t, name, patch_replace, j);
    qkv_tensor *y = status ? NULL : j->patch->outputs(&j->corrupt, j->count, (int)j->at);
    const qkv_real *outputs = y ? qkv_data(t, qkv_contiguous(t, y)) : NULL;
    for (size_t i = 0; i < j->count && outputs; i++)
        measured[i] = qkv__patch_measure(j, outputs + i * j->choices);
    qkv_probes_clear(t);
    if (!status && !outputs)
        status = qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
    return status;
}

/* ---- grids ----------------------------------------------------------------------------------- */

static qkv_status add_grid(qkv__patching *j, qkv__patch_stack *s)
{
    qkv_context *ctx = j->p->ctx;
    qkv_patch_grid *g = &j->out->grids[j->out->grid_count];
    if (!s->size)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--place: %s.0.%.60s does not have the %zu positions "
                        "of the stack", s->stack, j->o.place, s->T);
    if (j->o.heads && !s->heads)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--heads: %s.0.%.60s has no heads; attn.z has",
                        s->stack, j->o.place);
    *g = (qkv_patch_grid){.stack = s->stack, .axis = s->axis, .layers = s->layers,
                          .positions = j->o.heads ? s->heads : s->T};
    g->values = qkv_calloc(ctx, g->layers * g->positions + 1, sizeof *g->values);
    j->out->grid_count++;
    return g->values ? QKV_OK : QKV_E_MEMORY;
}

/* The layers of positions first .. first + count - 1. */
static qkv_status fill_columns(qkv__patching *j, const qkv_patch_grid *g, size_t *done,
                               size_t total)
{
    qkv_status status = QKV_OK;
    if (j->patch->begin)
        status = j->patch->begin(&j->corrupt, j->from, j->count);
    for (j->layer = 0; j->layer < g->layers && !status; j->layer++) {
        status = patch_pass(j, g->values + j->layer * g->positions + j->first);
        *done += j->count;
        if (!status)
            status = qkv__progress(j->p->ctx, "patching", j->o.heads ? "heads" : "positions",
                                   *done, total);
    }
    return status;
}

static qkv_status fill_patch_grid(qkv__patching *j, const qkv_patch_grid *g, size_t *done,
                                  size_t total)
{
    size_t n = g->positions, at_once = j->now->T < MOST_ROWS ? MOST_ROWS / j->now->T : 1;
    bool causal = j->patch->begin && !j->o.heads;
    size_t fewer = n / PARTS > FEW ? n / PARTS : FEW;
    qkv_status status = QKV_OK;
    at_once = causal && fewer < at_once ? fewer : at_once;
    for (size_t i = 0; i < g->layers * n; i++) /* what stays behind a causal model's answer */
        g->values[i] = j->out->corrupt;
    for (j->first = 0; j->first < n && !status; j->first += j->count) {
        j->count = n - j->first < at_once ? n - j->first : at_once;
        j->from = causal ? j->first : 0;
        if (j->from <= j->at || !causal)
            status = fill_columns(j, g, done, total);
    }
    return status;
}

static qkv_status patch_grids(qkv__patching *j)
{
    qkv_status status = QKV_OK;
    size_t done = 0, total = 0;
    qkv__patch_stack *of[QKV_LOOK_AXES];
    for (qkv__patch_stack *s = j->stacks; s < j->stacks + j->stack_count && !status; s++)
        if (s->layers && s->kept[0]) {
            of[j->out->grid_count] = s;
            status = add_grid(j, s);
        }
    if (!status && !j->out->grid_count)
        status = qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "--place: the model has no %s.0.%.60s",
                          j->stacks[0].stack, j->o.place);
    for (size_t i = 0; i < j->out->grid_count; i++)
        total += j->out->grids[i].layers * j->out->grids[i].positions;
    for (size_t i = 0; i < j->out->grid_count && !status; i++) {
        j->now = of[i];
        status = fill_patch_grid(j, &j->out->grids[i], &done, total);
    }
    return status;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static qkv_tensor *keep_pixels(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    qkv__looking *l = user;
    const qkv_real *data = qkv_data(t, x);
    size_t n = data ? qkv_count(x) : 0;
    (void)name;
    if (!l->pixels && data && qkv_ndim(x) == 4 && qkv_dim(x, 0) == 1 &&
        (l->pixels = qkv_malloc(l->p->ctx, n * sizeof *data)) != NULL) {
        memcpy(l->pixels, data, n * sizeof *data);
        for (int i = 0; i < 4; i++)
            l->pixel_shape[i] = qkv_dim(x, i);
    }
    return x;
}

/* The axes of an input, and of an image its pixels. */
static qkv_status prepare_input(qkv__patching *j, qkv__looking *l)
{
    qkv_status status = j->kind->prepare(l);
    if (status || !l->out->axes[0].rows)
        return status;
    status = qkv_probe_add(j->p->tape, "pixels", keep_pixels, l);
    if (!status)
        status = j->kind->run(l);
    qkv_probes_clear(j->p->tape);
    return status ? status : l->pixels ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status prepare_inputs(qkv__patching *j)
{
    qkv_look_input corrupt = *j->corrupt.in;
    qkv_status status = prepare_input(j, &j->clean);
    if (j->clean.out->target)
        corrupt.second = j->clean.out->target;
    j->corrupt.in = &corrupt;
    if (!status)
        status = prepare_input(j, &j->corrupt);
    j->corrupt.in = NULL;
    if (!status && j->patch->share)
        j->patch->share(&j->clean, &j->corrupt);
    for (size_t i = 0; i < j->clean.out->axes_count && !status; i++) {
        const qkv_look_axis *a = &j->clean.out->axes[i], *b = &j->corrupt.out->axes[i];
        if (a->count != b->count)
            status = qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "the clean input has %zu %s, the corrupt "
                              "one %zu: as many expected", a->count, a->name, b->count);
    }
    return status;
}

/* The stacks of the kind's attentions, each once. */
static void list_stacks(qkv__patching *j)
{
    for (size_t i = 0; i < QKV_LOOK_ATTENTIONS && j->kind->attentions[i].stack; i++) {
        const qkv__look_attentions *a = &j->kind->attentions[i];
        const qkv_place at = {a->stack, strlen(a->stack), 0, NULL};
        if (!stack_of(j, &at))
            j->stacks[j->stack_count++] = (qkv__patch_stack){
                .stack = a->stack, .axis = a->query, .T = j->clean.out->axes[a->query].count};
    }
}

static qkv_status keep_passes(qkv__patching *j)
{
    char name[160];
    bool everywhere;
    qkv_tape *t = j->p->tape;
    qkv_status status = qkv__patch_where(j, &everywhere);
    if (!status)
        status = qkv_probe_add(t, "*.resid_pre", keep_stream, j);
    if (!status)
        status = qkv_probe_add(t, "*.resid_post", keep_stream, j);
    if (!status)
        status = keep_pass(j, &j->corrupt, everywhere, &j->outputs[1]);
    qkv_probes_clear(t);
    for (qkv__patch_stack *s = j->stacks; s < j->stacks + j->stack_count && !status; s++) {
        (void)snprintf(name, sizeof name, "%s.*.%.100s", s->stack, j->o.place);
        s->kept = qkv_calloc(j->p->ctx, s->layers + 1, sizeof *s->kept);
        status = s->kept ? qkv_probe_add(t, name, keep_clean, j) : QKV_E_MEMORY;
    }
    if (!status)
        status = keep_pass(j, &j->clean, everywhere, &j->outputs[0]);
    qkv_probes_clear(t);
    if (!status && everywhere)
        qkv__patch_choose(j);
    return status;
}

static void free_patching(qkv__patching *j)
{
    qkv_context *ctx = j->p->ctx;
    for (size_t i = 0; i < j->stack_count; i++) {
        qkv__patch_stack *s = &j->stacks[i];
        for (size_t k = 0; k < s->stream_count; k++)
            qkv_free(ctx, s->stream[k]);
        for (size_t k = 0; s->kept && k < s->layers; k++)
            qkv_free(ctx, s->kept[k]);
        qkv_free(ctx, s->stream);
        qkv_free(ctx, s->kept);
    }
    for (int i = 0; i < 2; i++)
        qkv_free(ctx, j->outputs[i]);
    qkv__look_end(&j->clean);
    qkv__look_end(&j->corrupt);
}

qkv_status qkv_pipeline_patch(qkv_pipeline *p, const qkv_look_input *clean,
                              const qkv_look_input *corrupt,
                              const qkv_pipeline_patch_options *options, qkv_patch *out)
{
    const char *kind = qkv_model_type_name(qkv_model_type_of(p->model));
    qkv__patching j = {.p = p, .out = out, .kind = qkv__look_kind_of(p),
                       .o = options ? *options : qkv_pipeline_patch_defaults()};
    *out = (qkv_patch){.ctx = p->ctx, .clean_input = {.ctx = p->ctx, .kind = kind},
                       .corrupt_input = {.ctx = p->ctx, .kind = kind}};
    if (!j.kind || !(j.patch = j.kind->patch))
        return qkv__pipeline_refuse(p, "let activations be patched");
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    o.mask = j.o.mask;
    o.seed = j.o.seed;
    j.clean = (qkv__looking){.p = p, .kind = j.kind, .in = clean, .out = &out->clean_input,
                             .o = o};
    j.corrupt = (qkv__looking){.p = p, .kind = j.kind, .in = corrupt, .out = &out->corrupt_input,
                               .o = o};
    qkv_status status = prepare_inputs(&j);
    if (!status) {
        list_stacks(&j);
        status = keep_passes(&j);
    }
    if (!status)
        status = qkv__patch_answer(&j);
    if (!status)
        status = patch_grids(&j);
    if (!status)
        status = qkv__patch_name(&j);
    free_patching(&j);
    if (status)
        qkv_patch_free(out);
    return status;
}

void qkv_patch_free(qkv_patch *x)
{
    if (x->ctx) {
        qkv_look_free(&x->clean_input);
        qkv_look_free(&x->corrupt_input);
        for (size_t i = 0; i < x->grid_count; i++)
            qkv_free(x->ctx, x->grids[i].values);
        for (size_t i = 0; i < x->outcome_count; i++)
            qkv_free(x->ctx, x->outcomes[i].name);
        qkv_free(x->ctx, x->answer);
        qkv_free(x->ctx, x->other);
        qkv_free(x->ctx, x->place);
        qkv_free(x->ctx, x->where);
    }
    *x = (qkv_patch){0};
}
