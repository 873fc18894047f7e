/* test_capture.c - the file of a capture: its attention weights are softmax(Q K^T / sqrt(d) + mask)
 * of the queries and keys in it, for every kind of attention and each instruction set's kernels;
 * hidden states, norms and gradients are what the pass had. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "properties.h"
#include "qkv/bert.h"
#include "qkv/gpt.h"
#include "qkv/look.h"
#include "qkv/marian.h"

enum { V = 23, B = 2, T = 9, S = 11, C = 16, HEADS = 4, LAYERS = 2, D = C / HEADS };
static int32_t ids[B * S];
static const int32_t lengths[B] = {S, S - 4};
static char path[] = "capture-XXXXXX.safetensors";

static qkv_model *model_of(fixture *f, const qkv_model_type *type)
{
    union {
        qkv_gpt_config gpt;
        qkv_bert_config bert;
        qkv_marian_config marian;
    } c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(type), &c);
#define SIZES(k) (k).vocab = V, (k).positions = 32, (k).width = C, (k).attention_dropout = 0.3
    if (type == qkv_marian_type()) {
        SIZES(c.marian);
        c.marian.encoder_layers = c.marian.decoder_layers = LAYERS;
        c.marian.encoder_heads = c.marian.decoder_heads = HEADS;
        c.marian.encoder_ff_width = c.marian.decoder_ff_width = 32;
        c.marian.pad = 0;
        c.marian.eos = 1;
    } else if (type == qkv_bert_masked_type()) {
        SIZES(c.bert);
        c.bert.layers = LAYERS;
        c.bert.heads = HEADS;
        c.bert.ff_width = 32;
    } else {
        SIZES(c.gpt);
        c.gpt.layers = LAYERS;
        c.gpt.heads = HEADS;
        c.gpt.kv_heads = type == qkv_llama_type() ? 2 : 0;
    }
#undef SIZES
    assert_int_equal(qkv_model_create(&m, f->ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 5), QKV_OK);
    return m;
}

static qkv_tensor *tokens(fixture *f, size_t n)
{
    return qkv_tensor_ids(f->t, ids, 2, (size_t[]){B, n});
}

static qkv_capture *capture(fixture *f, bool gradients, qkv_store store)
{
    static const char *places[] = {"*.q", "*.k"};
    qkv_capture *c;
    const qkv_capture_options o = {.file = path, .store = store, .attentions = true,
                                   .hidden_states = true, .norms = true, .final_norm = true,
                                   .places = {places, 2}, .layer = -1,
                                   .head = -1, .gradients = gradients};
    if (qkv_capture_open(&c, f->ctx, f->t, &o))
        fail_msg("%s", qkv_context_message(f->ctx));
    return c;
}

/* ---- the file, plainly --------------------------------------------------------------------- */

static qkv_real *tensor_of(const qkv_safetensors *file, const char *name, size_t count)
{
    const qkv_safetensor *x = qkv_safetensors_find(file, name);
    if (!x)
        fail_msg("no tensor %s", name);
    assert_int_equal(x->count, count);
    qkv_real *data = malloc(count * sizeof *data);
    assert_non_null(data);
    assert_int_equal(qkv_safetensors_read(file, x, 0, count, data), QKV_OK);
    return data;
}

/* weights (HEADS, rows, keys) of sequence b of q (B, rows, HEADS, D) and k (B, all, kv, D). */
static void check_sequence(const qkv_real *w, const qkv_real *q, const qkv_real *k, size_t b,
                           size_t rows, size_t keys, size_t all, size_t kv, bool causal)
{
    double *p = malloc(keys * sizeof *p);
    assert_non_null(p);
    for (size_t n = 0; n < HEADS * rows; n++) {
        size_t h = n / rows, i = n % rows;
        double sum = 0;
        for (size_t j = 0; j < keys; j++) {
            double s = 0;
            for (size_t d = 0; d < D; d++)
                s += (double)q[((b * rows + i) * HEADS + h) * D + d] *
                     (double)k[((b * all + j) * kv + h / (HEADS / kv)) * D + d];
            p[j] = causal && j > i ? 0 : exp(s / sqrt(D));
            sum += p[j];
        }
        for (size_t j = 0; j < keys; j++)
            assert_true(fabs(p[j] / sum - (double)w[n * keys + j]) <= 1e-6);
    }
    free(p);
}

