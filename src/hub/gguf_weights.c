/* gguf_weights.c - a model's rows, out of GGUF files and into them. Matrices are stored as the
 * region of the parameter has them, which for GPT-2 is not as in its safetensors. Where a file has
 * the two channels of a rotary pair side by side, and a head here half a head apart, the rows of
 * query and key change places. */
#include <math.h>
#include <string.h>

#include "hub/gguf_parts.h"
#include "hub/quantized.h"
#include "io/convert.h"
#include "io/safetensors_header.h"
#include "qkv/gpt.h"
#include "tensor/make.h"

enum { PIECE = 1 << 16, NAME = 256, BLOCK = 32 };

/* A row, and where it is in the file. */
typedef struct {
    qkv_param *param;
    size_t offset, rows, columns; /* of the region; one row where it is a vector ... */
    size_t head;                  /* ... unless its numbers change places; 0: nothing does */
    size_t left_out;              /* numbers at the region's beginning that no file has */
    int ndim;
    size_t shape[QKV_MAX_DIMS]; /* the file's */
    char name[NAME];
} region;

typedef struct {
    qkv_model *m;
    qkv_context *ctx;
    const char *path;
    const qkv__gguf_arch *arch;
    const qkv__gguf *g; /* read: the file, ... */
    bool *used;         /* ... which of its tensors have been, ... */
    qkv__storing *storing; /* ... and what keeps them in fewer bits; NULL: nothing does */
    const qkv__hub_gguf_options *o; /* written: how, ... */
    qkv__gguf_entry *entries;       /* ... and what */
    region *regions;
    size_t count, room;
    qkv_real *divisors;
} rows;

/* The row's region; false: it is no part of a file. */
static qkv_status find_region(const rows *r, const qkv_state_entry *row, region *out, bool *is)
{
    const qkv__gguf_name *part = NULL;
    *is = row->kind == QKV_STATE_PARAM || row->kind == QKV_STATE_FIXED;
    if (!*is)
        return QKV_OK;
    *out = (region){.param = row->param, .offset = row->offset, .ndim = row->ndim};
    if (!qkv__gguf_rename(r->arch, row->name, out->name, sizeof out->name, &part) ||
        row->ndim > QKV__GGUF_DIMS)
        return qkv_fail(r->ctx, QKV_E_UNSUPPORTED, "tensor \"%s\": a GGUF file of a %s has no "
                        "place for it", row->name, r->arch->name);
    for (int i = 0; i < row->ndim; i++)
        out->shape[row->perm[i]] = row->shape[i];
    const bool moves = r->arch->positions == QKV__GGUF_ROTARY_PAIRS &&
                       (part->part == QKV__GGUF_QUERY || part->part == QKV__GGUF_KEY);
    out->head = moves ? ((const qkv_gpt_config *)qkv_model_config(r->m))->head_width : 0;
    out->rows = row->ndim > 1 || moves ? out->shape[0] : 1;
    out->columns = out->rows ? qkv_state_entry_count(row) / out->rows : 0;
    if (part->part != QKV__GGUF_POSITIONS)
        return QKV_OK;
    const size_t left_out = qkv__gguf_rows_left_out(r->arch, r->m);
    out->left_out = left_out * out->columns;
    out->offset += out->left_out;
    out->shape[0] -= left_out;
    out->rows -= left_out;
    return QKV_OK;
}

/* The file's row for ours: pair i of a head is rows i and i + half here, 2i and 2i + 1 there. */
static size_t row_in_file(const region *x, size_t row)
{
    if (!x->head)
        return row;
    const size_t at = row % x->head, half = x->head / 2;
    return row - at + at % half * 2 + at / half;
}

