/* running.c - the mean of what shards do to running values. */
#include "train/running.h"

#include "dist/dist.h"
#include "tensor/make.h"

struct qkv__running_values {
    qkv_context *ctx;
    qkv_params *params;
    size_t count, shards; /* numbers of all such parameters */
    qkv_real *before;     /* (count) */
    qkv_real *own;        /* (shards of this rank, count) */
    qkv_real *all;        /* (shards, count) */
};

/* The next such parameter from *i on; NULL: none. */
static qkv_param *next_running(const qkv__running_values *r, size_t *i)
{
    for (; *i < qkv_params_count(r->params); ++*i) {
        qkv_param *p = qkv_params_at(r->params, *i);
        if (qkv__param_running(p)) {
            ++*i;
            return p;
        }
    }
    return NULL;
}

qkv_status qkv__running_create(qkv__running_values **out, qkv_params *params, size_t shards)
{
    qkv_context *ctx = qkv__params_context(params);
    qkv__running_values *r = qkv_calloc(ctx, 1, sizeof *r);
    *out = r;
    if (!r)
        return QKV_E_MEMORY;
    *r = (qkv__running_values){.ctx = ctx, .params = params, .shards = shards};
    size_t i = 0;
    for (const qkv_param *p; (p = next_running(r, &i)) != NULL;)
        r->count += qkv_param_count(p);
    if (!r->count)
        return QKV_OK;
    r->before = qkv_calloc(ctx, r->count, sizeof *r->before);
    r->own = qkv_calloc(ctx, shards / (size_t)qkv_dist_size(ctx), r->count * sizeof *r->own);
    r->all = qkv_calloc(ctx, shards, r->count * sizeof *r->all);
    if (r->before && r->own && r->all)
        return QKV_OK;
    qkv__running_destroy(r);
    *out = NULL;
    return QKV_E_MEMORY;
}

void qkv__running_destroy(qkv__running_values *r)
{
    if (!r)
        return;
    qkv_free(r->ctx, r->before);
    qkv_free(r->ctx, r->own);
    qkv_free(r->ctx, r->all);
    qkv_free(r->ctx, r);
}

/* The parameters' numbers into a list, or a list's into the parameters. */
static void move_values(const qkv__running_values *r, qkv_real *list, bool into_params)
{
    size_t i = 0;
    for (qkv_param *p; (p = next_running(r, &i)) != NULL; list += qkv_param_count(p)) {
        qkv_real *x = qkv_param_data(p);
        for (size_t k = 0; x && k < qkv_param_count(p); k++) {
            if (into_params)
                x[k] = list[k];
            else
                list[k] = x[k];
        }
        if (into_params)
            qkv_param_touch(p);
    }
}

void qkv__running_begin(qkv__running_values *r)
{
    if (r->count)
        move_values(r, r->before, false);
}

void qkv__running_end_shard(qkv__running_values *r, size_t i)
{
    if (!r->count)
        return;
    move_values(r, r->own + i * r->count, false);
    move_values(r, r->before, true);
}

qkv_status qkv__running_finish(qkv__running_values *r)
{
    size_t mine = r->shards / (size_t)qkv_dist_size(r->ctx);
    if (!r->count)
        return QKV_OK;
    qkv_status status = qkv__dist_gather(r->ctx, r->own, mine * r->count * sizeof *r->own, r->all);
    for (size_t k = 0; k < r->count && !status; k++) {
        double sum = 0;
        for (size_t s = 0; s < r->shards; s++)
            sum += (double)r->all[s * r->count + k] - (double)r->before[k];
        r->before[k] = (qkv_real)((double)r->before[k] + sum / (double)r->shards);
    }
    if (!status)
        move_values(r, r->before, true);
    return status;
}
