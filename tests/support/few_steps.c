/* few_steps.c - for examples under valgrind, where a step takes fifty times as long and the first
 * shows what all do: programs linked with --wrap=qkv_train,--wrap=qkv_context_create make a few
 * updates only, on one thread, with kernels in plain C (valgrind takes code that oneDNN made at run
 * time for reading what was not written). */
#include <qkv.h>

enum { MOST = 2 };

qkv_status __real_qkv_context_create(qkv_context **out, const qkv_context_options *options);
qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options);

qkv_status __real_qkv_train(qkv_task *task, const qkv_train_options *options,
                            const qkv_optimizer_options *optimizer, const qkv_schedule *schedule,
                            const char *dir, bool resume, qkv_train_fn *event, void *user,
                            qkv_train_result *result);
qkv_status __wrap_qkv_train(qkv_task *task, const qkv_train_options *options,
                            const qkv_optimizer_options *optimizer, const qkv_schedule *schedule,
                            const char *dir, bool resume, qkv_train_fn *event, void *user,
                            qkv_train_result *result);

qkv_status __wrap_qkv_train(qkv_task *task, const qkv_train_options *options,
                            const qkv_optimizer_options *optimizer, const qkv_schedule *schedule,
                            const char *dir, bool resume, qkv_train_fn *event, void *user,
                            qkv_train_result *result)
{
    qkv_train_options few = *options;
    few.steps = few.steps < MOST ? few.steps : MOST;
    return __real_qkv_train(task, &few, optimizer, schedule, dir, resume, event, user, result);
}

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options)
{
    qkv_context_options plain = options ? *options : qkv_context_defaults();
    plain.threads = 1;
    plain.isa = QKV_ISA_REFERENCE;
    return __real_qkv_context_create(out, &plain);
}
