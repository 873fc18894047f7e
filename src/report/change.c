/* change.c - what a model answers when its pass is changed, beside what it answers otherwise;
 * the vectors that changes add. */
#include <string.h>

#include "report/looking.h"
#include "qkv/pipeline_text.h"

/* ---- before and after ------------------------------------------------------------------------ */

static bool keep_continuation(void *user, const qkv_generated *piece)
{
    qkv_str *out = user;
    if (piece->kind == QKV_GENERATED_END)
        qkv_str_add(out, piece->continuation->data, piece->continuation->len);
    return true;
}

/* The text with which a language model goes on. */
static qkv_status go_on(qkv_pipeline *p, const qkv_look_input *in,
                        size_t tokens, const qkv_strings *changes, char **out)
{
    qkv_pipeline_generate_options g = qkv_pipeline_generate_defaults();
    qkv_str text;
    qkv_str_init(&text, p->ctx);
    g.prompt = in->text;
    g.tokens = tokens;
    g.greedy = true;
    g.changes = *changes;
    qkv_status status = qkv_pipeline_generate(p, &g, keep_continuation, &text);
    if (!status && !text.failed)
        *out = qkv_strdup(p->ctx, text.data ? text.data : "");
    qkv_str_free(&text);
    return status ? status : *out ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv_pipeline_change(qkv_pipeline *p, const qkv_look_input *in,
                               const qkv_pipeline_look_options *options, qkv_changed *out)
{
    static const qkv_strings none = {0};
    qkv_pipeline_look_options o = options ? *options : qkv_pipeline_look_defaults();
    const qkv_strings changes = o.changes;
    qkv_look_input same = *in;
    *out = (qkv_changed){.ctx = p->ctx};
    if (!changes.count)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "no change was given");
    o.weights = o.lens = o.panels = false;
    o.top = QKV_CHANGED_TOP;
    o.changes = none;
    o.capture = NULL;
    qkv_status status = qkv_pipeline_look(p, in, &o, &out->before);
    same.second = in->second ? in->second : out->before.target;
    o.changes = changes;
    o.capture = options ? options->capture : NULL;
    if (!status)
        status = qkv_pipeline_look(p, &same, &o, &out->after);
    bool text = qkv_model_can(p->model, QKV_CAN_GENERATE) &&
                !qkv_model_can(p->model, QKV_CAN_SAMPLE_CODES) && o.go_on;
    if (!status && text)
        status = go_on(p, in, o.go_on, &none, &out->text_before);
    if (!status && text)
        status = go_on(p, in, o.go_on, &changes, &out->text_after);
    if (status)
        qkv_changed_free(out);
    return status;
}

void qkv_changed_free(qkv_changed *c)
{
    if (c->ctx) {
        qkv_look_free(&c->before);
        qkv_look_free(&c->after);
        qkv_free(c->ctx, c->text_before);
        qkv_free(c->ctx, c->text_after);
    }
    *c = (qkv_changed){0};
}

/* ---- vectors --------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    const char *place;
    qkv_array *out; /* (width) the mean over positions; of several passes the last */
    bool out_of_memory;
} averaging;

static qkv_tensor *average(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    averaging *a = user;
    const qkv_real *data = qkv_data(t, x);
    size_t rows_ = data && qkv_ndim(x) >= 3 ? qkv_dim(x, 0) * qkv_dim(x, 1) : 0;
    size_t width = rows_ ? qkv_count(x) / rows_ : 0;
    (void)name;
    if (!rows_)
        return x;
    qkv_array_free(a->out);
    *a->out = (qkv_array){.ctx = a->ctx, .ndim = 1, .shape = {width}, .count = width,
                          .data = qkv_calloc(a->ctx, width, sizeof *data)};
    a->out_of_memory = a->out_of_memory || !a->out->data;
    for (size_t k = 0; k < width && a->out->data; k++) {
        double sum = 0;
        for (size_t i = 0; i < rows_; i++)
            sum += (double)data[i * width + k];
        a->out->data[k] = (qkv_real)(sum / (double)rows_);
    }
    return x;
}

static qkv_status begin_average(void *user, qkv_tape *t)
{
    averaging *a = user;
    return qkv_probe_add(t, a->place, average, a);
}

static qkv_status mean_activation(qkv_pipeline *p, const qkv_look_input *in, const char *place,
                                  qkv_array *out)
{
    averaging a = {p->ctx, place, out, false};
    *out = (qkv_array){0};
    qkv_status status = qkv_pipeline_pass(p, in, NULL, begin_average, &a);
    if (!status && a.out_of_memory)
        status = QKV_E_MEMORY;
    if (!status && !out->data)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: no vectors for each position are at "
                          "\"%.80s\"", p->dir, place);
    if (status)
        qkv_array_free(out);
    return status;
}

qkv_status qkv_pipeline_vector(qkv_pipeline *p, const qkv_look_input *in,
                               const qkv_look_input *minus, const char *place, qkv_array *out)
{
    qkv_array other = {0};
    qkv_status status = mean_activation(p, in, place, out);
    if (!status && minus)
        status = mean_activation(p, minus, place, &other);
    for (size_t i = 0; minus && !status && i < out->count; i++)
        out->data[i] -= other.data[i];
    qkv_array_free(&other);
    if (status)
        qkv_array_free(out);
    return status;
}
