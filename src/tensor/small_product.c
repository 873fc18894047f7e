/* small_product.c - y = x w^T + bias with weights in fewer bits: which of the ways to compute it
 * serves how many rows of x. The ways for several rows are timed once a context and type of
 * weights, because a processor's list of instructions does not tell which is fastest.
 *
 * Few rows, and rows that must not depend on their number, take the kernel `small`. For more rows
 * weights in bf16 are widened to f32, some columns of y at a time, and multiplied as f32 is, or
 * with x rounded to bf16 by the ways that training has; AMX takes all types as they lie. */
#include "kernel/small.h"
#include "tensor/param.h"
#include "tensor/tape.h"

/* Least rows of x for AMX, by the type of weights (4 bits are unpacked to bytes first), and for the
 * ways that widen w. */
static const size_t amx_rows[] = {[QKV_K_BF16] = 4, [QKV_K_INT8] = 4, [QKV_K_INT4] = 32};
enum { WIDE_ROWS = 64 };
/* The two products timed, of few and of many rows, and how often: the median counts. */
enum { FEW_ROWS = WIDE_ROWS, MANY_ROWS = 512, TIMED_OUT = 1024, TIMED_IN = 768, TRIES = 5 };
/* Widened at a time: at most, with few rows of x what second caches hold, so that widening is fast;
 * with many, which reread x for each part, more; and at least. */
enum { WIDE_FEW = 1 << 19, WIDE_MANY = 1 << 21, WIDE_COLUMNS = 64 };
/* How much faster with many rows of x the kernel `small` must be than ways that widen: its rate
 * falls more when others use the processor. Prompts of 1,024 (qkv bench prompt --weights bf16) had
 * 502 to 602 tokens/s where it was chosen, 520 to 783 with f32 (family 25 model 1, two threads). */
static const double plain_many_lead = 1.25;

/* A product's operands. */
typedef struct {
    qkv_real *y;
    const qkv_real *x, *bias;
    const qkv_k_small *w;
    size_t m;
} small_operands;

/* Rows of w that are widened at a time for m rows of x: a multiple of QKV_K_PACKED. */
static size_t wide_columns(const qkv_k_small *w, size_t m)
{
    size_t most = (m < MANY_ROWS ? WIDE_FEW : WIDE_MANY) / w->k / QKV_K_PACKED * QKV_K_PACKED;
    most = most > WIDE_COLUMNS ? most : WIDE_COLUMNS;
    return most < w->n ? most : (w->n + QKV_K_PACKED - 1) / QKV_K_PACKED * QKV_K_PACKED;
}

/* Widens w for some columns of y at a time and multiplies as f32 or bf16 is. */
static bool multiply_wide(const qkv_kernels *k, const qkv_exec *e, const small_operands *o)
{
    size_t K = o->w->k, N = o->w->n, columns = wide_columns(o->w, o->m);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    qkv_real *wide = qkv__arena_alloc(e->scratch, K * columns * sizeof *wide);
    for (size_t j = 0; j < N && wide; j += columns) {
        size_t n = N - j < columns ? N - j : columns;
        k->widen(e, wide, columns, o->w, j, n);
        k->gemm(e, o->y + j, o->x, wide,
                &(qkv_k_gemm_args){false, false, false, o->m, n, K, K, columns, N,
                                   o->bias ? o->bias + j : NULL, 0});
    }
    qkv__arena_release(e->scratch, mark);
    return wide;
}

