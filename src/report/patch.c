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
     .help = "what is measured: a text (its first token), class, code, channel or column, of "
             "encoders the cosine with a text or image; without it the clean input's likeliest, "
             "or the cosine with it"},
    {.flag = "other", .key = "other", .type = QKV_OPT_STRING, FIELD(other), .value = "NAME",
     .help = "measure logit(answer) - logit(other), not log p(answer)"},
    {.flag = "place", .key = "place", .type = QKV_OPT_STRING, FIELD(place), .value = "NAME",
     .help = "of each layer: resid_pre (without it), resid_mid, attn.out, ff.out, attn.z; of a "
             "VQGAN the layers (\"*\", all of them; \"mid.*\")"},
    {.flag = "heads", .key = "heads", .type = QKV_OPT_BOOL, FIELD(heads),
     .help = "patch each head by itself, at all positions (with --place attn.z, q, k or v)"},
    {.key = "pixel", .type = QKV_OPT_STRING, .flags = QKV_OPT_HIDDEN, FIELD(pixel), .value = "X,Y",
     .help = "where the answer is, in the model's own size, of a prior in the grid of codes; "
             "without it where the two differ most"},
    {.key = "at", .type = QKV_OPT_INT, .flags = QKV_OPT_HIDDEN, .min = -1, .max = 16777215,
     FIELD(at), .initial = "-1", .help = "where the answer is: a token or row"},
    {.key = "mask", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW | QKV_OPT_HIDDEN, .max = 1,
     FIELD(mask), .initial = "0.75", .help = "masked autoencoder: share of patches to mask"},
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "selects them"},
    {.key = "class", .type = QKV_OPT_STRING, .flags = QKV_OPT_HIDDEN, FIELD(class_),
     .value = "NAME", .help = "prior on codes: the class of both images"},
};
QKV__OPTIONS(qkv_pipeline_patch, "Patching")

/* Rows of a pass: positions at once times tokens. Of a causal model a pass has fewer positions, and
 * begins at the first of them: a share of all, but not so few that products become small. */
enum { MOST_ROWS = 2048, PARTS = 8, FEW = 8 };

/* ---- grids ----------------------------------------------------------------------------------- */

/* What tells a place from the others of its grid: "3" of "h.3.resid_pre", "mid.attn_1" of
 * "encoder.mid.attn_1". */
static char *name_layer(const qkv__patching *j, const qkv__patch_stack *s, const char *place)
{
    const char *name = place + strlen(s->stack) + 1;
    size_t length = strlen(name), part = strlen(j->o.place);
    const char *end = length > part ? name + length - part : NULL;
    if (end && end[-1] == '.' && strcmp(end, j->o.place) == 0)
        length -= part + 1;
    char *out = qkv_malloc(j->p->ctx, length + 1);
    if (out) {
        memcpy(out, name, length);
        out[length] = 0;
    }
    return out;
}

static qkv_status check_places(const qkv__patching *j, const qkv__patch_stack *s)
{
    qkv_context *ctx = j->p->ctx;
    for (const qkv__patch_place *x = s->places; x < s->places + s->place_count; x++) {
        bool heads = !j->layers->maps && x->clean.ndim == 4;
        if (!qkv__patch_fits(j, s, x))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "--place: %.100s does not have the %zu positions "
                            "of the stack", x->name, s->T);
        if (j->o.heads && (!heads || x->clean.shape[2] != s->places->clean.shape[2]))
            return qkv_fail(ctx, QKV_E_ARGUMENT, heads ? "--heads: %.100s has another number of "
                            "heads than %.100s" : "--heads: %.100s has no heads; attn.z has",
                            x->name, s->places->name);
    }
    return QKV_OK;
}

static qkv_status add_grid(qkv__patching *j, qkv__patch_stack *s)
{
    qkv_context *ctx = j->p->ctx;
    qkv_patch_grid *g = &j->out->grids[j->out->grid_count];
    qkv_status status = check_places(j, s);
    if (status)
        return status;
    char pattern[200];
    (void)snprintf(pattern, sizeof pattern, "%s%s%.100s", s->stack, j->layers->place, j->o.place);
    *g = (qkv_patch_grid){.stack = s->stack, .axis = s->axis, .pattern = qkv_strdup(ctx, pattern),
                          .positions = j->o.heads ? s->places->clean.shape[2] : s->T};
    g->values = qkv_calloc(ctx, s->place_count * g->positions, sizeof *g->values);
    g->names = qkv_calloc(ctx, s->place_count, sizeof *g->names);
    j->out->grid_count++;
    for (; g->names && g->layers < s->place_count; g->layers++)
        if (!(g->names[g->layers] = name_layer(j, s, s->places[g->layers].name)))
            return QKV_E_MEMORY;
    return g->pattern && g->values && g->names ? QKV_OK : QKV_E_MEMORY;
}

/* The layers of positions first .. first + count - 1. */
static qkv_status fill_columns(qkv__patching *j, const qkv_patch_grid *g, size_t *done,
                               size_t total)
{
    qkv_status status = QKV_OK;
    if (j->patch->begin)
        status = j->patch->begin(&j->corrupt, j->from, j->count);
    for (j->layer = 0; j->layer < g->layers && !status; j->layer++) {
        status = qkv__patch_pass(j, g->values + j->layer * g->positions + j->first);
        *done += j->count;
        if (!status)
            status = qkv__progress(j->p->ctx, "patching", j->o.heads ? "heads" : "positions",
                                   *done, total);
    }
    return status;
}

