/* test_probes.c - probes of a model's forward pass: what they read, what replacing it does, and
 * passes that begin at a block. With each instruction set's kernels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "properties.h"
#include "qkv/gpt.h"

enum { V = 19, T = 7, B = 2, LAYERS = 3, HEADS = 2, C = 16, D = C / HEADS };
static const int32_t ids[B * T] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
static const size_t shape[] = {B, T};

static qkv_model *small_gpt(fixture *f, bool llama, double dropout)
{
    const qkv_model_type *type = llama ? qkv_llama_type() : qkv_gpt2_type();
    qkv_gpt_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    c.vocab = V;
    c.positions = 32;
    c.width = C;
    c.layers = LAYERS;
    c.heads = HEADS;
    c.kv_heads = 0;
    c.dropout = dropout;
    assert_int_equal(qkv_model_create(&m, f->ctx, type, &c), QKV_OK);
    assert_int_equal(qkv_model_init(m, 3), QKV_OK);
    return m;
}

static const qkv_real *logits(fixture *f, qkv_model *m)
{
    qkv_tensor *h = qkv_lm_hidden(m, f->t, qkv_tensor_ids(f->t, ids, 2, shape), 0, NULL, NULL);
    const qkv_real *y = qkv_data(f->t, qkv_lm_logits(m, f->t, h));
    assert_non_null(y);
    return y;
}

static void begin(fixture *f, bool record)
{
    qkv_probes_clear(f->t);
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, record, false);
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct {
    qkv_real pre[LAYERS][B * T * C], post[LAYERS][B * T * C], z[B * T * C];
    qkv_real sublayers[LAYERS][2][B * T * C]; /* attn.out and ff.out */
    int calls;
} reading;

static qkv_tensor *read_place(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    reading *r = user;
    qkv_real *to = NULL;
    size_t layer = (size_t)(name[2] - '0');
    r->calls++;
    if (strncmp(name, "h.", 2) != 0)
        return x;
    if (strcmp(name + 4, "resid_pre") == 0)
        to = r->pre[layer];
    else if (strcmp(name + 4, "resid_post") == 0)
        to = r->post[layer];
    else if (strcmp(name + 4, "attn.out") == 0)
        to = r->sublayers[layer][0];
    else if (strcmp(name + 4, "ff.out") == 0)
        to = r->sublayers[layer][1];
    if (to) {
        assert_int_equal(qkv_count(x), B * T * C);
        memcpy(to, qkv_data(t, x), B * T * C * sizeof *to);
    }
    return x;
}

static void reads(fixture *f, bool llama, bool record)
{
    qkv_model *m = small_gpt(f, llama, 0);
    static reading r;
    qkv_real *plain = malloc(B * T * V * sizeof *plain);
    assert_non_null(plain);
    begin(f, record);
    memcpy(plain, logits(f, m), B * T * V * sizeof *plain);
    begin(f, record);
    r.calls = 0;
    assert_int_equal(qkv_probe_add(f->t, NULL, read_place, &r), QKV_OK);
    assert_memory_equal(plain, logits(f, m), B * T * V * sizeof *plain);
    assert_int_equal(r.calls, 10 * LAYERS + 1);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < B * T * C; k++) {
            double sum = (double)r.pre[i][k] + (double)r.sublayers[i][0][k] +
                         (double)r.sublayers[i][1][k];
            assert_true(fabs(sum - (double)r.post[i][k]) < 1e-5);
            assert_true(i + 1 == LAYERS || r.pre[i + 1][k] == r.post[i][k]);
        }
    free(plain);
    qkv_probes_clear(f->t);
    qkv_model_destroy(m);
}

static void all_reads(fixture *f)
{
    for (int i = 0; i < 4; i++)
        reads(f, i & 1, i & 2);
}

static void reading_changes_nothing(void **state)
{
    (void)state;
    with_each_isa(all_reads);
}

/* ---- gradients ----------------------------------------------------------------------------- */

static qkv_tensor *leave_it(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    (void)user, (void)t, (void)name;
    return x;
}

