/* test_gathered.c - updates of many parameters, one after another: a device that puts them off and
 * joins them must give the bits that they have one by one, whatever one reads or writes of
 * another's, and whatever is asked for in between. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "kernels.h"

enum { ROOM = 24000, MOST = 300, PROGRAMS = 24, LENGTH = 120, ARRAYS_OF = 5 };
enum { SGD, RMSPROP, ADAM, ADAMW, LERP, SWAP, ADD, SUM, COPY_IN, KINDS };

typedef struct {
    int kind;
    size_t n, at[ARRAYS_OF]; /* of numbers: where its arrays begin */
    bool use[2];             /* rmsprop's and sgd's states */
    qkv_k_update_args args;
    float data[4];
} step;

/* Some kind often follows itself. Arrays of one step lie apart; those of two may meet. */
static step draw(const step *last, size_t *front)
{
    const bool same = last && qkv_rng_below(&kt.rng, 8), apart = qkv_rng_below(&kt.rng, 8);
    step s = {.kind = same ? last->kind : (int)qkv_rng_below(&kt.rng, KINDS),
              .n = qkv_rng_below(&kt.rng, MOST), .use = {coin(), coin()}};
    const size_t need = ARRAYS_OF * (size_t)(MOST + 4);
    size_t at = apart ? *front : qkv_rng_below(&kt.rng, ROOM - need);
    at = at + need > ROOM ? 0 : at;
    for (int i = 0; i < ARRAYS_OF; i++) {
        s.at[i] = coin() ? (at + 3) / 4 * 4 : at;
        at = s.at[i] + s.n;
    }
    if (apart)
        *front = at;
    s.args = (qkv_k_update_args){
        .lr = 0.01, .weight_decay = coin() ? 0.1 : 0, .grad_scale = 0.4, .momentum = 0.9,
        .dampening = 0.2, .nesterov = coin(), .first = coin(), .alpha = 0.97, .eps = 1e-3,
        .beta1 = 0.9, .beta2 = 0.99, .correction1 = 0.1, .correction2 = 0.2};
    for (int i = 0; i < 4; i++)
        s.data[i] = (float)rnd();
    return s;
}

static void put(const kernel_case *c, float *to, const float *from, size_t n)
{
    if (table_is_device(c->k))
        kernels_copy_in(to, from, n * sizeof *to);
    else
        memcpy(to, from, n * sizeof *to);
}

static void get(const kernel_case *c, float *to, const float *from, size_t n)
{
    if (table_is_device(c->k))
        kernels_copy_out(to, from, n * sizeof *to);
    else
        memcpy(to, from, n * sizeof *to);
}

/* Of numbers; sums adds up what was read. */
static void carry_out(const kernel_case *c, const step *s, float *numbers, double *sums)
{
    float *a[ARRAYS_OF];
    for (int i = 0; i < ARRAYS_OF; i++)
        a[i] = numbers + s->at[i];
    float *s2 = s->use[0] ? a[2] : NULL, *s3 = s->use[1] ? a[3] : NULL;
    switch (s->kind) {
    case SGD: c->k->sgd(&c->e, a[0], s2, NULL, NULL, a[4], &s->args, s->n); break;
    case RMSPROP: c->k->rmsprop(&c->e, a[0], a[1], s2, s3, a[4], &s->args, s->n); break;
    case ADAM: c->k->adam(&c->e, a[0], a[1], a[2], NULL, a[4], &s->args, s->n); break;
    case ADAMW: c->k->adamw(&c->e, a[0], a[1], a[2], NULL, a[4], &s->args, s->n); break;
    case LERP: c->k->lerp(&c->e, a[0], a[1], 0.3, s->n); break;
    case SWAP: c->k->swap(&c->e, a[0], a[1], s->n); break;
    case ADD: c->k->add(&c->e, a[0], a[1], a[2], s->n); break;
    case SUM: *sums += c->k->sum(&c->e, a[0], s->n); break;
    default: put(c, a[0], s->data, s->n < 4 ? s->n : 4);
    }
}

/* The numbers after a program, of steps that are waited for, each, or not. */
static double run_program(const kernel_case *c, const step *steps, float *numbers,
                          const float *first, float *end, bool wait)
{
    double sums = 0;
    put(c, numbers, first, ROOM);
    if (table_is_device(c->k))
        kernels_wait = wait;
    for (int i = 0; i < LENGTH; i++)
        carry_out(c, &steps[i], numbers, &sums);
    get(c, end, numbers, ROOM);
    if (table_is_device(c->k))
        kernels_wait = true;
    return sums;
}

/* Positive numbers at first: updates take roots of some. */
static void check_programs(const kernel_case *c)
{
    float *numbers = poisoned(ROOM), *first = poisoned(ROOM), *one = poisoned(ROOM);
    float *many = poisoned(ROOM);
    for (int i = 0; i < PROGRAMS; i++) {
        step steps[LENGTH];
        size_t front = 0;
        for (size_t k = 0; k < ROOM; k++)
            first[k] = fabsf((float)rnd());
        for (int k = 0; k < LENGTH; k++)
            steps[k] = draw(k ? &steps[k - 1] : NULL, &front);
        const double sum = run_program(c, steps, numbers, first, one, true);
        const double other = run_program(c, steps, numbers, first, many, false);
        assert_memory_equal(&sum, &other, sizeof sum);
        assert_memory_equal(one, many, ROOM * sizeof *one);
    }
    free_arrays();
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
    const kernel_case *c;
    float *x, *y;
    int wrong;
} worker;

/* x and y, of zeros and ones, are exchanged; then x goes half the way to y. */
static void *exchange_often(void *job)
{
    enum { ROUNDS = 300 };
    worker *w = job;
    for (int round = 0; round < ROUNDS; round++) {
        float zero = 0, one = 1, x, y;
        put(w->c, w->x, &zero, 1);
        put(w->c, w->y, &one, 1);
        w->c->k->swap(&w->c->e, w->x, w->y, 1);
        w->c->k->lerp(&w->c->e, w->y, w->x, 0.5, 1);
        get(w->c, &x, w->x, 1);
        get(w->c, &y, w->y, 1);
        w->wrong += x != 1 || y != 0.5f;
    }
    return NULL;
}

static void check_threads(const kernel_case *c)
{
    worker workers[3];
    pthread_t threads[3];
    if (table_is_device(c->k))
        kernels_wait = false;
    for (int i = 0; i < 3; i++) {
        workers[i] = (worker){c, poisoned(1), poisoned(1), 0};
        assert_int_equal(pthread_create(&threads[i], NULL, exchange_often, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
    if (table_is_device(c->k))
        kernels_wait = true;
    free_arrays();
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_programs), KERNEL_CHECK(check_threads)};
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
