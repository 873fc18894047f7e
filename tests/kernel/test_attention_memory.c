/* test_attention_memory.c - attention and its gradients of arguments that lie in bf16, by a
 * device's kernels, against whole matrices of weights in double. Inputs are rounded before the
 * answers are computed: what is off is of the kernels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "attention_results.h"

/* Of programs that test a device's kernels (tests/cuda/tables.c). */
extern bool kernels_alone_write __attribute__((weak));

/* (rows, heads, width) of bf16 in a buffer that others may share. */
typedef struct {
    uint16_t *buffer, *data;
    size_t rows, heads, width, row, head, total;
} halves;

enum { POISON = 0x7fc5, TO = 16 / sizeof(uint16_t), JOINT = 4 };

static uint16_t half_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static uint16_t *half_at(const halves *x, size_t row, size_t head)
{
    return x->data + row * x->row + head * x->head;
}

static uint16_t *poisoned_halves(size_t n)
{
    uint16_t *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = POISON;
    return p;
}

/* layout 0: dense; 1: odd gaps; 2: heads outermost; 3: rows and heads to whole 16 bytes. */
static halves halves_make(size_t rows, size_t heads, size_t width, unsigned layout)
{
    halves x = {NULL, NULL, rows, heads, width, heads * width, width, 0};
    if (layout == 1) {
        x.head = width + 3;
        x.row = heads * x.head + 5;
    } else if (layout == 2) {
        x.head = rows * width;
        x.row = width;
    } else if (layout == 3) {
        x.head = (width + TO - 1) / TO * TO;
        x.row = heads * x.head + TO;
    }
    x.total = 2 * GUARD + rows * x.row + heads * x.head;
    x.buffer = poisoned_halves(x.total);
    x.data = x.buffer + GUARD;
    return x;
}

static void halves_set(const halves *x, const array *from)
{
    for (size_t n = 0; n < x->rows * x->heads; n++)
        for (size_t c = 0; c < x->width; c++)
            half_at(x, n / x->heads, n % x->heads)[c] =
                half_of(at(from, n / x->heads, n % x->heads)[c]);
}

/* In f32, dense. */
static array halves_widened(const halves *x)
{
    array y = array_make(x->rows, x->heads, x->width, 0);
    for (size_t n = 0; n < x->rows * x->heads; n++)
        for (size_t c = 0; c < x->width; c++)
            at(&y, n / x->heads, n % x->heads)[c] =
                qkv__bf16_number(half_at(x, n / x->heads, n % x->heads)[c]);
    return y;
}

/* Whether nothing else in the buffer was written to, of which all of `list` are parts. */
static bool untouched(const halves *list, size_t count)
{
    char *mine = calloc(list->total, 1);
    bool clean = true;
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < list[i].rows * list[i].heads; n++)
            memset(mine + (half_at(&list[i], n / list[i].heads, n % list[i].heads) - list->buffer),
                   1, list[i].width);
    for (size_t i = 0; i < list->total; i++)
        clean = clean && (mine[i] || list->buffer[i] == POISON);
    free(mine);
    return clean;
}

/* q, k and v, or what is like them: apart, or side by side in the rows of one matrix. */
static void three_make(halves *x, const problem *p, unsigned layout, dice *d)
{
    const array *like[3] = {&p->q, &p->k, &p->v};
    size_t row = 0, rows = p->q_rows > p->k_rows ? p->q_rows : p->k_rows;
    for (int i = 0; i < 3; i++) {
        const unsigned own = layout == JOINT ? 0 : layout ? layout : roll(d, 4);
        x[i] = halves_make(like[i]->rows, like[i]->heads, like[i]->width, own);
        row += like[i]->heads * like[i]->width;
    }
    if (layout != JOINT)
        return;
    const size_t total = 2 * GUARD + rows * row;
    uint16_t *buffer = poisoned_halves(total), *data = buffer + GUARD;
    for (int i = 0; i < 3; i++) {
        free(x[i].buffer);
        x[i].buffer = i ? NULL : buffer;
        x[i].data = data;
        x[i].row = row;
        x[i].total = total;
        data += x[i].heads * x[i].width;
    }
}

static bool three_untouched(const halves *x)
{
    return x[1].buffer ? untouched(x, 1) && untouched(x + 1, 1) && untouched(x + 2, 1)
                       : untouched(x, 3);
}

static void three_free(halves *x)
{
    for (int i = 0; i < 3; i++)
        free(x[i].buffer);
}

