/* weights_write.c - a model's rows, into safetensors files and PyTorch's. */
#include <string.h>

#include "hub/quantized.h"
#include "hub/region.h"
#include "io/file.h"
#include "pytorch/pytorch.h"
#include "qkv/gpt.h"
#include "qkv/vqgan.h"
#include "tensor/make.h"

enum { MASK_AXES = 4, STAGES = 3 };

typedef struct {
    qkv_state_entry row;
    size_t stride[QKV_MAX_DIMS];
} kept_row;

typedef struct {
    qkv_context *ctx;
    qkv_model *models[STAGES]; /* the first, and those that go with it or NULL */
    bool named;                /* with another library's names */
    qkv_safetensors_entry *entries;
    kept_row *rows;
    size_t count, room;
    qkv__fewer *packed; /* (packed_count) matrices in fewer bits */
    size_t packed_count;
    qkv_store store;
    qkv_weights weights; /* of these */
} saver;

/* A buffer that says who attends to whom: other libraries keep it, for us it means nothing. */
static bool is_mask(const saver *s, const qkv_state_entry *row)
{
    return s->named && row->kind == QKV_STATE_IGNORED && row->ndim == MASK_AXES;
}

static bool is_written(const saver *s, const qkv_state_entry *row)
{
    if (row->optional && qkv__param_left_out(row->param))
        return false;
    return row->kind == QKV_STATE_PARAM || row->kind == QKV_STATE_FIXED || is_mask(s, row);
}

static qkv_status count_row(void *user, const qkv_state_entry *row)
{
    saver *s = user;
    bool fewer = qkv__fewer_takes(row, s->weights);
    s->room += fewer ? QKV__FEWER_PARTS : is_written(s, row);
    s->packed_count += fewer;
    return QKV_OK;
}

static qkv_status weights_fill(void *user, size_t begin, size_t count, qkv_real *out)
{
    const kept_row *k = user;
    const qkv_real *region = qkv_param_data(k->row.param) + k->row.offset;
    for (size_t i = 0; i < count; i++)
        out[i] = region[qkv__region_index(&k->row, k->stride, begin + i)];
    return QKV_OK;
}

static qkv_status fill_integers(void *user, size_t begin, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        qkv_real value;
        (void)weights_fill(user, begin + i, 1, &value);
        int64_t word = (int64_t)value;
        memcpy((char *)out + i * sizeof word, &word, sizeof word);
    }
    return QKV_OK;
}

/* (1, 1, T, T): 1 where a row attends to a column. */
static qkv_status fill_mask(void *user, size_t begin, size_t count, qkv_real *out)
{
    const kept_row *k = user;
    size_t T = k->row.shape[MASK_AXES - 1];
    for (size_t i = 0; i < count; i++)
        out[i] = (begin + i) % T <= (begin + i) / T;
    return QKV_OK;
}

static qkv_status add_packed(saver *s, const qkv_state_entry *row)
{
    char name[QKV__FEWER_NAME];
    qkv_safetensors_entry *e = &s->entries[s->count];
    qkv_status status = qkv__fewer_make(&s->packed[s->packed_count++], e, row, s->weights);
    for (int i = 0; i < QKV__FEWER_PARTS && !status; i++) {
        (void)qkv__fewer_name(name, row->name, i);
        e[i].name = qkv_strdup(s->ctx, name);
        status = e[i].name ? QKV_OK : QKV_E_MEMORY;
        s->count++;
    }
    return status;
}

