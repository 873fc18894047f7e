/* attention_results.h - what tests of attention's kernels share: the tables to try, the results of
 * the kernels on a problem and how far off they are. Include after cmocka.h. */
#ifndef ATTENTION_RESULTS_H
#define ATTENTION_RESULTS_H

#include <stdio.h>

#include "attention_problem.h"
#include "each.h"
#include "isas.h"

static qkv_context *context;

/* Every table: those in f32, then those that round operands to bf16. */
enum { AVX512 = QKV_ISA_AVX2 | QKV_ISA_AVX512 };
static const unsigned tables[] = { AVX512 | QKV__BF16, AVX512 | QKV__BF16_AMX };
enum { TABLES = ISAS + sizeof tables / sizeof *tables };

static inline unsigned table_of(size_t i) { return i < ISAS ? isa_list[i] : tables[i - ISAS]; }

static inline bool machine_fills(unsigned table)
{
    return table_wanted(table) && machine_has(table & ~(unsigned)QKV__BF16_ANY) &&
           (!(table & QKV__BF16_ANY) || table_rounds(table));
}

static inline int setup(void **state)
{
    (void)state;
    return qkv_context_create(&context, NULL) != QKV_OK;
}

static inline int teardown(void **state)
{
    (void)state;
    assert_int_equal(qkv_context_memory(context).live_bytes, 0);
    qkv_context_destroy(context);
    return 0;
}

/* Of one (rows, heads, width) result: max |error| over max |answer|, infinite after a NaN, a
 * stray write or an error where the answer is infinite. before: what was there, or NULL. */
static inline double error_of(const array *got, const double *answer, const array *before)
{
    double error = 0, largest = 0.5; /* inputs are about normal; one key makes dq 0 */
    for (size_t n = 0; n < got->rows * got->heads; n++) {
        const float *y = at(got, n / got->heads, n % got->heads);
        for (size_t c = 0; c < got->width; c++) {
            double want = answer[n * got->width + c];
            want += before ? (double)at(before, n / got->heads, n % got->heads)[c] : 0;
            if (isinf(want) && (double)y[c] == want) {
                continue;
            }
            double difference = fabs((double)y[c] - want);
            error = difference <= error ? error : isnan(difference) ? INFINITY : difference;
            largest = fabs(want) > largest ? fabs(want) : largest;
        }
    }
    return array_strays(got) ? INFINITY : error / largest;
}

/* A result buffer like the given array: poisoned, or with random numbers to add to. */
static inline array result(const array *like, bool accumulate, dice *d)
{
    array x = array_make(like->rows, like->heads, like->width, roll(d, 3));
    if (accumulate) {
        array_fill(&x, d);
    }
    return x;
}

static inline array copy_of(const array *x)
{
    array y = *x;
    y.buffer = malloc(x->total * sizeof *x->buffer);
    if (x->total)
        memcpy(y.buffer, x->buffer, x->total * sizeof *x->buffer);
    y.data = y.buffer + GUARD;
    return y;
}

typedef struct {
    array out, lse, dq, dk, dv, dbias;
} results;

enum { RESULTS = sizeof(results) / sizeof(array) };

static inline results results_make(const problem *p, dice *d)
{
    return (results){ result(&p->dout, false, d), array_make(p->q_rows, p->a.H, 1, 0),
                      result(&p->q, p->w.acc_q, d), result(&p->k, p->w.acc_k, d),
                      result(&p->v, p->w.acc_v, d), copy_of(&p->bias) };
}

static inline void results_free(results *r)
{
    array *all = &r->out;
    for (size_t i = 0; i < RESULTS; i++) {
        free(all[i].buffer);
    }
}

/* What kernels find in their scratch memory means nothing. */
static inline void poison_scratch(qkv__arena *scratch)
{
    enum { FLOATS = 1 << 20 };
    qkv__mark mark = qkv__arena_mark(scratch);
    float *p = qkv__arena_alloc(scratch, FLOATS * sizeof *p);
    for (size_t i = 0; p && i < FLOATS; i++)
        p[i] = poison();
    qkv__arena_release(scratch, mark);
}

static inline void run_kernels(results *r, problem *p, const qkv_kernels *k, const qkv_exec *e)
{
    p->a.o_row = r->out.row, p->a.o_head = r->out.head;
    p->w.do_row = r->out.row, p->w.do_head = r->out.head;
    array dout = copy_of(&r->out);
    poison_scratch(e->scratch);
    k->attention(e, r->out.data, r->lse.data, p->q.data, p->k.data, p->v.data, &p->a);
    for (size_t n = 0; n < dout.rows * dout.heads; n++) {
        memcpy(at(&dout, n / dout.heads, n % dout.heads),
               at(&p->dout, n / dout.heads, n % dout.heads), dout.width * sizeof(float));
    }
    poison_scratch(e->scratch);
    p->w.dq_row = r->dq.row, p->w.dq_head = r->dq.head;
    p->w.dk_row = r->dk.row, p->w.dk_head = r->dk.head;
    p->w.dv_row = r->dv.row, p->w.dv_head = r->dv.head;
    float *dbias = p->want_bias && p->a.bias ? r->dbias.data + (p->a.bias - p->bias.data) : NULL;
    k->attention_bwd(e, p->want_q ? r->dq.data : NULL, p->want_k ? r->dk.data : NULL,
                     p->want_v ? r->dv.data : NULL, dbias, dout.data, r->out.data, r->lse.data,
                     p->q.data, p->k.data, p->v.data, &p->a, &p->w);
    free(dout.buffer);
}

static inline void fail_case(const problem *p, unsigned isa, const char *what, double error)
{
    fail_msg("%s off by %g: isa %u, B %zu, H %zu/%zu, D %zu/%zu, T %zu, S %zu, causal %d, "
             "bias %d, dropout %g", what, error, isa, p->a.B, p->a.H, p->a.Hkv, p->a.D, p->a.Dv,
             p->longest_q, p->longest_k, p->a.causal, p->a.bias != NULL, p->a.dropout.p);
}

#endif
