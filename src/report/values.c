/* values.c - how much of a key's value a head can add to the stream: the values of a pass, and
 * their norms behind the output layer. */
#include "report/looking.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The values of one attention, (keys, heads of keys and values, width of a head). */
struct qkv__look_value {
    char weight[128]; /* the output layer's */
    size_t attention, layer, keys, heads, width;
    qkv_real *data;
};

static size_t attention_at(const qkv__look_kind *k, const qkv_place *at)
{
    size_t i = 0;
    for (; i < QKV_LOOK_ATTENTIONS && k->attentions[i].stack; i++) {
        const qkv__look_attentions *a = &k->attentions[i];
        size_t part = strlen(a->part);
        if (strlen(a->stack) == at->stack_length &&
            strncmp(a->stack, at->stack, at->stack_length) == 0 &&
            strncmp(a->part, at->part, part) == 0 && strcmp(at->part + part, ".v") == 0)
            return i;
    }
    return QKV_LOOK_ATTENTIONS;
}

static qkv_tensor *keep_values(void *user, qkv_tape *t, const char *name, qkv_tensor *v)
{
    qkv__looking *l = user;
    qkv_place at;
    if (!qkv_place_parse(&at, name) || qkv_ndim(v) != 4 || qkv_dim(v, 0) != 1)
        return v;
    size_t i = attention_at(l->kind, &at);
    const qkv_real *data = i < QKV_LOOK_ATTENTIONS ? qkv_data(t, v) : NULL;
    if (!data)
        return v;
    l->out_of_memory = l->out_of_memory || !qkv__grow(l->p->ctx, &l->values, &l->value_room,
                                                      l->value_count + 1, sizeof *l->values);
    if (l->out_of_memory)
        return v;
    qkv__look_value *x = &l->values[l->value_count];
    *x = (qkv__look_value){.attention = i, .layer = at.layer, .keys = qkv_dim(v, 1),
                           .heads = qkv_dim(v, 2), .width = qkv_dim(v, 3)};
    (void)snprintf(x->weight, sizeof x->weight, "%.*sout.weight", (int)strlen(name) - 1, name);
    x->data = qkv_malloc(l->p->ctx, qkv_count(v) * sizeof *data);
    l->out_of_memory = !x->data;
    if (x->data)
        memcpy(x->data, data, qkv_count(v) * sizeof *data);
    l->value_count += x->data != NULL;
    return v;
}

qkv_status qkv__look_watch_values(qkv__looking *l, const qkv__look_kind *k)
{
    l->kind = k;
    return qkv_probe_add(l->p->tape, "*.v", keep_values, l);
}

/* (in, out): the matrix w turned, in full size and with its adapters, as linear layers take it. */
static qkv_tensor *turned(qkv_context *ctx, qkv_tape *t, qkv_param *w)
{
    const size_t n = qkv_param_dim(w, 1);
    qkv_real *one = qkv_calloc(ctx, n * n, sizeof *one);
    for (size_t i = 0; i < n && one; i++)
        one[i * n + i] = 1;
    qkv_tensor *x = one ? qkv_tensor_from(t, one, 2, (size_t[]){n, n}) : NULL;
    qkv_free(ctx, one);
    return x ? qkv_linear(t, x, qkv_use(t, w), NULL, QKV_ACT_NONE) : NULL;
}

/* The squares of the rows of v_h W_h: W_h the rows that the turned output layer has for head h. */
static const qkv_real *head_squares(qkv_tape *t, qkv_tensor *values, qkv_tensor *rows, size_t h,
                                    size_t kv)
{
    const size_t width = qkv_dim(values, 2);
    qkv_scope scope = qkv_scope_begin(t);
    qkv_tensor *v = qkv_slice(t, values, 1, kv, kv + 1);
    v = v ? qkv_reshape(t, v, 2, (size_t[]){qkv_dim(values, 0), width}) : NULL;
    qkv_tensor *y = qkv_matmul(t, v, false, qkv_slice(t, rows, 0, h * width, (h + 1) * width),
                               false);
    return qkv_data(t, qkv_scope_end(t, scope, qkv_mean_axis(t, qkv_mul(t, y, y), 1)));
}

/* norms (heads, keys) of one layer. */
static qkv_status layer_norms(const qkv__looking *l, const qkv__look_value *x, qkv_param *w,
                              size_t heads, float *norms)
{
    qkv_tape *t = l->p->tape;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *values = qkv_tensor_from(t, x->data, 3,
                                         (size_t[]){x->keys, x->heads, x->width});
    qkv_tensor *rows = turned(l->p->ctx, t, w);
    if (!values || !rows)
        return qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
    for (size_t h = 0; h < heads; h++) {
        const qkv_real *mean = head_squares(t, values, rows, h, h / (heads / x->heads));
        for (size_t j = 0; j < x->keys && mean; j++)
            norms[h * x->keys + j] = sqrtf((float)mean[j] * (float)qkv_param_dim(w, 0));
    }
    return qkv_tape_status(t);
}

qkv_status qkv__look_value_norms(qkv__looking *l)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < l->value_count && !status; i++) {
        const qkv__look_value *x = &l->values[i];
        qkv_look_attention *a = &l->out->attentions[x->attention];
        qkv_param *w = qkv_params_find(qkv_model_params(l->p->model), x->weight);
        size_t keys = l->out->axes[a->key].count;
        if (!w || x->layer >= a->layers || x->keys != keys ||
            qkv_param_dim(w, 1) != a->heads * x->width)
            continue;
        if (!a->value_norms)
            a->value_norms = qkv_calloc(l->p->ctx, a->layers * a->heads * keys,
                                        sizeof *a->value_norms);
        if (!a->value_norms)
            return QKV_E_MEMORY;
        status = layer_norms(l, x, w, a->heads, a->value_norms + x->layer * a->heads * keys);
    }
    return status;
}

void qkv__look_free_values(qkv__looking *l)
{
    for (size_t i = 0; i < l->value_count; i++)
        qkv_free(l->p->ctx, l->values[i].data);
    qkv_free(l->p->ctx, l->values);
}
