/* test_uploads.c - kernels that are given lists of the host, the same ones again and again and
 * others between them: a device that keeps what it was sent must not take one for another, nor one
 * that is no longer there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROWS = 64, C = 3, LISTS = 24, MOVES = 50, LONG = 1 << 17 };

/* Rows that are written, then those that are read, twice: of the table, and as they should be. */
typedef struct {
    float *x, *want;
} rows;

static rows new_rows(void)
{
    rows r = {randoms(2 * ROWS * C), NULL};
    r.want = copied(r.x, 2 * ROWS * C);
    return r;
}

static void move_and_compare(const kernel_case *c, const rows *r, const size_t *to,
                             const size_t *from, size_t moves)
{
    static const size_t begin[LONG];
    c->k->move(&c->e, r->x, C, to, from, begin, moves, C);
    for (size_t i = 0; i < moves; i++)
        memcpy(r->want + to[i] * C, r->want + from[i] * C, C * sizeof *r->want);
    assert_memory_equal(r->x, r->want, 2 * ROWS * C * sizeof *r->x);
}

static void draw_list(size_t *to, size_t *from, size_t moves)
{
    for (size_t i = 0; i < moves; i++) {
        to[i] = qkv_rng_below(&kt.rng, ROWS);
        from[i] = ROWS + qkv_rng_below(&kt.rng, ROWS);
    }
}

/* Lists of few lengths, the first ones more often; every second one is what another begins with, as
 * long as that does not change. */
static void check_repeats(const kernel_case *c)
{
    size_t to[LISTS][MOVES], from[LISTS][MOVES], moves[LISTS];
    const rows r = new_rows();
    for (size_t i = 0; i < LISTS; i++) {
        moves[i] = 1 + qkv_rng_below(&kt.rng, 3) * (MOVES - 1) / 2;
        draw_list(to[i], from[i], MOVES); /* the next one may be longer */
        if (i % 2) {
            memcpy(to[i], to[i - 1], sizeof to[i]);
            memcpy(from[i], from[i - 1], sizeof from[i]);
        }
    }
    for (int round = 0; round < 2000; round++) {
        const size_t i = qkv_rng_below(&kt.rng, 1 + qkv_rng_below(&kt.rng, LISTS));
        if (round > 1000 && qkv_rng_below(&kt.rng, 8) == 0)
            draw_list(to[i] + moves[i] - 1, from[i] + moves[i] - 1, 1);
        move_and_compare(c, &r, to[i], from[i], moves[i]);
    }
    free_arrays();
}

/* A short list between long ones, of 2 MB a round. */
static void check_long(const kernel_case *c)
{
    size_t to[MOVES], from[MOVES];
    size_t *long_to = malloc(LONG * sizeof *to), *long_from = malloc(LONG * sizeof *from);
    const rows r = new_rows();
    assert_non_null(long_to);
    assert_non_null(long_from);
    draw_list(to, from, MOVES);
    draw_list(long_to, long_from, LONG);
    for (int round = 0; round < 80; round++) {
        if (round % 5 != 4)
            move_and_compare(c, &r, to, from, MOVES);
        move_and_compare(c, &r, long_to, long_from, LONG);
    }
    free(long_to);
    free(long_from);
    free_arrays();
}

int main(void)
{
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_repeats), KERNEL_CHECK(check_long)};
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