static qkv_status weights_add_row(void *user, const qkv_state_entry *row)
{
    saver *s = user;
    if (qkv__fewer_takes(row, s->weights))
        return add_packed(s, row);
    if (!is_written(s, row))
        return QKV_OK;
    kept_row *k = &s->rows[s->count];
    k->row = *row;
    qkv__region_strides(row, k->stride);
    qkv_safetensors_entry *e = &s->entries[s->count++];
    *e = (qkv_safetensors_entry){.ndim = row->ndim, .shape = k->row.shape, .store = s->store};
    e->name = qkv_strdup(s->ctx, row->name);
    if (s->weights > QKV_WEIGHTS_BF16 && row->param && qkv__param_is_table(row->param))
        e->store = QKV_STORE_BF16; /* where 8 bits are enough */
    const qkv_real *values = row->param ? qkv_param_data(row->param) : NULL;
    if (!e->name || (row->param && !values))
        return QKV_E_MEMORY;
    if (row->integer) {
        e->store = QKV_STORE_I64;
        e->fill_raw = fill_integers;
        e->user = k;
    } else if (is_mask(s, row)) {
        e->fill = fill_mask;
        e->user = k;
    } else if (qkv__region_in_order(row)) {
        e->data = values + row->offset;
    } else {
        e->fill = weights_fill;
        e->user = k;
    }
    return QKV_OK;
}

/* The others' names stand where a prior of taming-transformers has its VQGANs. */
static qkv_status weights_visit_all(saver *s, qkv_state_entry_fn *fn)
{
    static const char *const under[STAGES] = {"", "first_stage_model.", "cond_stage_model."};
    qkv_status status = QKV_OK;
    if (!s->named)
        return qkv_model_visit(s->models[0], fn, s);
    for (size_t i = 0; i < STAGES && !status; i++)
        if (s->models[i])
            status = qkv__hub_visit_named(s->models[i], under[i], fn, s);
    return status;
}

static bool ends_in_pth(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".pth") == 0;
}

/* The key of a PyTorch file that its library reads; NULL: a .safetensors file. */
static const char *weights_key_of(const saver *s, const char *path)
{
    const qkv_model_type *type = qkv_model_type_of(s->models[0]);
    if (!s->named)
        return NULL;
    if (type == qkv_vqgan_type() || type == qkv_prior_type())
        return "state_dict";
    return ends_in_pth(path) ? "model" : NULL;
}

static qkv_status weights_write_file(saver *s, const char *path, const qkv_hub_save_options *o)
{
    s->ctx = qkv_model_context(s->models[0]);
    s->store = o->store;
    s->weights = s->named ? QKV_WEIGHTS_F32 : o->weights;
    qkv_status status = weights_visit_all(s, count_row);
    s->packed = qkv_calloc(s->ctx, s->packed_count + 1, sizeof *s->packed);
    s->packed_count = 0;
    s->entries = qkv_calloc(s->ctx, s->room + 1, sizeof *s->entries);
    s->rows = qkv_calloc(s->ctx, s->room + 1, sizeof *s->rows);
    if (!s->entries || !s->rows || !s->packed)
        status = QKV_E_MEMORY;
    if (!status)
        status = weights_visit_all(s, weights_add_row);
    const char *key = weights_key_of(s, path);
    qkv_safetensors_options options = {.shard_bytes = o->shard_bytes};
    if (!status)
        status = key ? qkv__pytorch_write(s->ctx, path, key, s->entries, s->count)
                     : qkv_safetensors_save(s->ctx, path, s->entries, s->count, &options);
    for (size_t i = 0; s->entries && i < s->count; i++)
        qkv_free(s->ctx, (char *)(uintptr_t)s->entries[i].name);
    for (size_t i = 0; s->packed && i < s->packed_count; i++)
        qkv__fewer_free(&s->packed[i], s->ctx);
    qkv_free(s->ctx, s->packed);
    qkv_free(s->ctx, s->rows);
    qkv_free(s->ctx, s->entries);
    return status;
}

qkv_status qkv__hub_write_weights(qkv_model *m, const char *dir, const qkv_hub_save_options *o)
{
    saver s = {.models = {m}};
    return weights_write_file(&s, qkv_path_in(dir, "model.safetensors").text, o);
}

qkv_status qkv__hub_write_named(qkv_model *m, const char *path, const qkv_hub_save_options *o)
{
    saver s = {.models = {m, o->vqgan, o->condition}, .named = true};
    return weights_write_file(&s, path, o);
}