/* Positions (or heads) that are patched in one pass, each in a sequence of its own. */
static size_t patched_at_once(const qkv__patching *j, size_t n, bool causal)
{
    size_t fewer = n / PARTS > FEW ? n / PARTS : FEW;
    size_t most = j->patch->at_once ? j->patch->at_once(&j->corrupt)
                  : j->now->T < MOST_ROWS ? MOST_ROWS / j->now->T
                                          : 1;
    return causal && fewer < most ? fewer : most;
}

static qkv_status fill_patch_grid(qkv__patching *j, const qkv_patch_grid *g, size_t *done,
                                  size_t total)
{
    size_t n = g->positions;
    bool causal = j->patch->begin && !j->o.heads;
    size_t at_once = patched_at_once(j, n, causal);
    size_t last = j->patch->position ? j->patch->position(&j->corrupt, j->at) : j->at;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < g->layers * n; i++) /* what stays behind a causal model's answer */
        g->values[i] = j->out->corrupt;
    for (j->first = 0; j->first < n && !status; j->first += j->count) {
        j->count = n - j->first < at_once ? n - j->first : at_once;
        j->from = causal ? j->first : 0;
        if (j->from <= last || !causal)
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
        if (s->place_count) {
            of[j->out->grid_count] = s;
            status = add_grid(j, s);
        }
    if (!status && !j->out->grid_count)
        status = qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "--place: the model has no %s%s%.60s",
                          j->stacks[0].stack, j->layers->place, j->o.place);
    for (size_t i = 0; i < j->out->grid_count; i++)
        total += j->out->grids[i].layers * j->out->grids[i].positions;
    for (size_t i = 0; i < j->out->grid_count && !status; i++) {
        j->now = of[i];
        status = fill_patch_grid(j, &j->out->grids[i], &done, total);
    }
    return status;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The input's axes, and what passes on it begin with. */
static qkv_status prepare_input(qkv__patching *j, qkv__looking *l)
{
    qkv_status status = j->kind->prepare(l);
    return status || !j->patch->inputs ? status : j->patch->inputs(l);
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
        status = j->patch->share(&j->clean, &j->corrupt, &j->o);
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
        bool had = false;
        for (size_t k = 0; k < j->stack_count; k++)
            had = had || strcmp(j->stacks[k].stack, a->stack) == 0;
        if (!had)
            j->stacks[j->stack_count++] = (qkv__patch_stack){
                .j = j, .stack = a->stack, .axis = a->query,
                .T = j->clean.out->axes[a->query].count};
    }
}

static void free_patching(qkv__patching *j)
{
    qkv__patch_free_stacks(j);
    for (int i = 0; i < 2; i++)
        qkv_free(j->p->ctx, j->outputs[i]);
    qkv__look_end(&j->clean);
    qkv__look_end(&j->corrupt);
}

qkv_status qkv_pipeline_patch(qkv_pipeline *p, const qkv_look_input *clean,
                              const qkv_look_input *corrupt,
                              const qkv_pipeline_patch_options *options, qkv_patch *out)
{
    const char *kind = qkv_model_type_name(qkv_model_type_of(p->model));
    qkv__patching j = {.p = p, .out = out, .kind = qkv__look_kind_of(p, clean),
                       .o = options ? *options : qkv_pipeline_patch_defaults()};
    *out = (qkv_patch){.ctx = p->ctx, .clean_input = {.ctx = p->ctx, .kind = kind},
                       .corrupt_input = {.ctx = p->ctx, .kind = kind}};
    if (!j.kind || !(j.patch = j.kind->patch))
        return qkv__pipeline_refuse(p, "let activations be patched");
    if (qkv__look_kind_of(p, corrupt) != j.kind)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: the clean and the corrupt input are a text "
                        "and an image: two of a kind expected", p->dir);
    j.layers = j.patch->layers ? j.patch->layers : &qkv__patch_blocks;
    j.o.place = j.o.place ? j.o.place : j.layers->usual;
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    o.mask = j.o.mask;
    o.seed = j.o.seed;
    o.class_ = j.o.class_;
    j.clean = (qkv__looking){.p = p, .kind = j.kind, .in = clean, .out = &out->clean_input,
                             .o = o};
    j.corrupt = (qkv__looking){.p = p, .kind = j.kind, .in = corrupt, .out = &out->corrupt_input,
                               .o = o};
    qkv_status status = prepare_inputs(&j);
    if (!status) {
        list_stacks(&j);
        status = qkv__patch_keep(&j);
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
        for (qkv_patch_grid *g = x->grids; g < x->grids + x->grid_count; g++) {
            for (size_t i = 0; i < g->layers; i++)
                qkv_free(x->ctx, g->names[i]);
            qkv_free(x->ctx, g->names);
            qkv_free(x->ctx, g->pattern);
            qkv_free(x->ctx, g->values);
        }
        for (size_t i = 0; i < x->outcome_count; i++)
            qkv_free(x->ctx, x->outcomes[i].name);
        qkv_free(x->ctx, x->answer);
        qkv_free(x->ctx, x->other);
        qkv_free(x->ctx, x->place);
        qkv_free(x->ctx, x->where);
    }
    *x = (qkv_patch){0};
}
