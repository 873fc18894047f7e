/* looked.h - looking at an input and writing the page, over fixture.h, for tests whose memory gives
 * out on the way. */
#ifndef QKV_TESTS_LOOKED_H
#define QKV_TESTS_LOOKED_H

#include "fixture.h"
#include "qkv/pipeline_look.h"

typedef struct {
    qkv_pipeline *p;
    qkv_look_input in;
    const qkv_pipeline_look_options *options; /* or NULL */
} looked_at;

/* A work_fn; FOLDER/page.html stays. */
static inline qkv_status look_and_write(void *user)
{
    const looked_at *a = user;
    qkv_look l = {0};
    qkv_status status = qkv_pipeline_look(a->p, &a->in, a->options, &l);
    if (!status)
        status = qkv_look_page(&l, NULL, in(folder, "page.html"));
    qkv_look_free(&l);
    return status;
}

#endif
