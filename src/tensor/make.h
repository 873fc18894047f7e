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
/* Nothing is recorded until resume, which gets what pause gave; the kernels stay those of training,
 * and so does what qkv__for_products keeps in bf16, but for linear layers. For what has no gradient
 * anyhow: scopes then give memory back. */
bool qkv__pause(qkv_tape *t);
void qkv__resume(qkv_tape *t, bool recorded);
/* Are blocks to be recomputed? Only while the tape records. */
bool qkv__recomputes(const qkv_tape *t);

/* Records the first error as "op at name: sentence"; returns NULL. */
void *qkv__op_fail(qkv_tape *t, const char *op, const char *fmt, ...) QKV_PRINTF(3, 4);

/* Does a probe read or replace the tensor at this place? Lets a layer make a tensor that only a
 * probe needs. */
bool qkv__probed(qkv_tape *t, const char *name);
/* How many probes there are; and the pattern of the first of those from number `from` on that no
 * name has matched, NULL: none. Probes of all places or of gradients do not count. */
size_t qkv__probe_count(const qkv_tape *t);
const char *qkv__probe_unmet(const qkv_tape *t, size_t from);
/* The residual stream with which qkv_tape_enter starts block i of a stack; NULL: none. */
qkv_tensor *qkv__entered(qkv_tape *t, const char *stack, size_t i);

/* The values of x, which its maker has just made and nobody else holds, may be overwritten by the
 * next op that reads them, so that a step needs less memory; no backward pass may need them. Does
 * nothing while probes look on, who may hold any tensor. x may be NULL. */
void qkv__spend(qkv_tape *t, qkv_tensor *x);

/* While true, nothing but products and attention reads what ops make, until let_go; nobody else may
 * hold it. Norms, activations, gated units and upsampling may put it into memory that let_go gives
 * back: after that no forward pass reads it, and the backward pass computes it once more, to the
 * same bits, where a weight's gradient asks for it. Linear layers, convolutions and attention may
 * put it where gradients of parameters will be (lend.h). Or, where the device rounds activations,
 * norms, linear layers, convolutions, gated units, upsampling and attention keep it in bf16, to
 * which products would round it; a group norm, an activation or a sum may then read a
 * convolution's too. Where nothing is recorded, while probes look on and where neither pays both
 * functions do nothing. let_go takes any tensor, and NULL. */
void qkv__for_products(qkv_tape *t, bool now);
void qkv__let_go(qkv_tape *t, qkv_tensor *x);

/* Rows of the gradient of a table (rows, channels): row i of dy, times scale, is to be added to row
 * ids[i], unless that is pad. */
typedef struct {
    qkv_param *param;
    const int32_t *ids; /* (n) of the host */
    const qkv_real *dy; /* (n, channels) of the device, valid during the call */
    size_t n;
    double scale;
    int32_t pad; /* below 0: none */
} qkv__grad_rows;
/* False: out of memory. */
typedef bool qkv__grad_rows_fn(void *user, const qkv__grad_rows *rows);
/* Where a table takes part in other ops too, as tied embeddings do, the rows of its gradient go to
 * fn, which adds them up elsewhere: the gradient then counts as complete, for
 * qkv_tape_on_grad_ready, once the other ops have added to it. NULL, as at first: they are added to
 * the gradient. */
void qkv__tape_on_grad_rows(qkv_tape *t, qkv__grad_rows_fn *fn, void *user);

/* A linear layer's weight (out, in) and bias (out), which may be NULL. */
typedef struct {
    qkv_tensor *weight, *bias;
} qkv__layer;

/* act(x up^T + bias) down^T + bias: two qkv_linear as one op, to the bit, which keeps nothing of
 * what comes out of the activation. */
qkv_tensor *qkv__feed_forward(qkv_tape *t, qkv_tensor *x, const qkv__layer *up, qkv_activation act,
                              const qkv__layer *down);

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
/* Called when a parameter's gradient needs memory and has none, which fn may give it; where it does
 * not, the parameter gets memory of its own. NULL: nobody is asked. */
typedef void qkv__grad_memory_fn(void *user, qkv_param *p);
void qkv__params_on_grad_memory(qkv_params *ps, qkv__grad_memory_fn *fn, void *user);
/* p is frozen, and forward passes change it: the statistics of a batch norm. */
void qkv__param_set_running(qkv_param *p);
bool qkv__param_running(const qkv_param *p);
/* p is frozen, and its values come from a file that is there for good: nothing changes them, and no
 * state of a training run keeps them. */