static size_t row_of_file(const region *x, size_t row)
{
    if (!x->head)
        return row;
    const size_t at = row % x->head, half = x->head / 2;
    return row - at + at % 2 * half + at / 2;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* An encoder's pooler: not in files that llama.cpp's converter wrote, and not used here. */
static bool gguf_may_lack(const char *name) { return strncmp(name, "pooler.", 7) == 0; }

static qkv_status check_shape(const rows *r, const region *x, const qkv__gguf_tensor *t)
{
    char expected[160], found[160];
    bool same = t->ndim == x->ndim;
    for (int i = 0; i < x->ndim && same; i++)
        same = t->shape[i] == x->shape[i];
    if (same)
        return QKV_OK;
    qkv__file_shape_text(expected, sizeof expected, x->ndim, x->shape);
    qkv__file_shape_text(found, sizeof found, t->ndim, t->shape);
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected shape %s, found %s", r->path,
                    t->name, expected, found);
}

static qkv_status gguf_load_row(void *user, const qkv_state_entry *row)
{
    rows *r = user;
    region x;
    bool is;
    qkv_status status = find_region(r, row, &x, &is);
    if (status || !is)
        return status;
    const qkv__gguf_tensor *t = qkv__gguf_tensor_find(r->g, x.name);
    if (!t)
        return gguf_may_lack(row->name)
                   ? QKV_OK
                   : qkv_fail(r->ctx, QKV_E_FORMAT, "%s: tensor \"%s\" is missing", r->path,
                              x.name);
    r->used[t - qkv__gguf_at(r->g, 0)] = true;
    status = check_shape(r, &x, t);
    qkv_real *out = status ? NULL : qkv_param_data(x.param);
    if (!out)
        return status ? status : QKV_E_MEMORY;
    out += x.offset;
    for (size_t i = 1; i <= x.left_out; i++)
        out[-(ptrdiff_t)i] = 0;
    const size_t count = x.head ? x.columns : x.rows * x.columns;
    for (size_t i = 0; i < (x.head ? x.rows : 1); i++)
        for (size_t at = 0; at < count && !status; at += PIECE)
            status = qkv__gguf_read(r->g, t, row_in_file(&x, i) * x.columns + at,
                                    count - at < PIECE ? count - at : PIECE,
                                    out + i * x.columns + at);
    if (status)
        return status;
    qkv_param_touch(x.param);
    return r->storing ? qkv__storing_came(r->storing, x.param) : QKV_OK;
}

static qkv_status expect_row(void *user, const qkv_state_entry *row)
{
    const rows *r = user;
    region x;
    bool is;
    qkv_status status = find_region(r, row, &x, &is);
    if (!status && is && qkv__gguf_tensor_find(r->g, x.name))
        qkv__storing_expect(r->storing, row->param);
    return status;
}

static qkv_status check_all_used(const rows *r)
{
    for (size_t i = 0; i < qkv_gguf_tensors(r->g); i++) {
        const char *name = qkv__gguf_at(r->g, i)->name;
        if (!r->used[i] && !(qkv__gguf_rotary(r->arch) && strcmp(name, QKV__GGUF_ROPE_TENSOR) == 0))
            return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: tensor \"%.120s\" has no place in this %s "
                            "model", r->path, name, qkv_model_type_name(qkv_model_type_of(r->m)));
    }
    return QKV_OK;
}

