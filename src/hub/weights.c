/* weights.c - a model's rows, out of safetensors files and into them. */
#include <stdio.h>
#include <string.h>

#include "hub/quantized.h"
#include "io/file.h"
#include "io/safetensors_header.h"
#include "pytorch/pytorch.h"
#include "qkv/gpt.h"
#include "qkv/vqgan.h"
#include "tensor/make.h"

enum { MASK_AXES = 4, STAGES = 3 };
enum { PIECE = 1 << 20 }; /* numbers of a file that are read at a time */
enum { BAND = 32, LINE = 16 }; /* rows that are turned together; numbers in a cache line */

static bool weights_in_order(const qkv_state_entry *row)
{
    for (int i = 0; i < row->ndim; i++)
        if (row->perm[i] != i)
            return false;
    return true;
}

/* For every axis of the file, how far apart its neighbours are in the region. */
static void region_strides(const qkv_state_entry *row, size_t *stride)
{
    size_t region[QKV_MAX_DIMS], step = 1;
    for (int i = 0; i < row->ndim; i++)
        region[row->perm[i]] = row->shape[i];
    size_t region_stride[QKV_MAX_DIMS];
    for (int i = row->ndim - 1; i >= 0; i--) {
        region_stride[i] = step;
        step *= region[i];
    }
    for (int i = 0; i < row->ndim; i++)
        stride[i] = region_stride[row->perm[i]];
}

/* Where element e of the file's tensor is in the region. */
static size_t region_index(const qkv_state_entry *row, const size_t *stride, size_t e)
{
    size_t at = 0;
    for (int i = row->ndim - 1; i >= 0; i--) {
        at += e % row->shape[i] * stride[i];
        e /= row->shape[i];
    }
    return at;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    const qkv_safetensors *file;
    const char *prefix, *type;
    const char *under; /* of another library's names; NULL: they are Hugging Face's */
    bool *used; /* one per tensor of the file */
    bool partial;   /* rows that the file lacks stay as they are */
    size_t matched; /* rows read */
    qkv__storing *storing; /* keeps what was read in fewer bits; NULL: nothing does */
} loader;

/* With the type's prefix or without it. */
static const qkv_safetensor *find_prefixed(const loader *l, const char *name)
{
    size_t n = strlen(l->prefix);
    const qkv_safetensor *t = qkv_safetensors_find(l->file, name);
    char longer[256];
    if (!t && n && strncmp(name, l->prefix, n) == 0)
        return qkv_safetensors_find(l->file, name + n);
    if (!t && n && snprintf(longer, sizeof longer, "%s%s", l->prefix, name) < (int)sizeof longer)
        return qkv_safetensors_find(l->file, longer);
    return t;
}

/* Parts of names that some files spell otherwise: those of the first BERT; of masked autoencoders
 * that transformers 5 saved. */
static const char *const spellings[][2] = {
    {"LayerNorm.weight", "LayerNorm.gamma"},
    {"LayerNorm.bias", "LayerNorm.beta"},
    {"decoder.decoder_layers.", "decoder.decoder_encoder.layer."},
};

static const qkv_safetensor *find_other(const loader *l, const char *name)
{
    char other[256];
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const char *at = strstr(name, spellings[i][0]);
        if (!at)
            continue;
        int n = snprintf(other, sizeof other, "%.*s%s%s", (int)(at - name), name, spellings[i][1],
                         at + strlen(spellings[i][0]));
        return n < (int)sizeof other ? find_prefixed(l, other) : NULL;
    }
    return NULL;
}

/* The row's tensor in the file; NULL if absent. */
static const qkv_safetensor *weights_find(loader *l, const char *name)
{
    const qkv_safetensor *t = find_prefixed(l, name);
    if (!t)
        t = find_other(l, name);
    if (t)
        l->used[t - qkv_safetensors_at(l->file, 0)] = true;
    return t;
}

/* Integers in a float's place are a quantised model's, which means something else by them. */
static bool floating(qkv_store store)
{
    return store == QKV_STORE_F16 || store == QKV_STORE_BF16 || store == QKV_STORE_F32 ||
           store == QKV_STORE_F64;
}

