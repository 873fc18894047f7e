/* test_parameter_copies.c - products that are told the version of what they multiply: a device that
 * keeps rounded copies of parameters gives the bits that it gives without, whatever has changed
 * them; and it does keep them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { M = 40, WIDE = 304, PARAMETERS = 12, ROUNDS = 80 };

typedef struct {
    float *data;
    size_t rows, cols;
    uint64_t version;
} parameter;

static uint64_t versions; /* that have been given */

/* Rows and columns that are multiples of 8 and that are not. */
static parameter new_parameter(bool whole)
{
    parameter p = {NULL, 256 + (whole || coin() ? 0 : 5), 264 + (whole || coin() ? 0 : 3),
                   ++versions};
    p.data = randoms(p.rows * p.cols);
    return p;
}

/* y = x op(w), told the version; x of M rows, of random numbers that depend on seed alone. */
static float *product(const kernel_case *c, const float *w, const parameter *p, bool turned,
                      uint64_t version, uint64_t seed)
{
    const size_t n = turned ? p->rows : p->cols, k = turned ? p->cols : p->rows;
    float *x = poisoned(M * k), *y = poisoned(M * n);
    qkv_rng rng;
    qkv_rng_init(&rng, seed, 3);
    for (size_t i = 0; i < M * k; i++)
        x[i] = (float)qkv_rng_normal(&rng);
    c->k->gemm(&c->e, y, x, w, &(qkv_k_gemm_args){.tb = turned, .m = M, .n = n, .k = k, .lda = k,
                                                  .ldb = p->cols, .ldc = n, .b_version = version});
    return y;
}

/* The same with rows of y, or of x, in bf16 that have room for the next multiple of 8. */
static float *rounded_product(const kernel_case *c, const float *w, const parameter *p, bool turned,
                              uint64_t version, uint64_t seed)
{
    const size_t n = turned ? p->rows : p->cols, k = turned ? p->cols : p->rows;
    const size_t wide = (p->rows + 7) / 8 * 8;
    float *x = poisoned(M * WIDE), *y = poisoned(M * WIDE);
    uint16_t *bits = (uint16_t *)(void *)x;
    qkv_exec e = c->e;
    qkv_rng rng;
    qkv_rng_init(&rng, seed, 3);
    memset(y, 0, M * WIDE * sizeof *y);
    for (size_t i = 0; i < M * (turned ? k : wide); i++)
        if (turned)
            x[i] = (float)qkv_rng_normal(&rng);
        else
            bits[i] = i % wide < p->rows ? 0x3f80 ^ (uint16_t)(qkv_rng_below(&rng, 2) << 15) : 0;
    e.bf16 = turned ? 1 : 2;
    c->k->gemm(&e, y, x, w, &(qkv_k_gemm_args){
        .tb = turned, .m = M, .n = n, .k = k, .lda = turned ? k : wide, .ldb = p->cols,
        .ldc = turned ? wide : n, .b_version = version});
    for (size_t i = 0; i < M * wide && turned; i++)
        if (i % wide >= n)
            ((uint16_t *)(void *)y)[i] = 0; /* anything may stand there */
    return y;
}

/* The bits of one that is told nothing, and reads other memory. */
static void check_bits(const char *what, const kernel_case *c, const parameter *p, const float *is)
{
    const bool on_card = on_a_device() && !strcmp(c->name, "bf16");
    const uint64_t seed = qkv_rng_below(&kt.rng, 1000);
    const size_t used = kt.used;
    const float *same = copied(is, p->rows * p->cols);
    for (int turned = 0; turned < 2; turned++) {
        const float *got = product(c, p->data, p, turned, p->version, seed);
        const float *want = product(c, same, p, turned, 0, seed);
        if (memcmp(got, want, M * (turned ? p->rows : p->cols) * sizeof *got))
            fail_msg("%s: %s: other bits, turned %d", kt.name, what, turned);
        got = on_card ? rounded_product(c, p->data, p, turned, p->version, seed) : got;
        want = on_card ? rounded_product(c, same, p, turned, 0, seed) : want;
        if (memcmp(got, want, M * (turned ? p->rows / 2 : p->cols) * sizeof *got))
            fail_msg("%s: %s: other bits in bf16, turned %d", kt.name, what, turned);
    }
    while (kt.used > used)
        free(kt.arrays[--kt.used].data);
}

