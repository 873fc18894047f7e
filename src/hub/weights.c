/* weights.c - a model's rows, out of safetensors files. */
#include <stdio.h>
#include <string.h>

#include "hub/quantized.h"
#include "hub/region.h"
#include "io/safetensors_header.h"
#include "tensor/make.h"

enum { MOST_IN_WORD = 8 };
enum { PIECE = 1 << 20 }; /* numbers of a file that are read at a time */
enum { BAND = 32, LINE = 16 }; /* rows that are turned together; numbers in a cache line */

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
    if (qkv__region_in_order(row))
        return read_straight(file, t, count, region);
    if (row->ndim == 2)
        return read_turned(row, ctx, file, t, region);
    qkv_real *whole = qkv_malloc(ctx, count * sizeof *whole);
    if (!whole)
        return QKV_E_MEMORY;
    qkv_status status = qkv_safetensors_read(file, t, 0, count, whole);
    qkv__region_strides(row, stride);
    for (size_t e = 0; e < count && !status; e++)
        region[qkv__region_index(row, stride, e)] = whole[e];
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

qkv_status qkv__hub_count_weights(size_t *out, qkv_context *ctx, const char *dir)
{
    qkv_safetensors *file = NULL;
    qkv_status status = qkv_safetensors_open(&file, ctx, dir);
    *out = 0;
    for (size_t i = 0; !status && i < qkv_safetensors_count(file); i++) {
        const qkv_safetensor *t = qkv_safetensors_at(file, i);
        *out += t->count * (t->store == QKV_STORE_I32 ? MOST_IN_WORD : 1);
    }
    qkv_safetensors_close(file);
    return status;
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

qkv_status qkv__hub_read_stored(qkv_model *m, const char *dir, qkv_weights weights, bool partial)
{
    qkv_safetensors *file = NULL;
    qkv__storing *storing = NULL;
    if (weights <= QKV_WEIGHTS_F32)
        return qkv__hub_read_weights(m, dir, partial);
    qkv_status status = qkv_safetensors_open(&file, qkv_model_context(m), dir);
    if (!status)
        status = qkv__storing_begin(&storing, qkv_model_params(m), weights);
    if (!status)
        status = qkv_model_visit(m, weights_expect_row, storing);
    if (!status)
        status = weights_read_file(m, file, dir, NULL, partial, storing);
    status = qkv__storing_end(storing, status);
    qkv_safetensors_close(file);
    return status;
}

/* Which rows a file lacks. */
typedef struct {
    loader l;
    qkv_state_entry_fn *fn;
    void *user;
    size_t count;
} lacking;

static qkv_status visit_lacking(void *user, const qkv_state_entry *row)
{
    lacking *x = user;
    qkv__fewer_tensors packed;
    if (row->kind == QKV_STATE_TIED || row->kind == QKV_STATE_IGNORED ||
        weights_find(&x->l, row->name) || find_packed(&x->l, row->name, &packed))
        return QKV_OK;
    if (row->optional) {
        qkv__param_leave_out(row->param);
        return QKV_OK;
    }
    x->count++;
    return x->fn ? x->fn(x->user, row) : QKV_OK;
}

qkv_status qkv__hub_visit_lacking(qkv_model *m, const char *dir, qkv_state_entry_fn *fn,
                                  void *user, size_t *count)
{
    qkv_safetensors *file = NULL;
    qkv_context *ctx = qkv_model_context(m);
    lacking x = {.l = {.ctx = ctx, .prefix = qkv_model_type_prefix(qkv_model_type_of(m))},
                 .fn = fn, .user = user};
    qkv_status status = qkv_safetensors_open(&file, ctx, dir);
    x.l.file = file;
    if (!status && !(x.l.used = qkv_calloc(ctx, qkv_safetensors_count(file) + 1, sizeof(bool))))
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv_model_visit(m, visit_lacking, &x);
    if (count)
        *count = x.count;
    qkv_free(ctx, x.l.used);
    qkv_safetensors_close(file);
    return status;
}

qkv_status qkv__hub_read_named(qkv_model *m, const qkv_safetensors *file, const char *under)
{
    return weights_read_file(m, file, "", under, false, NULL);
}
