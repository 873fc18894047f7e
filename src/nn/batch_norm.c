/* batch_norm.c - batch norm with the five tensors that PyTorch's layer has. */
#include <stdio.h>

#include "base/base.h"
#include "nn/state_entries.h"
#include "tensor/make.h"

bool qkv_batch_norm_create(qkv_batch_norm_layer *out, qkv_params *ps, const char *name, size_t C)
{
    *out = (qkv_batch_norm_layer){.weight = qkv__layer_param(ps, name, "weight", C, 0),
                                  .bias = qkv__layer_param(ps, name, "bias", C, 0),
                                  .mean = qkv__layer_param(ps, name, "running_mean", C, 0),
                                  .variance = qkv__layer_param(ps, name, "running_var", C, 0),
                                  .batches = qkv__layer_param(ps, name, "num_batches_tracked", 1,
                                                              0)};
    if (!out->weight || !out->bias || !out->mean || !out->variance || !out->batches)
        return false;
    qkv__param_set_running(out->mean);
    qkv__param_set_running(out->variance);
    qkv__param_set_running(out->batches);
    for (size_t c = 0; c < C; c++)
        qkv_param_data(out->weight)[c] = qkv_param_data(out->variance)[c] = 1;
    qkv_param_touch(out->weight);
    qkv_param_touch(out->variance);
    return true;
}

qkv_tensor *qkv_batch_norm_forward(const qkv_batch_norm_layer *b, qkv_tape *t, qkv_tensor *x)
{
    const qkv_running kept = {.mean = b->mean, .variance = b->variance, .batches = b->batches};
    return qkv_batch_norm(t, x, qkv_use(t, b->weight), qkv_use(t, b->bias), &kept, 1e-5);
}

qkv_status qkv_batch_norm_visit(const qkv_batch_norm_layer *b, const char *name,
                                qkv_state_entry_fn *fn, void *user)
{
    const struct {
        const char *name;
        qkv_param *param;
        qkv_state_entry_kind kind;
        qkv_init init;
        bool integer; /* one number, without an axis in the file */
    } rows[] = {{"weight", b->weight, QKV_STATE_PARAM, QKV_INIT_ONES, false},
                {"bias", b->bias, QKV_STATE_PARAM, QKV_INIT_ZEROS, false},
                {"running_mean", b->mean, QKV_STATE_FIXED, QKV_INIT_NONE, false},
                {"running_var", b->variance, QKV_STATE_FIXED, QKV_INIT_NONE, false},
                {"num_batches_tracked", b->batches, QKV_STATE_FIXED, QKV_INIT_NONE, true}};
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++) {
        char full[256];
        snprintf(full, sizeof full, "%s.%s", name, rows[i].name);
        const qkv_state_entry row = {.name = full, .kind = rows[i].kind, .param = rows[i].param,
                                     .ndim = rows[i].integer ? 0 : 1, .init = rows[i].init,
                                     .shape = {qkv_param_count(rows[i].param)},
                                     .integer = rows[i].integer};
        status = fn(user, &row);
    }
    return status;
}