/* seen: number of keys of each sequence; NULL: all. */
static void check_weights(const qkv_safetensors *file, const char *name, const char *place,
                          size_t rows, size_t keys, size_t kv, bool causal, const int32_t *seen)
{
    char part[64];
    (void)snprintf(part, sizeof part, "%s.q", place);
    qkv_real *q = tensor_of(file, part, B * rows * C);
    (void)snprintf(part, sizeof part, "%s.k", place);
    qkv_real *k = tensor_of(file, part, B * keys * kv * D);
    for (size_t b = 0; b < B; b++) {
        size_t width = seen ? (size_t)seen[b] : keys;
        (void)snprintf(part, sizeof part, "%s", name);
        if (seen)
            (void)snprintf(part, sizeof part, "%s.%zu", name, b);
        qkv_real *w = tensor_of(file, part, (seen ? 1 : B) * HEADS * rows * width);
        check_sequence(seen ? w : w + b * HEADS * rows * keys, q, k, b, rows, width, keys, kv,
                       causal);
        free(w);
    }
    free(k);
    free(q);
}

static void check_norms(const qkv_safetensors *file, const char *state, const char *norms,
                        size_t rows)
{
    qkv_real *x = tensor_of(file, state, rows * C), *n = tensor_of(file, norms, rows);
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < C; k++)
            sum += (double)x[i * C + k] * (double)x[i * C + k];
        assert_true(fabs(sqrt(sum) - (double)n[i]) <= 1e-5);
    }
    free(n);
    free(x);
}

static qkv_safetensors *end(fixture *f, qkv_capture *c)
{
    qkv_safetensors *file = NULL;
    if (qkv_capture_close(c) || qkv_safetensors_open(&file, f->ctx, path))
        fail_msg("%s", qkv_context_message(f->ctx));
    return file;
}

/* ---- kinds of models ----------------------------------------------------------------------- */

static void begin(fixture *f, bool record, bool train)
{
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, record, train);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 4});
}

static void decoder(fixture *f, const qkv_model_type *type, size_t kv, bool train)
{
    qkv_model *m = model_of(f, type);
    begin(f, train, train);
    qkv_capture *c = capture(f, false, QKV_STORE_F32);
    qkv_tensor *h = qkv_lm_hidden(m, f->t, tokens(f, T), 0, NULL, NULL);
    assert_non_null(h);
    const qkv_real *out = qkv_data(f->t, h);
    qkv_safetensors *file = end(f, c);
    check_weights(file, "attentions.0", "h.0.attn", T, T, kv, true, NULL);
    check_weights(file, "attentions.1", "h.1.attn", T, T, kv, true, NULL);
    check_norms(file, "hidden_states.1", "norms.h.1.resid_pre", B * T);
    qkv_real *last = tensor_of(file, "hidden_states.2", B * T * C);
    assert_memory_equal(last, out, B * T * C * sizeof *last);
    free(last);
    qkv_safetensors_close(file);
    qkv_model_destroy(m);
}

static void encoder(fixture *f)
{
    qkv_model *m = model_of(f, qkv_bert_masked_type());
    begin(f, false, false);
    qkv_capture *c = capture(f, false, QKV_STORE_F32);
    const qkv_bert_input in = {.ids = tokens(f, S), .lengths = lengths};
    assert_non_null(qkv_bert_hidden(m, f->t, &in));
    qkv_safetensors *file = end(f, c);
    /* sequences see different numbers of keys: a tensor for each */
    check_weights(file, "attentions.0", "layer.0.attn", S, S, HEADS, false, lengths);
    const qkv_safetensor *x = qkv_safetensors_find(file, "attentions.1.1");
    assert_non_null(x);
    assert_int_equal(x->ndim, 3);
    assert_int_equal(x->shape[0], HEADS);
    assert_int_equal(x->shape[1], S);
    assert_int_equal(x->shape[2], lengths[1]);
    assert_null(qkv_safetensors_find(file, "attentions.1"));
    qkv_safetensors_close(file);
    qkv_model_destroy(m);
}

