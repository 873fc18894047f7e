/* test_ops.c - what must hold of softmax, attention, packed weights and positions whatever the
 * numbers are, on each instruction set. Where the mathematics says "the same", the same bits are
 * asked for if the same sums are done, else a few roundings are allowed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "properties.h"
#include "qkv/ops.h"

enum { B = 2, T = 37, H = 3, D = 8, C = H * D };
static const double roundings = 2e-6;

static qkv_tensor *copy_of(fixture *f, const qkv_tensor *x)
{
    size_t shape[QKV_MAX_DIMS];
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    return qkv_tensor_from(f->t, qkv_data(f->t, x), qkv_ndim(x), shape);
}

static void expect_near(const qkv_real *a, const qkv_real *b, size_t n, double allowed)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= allowed))
            fail_msg("element %zu: %g and %g", i, (double)a[i], (double)b[i]);
}

/* ---- softmax ----------------------------------------------------------------------------- */

/* softmax(x + c) = softmax(x), rows sum to one, and a row of nothing but -inf gives zeros. */
static void softmax_shift(fixture *f)
{
    const size_t shape[] = {5, 101};
    qkv_tensor *x = noise(f, 2, shape);
    for (size_t i = 0; i < qkv_count(x); i++) /* exact when shifted by 64 */
        qkv_tensor_fill(x)[i] = (qkv_real)round((double)qkv_data(f->t, x)[i] * 1024) / 1024;
    qkv_tensor *shift = qkv_tensor_from(f->t, &(qkv_real){64}, 0, NULL);
    const qkv_real *a = qkv_data(f->t, qkv_softmax(f->t, x));
    const qkv_real *b = qkv_data(f->t, qkv_softmax(f->t, qkv_add(f->t, x, shift)));
    assert_non_null(b);
    assert_memory_equal(a, b, qkv_count(x) * sizeof *a);
    for (size_t r = 0; r < shape[0]; r++) {
        double sum = 0;
        for (size_t c = 0; c < shape[1]; c++)
            sum += (double)a[r * shape[1] + c];
        assert_true(fabs(sum - 1) <= roundings);
    }
    qkv_tensor *nothing = qkv_tensor_from(f->t, NULL, 2, shape);
    for (size_t i = 0; i < qkv_count(nothing); i++)
        qkv_tensor_fill(nothing)[i] = (qkv_real)-INFINITY;
    a = qkv_data(f->t, qkv_softmax(f->t, nothing));
    for (size_t i = 0; i < qkv_count(nothing); i++)
        assert_true(a[i] == 0);
}

static void test_softmax_shift(void **state)
{
    (void)state;
    with_each_isa(softmax_shift);
}

/* ---- attention --------------------------------------------------------------------------- */

static const size_t self_shape[] = {B, T, H, D};
static const qkv_attention_options causal = {.causal = true};

/* Keys and values in another order change nothing; queries in another order are outputs in that
 * order. */
static void permutation(fixture *f)
{
    qkv_tensor *x[3], *turned[3];
    for (int i = 0; i < 3; i++) {
        x[i] = noise(f, 4, self_shape);
        turned[i] = copy_of(f, x[i]);
        for (size_t b = 0; b < B; b++)
            for (size_t j = 0; j < T; j++) /* 5 has no factor in common with T */
                memcpy(qkv_tensor_fill(turned[i]) + (b * T + j * 5 % T) * C,
                       qkv_data(f->t, x[i]) + (b * T + j) * C, C * sizeof(qkv_real));
    }
    const qkv_real *y = qkv_data(f->t, qkv_attention(f->t, x[0], x[1], x[2], NULL));
    const qkv_real *z = qkv_data(f->t, qkv_attention(f->t, turned[0], turned[1], turned[2], NULL));
    assert_non_null(z);
    for (size_t b = 0; b < B; b++)
        for (size_t j = 0; j < T; j++)
            expect_near(y + (b * T + j) * C, z + (b * T + j * 5 % T) * C, C, roundings);
}

static void test_permutation(void **state)
{
    (void)state;
    with_each_isa(permutation);
}

/* What comes later cannot be seen: with token 20 and all after it changed, outputs before it
 * keep every bit. */
