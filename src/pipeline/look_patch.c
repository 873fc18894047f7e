/* look_patch.c - activation patching: where in a model the difference between two inputs is made.
 * A pass on the corrupt input gets the clean pass's activation at one layer and position; only the
 * layers from there on are computed, for many positions at once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/looking.h"
#include "pipeline/options.h"
#include "qkv/bert.h"
#include "qkv/chart.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_patch_options, member)
static const qkv_option rows[] = {
    {.flag = "answer", .key = "answer", .type = QKV_OPT_STRING, FIELD(answer), .value = "TEXT",
     .help = "its first token is measured; the clean input's likeliest without it"},
    {.flag = "other", .key = "other", .type = QKV_OPT_STRING, FIELD(other), .value = "TEXT",
     .help = "measure logit(answer) - logit(other), not log p(answer)"},
    {.flag = "place", .key = "place", .type = QKV_OPT_STRING, FIELD(place), .value = "NAME",
     .initial = "resid_pre", .help = "of a layer: resid_pre, resid_mid, attn.out, ff.out, attn.z"},
};
QKV__OPTIONS(qkv_pipeline_patch, "Patching")

enum { MOST_ROWS = 2048 }; /* rows of a pass: positions at once times tokens */

typedef struct {
    qkv_pipeline *p;
    qkv_pipeline_patch_options o;
    qkv_patch *out;
    qkv_ids clean, corrupt;
    bool words;             /* a masked language model */
    const char *stack;
    size_t layers, T, read; /* read: the position whose prediction is measured */
    int32_t answer, other;  /* other -1: none */
    qkv_real **kept;        /* (layers) the clean activations, (T, size) */
    qkv_real **stream;      /* (layers) the corrupt stream before each layer, (T, width) */
    size_t size, width;
    bool keep_clean, out_of_memory;
    size_t first, count, layer; /* of a pass that patches: positions first .. first + count - 1 */
} patching;

/* ---- passes --------------------------------------------------------------------------------- */

static qkv_tensor *repeated_ids(const patching *j, const qkv_ids *ids, size_t n)
{
    int32_t *all = qkv_malloc(j->p->ctx, n * j->T * sizeof *all);
    for (size_t i = 0; all && i < n * j->T; i++)
        all[i] = ids->data[i % j->T];
    qkv_tensor *x = all ? qkv_tensor_ids(j->p->tape, all, 2, (size_t[]){n, j->T}) : NULL;
    qkv_free(j->p->ctx, all);
    return x;
}