static void both(fixture *f)
{
    qkv_model *m = model_of(f, qkv_marian_type());
    begin(f, false, false);
    qkv_capture *c = capture(f, false, QKV_STORE_F32);
    const qkv_marian_side source = {.ids = tokens(f, S)}, target = {.ids = tokens(f, T)};
    qkv_tensor *memory = qkv_marian_encode(m, f->t, &source);
    assert_non_null(qkv_marian_decode(m, f->t, &target, memory, &source, NULL));
    qkv_safetensors *file = end(f, c);
    check_weights(file, "encoder_attentions.1", "encoder.1.attn", S, S, HEADS, false, NULL);
    check_weights(file, "decoder_attentions.0", "decoder.0.attn", T, T, HEADS, true, NULL);
    check_weights(file, "cross_attentions.1", "decoder.1.cross", T, S, HEADS, false, NULL);
    check_norms(file, "encoder_hidden_states.2", "norms.encoder.1.resid_post", B * S);
    free(tensor_of(file, "decoder_hidden_states.2", B * T * C));
    qkv_safetensors_close(file);
    qkv_model_destroy(m);
}

static void kinds(fixture *f)
{
    for (int32_t i = 0; i < B * S; i++)
        ids[i] = 2 + i * i % (V - 2);
    decoder(f, qkv_gpt2_type(), HEADS, false);
    decoder(f, qkv_gpt2_type(), HEADS, true);
    decoder(f, qkv_llama_type(), 2, false);
    encoder(f);
    both(f);
}

static void weights_are_exact(void **state)
{
    (void)state;
    with_each_isa(kinds);
}

/* ---- gradients, repetition, rows ------------------------------------------------------------- */

/* The gradient of the loss with respect to the last state, by moving it. */
static void gradients(fixture *f)
{
    qkv_model *m = model_of(f, qkv_gpt2_type());
    begin(f, true, false);
    qkv_capture *c = capture(f, true, QKV_STORE_F32);
    qkv_tensor *h = qkv_lm_hidden(m, f->t, tokens(f, T), 0, NULL, NULL);
    qkv_tensor *loss = qkv_mean(f->t, qkv_mul(f->t, h, h));
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    assert_int_equal(qkv_capture_gradients(c), QKV_OK);
    qkv_safetensors *file = end(f, c);
    static const char *const names[] = {"grad.h.1.attn.q", "grad.attentions.1", "grad.attentions.0",
                                        "grad.hidden_states.0"};
    static const size_t counts[] = {B * T * C, B * HEADS * T * T, B * HEADS * T * T, B * T * C};
    for (size_t i = 0; i < 4; i++) {
        qkv_real *g = tensor_of(file, names[i], counts[i]);
        double sum = 0;
        for (size_t k = 0; k < counts[i]; k++)
            sum += fabs((double)g[k]);
        assert_true(sum > 0 && isfinite(sum));
        if (strstr(names[i], "attentions")) /* no weights, of which a row's sum is 1 */
            assert_true(fabs((double)g[0] - 1) > 1e-4);
        free(g);
    }
    qkv_real *last = tensor_of(file, "hidden_states.2", B * T * C); /* h: the gradient is 2 h / n */
    qkv_real *g = tensor_of(file, "grad.hidden_states.2", B * T * C);
    for (size_t k = 0; k < B * T * C; k++)
        assert_true(fabs((double)g[k] - 2 * (double)last[k] / (B * T * C)) < 1e-6);
    free(last);
    free(g);
    qkv_safetensors_close(file);
    qkv_model_destroy(m);
}