qkv_status qkv__gguf_read_weights(qkv_model *m, const qkv__gguf *g, const qkv__gguf_arch *a,
                                  qkv_weights weights)
{
    rows r = {.m = m, .ctx = qkv_model_context(m), .path = qkv__gguf_path(g), .arch = a, .g = g};
    r.used = qkv_calloc(r.ctx, qkv_gguf_tensors(g) + 1, sizeof *r.used);
    qkv_status status = r.used ? QKV_OK : QKV_E_MEMORY;
    if (!status && weights != QKV_WEIGHTS_F32)
        status = qkv__storing_begin(&r.storing, qkv_model_params(m), weights);
    if (!status && r.storing)
        status = qkv_model_visit(m, expect_row, &r);
    if (!status)
        status = qkv_model_visit(m, gguf_load_row, &r);
    if (!status)
        status = check_all_used(&r);
    if (r.storing)
        status = qkv__storing_end(r.storing, status);
    qkv_free(r.ctx, r.used);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static qkv_status gguf_fill(void *user, size_t begin, size_t count, qkv_real *out)
{
    const region *x = user;
    const qkv_real *values = qkv_param_data(x->param) + x->offset;
    if (!x->head) {
        memcpy(out, values + begin, count * sizeof *out);
        return QKV_OK;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t at = begin + i;
        out[i] = values[row_of_file(x, at / x->columns) * x->columns + at % x->columns];
    }
    return QKV_OK;
}

static qkv_status fill_divisors(void *user, size_t begin, size_t count, qkv_real *out)
{
    const qkv_real *divisors = user;
    memcpy(out, divisors + begin, count * sizeof *out);
    return QKV_OK;
}

/* A block of Q8_0 or Q4_0 out of integers as qkv__pack_rows has them, which add 128 or 8; its
 * bytes. */
static size_t pack_block(uint8_t *out, bool eight, qkv_real scale, const int32_t *words)
{
    const uint16_t half = qkv__to_f16((float)scale);
    memcpy(out, &half, sizeof half);
    out += sizeof half;
    for (int i = 0; i < (eight ? BLOCK : BLOCK / 2); i++) {
        if (eight) {
            out[i] = (uint8_t)(((uint32_t)words[i / 4] >> i % 4 * 8 & 255) ^ 128);
        } else {
            const uint32_t low = (uint32_t)words[i / 8] >> i % 8 * 4 & 15;
            const uint32_t high = (uint32_t)words[2 + i / 8] >> i % 8 * 4 & 15;
            out[i] = (uint8_t)(low | high << 4);
        }
    }
    return sizeof half + (eight ? BLOCK : BLOCK / 2);
}

/* Numbers that are integers of `weights` times a scale, as blocks of Q8_0 or Q4_0: rounding them as
 * they were rounded gives these integers again, and the scales become halves. */
static qkv_status kept_blocks(const region *x, qkv_weights weights, size_t first, size_t count,
                              uint8_t *out)
{
    const bool eight = weights == QKV_WEIGHTS_INT8;
    const size_t k = x->columns, words = k * (eight ? 8 : 4) / 32, scales = eight ? 1 : k / BLOCK;
    qkv_context *ctx = qkv__param_context(x->param);
    const qkv_real *values = qkv_param_data(x->param) + x->offset;
    int32_t *word = qkv_malloc(ctx, words * sizeof *word);
    qkv_real *scale = qkv_malloc(ctx, scales * sizeof *scale);
    qkv_status status = word && scale ? QKV_OK : QKV_E_MEMORY;
    size_t row = SIZE_MAX;
    for (size_t b = first; b < first + count && !status; b++) {
        const size_t in_row = b % (k / BLOCK);
        if (row != b / (k / BLOCK)) {
            row = b / (k / BLOCK);
            qkv__pack_rows(weights, values + row_of_file(x, row) * k, 1, k, word, scale, 1);
        }
        const qkv_real s = scale[eight ? 0 : in_row];
        if (!(fabs((double)s) <= QKV__GGUF_MOST_HALF))
            status = qkv_fail(ctx, QKV_E_UNSUPPORTED, "tensor \"%s\": %s has room for scales up to "
                              "%d, found %g", x->name, eight ? "Q8_0" : "Q4_0",
                              (int)QKV__GGUF_MOST_HALF, (double)s);
        out += pack_block(out, eight, s, word + in_row * (eight ? 8 : 4));
    }
    qkv_free(ctx, word);
    qkv_free(ctx, scale);
    return status;
}

static qkv_status blocks_of_int8(void *user, size_t first, size_t count, uint8_t *out)
{
    return kept_blocks(user, QKV_WEIGHTS_INT8, first, count, out);
}

static qkv_status blocks_of_int4(void *user, size_t first, size_t count, uint8_t *out)
{
    return kept_blocks(user, QKV_WEIGHTS_INT4, first, count, out);
}

/* Vectors, positions and kinds of segments are F32 as in llama.cpp's files. A table of tokens has 8
 * bits where matrices have 4; what has no whole blocks is F16. */
static const qkv__gguf_type *gguf_type_of(const rows *r, const region *x)
{
    const qkv__gguf_type *type = r->o->type;
    const bool table = qkv__param_is_table(x->param);
    if (x->ndim < 2 || (!table && !qkv__param_is_linear(x->param)))
        return qkv__gguf_type_named("f32");
    if (table && strcmp(type->name, "Q4_0") == 0)
        type = qkv__gguf_type_named("q8_0");
    return x->columns % type->block ? qkv__gguf_type_named("f16") : type;
}

static qkv_status gguf_add_row(void *user, const qkv_state_entry *row)
{
    rows *r = user;
    region *x = &r->regions[r->count];
    bool is;
    qkv_status status = find_region(r, row, x, &is);
    if (status || !is)
        return status;
    qkv__gguf_entry *e = &r->entries[r->count++];
    *e = (qkv__gguf_entry){.type = gguf_type_of(r, x), .ndim = x->ndim, .fill = gguf_fill,
                           .user = x};
    if (strlen(x->name) >= sizeof e->name)
        return qkv_fail(r->ctx, QKV_E_UNSUPPORTED, "tensor \"%s\": a GGUF file has room for names "
                        "of %zu bytes", x->name, sizeof e->name - 1);
    memcpy(e->name, x->name, strlen(x->name) + 1);
    for (int i = 0; i < x->ndim; i++)
        e->shape[i] = x->shape[i];
    if (!qkv__fewer_takes(row, r->o->kept))
        return QKV_OK;
    if (r->o->kept == QKV_WEIGHTS_INT8 && strcmp(e->type->name, "Q8_0") == 0)
        e->blocks = blocks_of_int8;
    if (r->o->kept == QKV_WEIGHTS_INT4 && strcmp(e->type->name, "Q4_0") == 0)
        e->blocks = blocks_of_int4;
    return QKV_OK;
}

static qkv_status gguf_count_row(void *user, const qkv_state_entry *row)
{
    rows *r = user;
    r->room += row->kind == QKV_STATE_PARAM || row->kind == QKV_STATE_FIXED;
    return QKV_OK;
}

static qkv_status add_divisors(rows *r)
{
    const size_t n = qkv__gguf_rotary(r->arch) ? qkv__gguf_rope_divisors(r->m, NULL) : 0;
    if (!n)
        return QKV_OK;
    r->divisors = qkv_malloc(r->ctx, n * sizeof *r->divisors);
    if (!r->divisors || !qkv__gguf_rope_divisors(r->m, r->divisors))
        return QKV_E_MEMORY;
    r->entries[r->count++] = (qkv__gguf_entry){
        .name = QKV__GGUF_ROPE_TENSOR, .type = qkv__gguf_type_named("f32"), .ndim = 1, .shape = {n},
        .fill = fill_divisors, .user = r->divisors};
    return QKV_OK;
}

qkv_status qkv__gguf_write_weights(qkv_model *m, const char *path, const qkv__gguf_arch *a,
                                   const qkv__gguf_fields *f, const qkv__hub_gguf_options *o)
{
    rows r = {.m = m, .ctx = qkv_model_context(m), .path = path, .arch = a, .o = o};
    qkv_status status = qkv_model_visit(m, gguf_count_row, &r);
    r.entries = qkv_calloc(r.ctx, r.room + 1, sizeof *r.entries);
    r.regions = qkv_calloc(r.ctx, r.room + 1, sizeof *r.regions);
    if (!r.entries || !r.regions)
        status = QKV_E_MEMORY;
    if (!status)
        status = add_divisors(&r);
    if (!status)
        status = qkv_model_visit(m, gguf_add_row, &r);
    if (!status)
        status = qkv__gguf_save(r.ctx, path, f, r.entries, r.count);
    qkv_free(r.ctx, r.divisors);
    qkv_free(r.ctx, r.regions);
    qkv_free(r.ctx, r.entries);
    return status;
}