static bool integral(qkv_store store)
{
    return !floating(store) && store != QKV_STORE_NONE && store != QKV_STORE_OTHER;
}

/* The file's pages are given back as they are read, so that a model is not in memory twice. */
static qkv_status read_straight(const qkv_safetensors *file, const qkv_safetensor *t,
                                size_t count, qkv_real *region)
{
    qkv_status status = QKV_OK;
    for (size_t at = 0; at < count && !status; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;
        status = qkv_safetensors_read(file, t, at, n, region + at);
        qkv__safetensors_drop(file, t, at, n);
    }
    return status;
}

/* A matrix whose file has it turned: a band of the file's rows at a time, of which each line is
 * read once and each line of the region written once. */
static qkv_status read_turned(const qkv_state_entry *row, qkv_context *ctx,
                              const qkv_safetensors *file, const qkv_safetensor *t,
                              qkv_real *region)
{
    size_t rows = row->shape[0], width = row->shape[1];
    qkv_real *band = qkv_malloc(ctx, BAND * width * sizeof *band);
    qkv_status status = band ? QKV_OK : QKV_E_MEMORY;
    for (size_t r = 0; r < rows && !status; r += BAND) {
        size_t n = rows - r < BAND ? rows - r : BAND;
        status = qkv_safetensors_read(file, t, r * width, n * width, band);
        for (size_t c0 = 0; c0 < width && !status; c0 += LINE)
            for (size_t c = c0; c < c0 + LINE && c < width; c++)
                for (size_t i = 0; i < n; i++)
                    region[c * rows + r + i] = band[i * width + c];
        qkv__safetensors_drop(file, t, r * width, n * width);
    }
    qkv_free(ctx, band);
    return status;
}

static qkv_status read_region(const qkv_state_entry *row, qkv_context *ctx,
                              const qkv_safetensors *file, const qkv_safetensor *t)
{
    qkv_real *region = qkv_param_data(row->param);
    size_t count = qkv_state_entry_count(row), stride[QKV_MAX_DIMS];
    if (!region)
        return QKV_E_MEMORY;
    region += row->offset;
    if (weights_in_order(row))
        return read_straight(file, t, count, region);
    if (row->ndim == 2)
        return read_turned(row, ctx, file, t, region);
    qkv_real *whole = qkv_malloc(ctx, count * sizeof *whole);
    if (!whole)
        return QKV_E_MEMORY;
    qkv_status status = qkv_safetensors_read(file, t, 0, count, whole);
    region_strides(row, stride);
    for (size_t e = 0; e < count && !status; e++)
        region[region_index(row, stride, e)] = whole[e];
    qkv_free(ctx, whole);
    return status;
}

qkv_status qkv__hub_read_row(const qkv_state_entry *row, qkv_context *ctx,
                             const qkv_safetensors *file, const char *name)
{
    const qkv_safetensor *t = NULL;
    qkv_status status = qkv_safetensors_get(file, name, row->ndim, row->shape, &t);
    if (!status && !(row->integer ? integral(t->store) : floating(t->store)))
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected %s, found %s", t->file,
                          t->name, row->integer ? "I64, I32 or another integer"
                                                : "F32, F16, BF16 or F64", t->dtype);
    if (!status)
        status = read_region(row, ctx, file, t);
    if (!status)
        qkv_param_touch(row->param);
    return status;
}

static bool may_lack(const loader *l, const char *name)
{
    static const char head[] = "head.";
    return l->partial ||
           (l->under && strncmp(name + strlen(l->under), head, sizeof head - 1) == 0);
}

/* The tensors of a row in fewer bits; false: the file does not have it so. */
static bool find_packed(loader *l, const char *name, qkv__fewer_tensors *out)
{
    char full[QKV__FEWER_NAME];
    for (int i = 0; i < QKV__FEWER_PARTS; i++)
        out->part[i] = qkv__fewer_name(full, name, i) ? weights_find(l, full) : NULL;
    return out->part[QKV__FEWER_WORDS];
}

