/* test_small.c - products with weights in fewer bits: those of every table against sums in double
 * of what the weights and x stand for. */
#include "small_weights.h"

/* What the product makes of a row of x. to_bf16: where w is bf16, x becomes it too. */
static void round_x(double *out, const float *x, size_t k, qkv_k_small_type type, bool to_bf16)
{
    size_t block = qkv__small_kinds[type].block;
    for (size_t at = 0; at < k; at += block) {
        size_t end = at + block < k ? at + block : k;
        float most = 0;
        for (size_t i = at; i < end; i++)
            most = fmaxf(most, fabsf(x[i]));
        float inverse = 127 / most;
        for (size_t i = at; i < end; i++)
            out[i] = type == QKV_K_BF16
                         ? (double)(to_bf16 ? qkv__bf16_number(qkv__small_to_bf16(x[i])) : x[i])
                     : !isfinite(inverse) ? 0
                                          : (double)(nearbyintf(x[i] * inverse) * (most / 127));
    }
}

typedef struct {
    unsigned isa;
    int threads;
    qkv_k_small_type type;
    size_t m, n, k, pad;
    bool bias, many; /* many: by the kernel for several rows */
    bool extreme;    /* all numbers of a row are 1, or all are -1 */
} product_case;

static void make_extreme(float *x, size_t rows, size_t width)
{
    for (size_t i = 0; i < rows * width; i++)
        x[i] = i / width % 3 == 1 ? -1.0f : 1.0f;
}

static void check_product(fixture *f, const product_case *c)
{
    size_t ldx = c->k + c->pad, ldy = c->n + c->pad, bytes = c->m * ldy * sizeof(float);
    float *x = random_array(f, c->m * ldx), *w = random_array(f, c->n * c->k);
    float *bias = random_array(f, c->n), *row = malloc(c->k * sizeof *row);
    double *rounded_x = malloc(c->k * sizeof *rounded_x);
    if (c->extreme) {
        make_extreme(x, c->m, ldx);
        make_extreme(w, c->n, c->k);
    }
    for (size_t i = 0; i < c->m * ldx; i++)
        x[i] = i % ldx < c->k ? x[i] : NAN; /* what lies behind a row is not read */
    unsigned char *all = guarded(bytes);
    uint32_t untouched;
    memset(&untouched, 0x5c, sizeof untouched);
    float *y = (float *)(void *)(all + GUARD);
    rounded r = round_of(c->type, w, c->n, c->k, 1);
    qkv_exec e = {.threads = c->threads, .scratch = f->scratch};
    const qkv_kernels *kernels = kernels_of(c->isa);
    (c->many ? kernels->small_many : kernels->small)(&e, y, ldy, x, ldx, &r.w,
                                                     c->bias ? bias : NULL, c->m);
    check_guards(all, bytes);
    for (size_t i = 0; i < c->m; i++) {
        round_x(rounded_x, x + i * ldx, c->k, c->type, c->many && c->isa & QKV__BF16_AMX);
        for (size_t j = 0; j < ldy; j++) {
            if (j >= c->n) {
                assert_memory_equal(&y[i * ldy + j], &untouched, sizeof untouched);
                continue;
            }
            double sum = c->bias ? (double)bias[j] : 0, size = fabs(sum);
            qkv__small_reals(&r.w, j, row);
            for (size_t p = 0; p < c->k; p++) {
                sum += rounded_x[p] * (double)row[p];
                size += fabs(rounded_x[p] * (double)row[p]);
            }
            double allowed = FLT_EPSILON * (4 + sqrt((double)c->k)) * size;
            double got = (double)y[i * ldy + j];
            if (!(fabs(got - sum) <= allowed))
                fail_msg("isa %x, type %d, %zu x %zu x %zu, [%zu, %zu]: got %.9g, expected %.9g "
                         "within %.2g", c->isa, (int)c->type, c->m, c->n, c->k, i, j, got, sum,
                         allowed);
        }
    }
    free(x);
    free(w);
    free(bias);
    free(row);
    free(rounded_x);
    free(all);
    free_rounded(&r);
}