/* Inputs become numbers of bf16. */
static void round_array(array *x)
{
    for (size_t n = 0; n < x->rows * x->heads; n++)
        for (size_t c = 0; c < x->width; c++) {
            float *y = at(x, n / x->heads, n % x->heads) + c;
            *y = qkv__bf16_number(half_of(*y));
        }
}

static void check(const problem *p, const char *what, const halves *got, const double *answer,
                  const array *before, double tolerance)
{
    array x = halves_widened(got);
    double error = error_of(&x, answer, before);
    free(x.buffer);
    if (!(error <= tolerance))
        fail_case(p, QKV__BF16, what, error);
}

/* What the kernels read and write: inputs and gradients of q, k and v in the same layout. */
typedef struct {
    halves in[3], to[3], out, dout;
    array lse, dbias, before[3]; /* before: what gradients are added to */
} memory;

static memory memory_make(problem *p, unsigned layout, dice *d)
{
    const array *inputs[3] = {&p->q, &p->k, &p->v};
    const bool acc[3] = {p->w.acc_q, p->w.acc_k, p->w.acc_v};
    memory m;
    three_make(m.in, p, layout, d);
    three_make(m.to, p, layout, d);
    m.out = halves_make(p->q_rows, p->a.H, p->a.Dv, layout == JOINT ? 0 : roll(d, 4));
    m.dout = halves_make(p->q_rows, p->a.H, p->a.Dv, layout == JOINT ? 0 : roll(d, 4));
    m.lse = array_make(p->q_rows, p->a.H, 1, 0);
    m.dbias = copy_of(&p->bias);
    halves_set(&m.dout, &p->dout);
    for (int i = 0; i < 3; i++) {
        halves_set(&m.in[i], inputs[i]);
        m.before[i] = array_make(m.to[i].rows, m.to[i].heads, m.to[i].width, 0);
        array_fill(&m.before[i], d);
        round_array(&m.before[i]);
        if (acc[i])
            halves_set(&m.to[i], &m.before[i]);
    }
    p->a.q_row = m.in[0].row, p->a.q_head = m.in[0].head;
    p->a.k_row = m.in[1].row, p->a.k_head = m.in[1].head;
    p->a.v_row = m.in[2].row, p->a.v_head = m.in[2].head;
    p->a.o_row = m.out.row, p->a.o_head = m.out.head;
    p->w.do_row = m.dout.row, p->w.do_head = m.dout.head;
    p->w.dq_row = m.to[0].row, p->w.dq_head = m.to[0].head;
    p->w.dk_row = m.to[1].row, p->w.dk_head = m.to[1].head;
    p->w.dv_row = m.to[2].row, p->w.dv_head = m.to[2].head;
    return m;
}

static void memory_free(memory *m)
{
    three_free(m->in);
    three_free(m->to);
    free(m->out.buffer);
    free(m->dout.buffer);
    free(m->lse.buffer);
    free(m->dbias.buffer);
    for (int i = 0; i < 3; i++)
        free(m->before[i].buffer);
}

/* Bit i: parameter i of reals is bf16 (kernel.h). */
enum { FORWARD_BITS = 0x1d, BACKWARD_BITS = 0x3b7 };

static void run(memory *m, problem *p, const qkv_exec *exec)
{
    const qkv_kernels *k = qkv__kernels(AVX512 | QKV__BF16);
    qkv_exec e = *exec;
    qkv_real *in[3], *to[3];
    const bool want[3] = {p->want_q, p->want_k, p->want_v};
    for (int i = 0; i < 3; i++) {
        in[i] = (qkv_real *)m->in[i].data;
        to[i] = want[i] ? (qkv_real *)m->to[i].data : NULL;
    }
    poison_scratch(e.scratch);
    e.bf16 = FORWARD_BITS;
    k->attention(&e, (qkv_real *)m->out.data, m->lse.data, in[0], in[1], in[2], &p->a);
    assert_int_equal(qkv__arena_used(e.scratch), 0);
    poison_scratch(e.scratch);
    e.bf16 = BACKWARD_BITS;
    k->attention_bwd(&e, to[0], to[1], to[2],
                     p->a.bias ? m->dbias.data + (p->a.bias - p->bias.data) : NULL,
                     (qkv_real *)m->dout.data, (qkv_real *)m->out.data, m->lse.data, in[0], in[1],
                     in[2], &p->a, &p->w);
    assert_int_equal(qkv__arena_used(e.scratch), 0);
}

/* Of few keys gradients of scores are differences of nearly equal numbers, of which one comes from
 * the output as it was rounded. */
