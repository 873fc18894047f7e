/* test_mha.c - multi-head attention of one's own: outputs and all gradients against the same layer
 * put together from small ops, a head at a time; the boolean mask against the bias it stands for;
 * a cache against computing anew; what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "qkv/nn.h"
#include "qkv/random.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { B = 2, T = 5, S = 4, C = 8, M = 6, MOST = 8 };
static const double tolerance = 1e-11;
static const int32_t lengths[] = {3, T}, memory_lengths[] = {S, 2};

typedef struct {
    const char *name;
    qkv_mha_config c;
    bool lengths, bias, mask; /* what the pass is given */
} mha_case;

static const mha_case cases[] = {
    {"self", {.width = C, .heads = 2, .qkv_bias = true, .out_bias = true}, .bias = false},
    {"causal", {.width = C, .heads = 4, .causal = true, .out_bias = true}, .mask = true},
    {"grouped", {.width = C, .heads = 4, .kv_heads = 2, .head_width = 3, .scale = 0.7,
                 .qkv_bias = true}, .bias = true, .mask = true},
    {"lengths", {.width = C, .heads = 1, .qkv_bias = true, .out_bias = true}, .lengths = true},
    {"cross", {.width = C, .memory_width = M, .heads = 2, .cross = true, .qkv_bias = true,
               .out_bias = true}, .lengths = true, .mask = true},
    {"cross, grouped", {.width = C, .heads = 2, .kv_heads = 1, .cross = true}, .bias = true},
    {"causal, no mask", {.width = C, .heads = 4, .kv_heads = 2, .causal = true, .qkv_bias = true,
                         .out_bias = true}, .mask = false},
    {"cross, lengths alone", {.width = C, .memory_width = M, .heads = 2, .cross = true,
                              .qkv_bias = true, .out_bias = true}, .lengths = true},
};

typedef struct {
    const mha_case *c;
    qkv_context *ctx;
    qkv_tape *t;
    qkv_params *ps;
    qkv_mha *mha;
    qkv_param *x, *memory, *bias;
    bool seen[2 * T * T];
    size_t keys;
} fixture;

static void make(fixture *f, const mha_case *c)
{
    *f = (fixture){.c = c, .keys = c->c.cross ? S : T};
    size_t of_memory = c->c.memory_width ? c->c.memory_width : C;
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    assert_int_equal(qkv_params_create(&f->ps, f->ctx), QKV_OK);
    f->x = qkv_param_create(f->ps, "x", 3, (const size_t[]){B, T, C});
    f->memory = qkv_param_create(f->ps, "memory", 3, (const size_t[]){B, S, of_memory});
    f->bias = qkv_param_create(f->ps, "bias", 4, (const size_t[]){1, c->c.heads, T, f->keys});
    if (!(f->mha = qkv_mha_create(f->ps, &c->c, "h.0.attn", 1)))
        fail_msg("%s: %s", c->name, qkv_context_message(f->ctx));
    for (size_t i = 0; i < qkv_params_count(f->ps); i++)
        assert_int_equal(qkv_param_init(qkv_params_at(f->ps, i), QKV_INIT_NORMAL, 0.5, 3), QKV_OK);
    for (size_t i = 0; i < COUNT(f->seen); i++)
        f->seen[i] = i % 3 != 1 || i % f->keys == 0; /* every query sees the first key */
}

static void drop(fixture *f)
{
    qkv_params_destroy(f->ps);
    qkv_tape_destroy(f->t);
    qkv_context_destroy(f->ctx);
}

static qkv_tensor *mask_of(fixture *f)
{
    return qkv_tensor_bools(f->t, f->seen, 4, (const size_t[]){B, 1, T, f->keys});
}

/* -INFINITY at keys that a query does not see, (B, T, S). */
static qkv_tensor *hidden(fixture *f)
{
    const int32_t *n = f->c->c.cross ? memory_lengths : lengths;
    qkv_tensor *m = qkv_tensor_from(f->t, NULL, 3, (const size_t[]){B, T, f->keys});
    for (size_t i = 0; i < B * T * f->keys; i++) {
        size_t b = i / (T * f->keys), row = i / f->keys % T, key = i % f->keys;
        bool see = (!f->c->mask || f->seen[i]) && (!f->c->c.causal || key <= row) &&
                   (!f->c->lengths || key < (size_t)n[b]);
        qkv_tensor_fill(m)[i] = see ? 0 : -INFINITY;
    }
    return m;
}

/* x through rows from .. from + n - 1 of a layer. */
static qkv_tensor *part(fixture *f, qkv_tensor *x, qkv_param *w, qkv_param *b, size_t from,
                        size_t n)
{
    qkv_tensor *rows = qkv_contiguous(f->t, qkv_slice(f->t, qkv_use(f->t, w), 0, from, from + n));
    qkv_tensor *bias = b ? qkv_contiguous(f->t, qkv_slice(f->t, qkv_use(f->t, b), 0, from,
                                                          from + n)) : NULL;
    return qkv_linear(f->t, x, rows, bias, QKV_ACT_NONE);
}