/* An update by a rule from new state; told: which versions. */
static void update(const kernel_case *c, parameter *p, int rule, bool told)
{
    const size_t n = p->rows * p->cols, used = kt.used;
    qkv_k_update_args args = {.lr = 0.3, .weight_decay = 0.1, .grad_scale = 1, .momentum = 0.9,
                              .nesterov = true, .first = true, .alpha = 0.97, .eps = 1e-8,
                              .beta1 = 0.9, .beta2 = 0.99, .correction1 = 0.1, .correction2 = 0.1};
    qkv_k_adam_fn *const rules[] = {c->k->sgd, c->k->rmsprop, c->k->adam, c->k->adamw};
    float *g = randoms(n), *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = poisoned(n);
        memset(s[i], 0, n * sizeof *s[i]);
    }
    args.version = told ? p->version : 0;
    args.becomes = p->version = ++versions;
    rules[rule](&c->e, p->data, s[0], s[1], rule == 1 ? s[2] : NULL, g, &args, n);
    while (kt.used > used)
        free(kt.arrays[--kt.used].data);
}

static void check_parameters(const kernel_case *c)
{
    parameter of[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        of[i] = new_parameter(false);
    for (int round = 0; round < ROUNDS; round++) {
        parameter *p = &of[qkv_rng_below(&kt.rng, PARAMETERS)];
        const int kind = (int)qkv_rng_below(&kt.rng, 10);
        const size_t n = p->rows * p->cols;
        const char *what = "unchanged";
        if (kind < 4) {
            what = "updated";
            update(c, p, kind, true);
        } else if (kind < 6) {
            what = "updated, in parts";
            update(c, p, kind - 2, false);
        } else if (kind < 7) {
            what = "touched";
            p->data[qkv_rng_below(&kt.rng, n)] += 8;
            p->version = ++versions;
        } else if (kind < 8) { /* another model's, at the same address */
            what = "made again";
            c->k->axpy(&c->e, p->data, p->data, -0.5, false, n);
            p->rows = coin() ? p->rows : 248;
            p->version = ++versions;
        }
        check_bits(what, c, p, p->data);
        const parameter shape = {p->data, p->rows * 2, p->cols / 2, p->version};
        if (kind == 8)
            check_bits("in another shape", c, &shape, p->data);
    }
    const parameter large = {randoms(600 * 264), 600, 264, ++versions};
    check_bits("larger", c, &large, large.data); /* than all before */
    free_arrays();
}

/* What changes without another version is not seen: there is a copy, and updates write it. */
static void check_copies(const kernel_case *c)
{
    for (int rule = -1; rule < 4; rule++) {
        parameter p = new_parameter(true);
        const size_t n = p.rows * p.cols;
        check_bits("new", c, &p, p.data);
        if (rule >= 0)
            update(c, &p, rule, true);
        const float *is = copied(p.data, n);
        c->k->axpy(&c->e, p.data, p.data, 2, false, n);
        check_bits("kept", c, &p, is);
        p.version = ++versions;
        check_bits("touched", c, &p, p.data);
        free_arrays();
    }
}

static void check_rounding(void **state)
{
    (void)state;
    kernel_case c = {"bf16", qkv__kernels(QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16), kt.e};
    c.e.threads = 2;
    kt.name = c.name;
    qkv_rng_init(&kt.rng, 7, 11);
    if (!(qkv__cpu_isa() & QKV_ISA_AVX512))
        return;
    if (on_a_device())
        check_copies(&c);
    check_parameters(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_parameters),
                                       cmocka_unit_test(check_rounding)};
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
