/* test_gguf_models.c - models in GGUF files that gguf-py wrote (recipe:
 * tools/make-golden/gguf_models.py) become directories: logits, ids of odd texts, ends and
 * templates are those of transformers and tokenizers; a GGUF file made of the directory has the
 * same tensors, tokens and merges bit by bit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "golden.h"
#include "io/gguf.h"
#include "qkv/bert.h"
#include "qkv/convert.h"
#include "qkv/hub.h"
#include "qkv/tokenizer.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/gguf/"
enum { IDS = 128 };
static const double tolerance = 1e-5;

static void must(qkv_status status)
{
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
}

/* The golden file as a directory in `folder`; its path. */
static const char *convert(const char *name)
{
    char file[PATH_BYTES];
    (void)snprintf(file, sizeof file, GOLDEN "%s.gguf", name);
    must(qkv_convert(ctx, file, in(folder, name), NULL));
    return in(folder, name);
}

static qkv_safetensors *open_expected(const char *name)
{
    char file[PATH_BYTES];
    qkv_safetensors *s;
    (void)snprintf(file, sizeof file, GOLDEN "%s.safetensors", name);
    must(qkv_safetensors_open(&s, ctx, file));
    return s;
}

static size_t expected_ids(const qkv_safetensors *s, size_t i, int32_t *out)
{
    char name[32];
    int64_t wide[IDS];
    (void)snprintf(name, sizeof name, "ids.%zu", i);
    const qkv_safetensor *t = qkv_safetensors_find(s, name);
    assert_true(t && t->count <= IDS);
    must(qkv_safetensors_read_ints(s, t, 0, t->count, wide));
    for (size_t k = 0; k < t->count; k++)
        out[k] = (int32_t)wide[k];
    return t->count;
}

static void check_output(const char *dir, const qkv_safetensors *s)
{
    int32_t ids[IDS];
    qkv_model *m;
    qkv_tape *t;
    const size_t n = expected_ids(s, 0, ids), shape[] = {1, n};
    const qkv_safetensor *e = qkv_safetensors_find(s, "logits");
    must(qkv_hub_load(&m, ctx, dir));
    must(qkv_tape_create(&t, ctx));
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_ids(t, ids, 2, shape);
    const qkv_bert_input input = {.ids = x};
    qkv_tensor *y = qkv_model_can(m, QKV_CAN_GENERATE)
                        ? qkv_lm_logits(m, t, qkv_lm_hidden(m, t, x, 0, NULL, NULL))
                        : qkv_bert_hidden(m, t, &input);
    must(qkv_tape_status(t));
    qkv_real *expected = malloc(e->count * sizeof *expected);
    assert_non_null(expected);
    must(qkv_safetensors_read(s, e, 0, e->count, expected));
    const double scale = largest(expected, e->count);
    for (size_t i = 0; i < e->count; i++)
        if (fabs((double)(qkv_data(t, y)[i] - expected[i])) > tolerance * scale)
            fail_msg("%s: number %zu: %g, transformers %g", dir, i, (double)qkv_data(t, y)[i],
                     (double)expected[i]);
    free(expected);
    qkv_tape_destroy(t);
    qkv_model_destroy(m);
}

static void check_ids(const char *dir, const qkv_safetensors *s)
{
    size_t size, i = 0;
    char *texts = take_file(GOLDEN "texts.txt", &size);
    qkv_tokenizer *t;
    must(qkv_tokenizer_load(&t, ctx, dir));
    for (char *line = texts, *end; (end = memchr(line, '\n', (size_t)(texts + size - line)));
         line = end + 1, i++) {
        int32_t expected[IDS];
        qkv_ids ids = {0};
        const size_t n = expected_ids(s, i, expected);
        must(qkv_tokenizer_encode(t, line, (size_t)(end - line), QKV_ENCODE_ADD_SPECIAL, &ids));
        if (ids.count != n || memcmp(ids.data, expected, n * sizeof *expected) != 0)
            fail_msg("%s: other ids of text %zu", dir, i);
        qkv_ids_free(&ids, ctx);
    }
    assert_int_equal(i, 5);
    qkv_tokenizer_destroy(t);
    free(texts);
}

static void check_texts(const qkv__gguf *a, const qkv__gguf *b, const char *key)
{
    const qkv__gguf_field *x = qkv__gguf_find(a, key), *y = qkv__gguf_find(b, key);
    if (!x)
        return;
    assert_non_null(y);
    assert_int_equal(x->count, y->count);
    for (size_t i = 0; i < x->count; i++) {
        size_t m, n;
        const char *s = qkv__gguf_text(x, i, &m), *t = qkv__gguf_text(y, i, &n);
        if (m != n || memcmp(s, t, m) != 0)
            fail_msg("%s %zu: \"%.*s\", expected \"%.*s\"", key, i, (int)n, t, (int)m, s);
    }
}

static void check_numbers(const qkv__gguf *a, const qkv__gguf *b, const char *key)
{
    const qkv__gguf_field *x = qkv__gguf_find(a, key), *y = qkv__gguf_find(b, key);
    if (!x)
        return;
    if (!y || x->count != y->count)
        fail_msg("%s: another length", key);
    for (size_t i = 0; i < x->count; i++)
        if (qkv__gguf_real(x, i) != qkv__gguf_real(y, i))
            fail_msg("%s %zu: %g, expected %g", key, i, qkv__gguf_real(y, i), qkv__gguf_real(x, i));
}

