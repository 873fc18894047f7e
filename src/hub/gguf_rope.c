/* gguf_rope.c - rotary positions of GGUF files. */
#include <string.h>

#include "hub/gguf_parts.h"
#include "qkv/gpt.h"

static const char ORIGINAL[] = "rope.scaling.original_context_length";

static const char *const kinds[] = {[QKV_ROPE_DEFAULT] = "none", [QKV_ROPE_LINEAR] = "linear",
                                    [QKV_ROPE_YARN] = "yarn"};

/* ---- reading --------------------------------------------------------------------------------- */

/* Fields that stand for a member of rope_scaling. */
static const struct {
    const char *suffix, *key;
} numbers[] = {{"rope.scaling.factor", "factor"},
               {"rope.scaling.yarn_beta_fast", "beta_fast"},
               {"rope.scaling.yarn_beta_slow", "beta_slow"}};

/* Those that must have the value that they have where they lack. */
static const struct {
    const char *suffix;
    double value;
} neutral[] = {{"rope.scaling.attn_factor", 1}, {"rope.scaling.yarn_ext_factor", 1},
               {"rope.scaling.yarn_attn_factor", 1}, {"rope.scaling.yarn_log_multiplier", 0}};

static qkv_status read_scaling(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a,
                               const char *kind)
{
    char key[QKV__GGUF_KEY_BYTES];
    int64_t original = 0;
    json_t *rope = json_pack("{s:s}", "rope_type", kind);
    qkv_status status = qkv__gguf_set(config, g, "rope_scaling", rope);
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral && !status; i++) {
        double x = neutral[i].value;
        status = qkv__gguf_opt_real(g, qkv__gguf_key(key, a, neutral[i].suffix), &x);
        if (!status && x != neutral[i].value)
            status = qkv__gguf_fail(g, key, "expected %g, found %g", neutral[i].value, x);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++) {
        double x = -1;
        status = qkv__gguf_opt_real(g, qkv__gguf_key(key, a, numbers[i].suffix), &x);
        if (!status && x >= 0)
            status = qkv__gguf_set(rope, g, numbers[i].key, json_real(x));
    }
    if (!status)
        status = qkv__gguf_opt_int(g, qkv__gguf_key(key, a, ORIGINAL), 1, QKV__GGUF_MOST_LENGTH,
                                   &original);
    if (!status && original)
        status = qkv__gguf_set(rope, g, "original_max_position_embeddings", json_integer(original));
    return status;
}

static qkv_status read_llama3(json_t *config, const qkv__gguf *g, const qkv__gguf_tensor *t,
                              size_t head_width, size_t told)
{
    qkv_context *ctx = qkv__gguf_context(g);
    const size_t n = head_width / 2;
    qkv_rotary_config c = {.base = json_number_value(json_object_get(config, "rope_theta"))};
    bool found = false;
    if (t->ndim != 1 || t->count != n || n == 0)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected %zu numbers, found %zu",
                        qkv__gguf_path(g), t->name, n, t->count);
    qkv_real *divisors = qkv_malloc(ctx, n * sizeof *divisors);
    if (!divisors)
        return QKV_E_MEMORY;
    qkv_status status = qkv__gguf_read(g, t, 0, n, divisors);
    if (!status)
        status = qkv__llama3_of_divisors(ctx, &c, told, divisors, head_width, &found);
    qkv_free(ctx, divisors);
    if (status)
        return status;
    if (!found)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: tensor \"%s\": expected the divisors of a "
                        "rope_type llama3, found others", qkv__gguf_path(g), t->name);
    return qkv__gguf_set(config, g, "rope_scaling",
                         json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor",
                                   c.factor, "low_freq_factor", c.low, "high_freq_factor", c.high,
                                   "original_max_position_embeddings", (json_int_t)c.original));
}

/* How many channels of a head turn. */
static qkv_status read_turning(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a,
                               size_t head_width)
{
    char key[QKV__GGUF_KEY_BYTES];
    int64_t width = (int64_t)head_width;
    qkv_status status = qkv__gguf_opt_int(g, qkv__gguf_key(key, a, "rope.dimension_count"), 1,
                                          (int64_t)head_width, &width);
    if (status || (size_t)width == head_width)
        return status;
    if (a->type() != qkv_phi3_type())
        return qkv__gguf_fail(g, key, "expected %zu, the length of a head, found %lld", head_width,
                              (long long)width);
    return qkv__gguf_set(config, g, "partial_rotary_factor",
                    json_real((double)width / (double)head_width));
}