/* All gradients of a training pass, one parameter after the other; *n: how many numbers. */
static qkv_real *gradients_of(fixture *f, qkv_model *m, size_t *n)
{
    qkv_params *ps = qkv_model_params(m);
    size_t at = 0;
    *n = qkv_params_elements(ps);
    qkv_real *all = malloc(*n * sizeof *all);
    assert_non_null(all);
    qkv_tape_mode(f->t, true, true);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 5, .step = 2});
    qkv_params_zero_grad(ps);
    qkv_tensor *x = qkv_tensor_ids(f->t, ids, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(m, f->t, x, 0, NULL, NULL);
    qkv_tensor *loss = qkv_cross_entropy(f->t, qkv_lm_logits(m, f->t, h), x, NULL);
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        size_t count = qkv_param_count(p);
        memcpy(all + at, qkv_param_grad(p), count * sizeof *all);
        at += count;
    }
    assert_int_equal(at, *n);
    return all;
}

/* Without probes blocks keep less and write over what they have read. */
static void keeps_bits(fixture *f, bool llama, double dropout)
{
    qkv_model *m = small_gpt(f, llama, dropout);
    size_t n;
    begin(f, true);
    qkv_real *plain = gradients_of(f, m, &n);
    begin(f, true);
    assert_int_equal(qkv_probe_add(f->t, "*.ff.act", leave_it, NULL), QKV_OK);
    qkv_real *probed = gradients_of(f, m, &n);
    assert_memory_equal(plain, probed, n * sizeof *plain);
    free(plain);
    free(probed);
    qkv_probes_clear(f->t);
    qkv_model_destroy(m);
}

static void all_keep_bits(fixture *f)
{
    for (int i = 0; i < 4; i++)
        keeps_bits(f, i & 1, i & 2 ? 0.25 : 0);
}

static void a_probe_changes_no_gradient(void **state)
{
    (void)state;
    with_each_isa(all_keep_bits);
}

/* ---- replacing ----------------------------------------------------------------------------- */

/* Head 1 of the heads' outputs becomes zeros. */
static qkv_tensor *ablate(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    (void)user;
    assert_string_equal(name, "h.1.attn.z");
    qkv_tensor *parts[2] = {qkv_slice(t, x, 2, 0, 1), qkv_scale(t, qkv_slice(t, x, 2, 1, 2), 0)};
    return qkv_concat(t, 2, 2, parts);
}

/* Ablating a head is what zeros in the columns that the output layer has for it do. */
static void ablations(fixture *f)
{
    qkv_model *m = small_gpt(f, false, 0);
    qkv_real *ablated = malloc(B * T * V * sizeof *ablated);
    assert_non_null(ablated);
    begin(f, false);
    assert_int_equal(qkv_probe_add(f->t, "h.1.attn.z", ablate, NULL), QKV_OK);
    memcpy(ablated, logits(f, m), B * T * V * sizeof *ablated);
    begin(f, false);
    qkv_params *ps = qkv_model_params(m);
    qkv_param *w = qkv_params_find(ps, "h.1.attn.out.weight");
    assert_non_null(w);
    qkv_real *data = qkv_param_data(w);
    const qkv_real *whole = logits(f, m);
    double moved = 0;
    for (int i = 0; i < B * T * V; i++)
        moved = fmax(moved, fabs((double)whole[i] - (double)ablated[i]));
    assert_true(moved > 1e-4);
    for (size_t i = 0; i < C; i++)
        memset(data + i * C + D, 0, D * sizeof *data);
    qkv_param_touch(w);
    begin(f, false);
    whole = logits(f, m);
    for (int i = 0; i < B * T * V; i++)
        assert_true(fabs((double)whole[i] - (double)ablated[i]) < 1e-5);
    free(ablated);
    qkv_model_destroy(m);
}

static void a_head_is_ablated(void **state)
{
    (void)state;
    with_each_isa(ablations);
}

static qkv_tensor *wrong_shape(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    (void)user, (void)name;
    return qkv_slice(t, x, 0, 0, 1);
}

static qkv_tensor *nothing(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    (void)user, (void)t, (void)name, (void)x;
    return NULL;
}

static void refusals(fixture *f)
{
    static const struct {
        qkv_probe_fn *fn;
        const char *message;
    } cases[] = {{wrong_shape, "probe at h.1.resid_mid: (2, 7, 16) was replaced by (1, 7, 16)"},
                 {nothing, "probe at h.1.resid_mid: a probe returned NULL"}};
    qkv_model *m = small_gpt(f, false, 0);
    for (size_t i = 0; i < 2; i++) {
        begin(f, false);
        assert_int_equal(qkv_probe_add(f->t, "*.1.*_mid", cases[i].fn, NULL), QKV_OK);
        assert_null(qkv_lm_hidden(m, f->t, qkv_tensor_ids(f->t, ids, 2, shape), 0, NULL, NULL));
        assert_string_equal(qkv_context_message(f->ctx), cases[i].message);
    }
    begin(f, false);
    qkv_model_destroy(m);
}

