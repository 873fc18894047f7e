/* evaluate.h - what the functions of evaluation share. Each judges some kinds of models and has a
 * row in evaluate.c. */
#ifndef QKV_SRC_PIPELINE_EVALUATE_H
#define QKV_SRC_PIPELINE_EVALUATE_H

#include "pipeline/pipeline.h"
#include "pipeline/run_data.h"
#include "qkv/pixels.h"

/* Adds the measures to out; scored counts what was judged, in the row's unit. The data that o names
 * are of the row's kind. */
typedef qkv_status qkv__evaluate_fn(qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                    qkv_measures *out);
qkv__evaluate_fn qkv__evaluate_lm, qkv__evaluate_translate, qkv__evaluate_mlm,
    qkv__evaluate_classify, qkv__evaluate_forecast, qkv__evaluate_recognize,
    qkv__evaluate_colorize, qkv__evaluate_reconstruct, qkv__evaluate_segment,
    qkv__evaluate_codes, qkv__evaluate_grids, qkv__evaluate_looks;

/* DIR/name, where name is what training held out (QKV__VALID_TOKENS, ..), to be freed with
 * qkv_free. QKV_E_IO: there is no such file. */
qkv_status qkv__evaluate_held_out(const qkv_pipeline *p, const char *name, char **path);
/* Such a set of pictures, opened; on failure *out is NULL. */
qkv_status qkv__evaluate_kept(const qkv_pipeline *p, const char *name, qkv_pixels **out);
/* The pictures at path, side x side; NULL: the held-out ones. */
qkv_status qkv__evaluate_squares(const qkv_pipeline *p, const char *path, size_t side,
                                 size_t channels, qkv_pixels **out);

#endif