static qkv_tensor *plainly(fixture *f)
{
    const qkv_mha_config *c = qkv_mha_configuration(f->mha);
    const qkv_mha_params *p = qkv_mha_parameters(f->mha);
    size_t D = c->head_width, group = c->heads / c->kv_heads, kv = c->kv_heads * D;
    qkv_tape *t = f->t;
    qkv_tensor *x = qkv_use(t, f->x), *memory = c->cross ? qkv_use(t, f->memory) : x, *z[MOST];
    qkv_param *of_q = c->cross ? p->q_weight : p->qkv_weight, *b_q = c->cross ? p->q_bias
                                                                              : p->qkv_bias;
    qkv_param *of_kv = c->cross ? p->kv_weight : of_q, *b_kv = c->cross ? p->kv_bias : b_q;
    size_t first = c->cross ? 0 : c->heads * D;
    for (size_t h = 0; h < c->heads; h++) {
        qkv_tensor *q = part(f, x, of_q, b_q, h * D, D);
        qkv_tensor *k = part(f, memory, of_kv, b_kv, first + h / group * D, D);
        qkv_tensor *v = part(f, memory, of_kv, b_kv, first + kv + h / group * D, D);
        qkv_tensor *s = qkv_scale(t, qkv_matmul(t, q, false, k, true),
                                  c->scale > 0 ? c->scale : 1 / sqrt((double)D));
        if (f->c->bias) {
            qkv_tensor *of = qkv_slice(t, qkv_use(t, f->bias), 1, h, h + 1);
            s = qkv_add(t, s, qkv_reshape(t, of, 3, (const size_t[]){1, T, f->keys}));
        }
        z[h] = qkv_matmul(t, qkv_softmax(t, qkv_add(t, s, hidden(f))), false, v, false);
    }
    return qkv_linear(t, qkv_concat(t, 2, (int)c->heads, z), qkv_use(t, p->out_weight),
                      p->out_bias ? qkv_use(t, p->out_bias) : NULL, QKV_ACT_NONE);
}

static qkv_tensor *layered(fixture *f)
{
    const mha_case *c = f->c;
    qkv_tensor *bias = c->bias ? qkv_use(f->t, f->bias) : NULL, *mask = c->mask ? mask_of(f) : NULL;
    qkv_sequence seq = {0};
    if (c->c.cross)
        seq = (qkv_sequence){.memory = qkv_use(f->t, f->memory), .memory_bias = bias,
                             .memory_mask = mask,
                             .memory_lengths = c->lengths ? memory_lengths : NULL};
    else
        seq = (qkv_sequence){.bias = bias, .mask = mask, .lengths = c->lengths ? lengths : NULL};
    return qkv_mha_forward(f->mha, f->t, qkv_use(f->t, f->x), &seq, NULL);
}

/* y and its gradients for all parameters, one after the other; their number. */
static size_t values(fixture *f, qkv_tensor *(*forward)(fixture *), double *out)
{
    size_t n = B * T * C;
    qkv_params_zero_grad(f->ps);
    qkv_tape_reset(f->t);
    qkv_tensor *y = forward(f), *cot = qkv_tensor_from(f->t, NULL, 3, (const size_t[]){B, T, C});
    qkv_rng r;
    qkv_rng_init(&r, 11, 0);
    for (size_t i = 0; cot && i < n; i++)
        qkv_tensor_fill(cot)[i] = qkv_rng_normal(&r);
    if (qkv_backward(f->t, qkv_sum(f->t, qkv_mul(f->t, y, cot))))
        fail_msg("%s: %s", f->c->name, qkv_context_message(f->ctx));
    memcpy(out, qkv_data(f->t, y), n * sizeof *out);
    for (size_t i = 0; i < qkv_params_count(f->ps); i++) {
        qkv_param *p = qkv_params_at(f->ps, i);
        const double *g = qkv_param_grad(p);
        for (size_t j = 0; j < qkv_param_count(p); j++)
            out[n++] = g ? g[j] : 0;
    }
    return n;
}

static void test_plain(void **state)
{
    static double found[4096], expected[4096];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fixture f;
        make(&f, &cases[i]);
        size_t n = values(&f, layered, found);
        assert_true(n <= COUNT(found));
        assert_int_equal(values(&f, plainly, expected), n);
        for (size_t j = 0; j < n; j++)
            if (!(fabs(found[j] - expected[j]) <= tolerance))
                fail_msg("%s: number %zu is %.17g, not %.17g", cases[i].name, j, found[j],
                         expected[j]);
        drop(&f);
    }
}

/* ---- masks ----------------------------------------------------------------------------------- */

static qkv_tensor *by_bias(fixture *f)
{
    qkv_tensor *m = qkv_tensor_from(f->t, NULL, 4, (const size_t[]){B, 1, T, T});
    for (size_t i = 0; i < B * T * T; i++)
        qkv_tensor_fill(m)[i] = f->seen[i] ? 0 : -INFINITY;
    qkv_sequence seq = {.bias = f->c->bias ? qkv_add(f->t, qkv_use(f->t, f->bias), m) : m};
    return qkv_mha_forward(f->mha, f->t, qkv_use(f->t, f->x), &seq, NULL);
}

