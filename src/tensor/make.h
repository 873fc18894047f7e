/* make.h - what layers, models and tasks need of a tape and of parameters beyond the public
 * headers. What an op needs is in tape.h, which is for this folder alone. */
#ifndef QKV_TENSOR_MAKE_H
#define QKV_TENSOR_MAKE_H

#include "base/base.h"
#include "qkv/ops.h"
#include "qkv/tensor.h"

/* ---- on a tape ------------------------------------------------------------------------------ */

/* Empties the tape for inference: it neither records nor trains. */
void qkv__begin_inference(qkv_tape *t);
bool qkv__records(const qkv_tape *t);
bool qkv__trains(const qkv_tape *t);
/* Are blocks to be recomputed? Only while the tape records. */
bool qkv__recomputes(const qkv_tape *t);

/* Records the first error as "op at name: sentence"; returns NULL. */
void *qkv__op_fail(qkv_tape *t, const char *op, const char *fmt, ...) QKV_PRINTF(3, 4);

/* Does a probe read or replace the tensor at this place? Lets a layer make a tensor that only a
 * probe needs. */
bool qkv__probed(qkv_tape *t, const char *name);
/* The residual stream with which qkv_tape_enter starts block i of a stack; NULL: none. */
qkv_tensor *qkv__entered(qkv_tape *t, const char *stack, size_t i);

/* "(4, 128, 768)" in step memory; "none" for NULL. */
const char *qkv__shape_text(qkv_tape *t, const qkv_tensor *x);

/* The status of a call that has told the context what failed: the tape fails with it. True for
 * QKV_OK. */
bool qkv__take_status(qkv_tape *t, qkv_status status);

/* The host's memory until the reset. NULL fails the tape. */
void *qkv__step_alloc(qkv_tape *t, size_t bytes);
/* Fails the tape, and is false, when so much cannot be had for tensors; takes none. */
bool qkv__step_room(qkv_tape *t, size_t bytes);

/* ---- parameters ----------------------------------------------------------------------------- */

qkv_context *qkv__params_context(const qkv_params *ps);
qkv_context *qkv__param_context(const qkv_param *p);

/* Memory of the host that lives as long as the parameters; not cleared. NULL on failure. */
void *qkv__params_alloc(qkv_params *ps, size_t bytes);

/* Did a backward pass reach it since qkv_params_zero_grad? */
bool qkv__param_has_grad(const qkv_param *p);
/* Rows from .. from + rows - 1 become qkv_sinusoid_table's, of positions from first on. */
qkv_status qkv__fill_sinusoids(qkv_param *p, size_t from, size_t rows, qkv_sinusoid layout,
                               size_t first, size_t columns);

/* QKV_OK when every parameter and all memory that was asked for was made: many are asked for, one
 * check follows. */
qkv_status qkv__params_status(const qkv_params *ps);

#endif