qkv_status qkv__gguf_read_rope(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a,
                               size_t head_width)
{
    char key[QKV__GGUF_KEY_BYTES];
    const char *kind = kinds[QKV_ROPE_DEFAULT];
    double base = 10000;
    const qkv__gguf_tensor *divisors = qkv__gguf_tensor_find(g, QKV__GGUF_ROPE_TENSOR);
    qkv_status status = qkv__gguf_opt_real(g, qkv__gguf_key(key, a, "rope.freq_base"), &base);
    if (!status)
        status = qkv__gguf_set(config, g, "rope_theta", json_real(base));
    if (!status)
        status = read_turning(config, g, a, head_width);
    if (!status)
        status = qkv__gguf_opt_string(g, qkv__gguf_key(key, a, "rope.scaling.type"), &kind);
    if (status)
        return status;
    if (strcmp(kind, kinds[QKV_ROPE_DEFAULT]) == 0) {
        int64_t told = 0;
        status = qkv__gguf_opt_int(g, qkv__gguf_key(key, a, ORIGINAL), 1, QKV__GGUF_MOST_LENGTH,
                                   &told);
        return status || !divisors ? status
                                   : read_llama3(config, g, divisors, head_width, (size_t)told);
    }
    if ((strcmp(kind, kinds[QKV_ROPE_LINEAR]) != 0 && strcmp(kind, kinds[QKV_ROPE_YARN]) != 0) ||
        divisors)
        return qkv__gguf_fail(g, key, "expected \"none\", \"linear\" or \"yarn\"%s, found "
                              "\"%.40s\"", divisors ? " without " QKV__GGUF_ROPE_TENSOR : "", kind);
    return read_scaling(config, g, a, kind);
}

/* ---- writing --------------------------------------------------------------------------------- */

static qkv_status write_scaling(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m,
                                const qkv_rotary_config *c)
{
    char key[QKV__GGUF_KEY_BYTES];
    const double betas[] = {c->beta_fast, c->beta_slow};
    if (c->kind == QKV_ROPE_YARN &&
        (c->fractional || c->attention_factor > 0 || c->mscale > 0 || c->mscale_all_dim > 0))
        return qkv_fail(qkv_model_context(m), QKV_E_UNSUPPORTED, "attention_factor, mscale, "
                        "mscale_all_dim or truncate of rope_scaling: a GGUF file of a %s has no "
                        "place for them", a->name);
    qkv__gguf_put_string(f, qkv__gguf_key(key, a, "rope.scaling.type"), kinds[c->kind]);
    qkv__gguf_put_f32(f, qkv__gguf_key(key, a, "rope.scaling.factor"), (float)c->factor);
    if (c->kind != QKV_ROPE_YARN)
        return QKV_OK;
    qkv__gguf_put_u32(f, qkv__gguf_key(key, a, ORIGINAL), (uint32_t)c->original);
    for (size_t i = 0; i < 2; i++)
        if (betas[i] > 0)
            qkv__gguf_put_f32(f, qkv__gguf_key(key, a, numbers[1 + i].suffix), (float)betas[i]);
    return QKV_OK;
}

qkv_status qkv__gguf_write_rope(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m)
{
    char key[QKV__GGUF_KEY_BYTES];
    const qkv_gpt_config *config = qkv_model_config(m);
    const qkv_rotary_config *c = &config->rotary;
    qkv__gguf_put_u32(f, qkv__gguf_key(key, a, "rope.dimension_count"),
                      (uint32_t)qkv_rotary_width(c, config->head_width));
    qkv__gguf_put_f32(f, qkv__gguf_key(key, a, "rope.freq_base"), (float)c->base);
    if (c->kind == QKV_ROPE_LLAMA3)
        qkv__gguf_put_u32(f, qkv__gguf_key(key, a, ORIGINAL), (uint32_t)c->original);
    return c->kind == QKV_ROPE_LINEAR || c->kind == QKV_ROPE_YARN ? write_scaling(f, a, m, c)
                                                                  : QKV_OK;
}

size_t qkv__gguf_rope_divisors(const qkv_model *m, qkv_real *out)
{
    const qkv_gpt_config *config = qkv_model_config(m);
    const qkv_rotary_config *c = &config->rotary;
    const size_t n = config->head_width / 2;
    qkv_context *ctx = qkv_model_context(m);
    if (c->kind != QKV_ROPE_LLAMA3)
        return 0;
    if (!out)
        return n;
    double *scratch = qkv_malloc(ctx, 2 * n * sizeof *scratch);
    if (!scratch)
        return 0;
    qkv__llama3_divisors(c, config->head_width, scratch, scratch + n);
    for (size_t i = 0; i < n; i++)
        out[i] = (qkv_real)scratch[i];
    qkv_free(ctx, scratch);
    return n;
}
