/* rule.h - parameters and gradients of models that are larger than what is compared: both sides
 * compute the numbers by a rule (tools/make-golden/rule.py), golden files hold results alone.
 * Include after model_golden.h. */
#ifndef QKV_TESTS_RULE_H
#define QKV_TESTS_RULE_H

#include "model_golden.h"

enum { RULE_SAMPLES = 14, RULE_NUMBERS = RULE_SAMPLES + 2, RULE_ROWS = 256 };

/* Number i under that name, evenly in [-1, 1). */
static float noise(const char *name, size_t i)
{
    uint32_t h = 2166136261u, x = (uint32_t)i * 0x9E3779B1u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    x ^= h;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    x ^= x >> 16;
    return (float)((double)x / 2147483648.0 - 1);
}

/* A whole number from 0 to vocab - 1. */
static inline int32_t rule_id(const char *name, size_t i, size_t vocab)
{
    return (int32_t)(((double)noise(name, i) + 1) / 2 * (double)vocab);
}

typedef struct {
    qkv_safetensors_entry entry[RULE_ROWS];
    size_t shape[RULE_ROWS][QKV_MAX_DIMS];
    char name[RULE_ROWS][128];
    size_t count;
} rule_rows;

/* Number k of a row. What batch norm keeps is as a new layer has it, the weights of LPIPS' distance
 * are absolute values. */
static float rule_number(const qkv_state_entry *row, size_t k)
{
    bool flat = row->ndim <= 1, norm = flat && strstr(row->name, "weight");
    if (strstr(row->name, "running_") || row->integer)
        return strstr(row->name, "running_var") ? 1 : 0;
    if (row->kind == QKV_STATE_FIXED)
        return fabsf(noise(row->name, k));
    float scale = flat ? 0.3f : (float)(1.7 / sqrt((double)(qkv_state_entry_count(row) /
                                                            row->shape[0])));
    return noise(row->name, k) * scale + (norm ? 1 : 0);
}

static qkv_status add_rule_row(void *user, const qkv_state_entry *row)
{
    static const int64_t none = 0;
    rule_rows *r = user;
    if (row->kind == QKV_STATE_IGNORED)
        return QKV_OK;
    size_t n = qkv_state_entry_count(row), i = r->count++;
    float *data = malloc(n * sizeof *data);
    assert_true(data && r->count < RULE_ROWS);
    for (size_t k = 0; k < n; k++)
        data[k] = rule_number(row, k);
    memcpy(r->shape[i], row->shape, sizeof r->shape[i]);
    (void)snprintf(r->name[i], sizeof r->name[i], "%s", row->name);
    r->entry[i] = (qkv_safetensors_entry){.name = r->name[i], .ndim = row->ndim,
                                          .shape = r->shape[i], .data = data,
                                          .raw = row->integer ? &none : NULL,
                                          .store = row->integer ? QKV_STORE_I64 : QKV_STORE_F32};
    return QKV_OK;
}

/* A directory as qkv saves such a model, but with the rule's tensors. */
static void make_rule_directory(char folder[PATH_BYTES], const qkv_model_type *type,
                                const void *config)
{
    static rule_rows r;
    qkv_context *ctx;
    qkv_model *m;
    r.count = 0;
    make_folder(folder);
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_model_create(&m, ctx, type, config), QKV_OK);
    assert_int_equal(qkv_hub_save(m, folder, NULL), QKV_OK);
    assert_int_equal(qkv_model_visit(m, add_rule_row, &r), QKV_OK);
    assert_int_equal(qkv_safetensors_save(ctx, in(folder, "model.safetensors"), r.entry, r.count,
                                          NULL), QKV_OK);
    for (size_t i = 0; i < r.count; i++)
        free((void *)(uintptr_t)r.entry[i].data);
    qkv_model_destroy(m);
    qkv_context_destroy(ctx);
}

/* That directory's model, beside tests/golden/NAME.safetensors. */
static void open_rule_model(fixture *f, const char *folder, const char *name, unsigned isa)
{
    char path[PATH_BYTES];
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 1; /* layers are tiny: a team would wait more than it works */
    *f = (fixture){.name = name};
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    if (qkv_hub_load(&f->model, f->ctx, folder))
        fail_msg("%s", qkv_context_message(f->ctx));
    (void)snprintf(path, sizeof path, QKV_SOURCE_DIR "/tests/golden/%s.safetensors", name);
    assert_int_equal(qkv_safetensors_open(&f->golden, f->ctx, path), QKV_OK);
}

