/* held_out.h - the data that a model is evaluated on where none is named: what training held
 * out. */
#ifndef QKV_SRC_PIPELINE_HELD_OUT_H
#define QKV_SRC_PIPELINE_HELD_OUT_H

#include "pipeline/pipeline.h"
#include "pipeline/run_data.h"
#include "qkv/file.h"
#include "qkv/npy.h"
#include "qkv/pixels.h"

/* DIR/name, where name is what training held out (QKV__VALID_TOKENS, ..). QKV_E_IO: there is no
 * such file. */
qkv_status qkv__evaluate_held_out(const qkv_pipeline *p, const char *name, qkv_path *path);
/* Such a set of images, opened; on failure *out is NULL. */
qkv_status qkv__evaluate_kept(const qkv_pipeline *p, const char *name, qkv_pixels **out);
/* The images at path, side x side; NULL: the held-out ones. */
qkv_status qkv__evaluate_squares(const qkv_pipeline *p, const char *path, size_t side,
                                 size_t channels, qkv_pixels **out);
/* The rows of a CSV file; NULL: the held-out ones. Freed with qkv_array_free, on failure too. */
qkv_status qkv__evaluate_rows(const qkv_pipeline *p, const char *file, qkv_array *out);

#endif
