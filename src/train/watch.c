/* watch.c - passes of training, seen: a program's own watcher, and the capture of one update. */
#include <stdio.h>

#include "qkv/look.h"
#include "train/loop.h"

/* Attention weights, hidden states and their gradients in the first pass of update capture_step. */
static qkv_status watch_begin_capture(qkv__loop *l, const qkv_micro_batch *part)
{
    char path[4096];
    qkv_capture_options o = qkv_capture_defaults();
    if (!l->dir || !l->o.capture_step || part->step + 1 != l->o.capture_step || part->first ||
        part->phase)
        return QKV_OK;
    int n = snprintf(path, sizeof path, "%s/train/capture-%llu.safetensors", l->dir,
                     (unsigned long long)l->o.capture_step);
    if (n < 0 || (size_t)n >= sizeof path)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "%.60s..: the path is too long", l->dir);
    o.file = path;
    o.attentions = o.hidden_states = o.norms = o.gradients = true;
    return qkv_capture_open(&l->capture, l->ctx, l->tape, &o);
}

static qkv_status watch_end_capture(qkv__loop *l)
{
    qkv_capture *c = l->capture;
    if (!c)
        return QKV_OK;
    l->capture = NULL;
    qkv_status status = qkv_capture_gradients(c);
    if (!status)
        return qkv_capture_close(c);
    qkv_capture_abandon(c);
    return status;
}

qkv_status qkv__watch(qkv__loop *l, const qkv_micro_batch *part, bool done)
{
    const qkv_train_pass pass = {part->step, part->phase, part->first, part->count, done};
    qkv_status status = done ? watch_end_capture(l) : QKV_OK;
    if (!status && l->o.watch)
        status = l->o.watch(l->o.watch_user, l->tape, &pass);
    if (status && qkv_context_status(l->ctx) != status)
        return qkv_fail(l->ctx, status, "the function that watches passes failed");
    return !status && !done ? watch_begin_capture(l, part) : status;
}
