/* quantized.c - matrices of 8 and 4 bits, out of files and into them. */
#include "hub/quantized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/make.h"

enum { GROUP = 32, WORD_BITS = 32 };

static const char *const part_names[] = {"_packed", "_scale", "_shape"};

static int bits_of(qkv_weights weights) { return weights == QKV_WEIGHTS_INT8 ? 8 : 4; }

bool qkv__fewer_name(char out[QKV__FEWER_NAME], const char *name, int part)
{
    static const char end[] = ".weight";
    size_t n = strlen(name), k = sizeof end - 1;
    return n > k && strcmp(name + n - k, end) == 0 &&
           snprintf(out, QKV__FEWER_NAME, "%s%s", name, part_names[part]) < QKV__FEWER_NAME;
}

/* Of a matrix that the file otherwise keeps turned, too. */
static void size_of(const qkv_state_entry *row, size_t *n, size_t *k)
{
    bool turned = row->perm[0] == 1;
    *n = row->shape[turned];
    *k = row->shape[!turned];
}

/* ---- reading ------------------------------------------------------------------------------- */

static qkv_status quantized_expect(qkv_context *ctx, const qkv_safetensor *t, const char *what)
{
    return qkv_fail(ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected %s", t->file, t->name, what);
}

static bool quantized_is_float(qkv_store store)
{
    return store == QKV_STORE_F16 || store == QKV_STORE_BF16 || store == QKV_STORE_F32;
}

/* *bits of an integer, by the length of rows. */
static qkv_status quantized_check(const qkv_safetensors *file, qkv_context *ctx,
                                  const qkv__fewer_tensors *t, size_t n, size_t k, int *bits)
{
    const qkv_safetensor *words = t->part[QKV__FEWER_WORDS], *scales =
        t->part[QKV__FEWER_SCALES], *shape = t->part[QKV__FEWER_SHAPE];
    char text[160];
    int64_t size[2] = {0};
    if (!scales || !shape)
        return quantized_expect(ctx, words, "the tensors of its weight_scale and weight_shape");
    if (shape->ndim != 1 || shape->count != 2)
        return quantized_expect(ctx, shape, "two integers");
    qkv_status status = qkv_safetensors_read_ints(file, shape, 0, 2, size);
    if (status)
        return status;
    if (size[0] < 0 || size[1] < 0 || (uint64_t)size[0] != n || (uint64_t)size[1] != k) {
        (void)snprintf(text, sizeof text, "(%zu, %zu), found (%lld, %lld)", n, k,
                       (long long)size[0], (long long)size[1]);
        return quantized_expect(ctx, shape, text);
    }
    bool fits = words->store == QKV_STORE_I32 && words->ndim == 2 && words->shape[0] == n;
    size_t columns = fits ? words->shape[1] : 0;
    *bits = columns == (k + 3) / 4 ? 8 : columns == (k + 7) / 8 ? 4 : 0;
    if (!*bits) {
        (void)snprintf(text, sizeof text, "I32 (%zu, %zu) of 8 bits or (%zu, %zu) of 4", n,
                       (k + 3) / 4, n, (k + 7) / 8);
        return quantized_expect(ctx, words, text);
    }
    if (quantized_is_float(scales->store) && scales->ndim == 2 && scales->shape[0] == n &&
        scales->shape[1] > 0 && k % scales->shape[1] == 0)
        return QKV_OK;
    (void)snprintf(text, sizeof text, "floats (%zu, groups) that share %zu numbers evenly", n, k);
    return quantized_expect(ctx, scales, text);
}

/* One row of the matrix: numbers out of words and scales. */
static void unpack_row(qkv_real *out, const int64_t *words, const qkv_real *scales, size_t k,
                       size_t group, int bits)
{
    size_t in_word = (size_t)(WORD_BITS / bits);
    int offset = 1 << (bits - 1), mask = (1 << bits) - 1;
    for (size_t i = 0; i < k; i++) {
        uint32_t word = (uint32_t)words[i / in_word];
        int value = (int)(word >> (int)(i % in_word) * bits) & mask;
        out[i] = (qkv_real)(value - offset) * scales[i / group];
    }
}

qkv_status qkv__fewer_read(const qkv_state_entry *row, qkv_context *ctx,
                            const qkv_safetensors *file, const qkv__fewer_tensors *t)
{
    size_t n, k;
    int bits = 0;
    size_of(row, &n, &k);
    qkv_status status = quantized_check(file, ctx, t, n, k, &bits);
    if (status)
        return status;
    const qkv_safetensor *words = t->part[QKV__FEWER_WORDS], *scales = t->part[QKV__FEWER_SCALES];
    size_t columns = words->shape[1], groups = scales->shape[1];
    int64_t *word = qkv_calloc(ctx, columns, sizeof *word);
    qkv_real *scale = qkv_calloc(ctx, groups, sizeof *scale);
    qkv_real *out = qkv_param_data(row->param);
    status = word && scale && out ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++) {
        status = qkv_safetensors_read_ints(file, words, i * columns, columns, word);
        if (!status)
            status = qkv_safetensors_read(file, scales, i * groups, groups, scale);
        if (!status)
            unpack_row(out + row->offset + i * k, word, scale, k, k / groups, bits);
    }
    qkv_free(ctx, word);
    qkv_free(ctx, scale);
    if (!status)
        qkv_param_touch(row->param);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

bool qkv__fewer_takes(const qkv_state_entry *row, qkv_weights weights)
{
    size_t n, k;
    char name[QKV__FEWER_NAME];
    if (weights <= QKV_WEIGHTS_BF16 || row->kind != QKV_STATE_PARAM || row->integer ||
        row->ndim != 2 || !row->param || !qkv__param_is_linear(row->param) ||
        !qkv__fewer_name(name, row->name, 0))
        return false;
    size_of(row, &n, &k);
    return k % (weights == QKV_WEIGHTS_INT8 ? 4 : GROUP) == 0;
}

qkv_status qkv__fewer_make(qkv__fewer *p, qkv_safetensors_entry *entries,
                            const qkv_state_entry *row, qkv_weights weights)
{
    qkv_context *ctx = qkv__param_context(row->param);
    const qkv_real *x = qkv_param_data(row->param);
    size_t n, k, in_word = (size_t)(WORD_BITS / bits_of(weights));
    size_of(row, &n, &k);
    *p = (qkv__fewer){.words_shape = {n, k / in_word}, .shape_shape = {2},
                       .scales_shape = {n, weights == QKV_WEIGHTS_INT8 ? 1 : k / GROUP},
                       .shape = {(int64_t)n, (int64_t)k}};
    p->words = qkv_calloc(ctx, n, p->words_shape[1] * sizeof *p->words);
    p->scales = qkv_calloc(ctx, n, p->scales_shape[1] * sizeof *p->scales);
    if (!x || !p->words || !p->scales)
        return QKV_E_MEMORY;
    qkv__pack_rows(weights, x + row->offset, n, k, p->words, p->scales,
                   qkv_context_threads(ctx));
    for (size_t i = 0; i < n * p->scales_shape[1]; i++)
        if (!isfinite(p->scales[i]))
            return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s has numbers that are not finite: they "
                            "cannot be rounded to %d bits", row->name, bits_of(weights));
    entries[QKV__FEWER_WORDS] = (qkv_safetensors_entry){.ndim = 2, .shape = p->words_shape,
                                                         .store = QKV_STORE_I32, .raw = p->words};
    entries[QKV__FEWER_SCALES] = (qkv_safetensors_entry){
        .ndim = 2, .shape = p->scales_shape, .data = p->scales,
        .store = weights == QKV_WEIGHTS_INT8 ? QKV_STORE_F32 : QKV_STORE_BF16};
    entries[QKV__FEWER_SHAPE] = (qkv_safetensors_entry){.ndim = 1, .shape = p->shape_shape,
                                                         .store = QKV_STORE_I64, .raw = p->shape};
    return QKV_OK;
}