static int32_t patch_likeliest(const qkv_real *logits, size_t V)
{
    size_t best = 0;
    for (size_t i = 1; i < V; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* The measure of each of n sequences. */
static qkv_status measure(patching *j, qkv_tensor *ids, size_t n, double *out)
{
    qkv_tape *t = j->p->tape;
    qkv_model *m = j->p->model;
    qkv_tensor *h = NULL, *y = NULL;
    if (!ids)
        return QKV_E_MEMORY;
    if (j->words) {
        const qkv_bert_input in = {.ids = ids};
        h = qkv_bert_hidden(m, t, &in);
    } else {
        h = qkv_lm_hidden(m, t, ids, 0, NULL, NULL);
    }
    h = qkv_slice(t, h, 1, j->read, j->read + 1);
    if (j->words) {
        int32_t *each = qkv_malloc(j->p->ctx, n * sizeof *each);
        for (size_t i = 0; each && i < n; i++)
            each[i] = (int32_t)i;
        y = each ? qkv_bert_word_logits(m, t, qkv_contiguous(t, h),
                                        qkv_tensor_ids(t, each, 1, &n))
                 : NULL;
        qkv_free(j->p->ctx, each);
    } else {
        y = qkv_lm_logits(m, t, h);
    }
    const qkv_real *logits = qkv_data(t, y);
    size_t V = y ? qkv_dim(y, -1) : 0;
    if (!logits)
        return qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
    if (j->answer < 0)
        j->answer = patch_likeliest(logits, V);
    for (size_t i = 0; i < n; i++) {
        const qkv_real *one = logits + i * V;
        double most = (double)one[0], sum = 0;
        for (size_t k = 0; k < V; k++)
            most = fmax(most, (double)one[k]);
        for (size_t k = 0; k < V; k++)
            sum += exp((double)one[k] - most);
        out[i] = (double)one[j->answer] -
                 (j->other >= 0 ? (double)one[j->other] : most + log(sum));
    }
    return QKV_OK;
}

static qkv_real *copy_of(patching *j, qkv_tape *t, const qkv_tensor *x)
{
    const qkv_real *data = qkv_data(t, x);
    qkv_real *copy = data ? qkv_malloc(j->p->ctx, qkv_count(x) * sizeof *copy) : NULL;
    if (copy)
        memcpy(copy, data, qkv_count(x) * sizeof *copy);
    j->out_of_memory = j->out_of_memory || !copy;
    return copy;
}

/* Keeps what the first two passes have: clean activations, then the corrupt stream. */
static qkv_tensor *patch_keep(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    patching *j = user;
    qkv_place at;
    if (!qkv_place_parse(&at, name) || at.layer >= j->layers)
        return x;
    qkv_real **to = j->keep_clean ? &j->kept[at.layer] : &j->stream[at.layer];
    *(j->keep_clean ? &j->size : &j->width) = qkv_count(x) / j->T;
    if (!*to)
        *to = copy_of(j, t, x);
    return x;
}

/* Sequence i of a pass gets the clean activation at position first + i. */
static qkv_tensor *patch_replace(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    const patching *j = user;
    size_t shape[QKV_MAX_DIMS], n = j->T * j->size;
    (void)name;
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    const qkv_real *data = qkv_data(t, x);
    qkv_tensor *y = data ? qkv_tensor_from(t, data, qkv_ndim(x), shape) : NULL;
    qkv_real *to = qkv_tensor_fill(y);
    for (size_t i = 0; to && i < j->count; i++)
        memcpy(to + i * n + (j->first + i) * j->size,
               j->kept[j->layer] + (j->first + i) * j->size, j->size * sizeof *to);
    return y;
}

static qkv_status keep_pass(patching *j, const qkv_ids *ids, const char *place, double *measured)
{
    char pattern[160];
    (void)snprintf(pattern, sizeof pattern, "%s.*.%s", j->stack, place);
    qkv_tape_reset(j->p->tape);
    qkv_tape_mode(j->p->tape, false, false);
    qkv_status status = qkv_probe_add(j->p->tape, pattern, patch_keep, j);
    if (!status)
        status = measure(j, repeated_ids(j, ids, 1), 1, measured);
    qkv_probes_clear(j->p->tape);
    return status ? status : j->out_of_memory ? QKV_E_MEMORY : QKV_OK;
}

/* Positions of one layer, as many as a pass takes. */
static qkv_status patch_pass(patching *j, double *measured)
{
    qkv_tape *t = j->p->tape;
    char name[160];
    size_t n = j->T * j->width;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *stream = qkv_tensor_from(t, NULL, 3, (size_t[]){j->count, j->T, j->width});
    qkv_real *to = qkv_tensor_fill(stream);
    for (size_t i = 0; to && i < j->count; i++)
        memcpy(to + i * n, j->stream[j->layer], n * sizeof *to);
    (void)snprintf(name, sizeof name, "%s.%zu", j->stack, j->layer);
    qkv_status status = stream ? qkv_tape_enter(t, name, stream) : qkv_tape_status(t);
    (void)snprintf(name, sizeof name, "%s.%zu.%s", j->stack, j->layer, j->o.place);
    if (!status)
        status = qkv_probe_add(t, name, patch_replace, j);
    if (!status)
        status = measure(j, repeated_ids(j, &j->corrupt, j->count), j->count, measured);
    qkv_probes_clear(t);
    return status;
}

/* ---- the grid -------------------------------------------------------------------------------- */

static qkv_status first_id(patching *j, const char *text, int32_t *id)
{
    qkv_ids ids = {0};
    qkv_status status = qkv_tokenizer_encode(j->p->tokenizer, text, strlen(text), 0, &ids);
    if (!status && !ids.count)
        status = qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "\"%.60s\" has no tokens", text);
    if (!status)
        *id = ids.data[0];
    qkv_ids_free(&ids, j->p->ctx);
    return status;
}

static qkv_status patch_texts(patching *j, const char *clean, const char *corrupt)
{
    qkv_tokenizer *t = j->p->tokenizer;
    qkv_context *ctx = j->p->ctx;
    int32_t mask = qkv_tokenizer_special(t, QKV_TOKEN_MASK);
    qkv_status status = qkv_tokenizer_encode(t, clean, strlen(clean), QKV_ENCODE_ADD_SPECIAL,
                                             &j->clean);
    if (!status)
        status = qkv_tokenizer_encode(t, corrupt, strlen(corrupt), QKV_ENCODE_ADD_SPECIAL,
                                      &j->corrupt);
    if (status)
        return status;
    j->T = j->clean.count;
    if (!j->T || j->T != j->corrupt.count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the clean text has %zu tokens, the corrupt one %zu: "
                        "as many expected", j->T, j->corrupt.count);
    j->read = j->T - 1;
    for (size_t i = 0; j->words; i++) {
        if (i == j->T)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the texts have no common mask token");
        if (j->clean.data[i] == mask && j->corrupt.data[i] == mask) {
            j->read = i;
            break;
        }
    }
    j->answer = j->other = -1;
    if (j->o.answer)
        status = first_id(j, j->o.answer, &j->answer);
    if (!status && j->o.other)
        status = first_id(j, j->o.other, &j->other);
    return status;
}

static qkv_status label_positions(patching *j)
{
    qkv_patch *out = j->out;
    out->labels = qkv_calloc(out->ctx, j->T + 1, sizeof *out->labels);
    out->values = qkv_calloc(out->ctx, j->layers * j->T + 1, sizeof *out->values);
    if (!out->labels || !out->values)
        return QKV_E_MEMORY;
    out->layers = j->layers;
    out->positions = j->T;
    for (size_t i = 0; i < j->T; i++)
        if (!(out->labels[i] = qkv__look_token_text(j->p, j->corrupt.data[i])))
            return QKV_E_MEMORY;
    out->answer = qkv__look_token_text(j->p, j->answer);
    return out->answer ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status patch_grid(patching *j)
{
    qkv_status status = QKV_OK;
    size_t at_once = j->T < MOST_ROWS ? MOST_ROWS / j->T : 1;
    j->keep_clean = true;
    status = keep_pass(j, &j->clean, j->o.place, &j->out->clean);
    j->keep_clean = false;
    if (!status && !j->kept[0])
        status = qkv_fail(j->p->ctx, QKV_E_ARGUMENT, "--place: the model has no %s.0.%.60s",
                          j->stack, j->o.place);
    if (!status)
        status = keep_pass(j, &j->corrupt, "resid_pre", &j->out->corrupt);
    if (!status)
        status = label_positions(j);
    for (j->layer = 0; j->layer < j->layers && !status; j->layer++)
        for (j->first = 0; j->first < j->T && !status; j->first += j->count) {
            double *to = j->out->values + j->layer * j->T + j->first;
            j->count = j->T - j->first < at_once ? j->T - j->first : at_once;
            status = patch_pass(j, to);
            if (!status)
                status = qkv__progress(j->p->ctx, "patching", "positions",
                                       j->layer * j->T + j->first + j->count, j->layers * j->T);
        }
    return status;
}

static size_t layers_of(const patching *j)
{
    size_t n = 0;
    char name[64];
    const qkv_params *ps = qkv_model_params(j->p->model);
    for (;; n++) {
        (void)snprintf(name, sizeof name, "%s.%zu.attn.qkv.weight", j->stack, n);
        if (!qkv_params_find(ps, name))
            return n;
    }
}

qkv_status qkv_pipeline_patch(qkv_pipeline *p, const char *clean, const char *corrupt,
                              const qkv_pipeline_patch_options *options, qkv_patch *out)
{
    patching j = {.p = p, .out = out,
                  .o = options ? *options : qkv_pipeline_patch_defaults()};
    *out = (qkv_patch){.ctx = p->ctx};
    j.words = qkv_model_can(p->model, QKV_CAN_FILL_MASK);
    if (!j.words && (!qkv_model_can(p->model, QKV_CAN_GENERATE) ||
                     qkv_model_can(p->model, QKV_CAN_SAMPLE_CODES)))
        return qkv__pipeline_refuse(p, "predict tokens that activations could be patched for");
    j.stack = j.words ? "layer" : "h";
    qkv_status status = qkv__pipeline_text(p);
    if (!status)
        status = patch_texts(&j, clean, corrupt);
    j.layers = layers_of(&j);
    j.kept = qkv_calloc(p->ctx, j.layers + 1, sizeof *j.kept);
    j.stream = qkv_calloc(p->ctx, j.layers + 1, sizeof *j.stream);
    if (!status)
        status = j.kept && j.stream ? patch_grid(&j) : QKV_E_MEMORY;
    for (size_t i = 0; i < j.layers; i++) {
        if (j.kept)
            qkv_free(p->ctx, j.kept[i]);
        if (j.stream)
            qkv_free(p->ctx, j.stream[i]);
    }
    qkv_free(p->ctx, j.kept);
    qkv_free(p->ctx, j.stream);
    qkv_ids_free(&j.clean, p->ctx);
    qkv_ids_free(&j.corrupt, p->ctx);
    if (status)
        qkv_patch_free(out);
    return status;
}

void qkv_patch_free(qkv_patch *x)
{
    for (size_t i = 0; x->labels && i < x->positions; i++)
        qkv_free(x->ctx, x->labels[i]);
    if (x->ctx) {
        qkv_free(x->ctx, x->labels);
        qkv_free(x->ctx, x->values);
        qkv_free(x->ctx, x->answer);
    }
    *x = (qkv_patch){0};
}

qkv_status qkv_patch_draw(const qkv_patch *x, qkv_drawing **out)
{
    *out = NULL;
    float *shares = qkv_calloc(x->ctx, x->layers * x->positions + 1, sizeof *shares);
    char title[128];
    double whole = x->clean - x->corrupt, width, height;
    if (!shares)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < x->layers * x->positions; i++)
        shares[i] = whole != 0 ? (float)((x->values[i] - x->corrupt) / whole) : NAN;
    (void)snprintf(title, sizeof title, "share of the difference for \"%.40s\" that is restored",
                   x->answer);
    const qkv_heat_map map = {.title = title, .x_label = "position", .y_label = "layer",
                              .values = shares, .rows = x->layers, .columns = x->positions,
                              .column_labels = (const char *const *)x->labels, .diverging = true,
                              .max = 1, .numbers = x->positions <= 24};
    qkv_heat_size(&map, 34, &width, &height);
    qkv_status status = qkv_drawing_create(out, x->ctx, width, height);
    if (!status) {
        qkv_drawing_describe(*out, title, "layers down, positions across");
        qkv_draw_heat(*out, NULL, &map);
        status = qkv_drawing_status(*out);
    }
    qkv_free(x->ctx, shares);
    if (status) {
        qkv_drawing_destroy(*out);
        *out = NULL;
    }
    return status;
}