static void causality(fixture *f)
{
    enum { CHANGED = 20 };
    qkv_tensor *x[3], *other[3];
    for (int i = 0; i < 3; i++) {
        x[i] = noise(f, 4, self_shape);
        other[i] = copy_of(f, x[i]);
        for (size_t b = 0; b < B; b++)
            for (size_t j = CHANGED * C; j < T * C; j++)
                qkv_tensor_fill(other[i])[b * T * C + j] += (qkv_real)(i ? 3 : 1);
    }
    const qkv_real *y = qkv_data(f->t, qkv_attention(f->t, x[0], x[1], x[2], &causal));
    const qkv_real *z = qkv_data(f->t, qkv_attention(f->t, other[0], other[1], other[2], &causal));
    assert_non_null(z);
    for (size_t b = 0; b < B; b++) {
        assert_memory_equal(y + b * T * C, z + b * T * C, CHANGED * C * sizeof *y);
        size_t at = (b * T + CHANGED) * C;
        assert_memory_not_equal(y + at, z + at, C * sizeof *y);
    }
}

static void test_causality(void **state)
{
    (void)state;
    with_each_isa(causality);
}

/* What lies behind a key length is not read: numbers there, even NaN, change no bit; and a
 * sequence alone, without padding, gives the same. */
static void padding(fixture *f)
{
    static const int32_t lengths[] = {21, T};
    const qkv_attention_options o = {.k_lengths = lengths};
    qkv_tensor *q = noise(f, 4, self_shape), *k = noise(f, 4, self_shape);
    qkv_tensor *v = noise(f, 4, self_shape);
    qkv_tensor *k2 = copy_of(f, k), *v2 = copy_of(f, v);
    for (size_t j = 21 * C; j < T * C; j++) {
        qkv_tensor_fill(k2)[j] = (qkv_real)NAN;
        qkv_tensor_fill(v2)[j] = (qkv_real)NAN;
    }
    const qkv_real *y = qkv_data(f->t, qkv_attention(f->t, q, k, v, &o));
    const qkv_real *z = qkv_data(f->t, qkv_attention(f->t, q, k2, v2, &o));
    assert_non_null(z);
    assert_memory_equal(y, z, B * T * C * sizeof *y);
    qkv_tensor *cut[3] = {qkv_slice(f->t, q, 0, 0, 1), NULL, NULL};
    cut[1] = qkv_slice(f->t, qkv_slice(f->t, k, 0, 0, 1), 1, 0, 21);
    cut[2] = qkv_slice(f->t, qkv_slice(f->t, v, 0, 0, 1), 1, 0, 21);
    z = qkv_data(f->t, qkv_attention(f->t, cut[0], cut[1], cut[2], NULL));
    assert_non_null(z);
    expect_near(y, z, T * C, roundings);
}

static void test_padding(void **state)
{
    (void)state;
    with_each_isa(padding);
}

/* Each head of one packed projection is attention over that head's own projection. */
static void heads(fixture *f)
{
    const size_t in[] = {B, T, 20}, w[] = {3 * C, 20}, one[] = {B, T, 1, D};
    const size_t split[] = {C, C, C};
    qkv_tensor *x = noise(f, 3, in), *weight = noise(f, 2, w), *part[3];
    qkv_tensor *all = qkv_linear(f->t, x, weight, NULL, QKV_ACT_NONE);
    assert_true(qkv_split(f->t, all, -1, 3, split, part));
    for (int i = 0; i < 3; i++)
        part[i] = qkv_reshape(f->t, part[i], 4, self_shape);
    const qkv_real *y = qkv_data(f->t, qkv_attention(f->t, part[0], part[1], part[2], &causal));
    assert_non_null(y);
    for (size_t h = 0; h < H; h++) {
        for (size_t i = 0; i < 3; i++) {
            qkv_tensor *rows = qkv_slice(f->t, weight, 0, i * C + h * D, i * C + (h + 1) * D);
            part[i] = qkv_linear(f->t, x, rows, NULL, QKV_ACT_NONE);
            part[i] = qkv_reshape(f->t, part[i], 4, one);
        }
        const qkv_real *z = qkv_data(f->t, qkv_attention(f->t, part[0], part[1], part[2], &causal));
        assert_non_null(z);
        for (size_t r = 0; r < B * T; r++)
            expect_near(y + r * C + h * D, z + r * D, D, 1e-4);
    }
}

static void test_heads(void **state)
{
    (void)state;
    with_each_isa(heads);
}

/* ---- packed weights ---------------------------------------------------------------------- */

enum { PACKED_IN = 33, PACKED_OUT = 50 };

static const qkv_real *many_rows(fixture *f, qkv_param *w, const qkv_real *x, bool pack)
{
    const size_t shape[] = {100, PACKED_IN};
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    qkv_tape_pack(f->t, pack);
    qkv_tensor *y = qkv_linear(f->t, qkv_tensor_from(f->t, x, 2, shape), qkv_use(f->t, w), NULL,
                               QKV_ACT_NONE);
    return qkv_data(f->t, y);
}

