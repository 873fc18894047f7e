/* How many updates a run that has a time budget plans: as many as fit, with their evaluations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "train/loop.h"

static const double LEFT = 80; /* seconds, of 100 */

/* What is planned after `step` updates, each of which has taken so many seconds. */
static uint64_t planned(uint64_t step, double update, double evaluation)
{
    qkv__loop l = {.o = {.minutes = 100.0 / 60}, .step = step, .updates = step,
                   .eval_time = evaluation, .whole_eval_time = evaluation};
    l.mark = qkv_now() - (double)step * update;
    l.began = qkv_now() - (100 - LEFT);
    assert_true(qkv__plan_update(&l));
    assert_int_equal(l.plans[0].at, step);
    assert_int_equal(l.plans[0].steps, qkv__plan_steps(&l));
    return l.plans[0].steps;
}

/* Seconds from `step` to `steps`: there is an evaluation at each tenth of them, rounded up, at the
 * end, and one of the model that is kept. */
static double seconds_to(uint64_t steps, uint64_t step, double update, double evaluation)
{
    uint64_t evaluations = 1;
    for (uint64_t i = step; i <= steps; i++)
        evaluations += i % ((steps + 9) / 10) == 0 || i == steps;
    return (double)(steps - step) * update + (double)evaluations * evaluation;
}

/* The clock goes on while the plan is made: a thousandth either way. */
static void expect_full(uint64_t step, double update, double evaluation)
{
    uint64_t steps = planned(step, update, evaluation);
    double most = LEFT + update / 2, slack = 1e-3 * LEFT;
    assert_true(steps > step && seconds_to(steps, step, update, evaluation) <= most + slack);
    steps += (uint64_t)(2e-3 * (double)steps) + 1;
    assert_true(seconds_to(steps, step, update, evaluation) > most - slack);
}

static void test_all_evaluations_fit(void **state)
{
    (void)state;
    expect_full(1000, 1e-2, 0);
    expect_full(1000, 1e-2, 1);
    expect_full(5, 0.7, 2.5);
    expect_full(5, 30, 1);
}

/* They take longer than there is time: few updates, so that there are not as many. */
static void test_some_evaluations_fit(void **state)
{
    (void)state;
    for (double evaluation = 7.5; evaluation < 25; evaluation += 0.9)
        expect_full(1, 1e-3, evaluation);
}

static void test_nothing_fits(void **state)
{
    (void)state;
    assert_int_equal(planned(1, 200, 1), 1);
    assert_int_equal(planned(1, 1e-3, 50), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_evaluations_fit),
                                       cmocka_unit_test(test_some_evaluations_fit),
                                       cmocka_unit_test(test_nothing_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
