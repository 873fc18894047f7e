/* events.h - TensorBoard's event files: protocol buffers `Event` in TFRecords
 * (tensorflow/core/util/event.proto and framework/summary.proto have the numbers of the fields). */
#ifndef QKV_SRC_TRAIN_EVENTS_H
#define QKV_SRC_TRAIN_EVENTS_H

#include "base/base.h"
#include "qkv/image.h"

/* ---- a summary: values with tags, one after another ---- */
void qkv__summary_scalar(qkv_str *summary, const char *tag, double value); /* as a float */
void qkv__summary_text(qkv_str *summary, const char *tag, const char *text, size_t len);
/* png: the image's file. */
void qkv__summary_image(qkv_str *summary, const char *tag, const qkv_image *image,
                        const qkv_str *png);

/* Adds a record: an event of that step with the summary (empty: none), at this time. */
void qkv__event_put(qkv_str *out, uint64_t step, const qkv_str *summary);
/* The record that a file begins with. */
void qkv__event_put_version(qkv_str *out);
/* A resumed run's first record: a reader drops what it has of this step and later ones. */
void qkv__event_put_start(qkv_str *out, uint64_t step);

/* Cuts the file off before the first record of a later step, or one that is not whole. A file that
 * is not there is left so. */
qkv_status qkv__events_trim(qkv_context *ctx, const char *path, uint64_t step);

#endif