static double tolerance_of(const problem *p)
{
    return p->longest_k < 16 ? 5e-2 : p->a.bias ? 8e-3 : 1.2e-2;
}

static void check_problem(problem *p, unsigned layout, const qkv_exec *e, dice *d)
{
    const double tolerance = tolerance_of(p);
    const double *answers[3] = {p->dq, p->dk, p->dv};
    const char *names[3] = {"dq", "dk", "dv"};
    const bool acc[3] = {p->w.acc_q, p->w.acc_k, p->w.acc_v};
    const bool want[3] = {p->want_q, p->want_k, p->want_v};
    memory m = memory_make(p, layout, d);
    run(&m, p, e);
    check(p, "out", &m.out, p->out, NULL, tolerance);
    assert_true(error_of(&m.lse, p->lse, NULL) <= tolerance);
    for (int i = 0; i < 3; i++)
        if (want[i])
            check(p, names[i], &m.to[i], answers[i], acc[i] ? &m.before[i] : NULL, tolerance);
    if (p->a.bias)
        assert_true(error_of(&m.dbias, p->dbias, &p->bias) <= tolerance);
    assert_true(three_untouched(m.in) && three_untouched(m.to));
    assert_true(untouched(&m.out, 1) && untouched(&m.dout, 1));
    memory_free(&m);
}

/* channels: of every head; 0: as the recipe has them. */
static void check_recipe(const recipe *r, size_t channels, unsigned layout, uint64_t seed)
{
    qkv__arena *scratch;
    dice d = {seed * 991 + 7};
    problem p;
    if (!&kernels_alone_write || !machine_fills(AVX512 | QKV__BF16))
        skip();
    assert_int_equal(qkv__arena_create(&scratch, context, "scratch"), QKV_OK);
    problem_draw(&p, r, channels, &d);
    array *inputs[] = {&p.q, &p.k, &p.v, &p.dout};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        round_array(inputs[i]);
    problem_answers(&p);
    check_problem(&p, layout, &(qkv_exec){.threads = 1, .scratch = scratch}, &d);
    problem_free(&p);
    qkv__arena_destroy(scratch);
}

/* Of one joint matrix, as training has them. */
static void test_joint(void **state)
{
    (void)state;
    const size_t channels[] = {32, 64, 80, 128};
    for (size_t i = 0; i < 4; i++)
        for (unsigned n = 0; n < 6; n++) {
            const recipe r = {n < 2 ? 300 : 130, n < 2 ? 300 : 130, 64, .same = true,
                              .causal = n % 2, .window = n == 2, .dropout = n == 3,
                              .accumulate = n > 3, .packed = n == 5};
            check_recipe(&r, channels[i], JOINT, 10 * i + n);
        }
}

static void test_options(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 60; n++) {
        dice d = {n * 77 + 5};
        const recipe r = {16 + roll(&d, 130), 16 + roll(&d, 140), 100, .causal = roll(&d, 2),
                          .lengths = roll(&d, 2), .packed = roll(&d, 2),
                          .dropout = roll(&d, 3) == 0, .grouped = roll(&d, 2),
                          .accumulate = roll(&d, 2), .drop_outputs = roll(&d, 4) == 0,
                          .window = n % 4 == 0, .long_enough = true};
        check_recipe(&r, n % 3 ? 16 + 8 * roll(&d, 15) : 0, n % 5, 100 + n);
    }
}

/* What kernels of f32 serve: few queries or keys, a bias, wide and narrow heads. */
static void test_others(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 32; n++) {
        dice d = {n * 17 + 3};
        const recipe r = {n % 4 == 0 ? 5 : 60, n % 4 == 1 ? 9 : 80, n % 4 == 2 ? 300 : 40,
                          .causal = roll(&d, 2), .lengths = roll(&d, 2), .packed = roll(&d, 2),
                          .bias = n % 4 == 3, .dropout = n % 5 == 0, .grouped = roll(&d, 2),
                          .accumulate = roll(&d, 2), .drop_outputs = roll(&d, 4) == 0};
        check_recipe(&r, 0, n % 5, 300 + n);
    }
}

/* So many heads that a block of a card has all keys of one. */
static void test_many_heads(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 4; n++) {
        const recipe r = {90, 200, 64, .heads = 270, .causal = n % 2, .accumulate = n / 2,
                          .long_enough = true};
        check_recipe(&r, 32, n % 2 ? JOINT : 3, 400 + n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joint),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_many_heads),
    };
    return run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
}