static void test_mask_bits(void **state)
{
    static double found[4096], expected[4096];
    (void)state;
    for (size_t i = 1; i < 3; i++) { /* the causal one, and that with a bias */
        fixture f;
        make(&f, &cases[i]);
        size_t n = values(&f, layered, found);
        assert_int_equal(values(&f, by_bias, expected), n);
        assert_memory_equal(found, expected, n * sizeof *found);
        drop(&f);
    }
}

static void test_refused(void **state)
{
    (void)state;
    fixture f;
    make(&f, &cases[0]);
    qkv_tensor *x = qkv_use(f.t, f.x);
    qkv_sequence seq = {.mask = qkv_tensor_bools(f.t, f.seen, 3, (const size_t[]){1, T, T})};
    assert_null(qkv_mha_forward(f.mha, f.t, x, &seq, NULL));
    assert_non_null(strstr(qkv_context_message(f.ctx), "(1, 5, 5) is not (2 or 1, 2 or 1, 5, 5)"));
    qkv_tape_reset(f.t);
    x = qkv_use(f.t, f.x);
    seq.mask = x;
    assert_null(qkv_mha_forward(f.mha, f.t, x, &seq, NULL));
    assert_non_null(strstr(qkv_context_message(f.ctx), "i32"));
    qkv_tape_reset(f.t);
    qkv_mha_config c = qkv_mha_defaults();
    c.kv_heads = 3;
    assert_null(qkv_mha_create(f.ps, &c, "a", 0));
    c = qkv_mha_defaults();
    c.cross = c.causal = true;
    assert_null(qkv_mha_create(f.ps, &c, "b", 0));
    c.causal = false;
    qkv_mha *cross = qkv_mha_create(f.ps, &c, "c", 0);
    assert_null(qkv_mha_forward(cross, f.t, qkv_use(f.t, f.x), NULL, NULL));
    assert_non_null(strstr(qkv_context_message(f.ctx), "without a memory"));
    drop(&f);
}

/* ---- caches ---------------------------------------------------------------------------------- */

/* Rows one at a time, with keys and values kept, are the rows of the whole: of the cases that see
 * nothing behind a row and have neither mask nor bias, which are as large as the whole. */
static void test_cache(void **state)
{
    (void)state;
    size_t checked = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fixture f;
        const qkv_mha_config *c = &cases[i].c;
        qkv_kv_cache *cache;
        double whole[B * T * C];
        if (!(c->cross || c->causal) || cases[i].mask || cases[i].bias)
            continue;
        make(&f, &cases[i]);
        qkv_tape_mode(f.t, false, false);
        memcpy(whole, qkv_data(f.t, layered(&f)), sizeof whole);
        const qkv_mha_config *full = qkv_mha_configuration(f.mha);
        assert_int_equal(qkv_kv_cache_create(&cache, f.ctx, B, T, full->kv_heads, full->head_width,
                                             full->head_width), QKV_OK);
        for (size_t at = 0; at < T; at++) {
            qkv_tape_reset(f.t);
            qkv_sequence seq = {.memory = at ? NULL : qkv_use(f.t, f.memory),
                                .memory_lengths = cases[i].lengths ? memory_lengths : NULL};
            qkv_tensor *row = qkv_slice(f.t, qkv_use(f.t, f.x), 1, at, at + 1);
            const double *y = qkv_data(f.t, qkv_mha_forward(f.mha, f.t, row, &seq, cache));
            assert_non_null(y);
            for (size_t k = 0; k < B * C; k++)
                assert_true(fabs(y[k] - whole[(k / C * T + at) * C + k % C]) <= tolerance);
        }
        qkv_kv_cache_destroy(cache);
        drop(&f);
        checked++;
    }
    assert_int_equal(checked, 2);
}

/* ---- initial values -------------------------------------------------------------------------- */

static void test_init(void **state)
{
    (void)state;
    fixture f;
    make(&f, &cases[2]);
    const qkv_mha_params *p = qkv_mha_parameters(f.mha);
    double again[24 * C], bound = sqrt(6.0 / (6 + C)), most = 0;
    qkv_mha_init(f.mha, 4);
    memcpy(again, qkv_param_data(p->qkv_weight), 24 * C * sizeof *again);
    for (size_t i = 12 * C; i < 24 * C; i++) /* keys and values, of 6 rows each */
        most = fmax(most, fabs(again[i]));
    assert_true(most <= bound && most > 0.9 * bound);
    for (size_t i = 0; i < qkv_param_count(p->qkv_bias); i++)
        assert_true(qkv_param_data(p->qkv_bias)[i] == 0);
    qkv_mha_init(f.mha, 4);
    assert_memory_equal(again, qkv_param_data(p->qkv_weight), 24 * C * sizeof *again);
    qkv_mha_init(f.mha, 5);
    assert_memory_not_equal(again, qkv_param_data(p->qkv_weight), 24 * C * sizeof *again);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_mask_bits),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_cache),
        cmocka_unit_test(test_init)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