/* Multiplies in that way; false: no memory. */
static bool small_multiply(qkv__small_way way, const qkv_kernels *k, const qkv_exec *e,
                           const small_operands *o)
{
    if (way == QKV__SMALL_WIDE)
        return multiply_wide(k, e, o);
    (way == QKV__SMALL_MANY ? k->small_many : k->small)(e, o->y, o->w->n, o->x, o->w->k, o->w,
                                                        o->bias, o->m);
    return true;
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* The ways, each with the kind of products whose table has its kernels. */
static const qkv__small_choice choices[] = {
    {QKV__SMALL_PLAIN, QKV__PRODUCTS_F32},   {QKV__SMALL_WIDE, QKV__PRODUCTS_F32},
    {QKV__SMALL_WIDE, QKV__PRODUCTS_BF16},   {QKV__SMALL_WIDE, QKV__PRODUCTS_LIBRARY},
    {QKV__SMALL_MANY, QKV__PRODUCTS_AMX}};
enum { CHOICES = sizeof choices / sizeof *choices };

static bool small_way_exists(const qkv_context *ctx, qkv_k_small_type type,
                             const qkv__small_choice *c)
{
    return qkv__products_exist(ctx, c->products) &&
           (type == QKV_K_BF16 || c->way != QKV__SMALL_WIDE);
}

/* With the threads that will multiply, because one may run at another clock. 0: no memory. */
static double time_way(const qkv_context *ctx, const qkv__small_choice *c, const qkv_exec *e,
                       const small_operands *o)
{
    const qkv_kernels *k =
        qkv__kernels(qkv_context_isa(ctx) | qkv__products_isa(c->products));
    double start = qkv_now();
    return small_multiply(c->way, k, e, o) ? qkv_now() - start : 0;
}

/* What a second of a way counts for this product. */
static double way_lead(const qkv__small_choice *c, const small_operands *o)
{
    bool widened = o->w->type == QKV_K_BF16 && o->m >= MANY_ROWS;
    return widened && c->way == QKV__SMALL_PLAIN ? plain_many_lead
                                                 : qkv__products_lead(c->products);
}

static void insert_sorted(double *sorted, size_t n, double x)
{
    for (; n && sorted[n - 1] > x; n--)
        sorted[n] = sorted[n - 1];
    sorted[n] = x;
}

/* Seconds of each way as they count, and which is the fastest. The clock changes, within one
 * product, too: by turns, and a moment of a fast clock does not choose. */
static size_t fastest_way(const qkv_context *ctx, qkv_k_small_type type, const qkv_exec *e,
                          const small_operands *o, double seconds[CHOICES])
{
    double tries[CHOICES][TRIES];
    for (size_t t = 0; t < TRIES; t++)
        for (size_t i = 0; i < CHOICES; i++) {
            bool exists = small_way_exists(ctx, type, &choices[i]);
            insert_sorted(tries[i], t, exists ? time_way(ctx, &choices[i], e, o) : 0);
        }
    size_t best = 0;
    for (size_t i = 0; i < CHOICES; i++) {
        seconds[i] = tries[i][TRIES / 2] * way_lead(&choices[i], o);
        if (seconds[i] > 0 && seconds[i] < seconds[best])
            best = i;
    }
    return best;
}

/* Widening costs the same for few rows as for many, so a way that loses with few may win with many.
 * Times are taken to grow evenly with the rows between the two that are timed. */
static qkv__small_plan plan_ways(const qkv_context *ctx, qkv_k_small_type type, const qkv_exec *e,
                                 small_operands *o)
{
    double few[CHOICES], many[CHOICES];
    o->m = FEW_ROWS;
    size_t a = fastest_way(ctx, type, e, o, few);
    o->m = MANY_ROWS;
    size_t b = fastest_way(ctx, type, e, o, many);
    double behind = few[b] - few[a], ahead = many[a] - many[b];
    double share = behind + ahead > 0 ? behind / (behind + ahead) : 0;
    return (qkv__small_plan){choices[a], choices[b],
                             FEW_ROWS + (size_t)(share * (MANY_ROWS - FEW_ROWS))};
}

static qkv__small_plan plain_plan(void)
{
    return (qkv__small_plan){choices[0], choices[0], 0};
}

/* A card reads few rows' weights as they lie; what it widens it multiplies in bf16. */
static qkv__small_plan choose_for_card(qkv_context *ctx, qkv_k_small_type type)
{
    const qkv__small_choice wide = {QKV__SMALL_WIDE, QKV__PRODUCTS_BF16};
    qkv__small_plan plan = {choices[0], type == QKV_K_BF16 ? wide : choices[0], WIDE_ROWS};
    qkv__context_choose_small(ctx, type, plan);
    return plan;
}

/* Without memory for the timing the plain way stays, until a later call. */
static qkv__small_plan time_choices(qkv_context *ctx, qkv_k_small_type type)
{
    const size_t numbers = MANY_ROWS * (TIMED_IN + TIMED_OUT);
    qkv_k_small w = {.type = type, .n = TIMED_OUT, .k = TIMED_IN};
    size_t words = qkv__small_word_bytes(&w), scales = qkv__small_scale_bytes(&w);
    qkv_exec e = qkv__exec_of(ctx, NULL);
    qkv__small_plan chosen = plain_plan();
    if (qkv__arena_create(&e.scratch, ctx, "scratch"))
        return chosen;
    qkv_real *x = qkv_malloc(ctx, numbers * sizeof *x);
    w.words = qkv_malloc(ctx, words + scales);
    if (x && w.words) {
        w.scales = (char *)w.words + words;
        qkv__small_clear(&w);
        for (size_t i = 0; i < numbers; i++)
            x[i] = (qkv_real)(i % 17) / 16;
        chosen = plan_ways(ctx, type, &e,
                           &(small_operands){x + MANY_ROWS * TIMED_IN, x, NULL, &w, 0});
        qkv__context_choose_small(ctx, type, chosen);
    }
    qkv_free(ctx, x);
    qkv_free(ctx, w.words);
    qkv__arena_destroy(e.scratch);
    return chosen;
}

static qkv__small_choice small_choice(qkv_context *ctx, qkv_k_small_type type, size_t m)
{
    qkv__small_plan plan = qkv__context_small(ctx, type);
    if (plan.few.way == QKV__SMALL_UNKNOWN)
        plan = qkv__context_meta(ctx)                  ? plain_plan()
               : qkv__context_device(ctx)->products ? choose_for_card(ctx, type)
                                                      : time_choices(ctx, type);
    return m < plan.from ? plan.few : plan.many;
}

void qkv__small_product(qkv_tape *t, qkv_real *y, const qkv_real *x, const qkv_k_small *w,
                        const qkv_real *bias, size_t m)
{
    const small_operands o = {y, x, bias, w, m};
    /* With integers every way gives the same bits. */
    bool alone = t->invariant && w->type == QKV_K_BF16;
    qkv__small_choice c = choices[0];
    if (m >= amx_rows[w->type] && !alone)
        c = small_choice(t->ctx, w->type, m);
    if (c.way == QKV__SMALL_WIDE && m < WIDE_ROWS)
        c = choices[0];
    const qkv_kernels *k = c.way == QKV__SMALL_PLAIN ? t->k : qkv__kernels_for(t->ctx, c.products);
    if (!small_multiply(c.way, k, &t->exec, &o))
        t->status = QKV_E_MEMORY;
}

void qkv__small_exact(qkv_tape *t, qkv_real *y, const qkv_real *x, const qkv_k_small *w,
                      const qkv_real *bias, size_t m)
{
    if (!multiply_wide(t->k, &t->exec, &(small_operands){y, x, bias, w, m}))
        t->status = QKV_E_MEMORY;
}

void qkv__small_input_gradient(qkv_tape *t, qkv_real *dx, bool acc, const qkv_real *dy,
                               const qkv_k_small *w, size_t m)
{
    size_t K = w->k, N = w->n, columns = wide_columns(w, m);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *wide = qkv__scratch(t, K * columns);
    for (size_t j = 0; j < N && wide; j += columns) {
        size_t n = N - j < columns ? N - j : columns;
        t->k->widen(&t->exec, wide, columns, w, j, n);
        t->k->gemm(&t->exec, dx, dy + j, wide,
                   &(qkv_k_gemm_args){false, true, acc || j, m, K, n, N, columns, K, NULL, 0});
    }
    qkv__arena_release(t->exec.scratch, mark);
}

const char *qkv_weights_products(qkv_context *ctx, qkv_weights weights)
{
    if (weights <= QKV_WEIGHTS_F32 || weights > QKV_WEIGHTS_INT4)
        return "f32";
    qkv__small_choice c = small_choice(ctx, qkv__small_type(weights), SIZE_MAX);
    return c.way == QKV__SMALL_PLAIN ? "vectors"
           : c.way == QKV__SMALL_MANY ? "AMX" : qkv__products_name(c.products);
}