/* Images (2, side, side, 3) of the rule. */
static inline qkv_tensor *rule_images(fixture *f, const char *name, size_t side)
{
    const size_t shape[] = {2, side, side, 3};
    qkv_tensor *x = qkv_tensor_from(f->t, NULL, 4, shape);
    assert_non_null(x);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = noise(name, i);
    return x;
}

/* ---- golden tables: a row for each tensor -------------------------------------------------- */

typedef double rule_at(const void *user, size_t e); /* number e of a tensor */

static inline size_t rule_place(size_t sample, size_t n) { return sample * n / RULE_SAMPLES; }

/* A tensor of n numbers, number e by `at`, against its row: some of them and, for all the others,
 * a product with a vector. least: what may be off as if the largest were so large. */
static void compare_rule_numbers(fixture *f, const char *name, const qkv_real *row, size_t n,
                                 double least, rule_at *at, const void *user)
{
    char full[160];
    double error = 0, dot = 0, size = fmax((double)row[RULE_SAMPLES], least);
    for (size_t i = 0; i < RULE_SAMPLES; i++) {
        double e = fabs(at(user, rule_place(i, n)) - (double)row[i]);
        error = e <= error ? error : e;
    }
    check(f, name, error, size);
    (void)snprintf(full, sizeof full, "dot.%s", name);
    for (size_t i = 0; i < n; i++)
        dot += at(user, i) * (double)noise(full, i);
    check(f, full, fabs(dot - (double)row[RULE_SAMPLES + 1]), size * sqrt((double)n));
}

/* Some tensors of a model, by name. */
typedef struct {
    bool (*wants)(const qkv_state_entry *row);
    qkv_state_entry row[RULE_ROWS];
    char name[RULE_ROWS][128];
    size_t count;
} rule_tensors;

static qkv_status add_rule_tensor(void *user, const qkv_state_entry *row)
{
    rule_tensors *r = user;
    size_t i = r->count;
    if (!r->wants(row))
        return QKV_OK;
    assert_true(r->count < RULE_ROWS);
    for (; i > 0 && strcmp(r->name[i - 1], row->name) > 0; i--) {
        r->row[i] = r->row[i - 1];
        memcpy(r->name[i], r->name[i - 1], sizeof r->name[i]);
    }
    r->row[i] = *row;
    (void)snprintf(r->name[i], sizeof r->name[i], "%s", row->name);
    r->count++;
    return QKV_OK;
}

static bool has_gradient(const qkv_state_entry *row)
{
    return row->kind == QKV_STATE_PARAM && qkv_param_grad(row->param);
}

typedef struct {
    const qkv_state_entry *row;
    const qkv_real *region;
} rule_region;

static double rule_number_at(const void *user, size_t e)
{
    const rule_region *r = user;
    return element(r->row, r->region, e);
}

/* The largest of a golden table within the layer of that name. */
static double rule_largest_of_layer(const rule_tensors *r, const qkv_real *table, const char *name)
{
    double most = 0;
    for (size_t i = 0; i < r->count; i++)
        if (strncmp(r->name[i], name, layer_part(name)) == 0)
            most = fmax(most, (double)table[i * RULE_NUMBERS + RULE_SAMPLES]);
    return most;
}

/* All gradients that there are, and no other, against a golden table. Where `idle`, there is none
 * by mathematics. */
static inline void compare_rule_gradients(fixture *f, const char *golden,
                                          bool (*idle)(const char *name))
{
    static rule_tensors r;
    size_t n;
    r.wants = has_gradient;
    r.count = 0;
    assert_int_equal(qkv_model_visit(f->model, add_rule_tensor, &r), QKV_OK);
    qkv_real *table = take(f, golden, &n);
    assert_int_equal(n, r.count * RULE_NUMBERS);
    for (size_t i = 0; i < r.count; i++) {
        const qkv_state_entry *row = &r.row[i];
        const rule_region region = {row, qkv_param_grad(row->param) + row->offset};
        double least = (idle(r.name[i]) ? 5e-2 : 1e-3) *
                       rule_largest_of_layer(&r, table, r.name[i]);
        compare_rule_numbers(f, r.name[i], table + i * RULE_NUMBERS, qkv_state_entry_count(row),
                             least, rule_number_at, &region);
    }
    free(table);
}

#endif