void qkv__fewer_free(qkv__fewer *p, qkv_context *ctx)
{
    qkv_free(ctx, p->words);
    qkv_free(ctx, p->scales);
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* A group of layers that are kept alike. */
static qkv_status read_group(const qkv__json *group, qkv_weights *out)
{
    qkv__json weights;
    const char *type = "int";
    bool symmetric = true;
    int64_t bits = 0;
    if (qkv__json_has(group, "input_activations") || qkv__json_has(group, "output_activations"))
        return qkv__json_fail(group, "input_activations", "expected null: values between layers "
                              "that are rounded as the file says are not supported");
    qkv_status status = qkv__json_get_object(group, "weights", &weights);
    if (!status)
        status = qkv__json_opt_string(&weights, "type", &type);
    if (!status)
        status = qkv__json_opt_bool(&weights, "symmetric", &symmetric);
    if (!status)
        status = qkv__json_get_int(&weights, "num_bits", 1, 64, &bits);
    if (!status && (strcmp(type, "int") != 0 || !symmetric || (bits != 8 && bits != 4)))
        status = qkv__json_fail(group, "weights", "expected symmetric integers of 8 or 4 bits, "
                                "found \"%s\"%s of %d", type, symmetric ? "" : ", not symmetric,",
                                (int)bits);
    qkv_weights found = bits == 8 ? QKV_WEIGHTS_INT8 : QKV_WEIGHTS_INT4;
    if (!status && *out != QKV_WEIGHTS_F32 && *out != found)
        status = qkv__json_fail(group, "weights", "expected the bits of the other groups, found %d",
                                (int)bits);
    *out = found;
    return status;
}

qkv_status qkv__hub_read_quantization(const qkv__json *config, qkv_weights *out)
{
    static const char field[] = "quantization_config";
    qkv__json q, groups, group;
    const char *method = "", *format = "";
    *out = QKV_WEIGHTS_F32;
    if (!qkv__json_has(config, field))
        return QKV_OK;
    qkv_status status = qkv__json_get_object(config, field, &q);
    if (!status)
        status = qkv__json_opt_string(&q, "quant_method", &method);
    if (!status)
        status = qkv__json_opt_string(&q, "format", &format);
    if (!status && (strcmp(method, "compressed-tensors") != 0 ||
                    strcmp(format, "pack-quantized") != 0))
        return qkv__json_fail(config, field, "expected quant_method \"compressed-tensors\" with "
                              "format \"pack-quantized\", found \"%s\" and \"%s\"", method, format);
    if (!status)
        status = qkv__json_get_object(&q, "config_groups", &groups);
    if (status)
        return status;
    const char *key;
    json_t *value;
    json_object_foreach(groups.value, key, value) {
        if (!status)
            status = qkv__json_get_object(&groups, key, &group);
        if (!status)
            status = read_group(&group, out);
    }
    if (!status && *out == QKV_WEIGHTS_F32)
        return qkv__json_fail(&q, "config_groups", "expected a group, found none");
    return status;
}

/* Matrices that stay as they are, under the names of their modules. */
typedef struct {
    qkv_json_writer *w;
    qkv_weights weights;
} ignoring;

static qkv_status put_ignored(void *user, const qkv_state_entry *row)
{
    const ignoring *j = user;
    char name[QKV__FEWER_NAME];
    if (row->ndim != 2 || qkv__fewer_takes(row, j->weights) ||
        !qkv__fewer_name(name, row->name, 0))
        return QKV_OK;
    name[strlen(row->name) - strlen(".weight")] = 0;
    qkv_json_put_string(j->w, NULL, name);
    return QKV_OK;
}

/* How many matrices are kept so. */
typedef struct {
    qkv_weights weights;
    size_t count;
} counting;

static qkv_status count_taken(void *user, const qkv_state_entry *row)
{
    counting *c = user;
    c->count += qkv__fewer_takes(row, c->weights);
    return QKV_OK;
}

qkv_status qkv__hub_check_weights(qkv_model *m, qkv_weights weights)
{
    counting c = {weights, 0};
    qkv_status status = weights > QKV_WEIGHTS_BF16 ? qkv_model_visit(m, count_taken, &c) : QKV_OK;
    if (status || weights <= QKV_WEIGHTS_BF16 || c.count)
        return status;
    return qkv_fail(qkv_model_context(m), QKV_E_UNSUPPORTED,
                    "a %s has no matrix of linear layers that can be kept in %s",
                    qkv_model_type_name(qkv_model_type_of(m)), qkv__weights_names[weights]);
}

qkv_status qkv__hub_write_quantization(qkv_json_writer *w, qkv_model *m, qkv_weights weights)
{
    if (weights <= QKV_WEIGHTS_BF16)
        return QKV_OK;
    qkv_json_begin_object(w, "quantization_config");
    qkv_json_put_string(w, "quant_method", "compressed-tensors");
    qkv_json_put_string(w, "format", "pack-quantized");
    qkv_json_put_string(w, "quantization_status", "compressed");
    qkv_json_begin_object(w, "config_groups");
    qkv_json_begin_object(w, "group_0");
    qkv_json_begin_array(w, "targets");
    qkv_json_put_string(w, NULL, "Linear");
    qkv_json_end_array(w);
    qkv_json_begin_object(w, "weights");
    qkv_json_put_int(w, "num_bits", bits_of(weights));
    qkv_json_put_string(w, "type", "int");
    qkv_json_put_bool(w, "symmetric", true);
    qkv_json_put_string(w, "strategy", weights == QKV_WEIGHTS_INT8 ? "channel" : "group");
    if (weights == QKV_WEIGHTS_INT4)
        qkv_json_put_int(w, "group_size", GROUP);
    qkv_json_end_object(w);
    qkv_json_end_object(w);
    qkv_json_end_object(w);
    ignoring j = {w, weights};
    qkv_json_begin_array(w, "ignore");
    qkv_status status = qkv_model_visit(m, put_ignored, &j);
    qkv_json_end_array(w);
    qkv_json_end_object(w);
    return status;
}
