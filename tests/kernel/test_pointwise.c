/* test_pointwise.c - of every table what test_elementwise.c does not try: exp, 1/x, losses, moving
 * averages, exchange, rows that move, numbers of a cache; against formulas in double or the plain
 * table. And elementwise kernels on arrays that begin anywhere, against themselves on others. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 30 };

static const qkv_kernels *plain(void) { return qkv__kernels(QKV_ISA_REFERENCE); }

static void check_maps(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size();
        float *x = randoms(n), *y = poisoned(n), *own = copied(x, n);
        c->k->exp(&c->e, y, x, n);
        c->k->exp(&c->e, own, own, n);
        for (size_t i = 0; i < n; i++) {
            near_at("exp", i, y[i], exp((double)x[i]), 1e-6, 0);
            assert_true(own[i] == y[i]);
        }
        c->k->reciprocal(&c->e, y, x, n);
        for (size_t i = 0; i < n; i++)
            near_at("reciprocal", i, y[i], 1 / (double)x[i], 2e-7, 0);
        free_arrays();
    }
}

static void check_lerp_swap(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size(), shift = (size_t)round % 3; /* to where no vector begins */
        double weight = fabs(rnd());
        float *x = randoms(n + shift) + shift, *y = randoms(n + shift) + shift;
        float *x0 = copied(x, n), *y0 = copied(y, n);
        c->k->lerp(&c->e, y, x, weight, n);
        for (size_t i = 0; i < n; i++)
            near_at("lerp", i, y[i], (double)y0[i] + weight * ((double)x0[i] - (double)y0[i]), 1e-6,
                    1);
        float *was = copied(y, n);
        c->k->swap(&c->e, x, y, n);
        assert_true(n == 0 || !memcmp(x, was, n * sizeof *x));
        assert_true(n == 0 || !memcmp(y, x0, n * sizeof *x));
        free_arrays();
    }
}

static double loss_of(double x, double t, const qkv_k_loss_args *a)
{
    double d = x - t, size = fabs(d), s = 1 / (1 + exp(-x));
    switch (a->loss) {
    case QKV_K_SQUARED: return d * d;
    case QKV_K_ABSOLUTE: return size;
    case QKV_K_HUBER: return size <= a->delta ? d * d / 2 : a->delta * (size - a->delta / 2);
    default: return -t * log(s) - (1 - t) * log(1 - s);
    }
}

static void check_losses(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size(), shift = (size_t)round % 3;
        qkv_k_loss_args a = {(qkv_k_loss_kind)(round % 4), 0.7, 0.3, round % 8 > 3};
        bool acc = coin();
        float *x = randoms(n + shift) + shift, *t = randoms(n + shift) + shift;
        float *d = output(n, acc), *d0 = copied(d, n);
        double want = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            double v = loss_of((double)x[i], (double)t[i], &a);
            want += v;
            size += fabs(v);
        }
        assert_true(fabs(c->k->loss(&c->e, x, t, &a, n) - want) <= 1e-12 * size);
        c->k->loss_bwd(&c->e, d, x, t, acc, &a, n);
        plain()->loss_bwd(&c->e, d0, x, t, acc, &a, n);
        for (size_t i = 0; i < n; i++) {
            double h = 1e-6, u = (double)x[i], v = (double)t[i], other = a.to_target ? h : 0;
            double slope = loss_of(u + h - other, v + other, &a) -
                           loss_of(u - h + other, v - other, &a);
            near_at("loss_bwd", i, d[i], (double)d0[i], 1e-6, 1);
            if (!acc && fabs(u - v) > 1e-5 && fabs(fabs(u - v) - a.delta) > 1e-5)
                near_at("slope", i, d[i], a.scale * slope / (2 * h), 1e-5, 1);
        }
        free_arrays();
    }
}

/* Sums of arrays that begin anywhere. */
static void check_shifted_sums(const kernel_case *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size(), shift = 1 + (size_t)round % 3;
        float *x = randoms(n + shift) + shift, *same = copied(x, n);
        assert_true(c->k->sum(&c->e, x, n) == c->k->sum(&c->e, same, n));
        assert_true(c->k->sum_squares(&c->e, x, n) == c->k->sum_squares(&c->e, same, n));
        free_arrays();
    }
}