/* Token by token with a cache, in half precision: each step has its tensors. */
static void steps(fixture *f)
{
    qkv_model *m = model_of(f, qkv_llama_type());
    qkv_lm_cache *cache;
    begin(f, false, false);
    assert_int_equal(qkv_lm_cache_create(&cache, m, B, T), QKV_OK);
    qkv_capture *c = capture(f, false, QKV_STORE_F16);
    static const int32_t one[B] = {3, 4};
    for (int i = 0; i < 3; i++)
        assert_non_null(qkv_lm_hidden(m, f->t, qkv_tensor_ids(f->t, one, 2, (size_t[]){B, 1}), 0,
                                      NULL, cache));
    qkv_safetensors *file = end(f, c);
    const qkv_safetensor *x = qkv_safetensors_find(file, "attentions.1@2");
    assert_non_null(x);
    assert_int_equal(x->store, QKV_STORE_F16);
    assert_int_equal(x->shape[2], 1);
    assert_int_equal(x->shape[3], 3);
    assert_non_null(qkv_safetensors_find(file, "hidden_states.2@2"));
    assert_non_null(qkv_safetensors_find(file, "hidden_states.0@1"));
    qkv_safetensors_close(file);
    qkv_lm_cache_destroy(cache);
    qkv_model_destroy(m);
}

static void chosen(fixture *f)
{
    qkv_model *m = model_of(f, qkv_gpt2_type());
    const qkv_capture_options o = {.file = path, .attentions = true, .layer = 1, .head = 2,
                                   .row = 3, .rows = 2};
    qkv_capture *c;
    begin(f, false, false);
    assert_int_equal(qkv_capture_open(&c, f->ctx, f->t, &o), QKV_OK);
    assert_non_null(qkv_lm_hidden(m, f->t, tokens(f, T), 0, NULL, NULL));
    qkv_safetensors *file = end(f, c);
    assert_int_equal(qkv_safetensors_count(file), 1);
    const qkv_safetensor *x = qkv_safetensors_find(file, "attentions.1");
    assert_non_null(x);
    assert_int_equal(x->shape[0], B);
    assert_int_equal(x->shape[1], 1);
    assert_int_equal(x->shape[2], 2);
    assert_int_equal(x->shape[3], T);
    qkv_safetensors_close(file);
    qkv_model_destroy(m);
}

/* Figures of heads against those of the rows. */
static void figures(fixture *f)
{
    qkv_model *m = model_of(f, qkv_gpt2_type());
    qkv_head_table *h;
    qkv_head_figures x;
    begin(f, false, false);
    qkv_capture *c = capture(f, false, QKV_STORE_F32);
    assert_int_equal(qkv_head_table_open(&h, f->ctx, f->t, "h.1.attn"), QKV_OK);
    assert_non_null(qkv_lm_hidden(m, f->t, tokens(f, T), 0, NULL, NULL));
    qkv_safetensors *file = end(f, c);
    qkv_real *w = tensor_of(file, "attentions.1", B * HEADS * T * T);
    for (size_t n = 0; n < B * HEADS; n++) {
        double first = 0, previous = 0, same = 0, entropy = 0, distance = 0;
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j <= i; j++) {
                double p = (double)w[(n * T + i) * T + j];
                first += j == 0 ? p / T : 0;
                previous += j + 1 == i ? p / (T - 1) : 0;
                same += i == j ? p / T : 0;
                entropy -= p > 0 ? p * log(p) / T : 0;
                distance += p * (double)(i - j) / T;
            }
        assert_true(qkv_head_table_at(h, n, &x));
        assert_string_equal(x.attention, "h.1.attn");
        assert_int_equal(x.sequence, n / HEADS);
        assert_int_equal(x.head, n % HEADS);
        assert_true(fabs(x.first - first) < 1e-5 && fabs(x.previous - previous) < 1e-5 &&
                    fabs(x.same - same) < 1e-5 && fabs(x.entropy - entropy) < 1e-5 &&
                    fabs(x.distance - distance) < 1e-5);
    }
    assert_false(qkv_head_table_at(h, B * HEADS, &x));
    qkv_head_table_free(h);
    free(w);
    qkv_safetensors_close(file);
    qkv_model_destroy(m);
}

static void others(fixture *f)
{
    gradients(f);
    steps(f);
    chosen(f);
    figures(f);
}

static void gradients_steps_rows_and_figures(void **state)
{
    (void)state;
    with_each_isa(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_exact),
        cmocka_unit_test(gradients_steps_rows_and_figures),
    };
    int fd = mkstemps(path, 12);
    if (fd < 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