/* A weight that is used again and again is copied once, as large as groups of 16 rows of it; its
 * products stay what they were, and follow its changes. */
static void packing(fixture *f)
{
    enum { M = 100, TIMES = 12, BYTES = 64 * PACKED_IN * sizeof(qkv_real) };
    const size_t shape[] = {PACKED_OUT, PACKED_IN}, in[] = {M, PACKED_IN};
    static qkv_real x[M * PACKED_IN], plain[M * PACKED_OUT];
    qkv_params *ps;
    assert_int_equal(qkv_params_create(&ps, f->ctx), QKV_OK);
    qkv_param *w = qkv_param_create(ps, "w", 2, shape);
    assert_non_null(w);
    memcpy(x, qkv_data(f->t, noise(f, 2, in)), sizeof x);
    size_t bytes = qkv_params_bytes(ps);
    for (int value = 0; value < 2; value++) {
        memcpy(qkv_param_data(w), qkv_data(f->t, noise(f, 2, shape)),
               qkv_param_count(w) * sizeof(qkv_real));
        qkv_param_touch(w);
        const qkv_real *y = many_rows(f, w, x, false);
        assert_non_null(y);
        memcpy(plain, y, sizeof plain);
        for (int i = 0; i < TIMES; i++)
            assert_non_null(many_rows(f, w, x, false));
        assert_int_equal(qkv_params_bytes(ps), bytes + (value ? BYTES : 0));
        for (int i = 0; i < TIMES; i++)
            expect_near(many_rows(f, w, x, true), plain, M * PACKED_OUT, 1e-4);
        assert_int_equal(qkv_params_bytes(ps), bytes + BYTES);
    }
    /* Asked for of the parameters, the copy is made at the first use, of every tape. */
    w = qkv_param_create(ps, "another", 2, shape);
    memcpy(qkv_param_data(w), qkv_data(f->t, noise(f, 2, shape)),
           qkv_param_count(w) * sizeof(qkv_real));
    memcpy(plain, many_rows(f, w, x, false), sizeof plain);
    bytes = qkv_params_bytes(ps);
    qkv_params_pack(ps, true);
    expect_near(many_rows(f, w, x, false), plain, M * PACKED_OUT, 1e-4);
    assert_int_equal(qkv_params_bytes(ps), bytes + BYTES);
    qkv_tape_reset(f->t);
    qkv_params_destroy(ps);
}

static void test_packing(void **state)
{
    (void)state;
    with_each_isa(packing);
}

/* ---- positions --------------------------------------------------------------------------- */

/* In every layout of sines and cosines |row p|^2 is C/2, and rows p and p+k are as far apart
 * whatever p is. */
static void test_sinusoid_distances(void **state)
{
    (void)state;
    enum { P = 64, WIDTH = 32 };
    static const qkv_sinusoid layouts[] = {QKV_SINUSOID_PAPER, QKV_SINUSOID_FAIRSEQ,
                                           QKV_SINUSOID_MARIAN};
    static qkv_real table[P * WIDTH];
    qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        assert_int_equal(qkv_sinusoid_table(ctx, table, P, WIDTH, layouts[l], 0, 0), QKV_OK);
        for (size_t k = 0; k < 8; k++) {
            double first = 0;
            for (size_t p = 0; p + k < P; p++) {
                double sum = 0;
                for (size_t c = 0; c < WIDTH; c++) {
                    double d = (double)table[(p + k) * WIDTH + c];
                    d -= k ? (double)table[p * WIDTH + c] : 0;
                    sum += d * d;
                }
                first = p == 0 ? sum : first;
                assert_true(fabs(sum - first) <= 1e-5);
            }
            assert_true(k > 0 ? first > 1e-3 : fabs(first - WIDTH / 2.0) <= 1e-5);
        }
    }
    qkv_context_destroy(ctx);
}

/* Rotated queries and keys meet in products that depend on the distance alone. */
static void rotary_distance(fixture *f)
{
    const size_t shape[] = {2, 1, D};
    qkv_tensor *x = noise(f, 3, shape);
    double expected = 0;
    for (int32_t p = 0; p < 20; p++) {
        const int32_t at[] = {p, p + 4};
        const size_t two[] = {2};
        qkv_tensor *y = qkv_rotary(f->t, x, qkv_tensor_ids(f->t, at, 1, two), 100, D);
        const qkv_real *data = qkv_data(f->t, y);
        assert_non_null(data);
        double dot = 0;
        for (size_t i = 0; i < D; i++)
            dot += (double)data[i] * (double)data[D + i];
        expected = p == 0 ? dot : expected;
        assert_true(fabs(dot - expected) <= 1e-5);
    }
}

