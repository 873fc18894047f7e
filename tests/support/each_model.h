/* each_model.h - what is asked of every golden model of a file, with each set of kernels. Who
 * includes it has defined the list `models` and their number MODELS, and defines train_step. */
#ifndef QKV_TESTS_EACH_MODEL_H
#define QKV_TESTS_EACH_MODEL_H

#include "isas.h"
#include "model_golden.h"

static void train_step(const char *name, unsigned isa);

static void run_all(unsigned isa)
{
    for (size_t i = 0; i < MODELS; i++)
        train_step(models[i], isa);
}

static inline void test_saved_again(void **state)
{
    (void)state;
    check_saved_again(models, MODELS);
}

#endif