/* Every height of a tile, one and many of them, groups left over and cut anywhere, every way to
 * share the work among threads. */
static void test_products(void **state)
{
    fixture *f = *state;
    static const size_t widths[] = {1, 2, 3, 8, 31, 32, 33, 63, 64, 65, 127, 130, 193, 256};
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES && table_wanted(tables[t]); s++)
            for (size_t m = 1; m <= 20; m++)
                for (unsigned i = 0; i < 6; i++) {
                    product_case c = {tables[t], 1 + (int)(i % 3), types[s], m,
                                      1 + qkv_rng_below(&f->rng, 200),
                                      widths[qkv_rng_below(&f->rng, 14)], i & 2 ? 5 : 0, i & 1};
                    check_product(f, &c);
                }
}

static void test_big_products(void **state)
{
    fixture *f = *state;
    static const size_t shapes[][3] = {{1, 2003, 768}, {8, 515, 3072}, {400, 50, 96},
                                       {1300, 17, 500}, {67, 211, 31}};
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES && table_wanted(tables[t]); s++)
            for (size_t i = 0; i < 5; i++) {
                product_case c = {tables[t], 1 + (int)(i % 3) * 2, types[s], shapes[i][0],
                                  shapes[i][1], shapes[i][2], i, true};
                check_product(f, &c);
            }
}

/* The largest sums that integers make fit where they are added up. */
static void test_extremes(void **state)
{
    fixture *f = *state;
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES && table_wanted(tables[t]); s++)
            for (size_t m = 1; m <= 8; m++) {
                product_case c = {tables[t], 1, types[s], m, 40, 256, .extreme = true};
                check_product(f, &c);
            }
}

/* Of several rows: tiles that are not whole at any side, numbers along k that do not fill one, more
 * rows than a block has. Integers give the bits that they give row by row. */
static void test_many_rows(void **state)
{
    fixture *f = *state;
    static const size_t widths[] = {1, 2, 31, 32, 33, 63, 64, 65, 130, 193, 256, 400};
    static const size_t shapes[][3] = {{300, 80, 768}, {600, 33, 96}, {40, 40, 3000}};
    for (size_t t = 0; t <= TABLES; t++)
        for (size_t s = 0; s < TYPES; s++) {
            product_case c = {t < TABLES ? tables[t] : AMX, 1, types[s], .many = true};
            if (!table_wanted(c.isa) || (t == TABLES && !qkv__cpu_amx()))
                continue;
            for (c.m = 1; c.m <= 70; c.m += c.m < 35 ? 1 : 7) {
                c.n = 1 + qkv_rng_below(&f->rng, 90);
                c.k = widths[qkv_rng_below(&f->rng, 12)];
                c.threads = 1 + (int)(c.m % 3);
                c.pad = c.m & 2 ? 5 : 0;
                c.bias = c.m & 1;
                check_product(f, &c);
            }
            for (size_t i = 0; i < 3; i++) {
                c = (product_case){c.isa, 1 + (int)i, c.type, shapes[i][0], shapes[i][1],
                                   shapes[i][2], i, true, true};
                check_product(f, &c);
            }
        }
}

static void test_many_rows_same_bits(void **state)
{
    fixture *f = *state;
    enum { N = 100, K = 330, M = 50 };
    float *x = random_array(f, M * K), *w = random_array(f, N * K), *y = array_of(N);
    float *all = array_of(M * N);
    for (size_t s = 1; s < TYPES && qkv__cpu_amx(); s++)
        for (size_t m = 1; m <= M; m += 7) {
            rounded r = round_of(types[s], w, N, K, 2);
            qkv_exec e = {.threads = 2, .scratch = f->scratch};
            kernels_of(AMX)->small_many(&e, all, N, x, K, &r.w, x, m);
            for (size_t i = 0; i < m; i++) {
                kernels_of(tables[i % TABLES + (i % TABLES == 0)])->small(&e, y, N, x + i * K, K,
                                                                           &r.w, x, 1);
                assert_memory_equal(y, all + i * N, N * sizeof *y);
            }
            free_rounded(&r);
        }
    free(x);
    free(w);
    free(y);
    free(all);
}

