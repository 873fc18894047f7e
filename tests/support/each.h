/* each.h - a group of tests with a fixture around each of them: what goes wrong in a fixture around
 * the group, a leak say, does not reach cmocka's exit status. */
#ifndef QKV_TESTS_EACH_H
#define QKV_TESTS_EACH_H

enum { MOST_TESTS = 64 };

/* For main to return: how many failed. */
static inline int run_each(const struct CMUnitTest *tests, size_t count, CMFixtureFunction set_up_,
                           CMFixtureFunction tear_down_)
{
    struct CMUnitTest each[MOST_TESTS] = {{NULL, NULL, NULL, NULL, NULL}};
    for (size_t i = 0; i < count && i < MOST_TESTS; i++) {
        each[i] = tests[i];
        each[i].setup_func = set_up_;
        each[i].teardown_func = tear_down_;
    }
    int failed = cmocka_run_group_tests_name("tests", each, NULL, NULL);
    return count <= MOST_TESTS ? failed : 1;
}

#endif