static qkv_status weights_load_row(void *user, const qkv_state_entry *row)
{
    loader *l = user;
    qkv__fewer_tensors packed;
    const qkv_safetensor *t = weights_find(l, row->name);
    bool fewer = !t && row->ndim == 2 && find_packed(l, row->name, &packed);
    if (row->kind == QKV_STATE_TIED || row->kind == QKV_STATE_IGNORED)
        return QKV_OK;
    if (!t && !fewer && row->optional)
        qkv__param_leave_out(row->param);
    if (!t && !fewer && (row->optional || may_lack(l, row->name)))
        return QKV_OK;
    qkv_status status = fewer ? qkv__fewer_read(row, l->ctx, l->file, &packed)
                              : qkv__hub_read_row(row, l->ctx, l->file,
                                                  t ? t->name : row->name);
    l->matched += !status;
    return status || !l->storing ? status : qkv__storing_came(l->storing, row->param);
}

static qkv_status weights_expect_row(void *user, const qkv_state_entry *row)
{
    if (row->kind != QKV_STATE_TIED && row->kind != QKV_STATE_IGNORED)
        qkv__storing_expect(user, row->param);
    return QKV_OK;
}

/* Every tensor of the file must have been used; of a partial reading, one at least. */
static qkv_status weights_check_used(const loader *l, const char *dir)
{
    if (l->partial && !l->matched)
        return qkv_fail(l->ctx, QKV_E_FORMAT, "%s: no tensor has a name that this %s model has",
                        dir, l->type);
    for (size_t i = 0; i < qkv_safetensors_count(l->file) && !l->partial; i++) {
        const qkv_safetensor *t = qkv_safetensors_at(l->file, i);
        bool outside = l->under && strncmp(t->name, l->under, strlen(l->under)) != 0;
        if (!l->used[i] && !outside)
            return qkv_fail(l->ctx, QKV_E_FORMAT, "%s: tensor %s has no place in this %s model",
                            t->file, t->name, l->type);
    }
    return QKV_OK;
}

static qkv_status weights_read_file(qkv_model *m, const qkv_safetensors *file, const char *said,
                                    const char *under, bool partial, qkv__storing *storing)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    loader l = {.ctx = qkv_model_context(m), .file = file, .prefix = qkv_model_type_prefix(type),
                .type = qkv_model_type_name(type), .under = under, .partial = partial,
                .storing = storing};
    l.used = qkv_calloc(l.ctx, qkv_safetensors_count(file) + 1, sizeof *l.used);
    qkv_status status = !l.used ? QKV_E_MEMORY
                        : under ? qkv__hub_visit_named(m, under, weights_load_row, &l)
                                : qkv_model_visit(m, weights_load_row, &l);
    if (!status)
        status = weights_check_used(&l, said);
    qkv_free(l.ctx, l.used);
    return status;
}

qkv_status qkv__hub_read_weights(qkv_model *m, const char *dir, bool partial)
{
    qkv_safetensors *file = NULL;
    qkv_status status = qkv_safetensors_open(&file, qkv_model_context(m), dir);
    if (!status)
        status = weights_read_file(m, file, dir, NULL, partial, NULL);
    qkv_safetensors_close(file);
    return status;
}

qkv_status qkv__hub_read_stored(qkv_model *m, const char *dir, qkv_weights weights)
{
    qkv_safetensors *file = NULL;
    qkv__storing *storing = NULL;
    qkv_status status = qkv_safetensors_open(&file, qkv_model_context(m), dir);
    if (!status)
        status = qkv__storing_begin(&storing, qkv_model_params(m), weights);
    if (!status)
        status = qkv_model_visit(m, weights_expect_row, storing);
    if (!status)
        status = weights_read_file(m, file, dir, NULL, false, storing);
    status = qkv__storing_end(storing, status);
    qkv_safetensors_close(file);
    return status;
}

qkv_status qkv__hub_read_named(qkv_model *m, const qkv_safetensors *file, const char *under)
{
    return weights_read_file(m, file, "", under, false, NULL);
}

/* ---- writing -------------------------------------------------------------------------------- */

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
        out[i] = region[region_index(&k->row, k->stride, begin + i)];
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
    region_strides(row, k->stride);
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
    } else if (weights_in_order(row)) {
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