/* The same numbers come of arrays that begin anywhere. */
static void check_shifts(const kernel_case *c)
{
    enum { FEW = 1000 };
    for (size_t shift = 1; shift < 4; shift++) {
        const size_t n = FEW + shift;
        qkv_k_dropout_args drop = {.p = 0.4, .seed = 3, .step = 1, .first = 8, .dropout_id = 1};
        float *x = randoms(n + shift), *d = randoms(n), *want = poisoned(n);
        float *y = poisoned(n + shift) + shift, *same = copied(x + shift, n);
        c->k->act(&c->e, want, same, QKV_K_GELU, n);
        c->k->act(&c->e, y, x + shift, QKV_K_GELU, n);
        for (size_t i = 0; i < n; i++)
            near_at("act", i, y[i], (double)want[i], 1e-6, 1e-3);
        c->k->act_bwd(&c->e, want, same, d, QKV_K_SILU, false, n);
        c->k->act_bwd(&c->e, y, x + shift, d, QKV_K_SILU, false, n);
        for (size_t i = 0; i < n; i++)
            near_at("act_bwd", i, y[i], (double)want[i], 1e-5, 1);
        c->k->add(&c->e, y, x + shift, d, n);
        for (size_t i = 0; i < n; i++)
            assert_true(y[i] == same[i] + d[i]);
        c->k->dropout(&c->e, want, same, d, false, &drop, n);
        c->k->dropout(&c->e, y, x + shift, d, false, &drop, n);
        assert_memory_equal(y, want, n * sizeof *y);
        free_arrays();
    }
}

/* One after another: rows that were written are read again. */
static void check_moves(const kernel_case *c)
{
    enum { ROWS = 9, MOVES = 12 };
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_size() % 2000, row = n + (round % 2 ? 4 - n % 4 : 3);
        size_t to[MOVES], from[MOVES], begin[MOVES];
        float *x = randoms(ROWS * row), *want = copied(x, ROWS * row);
        for (size_t i = 0; i < MOVES; i++) {
            to[i] = qkv_rng_below(&kt.rng, ROWS);
            from[i] = (to[i] + 1 + qkv_rng_below(&kt.rng, ROWS - 1)) % ROWS;
            begin[i] = random_size() % (n + 2);
            begin[i] = round % 3 ? begin[i] / 4 * 4 : i % 2 * begin[i];
            for (size_t k = begin[i]; k < n; k++)
                want[to[i] * row + k] = want[from[i] * row + k];
        }
        c->k->move(&c->e, x, row, to, from, begin, MOVES, n);
        assert_memory_equal(x, want, ROWS * row * sizeof *x);
        free_arrays();
    }
}

/* The bits are those of the plain table, of ties and of numbers that are not finite too. */
static void check_cache(const kernel_case *c)
{
    static const size_t widths[] = {1, 3, 31, 32, 64, 65, 128, 200};
    for (int round = 0; round < ROUNDS; round++) {
        size_t rows = qkv_rng_below(&kt.rng, round % 2 ? 9 : 70);
        size_t heads = 1 + qkv_rng_below(&kt.rng, 4);
        size_t D = widths[round % 8], x_head = D + (coin() ? 3 : 0), x_row = heads * x_head + 5;
        size_t count = rows * heads;
        qkv_k_kv kind = (qkv_k_kv)(round % 3);
        const size_t most = 2 * (rows + 1) * heads, bytes = most * D * sizeof(float);
        float *x = randoms(rows * x_row), *scale = poisoned(most), *scale0 = poisoned(most);
        float *y = poisoned(most * D), *y0 = poisoned(most * D);
        float *back = poisoned(most * D), *back0 = poisoned(most * D);
        size_t places[80]; /* from the last, or every second one, turned round in pairs */
        for (size_t i = 0; i < rows; i++)
            places[i] = round % 4 ? 2 * (i ^ 1) + 1 : rows - i;
        for (size_t i = 0; i < count && round % 5 == 0; i += 3)
            x[i / heads * x_row + i % heads * x_head] = i % 2 ? NAN : INFINITY;
        for (size_t i = 0; i < x_head * heads && rows && round % 7 == 1; i++)
            x[i] = i % 2 ? 0 : 127; /* of the first row */
        c->k->kv_store(&c->e, y, scale, x, x_row, x_head, places, kind, rows, heads, D);
        plain()->kv_store(&c->e, y0, scale0, x, x_row, x_head, places, kind, rows, heads, D);
        assert_memory_equal(y, y0, bytes);
        for (size_t i = 0; i < rows * heads && kind == QKV_K_KV_REAL; i++)
            assert_memory_equal(y + (places[i / heads] * heads + i % heads) * D,
                                x + i / heads * x_row + i % heads * x_head, D * sizeof *x);
        if (kind != QKV_K_KV_REAL) {
            c->k->kv_load(&c->e, back, y0, scale0, kind, most, D);
            plain()->kv_load(&c->e, back0, y0, scale0, kind, most, D);
        }
        for (size_t i = 0; i < most && kind == QKV_K_KV_INT8; i++)
            assert_true(scale[i] == scale0[i] || (isnan(scale[i]) && isnan(scale0[i])));
        for (size_t i = 0; i < most * D && kind != QKV_K_KV_REAL; i++)
            assert_true(back[i] == back0[i] || (isnan(back[i]) && isnan(back0[i])));
        free_arrays();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(check_maps),         KERNEL_CHECK(check_lerp_swap),
        KERNEL_CHECK(check_losses),       KERNEL_CHECK(check_shifted_sums),
        KERNEL_CHECK(check_shifts),       KERNEL_CHECK(check_moves),
        KERNEL_CHECK(check_cache),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