/* llama3's divisors are computed, in float there and in double here. */
static void check_divisors(const qkv_gguf *a, const qkv_gguf *b)
{
    const char *name = "rope_freqs.weight";
    const qkv__gguf_tensor *x = qkv__gguf_tensor_find(a, name), *y = qkv__gguf_tensor_find(b, name);
    qkv_real expected[IDS], found[IDS];
    assert_true(x && y && x->count == y->count && x->count <= IDS);
    must(qkv__gguf_read(a, x, 0, x->count, expected));
    must(qkv__gguf_read(b, y, 0, y->count, found));
    for (size_t i = 0; i < x->count; i++)
        assert_true(fabs((double)(found[i] - expected[i])) <= 1e-6 * (double)expected[i]);
}

/* What the golden file has the file at `path` has too. */
static void check_same_file(const char *name, const char *path)
{
    char file[PATH_BYTES];
    qkv_gguf *a, *b;
    (void)snprintf(file, sizeof file, GOLDEN "%s.gguf", name);
    must(qkv_gguf_open(&a, ctx, file));
    must(qkv_gguf_open(&b, ctx, path));
    for (size_t i = 0; i < qkv_gguf_tensors(a); i++) {
        const qkv__gguf_tensor *x = qkv__gguf_at(a, i), *y = qkv__gguf_tensor_find(b, x->name);
        if (strcmp(x->name, "rope_freqs.weight") == 0) {
            check_divisors(a, b);
            continue;
        }
        if (!y || x->type != y->type || x->count != y->count ||
            memcmp(x->data, y->data, x->count / x->type->block * x->type->bytes) != 0)
            fail_msg("%s: %s differs", name, x->name);
    }
    check_texts(a, b, "tokenizer.ggml.tokens");
    check_texts(a, b, "tokenizer.ggml.merges");
    check_texts(a, b, "tokenizer.chat_template");
    check_numbers(a, b, "tokenizer.ggml.precompiled_charsmap");
    check_numbers(a, b, "tokenizer.ggml.token_type");
    if (strcmp(name, "unigram") == 0) /* those of BPE are made anew, in the same order */
        check_numbers(a, b, "tokenizer.ggml.scores");
    qkv_gguf_close(a);
    qkv_gguf_close(b);
}

static void check_name(const char *name)
{
    qkv_convert_options o = qkv_convert_defaults();
    qkv_safetensors *s = open_expected(name);
    const char *dir = convert(name);
    check_output(dir, s);
    check_ids(dir, s);
    qkv_safetensors_close(s);
    o.to = QKV_CONVERT_GGUF;
    o.dtype = QKV_CONVERT_F16;
    must(qkv_convert(ctx, dir, in(folder, "again.gguf"), &o));
    check_same_file(name, in(folder, "again.gguf"));
}

static void llama(void **state)
{
    size_t size;
    (void)state;
    check_name("llama");
    char *config = take_file(in(folder, "llama/config.json"), &size);
    assert_non_null(strstr(config, "\"rope_type\": \"llama3\""));
    assert_non_null(strstr(config, "\"original_max_position_embeddings\": 8192"));
    assert_non_null(strstr(config, "\"rms_norm_eps\": 1e-05"));
    free(config);
    config = take_file(in(folder, "llama/generation_config.json"), &size);
    assert_non_null(strstr(config, "\"eos_token_id\": [\n    1,\n    280\n  ]"));
    free(config);
    config = take_file(in(folder, "llama/tokenizer_config.json"), &size);
    assert_non_null(strstr(config, "\"chat_template\": \"{% for m in messages %}"));
    assert_non_null(strstr(config, "\"bos_token\": \"<s>\""));
    free(config);
}

static void sentencepiece(void **state)
{
    (void)state;
    check_name("spm");
}

static void gpt2(void **state)
{
    (void)state;
    check_name("gpt2");
}

static void check_pooling(const char *file, const char *line)
{
    size_t size;
    char *config = take_file(in(folder, file), &size);
    assert_non_null(strstr(config, line));
    free(config);
}

static void bert(void **state)
{
    (void)state;
    check_name("bert");
    check_pooling("bert/1_Pooling/config.json", "\"pooling_mode_cls_token\": true");
}

/* The file has no rows before the first position, which follows the padding token's id. */
static void roberta(void **state)
{
    size_t size;
    (void)state;
    check_name("roberta");
    check_pooling("roberta/1_Pooling/config.json", "\"pooling_mode_mean_tokens\": true");
    char *config = take_file(in(folder, "roberta/config.json"), &size);
    assert_non_null(strstr(config, "\"max_position_embeddings\": 66"));
    assert_non_null(strstr(config, "\"model_type\": \"roberta\""));
    free(config);
    config = take_file(in(folder, "roberta/tokenizer.json"), &size);
    assert_non_null(strstr(config, "RobertaProcessing"));
    free(config);
}

static void distilbert(void **state)
{
    size_t size;
    (void)state;
    check_name("distilbert");
    char *config = take_file(in(folder, "distilbert/config.json"), &size);
    assert_non_null(strstr(config, "\"model_type\": \"distilbert\""));
    free(config);
}

static void unigram(void **state)
{
    (void)state;
    check_name("unigram");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama), cmocka_unit_test(sentencepiece), cmocka_unit_test(gpt2),
        cmocka_unit_test(bert), cmocka_unit_test(roberta), cmocka_unit_test(distilbert),
        cmocka_unit_test(unigram)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
