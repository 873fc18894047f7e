/* test_sequences.c - kernels one after another, as inference of a few rows calls them: what one
 * writes the next reads, overwrites, or has nothing to do with. A device that puts small kernels
 * off, joins them or reorders them must give what they give one by one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "kernel/small.h"
#include "kernels.h"

enum {
    BUFFERS = 8, M = 3, WIDE = 256, ROOM = M * WIDE, VOCABULARY = 40, HEADS = 2, D = 32, KEYS = 5,
    C = HEADS * D, BEST_ROOM = 2 * M + M * HEADS, PROGRAMS = 150,
    LONGEST = 14
};

/* The same numbers twice: those of the table that is tried, and of the plain kernels. */
typedef struct {
    const qkv_kernels *k;
    qkv_exec e;
    bool device;
    float *x[BUFFERS], *cache[2];
    void *store[2]; /* a cache of bf16 */
    int32_t *ids, *places, *best;
    float *best_value;
} machine;

static struct {
    float *w, *bias, *weight, *table;
    double *frequency;
    qkv_k_small small[3]; /* (WIDE, WIDE) of each type */
} fixed;

static void put(const machine *m, void *to, const void *from, size_t bytes)
{
    if (m->device)
        kernels_copy_in(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void get(const machine *m, void *to, const void *from, size_t bytes)
{
    if (m->device)
        kernels_copy_out(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static const size_t in_turn[M] = {0, 1, 2};

/* ---- one kernel, of numbers drawn beforehand ------------------------------------------------- */

typedef struct {
    int kind, y, a, b, c; /* buffers, all different */
    size_t m, width, n;
    unsigned choice;
    int32_t ids[M];
    float data[C];
} step;

enum {
    GEMV, SMALL, NORM, RESIDUAL_NORM, ACT, ADD, ADD_IN_PLACE, COPY, PARTS, GATED, SOFTMAX, COPY_IN,
    COPY_OUT, EMBED, ROTARY, CACHE, STORE, BEST, AXPY, MUL, SUMS, BLOCK, MADE, STEPS
};

static void attend(const machine *m, const step *s, size_t y, size_t q)
{
    const size_t begin[] = {0}, queries[] = {s->m}, keys[] = {KEYS};
    const qkv_k_attention_args a = {
        .B = 1, .H = HEADS, .Hkv = HEADS, .D = D, .Dv = D, .q_begin = begin, .q_len = queries,
        .k_begin = begin, .k_len = keys, .k_len_full = keys, .q_row = 3 * C, .q_head = D,
        .k_row = C, .k_head = D, .v_row = C, .v_head = D, .o_row = C, .o_head = D, .scale = 0.2,
        .causal = s->choice % 2};
    m->k->attention(&m->e, m->x[y], m->best_value + 2 * M, m->x[q], m->cache[0], m->cache[1], &a);
}

/* What a decoder's block asks for. */
static void block(const machine *m, const step *s)
{
    const qkv_k_norm_args norm = {.rms = s->choice % 2, .eps = 1e-5, .N = s->m, .C = C};
    const size_t dense[] = {D, 1}, from[] = {3 * C, 1};
    float *x = m->x[s->y], *y = m->x[s->a], *wide = m->x[s->b], *sum = m->x[s->c];
    m->k->norm(&m->e, y, NULL, NULL, NULL, x, NULL, fixed.weight, fixed.bias, &norm);
    m->k->gemv(&m->e, wide, 3 * C, y, C, fixed.w, fixed.bias, s->m, 3 * C, C);
    for (int side = 0; side < 2; side++) { /* the last rows of the cache: some heads of them */
        float *to = m->cache[side] + (KEYS - s->m) * C, *made = wide + (side + 1) * C;
        if (s->choice & 8)
            m->k->kv_store(&m->e, to, NULL, made, 3 * C, D, in_turn, QKV_K_KV_REAL, s->m, 1, D);
        else
            m->k->copy(&m->e, to, dense, made, from, (size_t[]){s->m, D}, 2, false);
    }
    attend(m, s, (size_t)s->a, (size_t)s->b);
    m->k->gemv(&m->e, sum, C, y, C, fixed.w, NULL, s->m, C, C);
    m->k->norm(&m->e, y, s->choice & 2 ? sum : wide, NULL, NULL, sum, x, fixed.weight, NULL, &norm);
    float *stream = s->choice & 2 ? sum : wide, *inner = s->choice & 2 ? wide : sum;
    m->k->gemv(&m->e, inner, WIDE, y, C, fixed.w, fixed.bias, s->m, WIDE, C);
    m->k->act(&m->e, inner, inner, QKV_K_GELU_TANH, s->m * WIDE);
    m->k->gemv(&m->e, y, C, inner, WIDE, fixed.w, fixed.bias, s->m, C, WIDE);
    m->k->add(&m->e, s->choice & 4 ? y : stream, stream, y, s->m * C);
    m->k->copy(&m->e, x, dense + 1, s->choice & 4 ? y : stream, dense + 1, (size_t[]){s->m * C}, 1,
               false);
}

static void carry_out(const machine *m, const step *s)
{
    const qkv_k_norm_args norm = {.rms = s->choice % 2, .eps = 1e-5, .N = s->m, .C = s->width};
    const size_t n = s->m * s->width, one[] = {1}, count[] = {s->n};
    float *y = m->x[s->y];
    const float *a = m->x[s->a], *b = m->x[s->b];
    const qkv_k_rotary_args turn = {.N = s->m, .H = HEADS, .D = D, .width = D - 8, .sx = C, .hx = D,
                                    .sy = C, .hy = D, .frequency = fixed.frequency, .scale = 1,
                                    .sign = 1};
    const qkv_k_top_args top = {.N = s->m, .V = s->width, .k = 1 + s->choice % 2};
    switch (s->kind) {
    case GEMV:
        m->k->gemv(&m->e, y, s->width, a, C, fixed.w, fixed.bias, s->m, s->width, C);
        break;
    case MADE: /* of weights that another kernel has made */
        m->k->gemv(&m->e, y, ROOM / C, a, C, b, NULL, s->m, ROOM / C, C);
        break;
    case SMALL:
        m->k->small(&m->e, y, WIDE, a, WIDE, &fixed.small[s->choice % 3], fixed.bias, s->m);
        break;
    case NORM:
        m->k->norm(&m->e, y, NULL, NULL, NULL, a, NULL, fixed.weight, fixed.bias, &norm);
        break;
    case RESIDUAL_NORM:
        m->k->norm(&m->e, y, m->x[s->c], NULL, NULL, a, b, fixed.weight, fixed.bias, &norm);
        break;
    case ACT: m->k->act(&m->e, y, s->choice & 8 ? y : a, s->choice % QKV_K_ACT_COUNT, n); break;
    case ADD: m->k->add(&m->e, y, a, b, n); break;
    case ADD_IN_PLACE: m->k->add(&m->e, y, y, b, n); break;
    case COPY: m->k->copy(&m->e, y + s->m, one, a + s->n % 7, one, count, 1, false); break;
    case PARTS:
        m->k->copy(&m->e, y, (size_t[]){C, 1}, a + D, (size_t[]){WIDE, 1}, (size_t[]){s->m, C}, 2,
                   s->choice & 16);
        break;
    case GATED:
        m->k->gated(&m->e, y, a, 2 * C, a + C, 2 * C, s->choice % QKV_K_ACT_COUNT, s->m, C);
        break;
    case SOFTMAX: m->k->softmax(&m->e, y, a, s->m, s->width); break;
    case COPY_IN: put(m, y, s->data, sizeof s->data); break;
    case EMBED:
        put(m, m->ids, s->ids, s->m * sizeof *s->ids);
        m->k->embed(&m->e, y, m->ids, fixed.table, 2, m->ids, fixed.table, s->m, C);
        break;
    case ROTARY:
        put(m, m->places, s->ids, s->m * sizeof *s->ids);
        m->k->rotary(&m->e, y, a, m->places, &turn);
        break;
    case CACHE: attend(m, s, (size_t)s->y, (size_t)s->a); break;
    case STORE:
        m->k->kv_store(&m->e, m->store[0], NULL, a, WIDE, D, in_turn, QKV_K_KV_BF16, s->m, HEADS,
                       D);
        m->k->kv_load(&m->e, y, m->store[0], NULL, QKV_K_KV_BF16, s->m * HEADS, D);
        break;
    case BEST: m->k->top(&m->e, m->best_value, m->best, a, &top); break;
    case AXPY: m->k->axpy(&m->e, y, a, 0.5, s->choice % 2, n); break;
    case MUL: m->k->mul(&m->e, y, a, b, false, n); break;
    case SUMS: m->k->sum_rows(&m->e, y, a, s->width, false, s->m, s->width); break;
    case BLOCK: block(m, s); break;
    default: break; /* COPY_OUT: of whoever compares */
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

static step draw(void)
{
    static const size_t widths[] = {C, 2 * C, 3 * C, WIDE};
    step s = {.kind = (int)qkv_rng_below(&kt.rng, STEPS), .m = 1 + qkv_rng_below(&kt.rng, M),
              .width = widths[qkv_rng_below(&kt.rng, 4)], .n = 1 + qkv_rng_below(&kt.rng, WIDE),
              .choice = (unsigned)qkv_rng_below(&kt.rng, 1u << 16)};
    int order[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        int at = (int)qkv_rng_below(&kt.rng, (uint32_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    s.y = order[0], s.a = order[1], s.b = order[2], s.c = order[3];
    if (qkv_rng_below(&kt.rng, 3) == 0)
        s.kind = BLOCK;
    for (int i = 0; i < M; i++)
        s.ids[i] = (int32_t)qkv_rng_below(&kt.rng, VOCABULARY);
    for (int i = 0; i < C; i++)
        s.data[i] = (float)rnd();
    return s;
}

static void compare(const char *what, const machine *m, const float *got, const float *want,
                    size_t n)
{
    float copy[ROOM];
    double squares = 0;
    get(m, copy, got, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        squares += isfinite(want[i]) ? (double)want[i] * (double)want[i] : 0;
    for (size_t i = 0; i < n; i++)
        near_at(what, i, copy[i], (double)want[i], 5e-3, sqrt(squares / (double)n));
}

static void fill(const machine *m, const machine *plain)
{
    float numbers[ROOM];
    for (int b = 0; b < BUFFERS + 2; b++) {
        const size_t n = b < BUFFERS ? ROOM : KEYS * C;
        for (size_t i = 0; i < n; i++)
            numbers[i] = (float)rnd();
        put(m, b < BUFFERS ? m->x[b] : m->cache[b - BUFFERS], numbers, n * sizeof *numbers);
        put(plain, b < BUFFERS ? plain->x[b] : plain->cache[b - BUFFERS], numbers,
            n * sizeof *numbers);
    }
}

/* Numbers that grow beyond what a comparison can tell apart end a program. */
static bool tame(const machine *plain)
{
    for (int b = 0; b < BUFFERS; b++)
        for (size_t i = 0; i < ROOM; i++)
            if (!(fabsf(plain->x[b][i]) < 1e3f))
                return false;
    return true;
}

static void run_program(const machine *m, const machine *plain)
{
    char what[32];
    const size_t length = 2 + qkv_rng_below(&kt.rng, LONGEST - 1);
    fill(m, plain);
    for (size_t i = 0; i < length && tame(plain); i++) {
        const step s = draw();
        carry_out(m, &s);
        carry_out(plain, &s);
        if (s.kind == COPY_OUT)
            compare("in between", m, m->x[s.a], plain->x[s.a], ROOM);
    }
    for (int b = 0; b < BUFFERS && tame(plain); b++) {
        snprintf(what, sizeof what, "buffer %d", b);
        compare(what, m, m->x[b], plain->x[b], ROOM);
    }
    compare("the best and lse", m, m->best_value, plain->best_value, BEST_ROOM);
}

/* ---- set up ---------------------------------------------------------------------------------- */

static machine machine_of(const qkv_kernels *k, const qkv_exec *e, bool device)
{
    machine m = {.k = k, .e = *e, .device = device};
    for (int b = 0; b < BUFFERS; b++)
        m.x[b] = poisoned(ROOM);
    for (int side = 0; side < 2; side++) {
        m.cache[side] = poisoned(KEYS * C);
        m.store[side] = poisoned(M * C);
    }
    m.ids = (int32_t *)(void *)poisoned(M);
    m.places = (int32_t *)(void *)poisoned(M);
    m.best = (int32_t *)(void *)poisoned(2 * M);
    m.best_value = poisoned(BEST_ROOM);
    return m;
}

static void set_up(void)
{
    static const qkv_k_small_type types[] = {QKV_K_BF16, QKV_K_INT8, QKV_K_INT4};
    fixed.w = randoms(WIDE * WIDE);
    for (size_t i = 0; i < WIDE * WIDE; i++)
        fixed.w[i] *= 0.1f;
    fixed.bias = randoms(WIDE);
    fixed.weight = randoms(WIDE);
    fixed.table = randoms(VOCABULARY * C);
    fixed.frequency = (double *)(void *)poisoned(2 * D);
    for (int i = 0; i < D; i++)
        fixed.frequency[i] = pow(10, -i / 8.0);
    for (int t = 0; t < 3; t++) {
        qkv_k_small *w = &fixed.small[t];
        *w = (qkv_k_small){.type = types[t], .n = WIDE, .k = WIDE};
        w->words = poisoned(qkv__small_word_bytes(w) / sizeof(float));
        w->scales = poisoned(qkv__small_scale_bytes(w) / sizeof(float) + 1);
        qkv__small_round_all(w, fixed.w, 1);
    }
}

static void check_sequences(const kernel_case *c)
{
    const bool device = table_is_device(c->k);
    set_up();
    const machine m = machine_of(c->k, &c->e, device);
    const machine plain = machine_of(qkv__kernels(QKV_ISA_REFERENCE), &c->e, false);
    if (device)
        kernels_wait = false;
    for (int i = 0; i < PROGRAMS; i++)
        run_program(&m, &plain);
    if (device)
        kernels_wait = true;
    free_arrays();
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_sequences)};
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
