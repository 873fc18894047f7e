/* changing.h - the changes that options name, for passes of a pipeline. */
#ifndef QKV_SRC_PIPELINE_CHANGING_H
#define QKV_SRC_PIPELINE_CHANGING_H

#include "pipeline/pipeline.h"
#include "qkv/change.h"

/* *out is NULL for no texts and on failure. */
qkv_status qkv__changes_read(qkv_changes **out, qkv_context *ctx, const qkv_strings *texts);
/* QKV_E_ARGUMENT, and a sentence. */
qkv_status qkv__no_such_place(const qkv_pipeline *p, const char *place);
/* After passes: QKV_E_ARGUMENT if a change found no place. c may be NULL. */
qkv_status qkv__changes_check(const qkv_pipeline *p, const qkv_changes *c);

#endif