void qkv__param_fix(qkv_param *p);
bool qkv__param_fixed(const qkv_param *p);
/* Row `row` of the matrix p gets no gradient from now on: backward passes leave zeros there. */
void qkv__param_hold_row(qkv_param *p, size_t row);

/* A low-rank term of a linear layer's matrix (n, k): rows from .. from + rows - 1 count as
 * W + scale B A wherever linear layers multiply with it (LoRA, Hu et al. 2021). The parameters are
 * of one owner. */
typedef struct qkv__low_rank qkv__low_rank;
enum { QKV__TERMS = 24 }; /* of a matrix, at most */
struct qkv__low_rank {
    qkv_param *a, *b; /* (r, k) and (rows, r) */
    size_t from;
    double scale;        /* 0: the term is left out */
    double dropout;      /* of x before A, while training */
    uint32_t dropout_id;
    qkv__low_rank *next; /* of the same matrix; NULL: the last */
};
/* Appends a copy of the term; *out, unless NULL, is that copy, which lives as long as the
 * parameters. QKV_E_ARGUMENT, QKV_E_SHAPE, QKV_E_UNSUPPORTED, with a sentence: not a linear layer's
 * matrix, sizes that do not fit, too many terms. */
qkv_status qkv__param_add_term(qkv_param *w, const qkv__low_rank *term, qkv__low_rank **out);
/* All terms of w become part of its values, and are terms no more. QKV_E_UNSUPPORTED: w is kept in
 * fewer bits. */
qkv_status qkv__param_merge_terms(qkv_param *w);
/* Parameters from number `count` on are the owner's no more; their memory stays. */
void qkv__params_forget(qkv_params *ps, size_t count);
size_t qkv__param_index(const qkv_param *p); /* p is qkv_params_at(.., index) */
/* Rows from .. from + rows - 1 become qkv_sinusoid_table's, of positions from first on. */
qkv_status qkv__fill_sinusoids(qkv_param *p, size_t from, size_t rows, qkv_sinusoid layout,
                               size_t first, size_t columns);

extern const char *const qkv__weights_names[]; /* "auto", "f32", .., NULL */

/* Marks a matrix that linear layers alone read, or a table of tokens, rows of which are read by id
 * too: qkv_params_store may keep it in fewer bits. Returns p, which may be NULL. */
qkv_param *qkv__param_linear(qkv_param *p);
qkv_param *qkv__param_table(qkv_param *p);
/* Unmarks it. */
void qkv__param_keep_full(qkv_param *p);
bool qkv__param_is_linear(const qkv_param *p);
bool qkv__param_is_table(const qkv_param *p);

/* qkv_params_store while values come, so that few are in memory in both ways: begin, expect each
 * part of a parameter's values, say of each that it came; after the last the parameter is stored
 * and its old values are gone. end stores the others. It frees s, which begin has made or NULL, and
 * returns status or its own; after a failure the parameters' values mean nothing. */
typedef struct qkv__storing qkv__storing;
qkv_status qkv__storing_begin(qkv__storing **out, qkv_params *ps, qkv_weights weights);
void qkv__storing_expect(qkv__storing *s, const qkv_param *p);
qkv_status qkv__storing_came(qkv__storing *s, qkv_param *p);
qkv_status qkv__storing_end(qkv__storing *s, qkv_status status);

/* Integers of 8 or 4 bits that stand for x (n, k), as qkv_params_store rounds them: `words` (n, k
 * bits / 32), 32 / bits of them in a word, the first in its lowest bits, each plus 128 or 8; and
 * scales, (n) or (n, k / 32), NaN where x is not finite. k is a multiple of 4, or of 32. */
void qkv__pack_rows(qkv_weights weights, const qkv_real *x, size_t n, size_t k, int32_t *words,
                    qkv_real *scales, int threads);

/* A parameter that the model's file lacks and that is not saved. */
void qkv__param_leave_out(qkv_param *p);
bool qkv__param_left_out(const qkv_param *p);

/* A frozen parameter of ps: copies of rows of the matrix `from`, kept as it is, in as many bits.
 * Each of rows (n > 0) is below from's. NULL on failure, which the context says. */
qkv_param *qkv__param_rows(qkv_params *ps, const char *name, const qkv_param *from,
                           const int32_t *rows, size_t n);

/* QKV_OK when every parameter and all memory that was asked for was made: many are asked for, one
 * check follows. */
qkv_status qkv__params_status(const qkv_params *ps);

#endif
