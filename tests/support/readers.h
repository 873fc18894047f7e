/* readers.h - every reader of files from strangers, as "read this and tell how it went".
 * Shared by the tests of hostile files and by the fuzzers. */
#ifndef QKV_TESTS_READERS_H
#define QKV_TESTS_READERS_H

#include <stdlib.h>
#include <string.h>

#include "io/json_options.h"
#include "pytorch/pytorch.h"
#include "qkv/npy.h"
#include "qkv/safetensors.h"
#include "qkv/tokenizer.h"

/* Opens and reads every number, so that what the checks let pass is also walked. */
static inline qkv_status read_safetensors(qkv_context *c, const char *path)
{
    qkv_safetensors *s;
    qkv_real x[64];
    int64_t n[64];
    qkv_status status = qkv_safetensors_open(&s, c, path);
    if (status)
        return status;
    for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
        const qkv_safetensor *t = qkv_safetensors_at(s, i);
        for (size_t at = 0; at < t->count && t->store != QKV_STORE_OTHER; at += 64) {
            size_t left = t->count - at < 64 ? t->count - at : 64;
            (void)qkv_safetensors_read(s, t, at, left, x);
            (void)qkv_safetensors_read_ints(s, t, at, left, n);
        }
    }
    qkv_safetensors_close(s);
    return QKV_OK;
}

/* Unknown objects are let through, so that more of the pickle is read. */
static inline qkv_status read_pytorch(qkv_context *c, const char *path)
{
    qkv__pytorch *p;
    unsigned char numbers[64 * 8];
    const qkv__pytorch_options o = {.skip_objects = true};
    qkv_status status = qkv__pytorch_open(&p, c, path, &o);
    if (status)
        return status;
    for (size_t i = 0; i < qkv__pytorch_count(p); i++) {
        const qkv__pytorch_tensor *t = qkv__pytorch_at(p, i);
        for (size_t at = 0; at < t->count && at < 100000; at += 64)
            qkv__pytorch_gather(t, at, t->count - at < 64 ? t->count - at : 64, numbers);
    }
    qkv__pytorch_close(p);
    return QKV_OK;
}

/* There and back with a tokenizer that was accepted, which is then destroyed. */
static inline void use_tokenizer(qkv_context *c, qkv_tokenizer *t, const char *text, size_t len)
{
    qkv_ids ids = {0};
    qkv_text back = {0};
    if (!qkv_tokenizer_encode(t, text, len, QKV_ENCODE_ADD_SPECIAL, &ids))
        (void)qkv_tokenizer_decode(t, ids.data, ids.count, QKV_DECODE_VALID, &back);
    qkv_ids_free(&ids, c);
    qkv_text_free(&back, c);
    qkv_tokenizer_destroy(t);
}

static inline qkv_status read_array(qkv_context *c, const char *path)
{
    qkv_array a;
    qkv_status status = qkv_array_load(&a, c, path);
    qkv_array_free(&a);
    return status;
}

static inline qkv_status read_columns(qkv_context *c, const char *path)
{
    qkv_array a;
    qkv_status status = qkv_csv_load_columns(&a, c, path, (const char *const[]){"b c", "1"}, 2);
    qkv_array_free(&a);
    return status;
}

static inline qkv_status read_csv(qkv_context *c, const char *path)
{
    qkv_status status = read_columns(c, path);
    return status ? status : read_array(c, path);
}

/* A model's configuration in small: every type of row. */
typedef struct {
    size_t width;
    double dropout;
    bool tied;
    const char *type;
    int act;
    qkv_strings architectures;
} small_config;

static inline qkv_status read_config(qkv_context *c, const char *path)
{
    static const char *const acts[] = {"gelu", "relu", "silu", NULL};
    static const qkv_option rows[] = {
        {.key = "n_embd|hidden_size", .type = QKV_OPT_SIZE, .min = 1, .max = 65536,
         .offset = offsetof(small_config, width), .initial = "64"},
        {.key = "resid_pdrop", .type = QKV_OPT_REAL, .max = 1, .flags = QKV_OPT_BELOW,
         .offset = offsetof(small_config, dropout)},
        {.key = "tie_word_embeddings", .type = QKV_OPT_BOOL,
         .offset = offsetof(small_config, tied)},
        {.key = "model_type", .type = QKV_OPT_STRING, .offset = offsetof(small_config, type)},
        {.key = "activation", .type = QKV_OPT_ENUM, .names = acts,
         .offset = offsetof(small_config, act)},
        {.key = "architectures", .type = QKV_OPT_LIST,
         .offset = offsetof(small_config, architectures)}};
    static const qkv_option_table table = {"config", rows, sizeof rows / sizeof *rows, 0};
    small_config config;
    qkv_options *o;
    qkv__json j;
    qkv_status status = qkv_options_create(&o, c);
    if (status)
        return status;
    status = qkv_options_bind(o, &table, &config);
    if (!status)
        status = qkv__json_load(&j, c, path);
    if (!status) {
        status = qkv__json_get_options(&j, o, NULL);
        qkv__json_free(&j);
    }
    qkv_options_destroy(o);
    return status;
}

static const char sample_config[] =
    "{\"n_embd\": 128, \"resid_pdrop\": 0.1, \"tie_word_embeddings\": true, \"model_type\": "
    "\"gpt2\", \"activation\": \"relu\", \"architectures\": [\"GPT2LMHeadModel\", \"x\"]}";
static const char sample_csv[] = "a,\"b c\",d\n1,2.5,-3e2\n# comment\n\n4,5,6\n";

#endif