static void wrong_replacements_are_refused(void **state)
{
    (void)state;
    with_each_isa(refusals);
}

/* ---- passes that begin at a block ------------------------------------------------------------ */

static void entries(fixture *f)
{
    static reading r;
    static const size_t stream[] = {B, T, C};
    qkv_model *m = small_gpt(f, true, 0);
    qkv_real *plain = malloc(B * T * V * sizeof *plain);
    assert_non_null(plain);
    begin(f, false);
    assert_int_equal(qkv_probe_add(f->t, "*.resid_*", read_place, &r), QKV_OK);
    memcpy(plain, logits(f, m), B * T * V * sizeof *plain);
    for (int i = 1; i <= LAYERS; i++) {
        char name[8] = {'h', '.', (char)('0' + i), 0};
        begin(f, false);
        r.calls = 0;
        qkv_tensor *x = qkv_tensor_from(f->t, r.post[i - 1], 3, stream);
        assert_int_equal(qkv_tape_enter(f->t, name, x), QKV_OK);
        assert_int_equal(qkv_probe_add(f->t, "*.resid_post", read_place, &r), QKV_OK);
        assert_memory_equal(plain, logits(f, m), B * T * V * sizeof *plain);
        assert_int_equal(r.calls, LAYERS - i);
    }
    begin(f, false);
    assert_memory_equal(plain, logits(f, m), B * T * V * sizeof *plain); /* until the reset */
    free(plain);
    qkv_model_destroy(m);
}

static void passes_begin_at_a_block(void **state)
{
    (void)state;
    with_each_isa(entries);
}

/* ---- gradients of attention weights -------------------------------------------------------- */

enum { HKV = 1, S = 9 };

typedef struct {
    qkv_real dw[B][HEADS][T * S];
} gradients;

static void take_gradient(void *user, const char *name, int sequence, int head, size_t row,
                          size_t rows, size_t keys, const qkv_real *weights)
{
    gradients *g = user;
    assert_string_equal(name, "attn");
    assert_int_equal(keys, S);
    memcpy(g->dw[sequence][head] + row * S, weights, rows * S * sizeof *weights);
}

/* dL/dP_ij = <dL/do_i, v_j>, of softmax(QK^T) V = P V, with the heads sharing keys. */
static void weight_gradients(fixture *f)
{
    static gradients g;
    const size_t qs[] = {B, T, HEADS, D}, ks[] = {B, S, HKV, D};
    begin(f, true);
    qkv_tensor *q = qkv_require_grad(f->t, noise(f, 4, qs)), *k = noise(f, 4, ks);
    qkv_tensor *v = noise(f, 4, ks), *c = noise(f, 4, qs);
    const qkv_attention_probe probe = {.name = "attn", .sequence = -1, .head = -1,
                                       .fn = take_gradient, .user = &g, .gradient = true};
    assert_int_equal(qkv_attention_probe_add(f->t, &probe), QKV_OK);
    qkv_tensor *y = qkv_attention(f->t, q, k, v, &(qkv_attention_options){.probe = "attn"});
    const qkv_tensor *seed = c;
    assert_int_equal(qkv_backward_from(f->t, &(qkv_backward_args){.n = 1, .outputs = &y,
                                                                  .gradients = &seed}), QKV_OK);
    const qkv_real *dout = qkv_data(f->t, c), *values = qkv_data(f->t, v);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < T; i++)
                for (size_t j = 0; j < S; j++) {
                    double sum = 0;
                    for (size_t d = 0; d < D; d++)
                        sum += (double)dout[((b * T + i) * HEADS + h) * D + d] *
                               (double)values[(b * S + j) * D + d];
                    assert_true(fabs(sum - (double)g.dw[b][h][i * S + j]) < 1e-4);
                }
    begin(f, false);
}

static void weights_have_gradients(void **state)
{
    (void)state;
    with_each_isa(weight_gradients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_changes_nothing),
        cmocka_unit_test(a_probe_changes_no_gradient),
        cmocka_unit_test(a_head_is_ablated),
        cmocka_unit_test(wrong_replacements_are_refused),
        cmocka_unit_test(passes_begin_at_a_block),
        cmocka_unit_test(weights_have_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