/* A row of x that holds no number gives none, and other rows do not notice. */
static void test_not_a_number(void **state)
{
    fixture *f = *state;
    enum { M = 9, N = 20, K = 130 };
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t <= TABLES; t++)
        for (size_t s = 0; s < TYPES && table_wanted(t < TABLES ? tables[t] : AMX); s++)
            for (size_t v = 0; v < 3; v++) {
                float *x = random_array(f, M * K), *w = random_array(f, N * K);
                float *y = array_of(M * N);
                rounded r = round_of(types[s], w, N, K, 1);
                qkv_exec e = {.threads = 2, .scratch = f->scratch};
                x[2 * K + 70] = values[v];
                if (t == TABLES)
                    kernels_of(AMX)->small_many(&e, y, N, x, K, &r.w, NULL, M);
                else
                    kernels_of(tables[t])->small(&e, y, N, x, K, &r.w, NULL, M);
                for (size_t i = 0; i < M * N; i++)
                    assert_int_equal(isfinite(y[i]) != 0, i / N != 2);
                free(x);
                free(w);
                free(y);
                free_rounded(&r);
            }
}

/* A row's result does not depend on the rows beside it, nor on threads. */
static void test_rows_stand_alone(void **state)
{
    fixture *f = *state;
    enum { M = 13, N = 100, K = 200 };
    float *x = random_array(f, M * K), *w = random_array(f, N * K);
    float *all = array_of(M * N), *one = array_of(N);
    for (size_t t = 0; t < TABLES; t++)
        for (size_t s = 0; s < TYPES && table_wanted(tables[t]); s++) {
            rounded r = round_of(types[s], w, N, K, 2);
            qkv_exec e = {.threads = 3, .scratch = f->scratch};
            const qkv_kernels *k = kernels_of(tables[t]);
            k->small(&e, all, N, x, K, &r.w, NULL, M);
            e.threads = 1;
            for (size_t i = 0; i < M; i++) {
                k->small(&e, one, N, x + i * K, K, &r.w, NULL, 1);
                assert_memory_equal(one, all + i * N, N * sizeof *one);
            }
            free_rounded(&r);
        }
    free(x);
    free(w);
    free(all);
    free(one);
}

static void test_embedding(void **state)
{
    fixture *f = *state;
    enum { ROWS = 37, C = 70, N = 9 };
    float *w = random_array(f, ROWS * C), *places = random_array(f, N * C), *y = array_of(N * C);
    float row[C];
    int32_t *ids = ids_of(N), *positions = ids_of(N);
    for (size_t s = 0; s < TYPES; s++) {
        rounded r = round_of(types[s], w, ROWS, C, 1);
        qkv_exec e = {.threads = 2, .scratch = f->scratch};
        for (size_t i = 0; i < N; i++) {
            ids[i] = (int32_t)qkv_rng_below(&f->rng, ROWS);
            positions[i] = (int32_t)(N - 1 - i);
        }
        for (size_t t = 0; t < 2 * TABLES; t++) {
            if (!table_wanted(tables[t / 2]))
                continue;
            const size_t with = t % 2;
            kernels_of(tables[t / 2])->embed_small(&e, y, ids, &r.w, 3, with ? positions : NULL,
                                                    with ? places : NULL, N);
            for (size_t i = 0; i < N * C; i++) {
                if (i % C == 0)
                    qkv__small_reals(&r.w, (size_t)ids[i / C], row);
                float place = with ? places[(N - 1 - i / C) * C + i % C] : 0;
                assert_true(y[i] == 3 * row[i % C] + place);
            }
        }
        free_rounded(&r);
    }
    free(w);
    free(places);
    free(y);
    free(ids);
    free(positions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),      cmocka_unit_test(test_big_products),
        cmocka_unit_test(test_many_rows),     cmocka_unit_test(test_many_rows_same_bits),
        cmocka_unit_test(test_not_a_number),  cmocka_unit_test(test_rows_stand_alone),
        cmocka_unit_test(test_embedding),     cmocka_unit_test(test_extremes),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
