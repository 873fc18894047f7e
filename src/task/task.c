/* task.c - what every task has: its end, and a list of measures. */
#include "qkv/task.h"

void qkv_metrics_add(qkv_metrics *m, const char *name, double value)
{
    if (m->count == QKV_METRICS)
        return;
    m->item[m->count].name = name;
    m->item[m->count++].value = value;
}

qkv_task_type qkv_task_type_defaults(const char *name,
                                     qkv_tensor *(*loss)(void *self, qkv_tape *t,
                                                         const qkv_micro_batch *part))
{
    return (qkv_task_type){.name = name, .phases = 1, .loss = loss};
}

void qkv_task_destroy(qkv_task *task)
{
    if (task->self && task->type->destroy)
        task->type->destroy(task->self);
    *task = (qkv_task){0};
}