static void test_rotary_distance(void **state)
{
    (void)state;
    with_each_isa(rotary_distance);
}

/* ---- dropout ----------------------------------------------------------------------------- */

/* The share kept is 1-p, what is kept is scaled, and the numbers depend on the place in the
 * global batch: the second half of a batch draws the same on a tape that holds only it. */
static void dropout_place(fixture *f)
{
    const size_t shape[] = {4, 50, 64}, half[] = {2, 50, 64};
    qkv_tape_mode(f->t, false, true);
    qkv_tensor *x = qkv_tensor_from(f->t, NULL, 3, shape);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = 1;
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 3, .step = 9});
    const qkv_real *y = qkv_data(f->t, qkv_dropout(f->t, x, 0.2, 5));
    assert_non_null(y);
    size_t kept = 0, n = qkv_count(x);
    for (size_t i = 0; i < n; i++) {
        assert_true(y[i] == 0 || fabs((double)y[i] - 1.25) < 1e-6);
        kept += y[i] != 0;
    }
    assert_true(fabs((double)kept / (double)n - 0.8) < 0.015);
    qkv_tensor *part = qkv_tensor_from(f->t, qkv_data(f->t, x), 3, half);
    for (size_t samples = 0; samples <= 2; samples += 2) {
        qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 3, .step = 9, .first_sample = 2,
                                                    .samples = samples});
        const qkv_real *z = qkv_data(f->t, qkv_dropout(f->t, part, 0.2, 5));
        assert_non_null(z);
        assert_memory_equal(y + n / 2, z, n / 2 * sizeof *y);
    }
    const qkv_real *other = qkv_data(f->t, qkv_dropout(f->t, part, 0.2, 6));
    assert_memory_not_equal(y + n / 2, other, n / 2 * sizeof *y);
}

/* Whole samples are dropped or kept, whether they are rows of a batch or packed, in one batch or
 * in two; the share is 1-p; nothing is dropped at evaluation. */
static void drop_path_place(fixture *f)
{
    enum { N = 400, ROWS = 3, WIDE = 8 };
    const size_t shape[] = {N, ROWS, WIDE}, rows[] = {1, N * ROWS, WIDE}, half = N / 2;
    const size_t part[] = {N / 2, ROWS, WIDE};
    int32_t offsets[N + 1];
    for (int i = 0; i <= N; i++)
        offsets[i] = i * ROWS;
    qkv_tensor *x = noise(f, 3, shape);
    assert_ptr_equal(qkv_drop_path(f->t, x, 0.25, 5, 0, NULL), x);
    qkv_tape_mode(f->t, false, true);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 3, .step = 9});
    const qkv_real *y = qkv_data(f->t, qkv_drop_path(f->t, x, 0.25, 5, 0, NULL));
    const qkv_real *from = qkv_data(f->t, x);
    assert_non_null(y);
    size_t kept = 0, size = ROWS * WIDE;
    for (size_t b = 0; b < N; b++) {
        bool keep = y[b * size] != 0;
        kept += keep;
        for (size_t i = b * size; i < (b + 1) * size; i++)
            assert_true(keep ? fabs((double)y[i] - (double)from[i] / 0.75) < 1e-6 : y[i] == 0);
    }
    assert_true(fabs((double)kept / N - 0.75) < 0.06);
    qkv_tensor *packed = qkv_reshape(f->t, x, 3, rows);
    const qkv_real *z = qkv_data(f->t, qkv_drop_path(f->t, packed, 0.25, 5, N, offsets));
    assert_memory_equal(y, z, N * size * sizeof *y);
    qkv_tape_randomness(f->t, &(qkv_randomness){.seed = 3, .step = 9, .first_sample = half});
    z = qkv_data(f->t, qkv_drop_path(f->t, qkv_tensor_from(f->t, from + half * size, 3, part), 0.25,
                                     5, 0, NULL));
    assert_memory_equal(y + half * size, z, half * size * sizeof *y);
}

static void test_drop_path_place(void **state)
{
    (void)state;
    with_each_isa(drop_path_place);
}

static void test_dropout_place(void **state)
{
    (void)state;
    with_each_isa(dropout_place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_shift),      cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_causality),          cmocka_unit_test(test_padding),
        cmocka_unit_test(test_heads),              cmocka_unit_test(test_sinusoid_distances),
        cmocka_unit_test(test_rotary_distance),    cmocka_unit_test(test_dropout_place),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_drop_path_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
