/* tensor.h - tensors, parameters, and the tape that records ops for the backward pass.
 * Layer: tensor
 *
 * An op computes immediately. While the tape records, the op is appended to the graph, which
 * qkv_backward walks in reverse. A failed op returns NULL and records the first error on the tape.
 * An op returns NULL for a NULL input, so one qkv_tape_status per step is enough.
 *
 *     qkv_tape_reset(t);
 *     qkv_tensor *y = qkv_linear(t, x, qkv_use(t, w), qkv_use(t, b), QKV_ACT_GELU);
 *     qkv_tensor *loss = qkv_mse_loss(t, y, target);
 *     if (qkv_tape_status(t)) ...
 *     qkv_backward(t, loss);                                                            */
#ifndef QKV_TENSOR_H
#define QKV_TENSOR_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum { QKV_MAX_DIMS = 8 };

typedef enum {
    QKV_REAL, /* qkv_real: f32, or f64 in the double build */
    QKV_I32   /* ids, indices, targets; not differentiable */
} qkv_dtype;

/* Row-major with strides; the innermost dimension is contiguous. A tensor lives in its tape's step
 * memory until qkv_tape_reset, or in a parameter. The caller never frees it. */
typedef struct qkv_tensor qkv_tensor;
typedef struct qkv_tape qkv_tape;

int qkv_ndim(const qkv_tensor *x); /* 0 .. QKV_MAX_DIMS; 0: a scalar */
size_t qkv_dim(const qkv_tensor *x, int axis); /* axis < 0: from the end; 1 past the last axis */
size_t qkv_count(const qkv_tensor *x);         /* number of elements */
qkv_dtype qkv_tensor_dtype(const qkv_tensor *x);

/* The elements, contiguous and row-major, for the host to read; valid as long as x. On the CPU no
 * copy is made, except of a strided view, into step memory. NULL if x is NULL or does not hold
 * reals. */
const qkv_real *qkv_data(qkv_tape *t, const qkv_tensor *x);
/* qkv_data for QKV_I32. NULL also for a strided view. */
const int32_t *qkv_data_ids(qkv_tape *t, const qkv_tensor *x);
/* The element of a one-element tensor; NaN if x is NULL or has another count. */
qkv_real qkv_item(qkv_tape *t, const qkv_tensor *x);

/* ---- parameters ------------------------------------------------------------------ */

/* A trainable tensor that persists across steps, with its gradient and packed copies. */
typedef struct qkv_param qkv_param;
typedef struct qkv_params qkv_params; /* all parameters of one model, in order of creation */

/* On failure *out is NULL. */
qkv_status qkv_params_create(qkv_params **out, qkv_context *ctx);
/* Frees all parameters, their gradients and everything else made on ps. Reset a tape that used them
 * before using it again. NULL is allowed. */
void qkv_params_destroy(qkv_params *ps);

/* Creates a parameter of zeros, owned by ps. The name is copied. Every dimension is >= 1. NULL on
 * failure, recorded in the context. */
qkv_param *qkv_param_create(qkv_params *ps, const char *name, int ndim, const size_t *shape);

size_t qkv_params_count(const qkv_params *ps);               /* parameters */
size_t qkv_params_elements(const qkv_params *ps);            /* elements of all of them */
size_t qkv_params_bytes(const qkv_params *ps); /* including gradients and copies made so far */
qkv_param *qkv_params_at(const qkv_params *ps, size_t i);           /* NULL past the last */
qkv_param *qkv_params_find(const qkv_params *ps, const char *name); /* NULL if absent */

const char *qkv_param_name(const qkv_param *p); /* valid as long as p */
size_t qkv_param_count(const qkv_param *p);     /* number of elements */
int qkv_param_ndim(const qkv_param *p);
size_t qkv_param_dim(const qkv_param *p, int axis); /* as qkv_dim */
/* The values, contiguous and row-major, for the host to read and write. Call qkv_param_touch after
 * writing. On the CPU no copy. On another device a copy (NULL if out of memory), which is stale
 * after the device changes the values: call again. NULL, recorded in the context, if the values
 * are stored in fewer bits (qkv_params_store). */
qkv_real *qkv_param_data(qkv_param *p);
void qkv_param_touch(qkv_param *p); /* tells products and packed copies that values changed */

/* The gradient, of the parameter's shape, as qkv_param_data; call qkv_param_touch_grad after
 * writing. NULL if no backward pass reached the parameter since qkv_params_zero_grad. Valid until
 * the next qkv_params_zero_grad, after which activations may lie there. */
qkv_real *qkv_param_grad(qkv_param *p);
void qkv_param_touch_grad(qkv_param *p);
void qkv_params_zero_grad(qkv_params *ps); /* drops all gradients: they become NULL */

/* A frozen parameter gets no gradient and costs no time in the backward pass. Affects later calls
 * of qkv_use, not earlier ones. */
void qkv_param_freeze(qkv_param *p, bool frozen);
bool qkv_param_frozen(const qkv_param *p);
void qkv_params_freeze(qkv_params *ps, bool frozen); /* all parameters */

/* How numbers are kept in memory. INT8: 8 bits and a scale for each row; INT4: 4 bits and a scale
 * for each 32 neighbours of a row. AUTO: as they are in a model's directory. */
typedef enum {
    QKV_WEIGHTS_AUTO, QKV_WEIGHTS_F32, QKV_WEIGHTS_BF16, QKV_WEIGHTS_INT8, QKV_WEIGHTS_INT4
} qkv_weights;
const char *qkv_weights_name(qkv_weights weights); /* "auto", "f32", "bf16", .. */

/* For inference: keeps the matrices of linear layers and the tables of tokens in fewer bits, each
 * number rounded to nearest, of INT4 with scales that make the squared error least; tables have 8
 * bits at least. Everything else stays f32: biases, norms, positions, convolutions. Memory of the
 * old values, of gradients and of packed copies is freed; reset tapes that used them.
 * Parameters so kept are frozen, serve qkv_linear, qkv_embedding and qkv_classifier_loss on tapes
 * that do not record, and qkv_param_data is NULL. What was rounded before, to the same type,
 * keeps its values. AUTO and F32 do nothing. On failure nothing has changed. */
qkv_status qkv_params_store(qkv_params *ps, qkv_weights weights);
qkv_weights qkv_param_weights(const qkv_param *p); /* F32 unless it was stored otherwise */

/* How products of hundreds of rows with such weights are computed: "vectors", by the kernel that
 * also serves single rows; "AMX", from the weights as they lie; or, of weights in bf16, which are
 * widened then, "f32", "bf16" or "bf16 (oneDNN)" as qkv_machine_products has it. The first call for
 * a type of weights times those that this machine has, on one thread, with 64 and with 512 rows,
 * 1/5 second at most, and fixes the context's choices; so does the first such product on a
 * tape. */
const char *qkv_weights_products(qkv_context *ctx, qkv_weights weights);

/* Floating-point operations per second of the best of `repeats` products of 2048 x 2048 matrices,
 * one of them kept as such weights, as inference computes them with the context's threads; AUTO is
 * F32. Otherwise as qkv_machine_peak_flops, which has training's products. On a card: of products
 * in f32, whatever the weights. 0 on failure, recorded in the context. */
double qkv_weights_peak_flops(qkv_context *ctx, qkv_weights weights, int repeats);

/* Declares p the weight of a hidden layer, which QKV_OPTIMIZER_MUON updates by matrices: n of them,
 * one below the other, the i-th of rows[i] rows of p's first axis (packed queries, keys and
 * values). Later axes count as one. Attention layers and blocks declare their own. QKV_E_ARGUMENT,
 * and nothing changed: p has fewer than 2 axes, n is not in 1 .. QKV_PARAM_MATRICES, or the rows
 * are 0 or do not add up to the axis. */
enum { QKV_PARAM_MATRICES = 4 };
qkv_status qkv_param_set_hidden(qkv_param *p, size_t n, const size_t *rows);
/* Rows of matrix i; 0 past the last, so of matrix 0 if p was not declared. */
size_t qkv_param_hidden(const qkv_param *p, size_t i);

/* ---- the tape -------------------------------------------------------------------- */

/* One thread uses a tape at a time. On failure *out is NULL. */
qkv_status qkv_tape_create(qkv_tape **out, qkv_context *ctx);
void qkv_tape_destroy(qkv_tape *t); /* frees its tensors; NULL is allowed */

/* Discards the step: tensors, graph, names, error. Step memory is kept, so steps of equal size
 * allocate nothing. */
void qkv_tape_reset(qkv_tape *t);

/* The first error since the last reset. The context has the message. */
qkv_status qkv_tape_status(const qkv_tape *t);

/* record: append ops to the graph (initially true). train: dropout is active (initially false). */
void qkv_tape_mode(qkv_tape *t, bool record, bool train);

/* Enables packed copies of weights, for inference with constant parameters (initially false). A
 * weight that linear layers have used a few times is copied once, in full size, in the order that
 * products read fastest. The copy lasts until the parameters are destroyed, is shared by all tapes
 * with pack set, and is renewed when the weight changes. */
void qkv_tape_pack(qkv_tape *t, bool pack);
/* The same on every tape, for all parameters (initially false); each is copied at its first use, so
 * that equal inputs give equal bits from the first on. */
void qkv_params_pack(qkv_params *ps, bool pack);

/* Makes inference batch-invariant (initially false): each row of a linear layer's result has the
 * same bits whatever the number of rows, because one kernel computes any number of them: that of
 * packed copies, which are then made at the first use, with qkv_tape_pack or qkv_params_pack, else
 * the one for few rows. What a sequence gets does not depend on who shares its batch. */
void qkv_tape_batch_invariant(qkv_tape *t, bool invariant);

/* Dropout depends on the seed, the step, the dropout id, and the sample's index in the global
 * batch, and on nothing else. The tape holds `samples` samples from first_sample on; for packed
 * batches, rows from first_row on. */
typedef struct {
    uint64_t seed;
    uint64_t step;
    uint64_t first_sample;
    uint64_t first_row;
    size_t samples; /* 0: the leading dimension of each tensor */
} qkv_randomness;
void qkv_tape_randomness(qkv_tape *t, const qkv_randomness *r);

/* Bytes of step memory: in use; the maximum so far; the maximum scratch memory of an op, which is
 * not part of step memory. */
size_t qkv_tape_used(const qkv_tape *t);
size_t qkv_tape_high_water(const qkv_tape *t);
size_t qkv_tape_scratch_high_water(const qkv_tape *t);

/* Inference: frees everything made since scope_begin except the tensor `keep`, which is moved;
 * returns the moved tensor. While the tape records, frees nothing and returns keep. Frees nothing
 * and returns NULL if the tape has failed or keep is NULL. */
typedef struct { size_t opaque[6]; } qkv_scope;
qkv_scope qkv_scope_begin(qkv_tape *t);
qkv_tensor *qkv_scope_end(qkv_tape *t, qkv_scope s, qkv_tensor *keep);

/* ---- tensors ---------------------------------------------------------------------- */

/* The functions below return NULL once anything on the tape has failed. */

/* A copy of data (NULL: uninitialised). Not differentiated. */
qkv_tensor *qkv_tensor_from(qkv_tape *t, const qkv_real *data, int ndim, const size_t *shape);
/* A copy of ids, i32. */
qkv_tensor *qkv_tensor_ids(qkv_tape *t, const int32_t *ids, int ndim, const size_t *shape);
/* true and false as 1 and 0, i32: a mask. */
qkv_tensor *qkv_tensor_bools(qkv_tape *t, const bool *values, int ndim, const size_t *shape);

/* Wraps the caller's contiguous memory, without a copy on the CPU. It must outlive the step and be
 * filled before the first op or view that takes the tensor. */
qkv_tensor *qkv_tensor_wrap(qkv_tape *t, qkv_real *data, int ndim, const size_t *shape);

/* Memory for the host to write the elements of a tensor from qkv_tensor_from, before the first op
 * that takes it. NULL for NULL. */
qkv_real *qkv_tensor_fill(qkv_tensor *x);

/* The parameter as a tensor of this tape; the same tensor throughout a step. */
qkv_tensor *qkv_use(qkv_tape *t, qkv_param *p);

/* Requests the gradient of x itself, for qkv_grad_of. Returns x. */
qkv_tensor *qkv_require_grad(qkv_tape *t, qkv_tensor *x);

/* The value of x, without gradient flow. */
qkv_tensor *qkv_detach(qkv_tape *t, qkv_tensor *x);

/* ---- views: no copy; their gradient is a region of the original's -------------------- */

/* The elements in row-major order under another shape of equal count. */
qkv_tensor *qkv_reshape(qkv_tape *t, qkv_tensor *x, int ndim, const size_t *shape);
/* Axis i of the result is axis axes[i] of x. */
qkv_tensor *qkv_permute(qkv_tape *t, qkv_tensor *x, const int *axes); /* may copy: see below */
/* Indices begin .. end-1 of an axis. */
qkv_tensor *qkv_slice(qkv_tape *t, qkv_tensor *x, int axis, size_t begin, size_t end);
/* Splits x along axis into n parts of the given sizes, whose sum is the axis. false on failure. */
bool qkv_split(qkv_tape *t, qkv_tensor *x, int axis, int n, const size_t *sizes,
               qkv_tensor **parts);
/* A permutation that moves the innermost axis, and a reshape of a tensor that is not contiguous,
 * make a copy (recorded as an op). */

/* ---- backward ---------------------------------------------------------------------- */

typedef struct {
    int n;                        /* number of outputs                              [1, 64] */
    qkv_tensor *const *outputs;
    const qkv_tensor *const *gradients; /* d(objective)/d(output); NULL or NULL entries:
                                           ones */
    int n_wrt;                    /* 0: gradients of all parameters and of all tensors with   */
    qkv_tensor *const *wrt;       /* qkv_require_grad; else only of these (tensors, or qkv_use
                                     of parameters), for qkv_grad_of; the gradients that
                                     parameters hold do not change */
    bool retain_graph;            /* keep the graph for another pass */
} qkv_backward_args;

/* Adds the gradients of a scalar loss to those of every trainable parameter. Then drops the graph:
 * a later pass that reaches a tensor computed before fails. Returns the tape's status; also
 * QKV_E_ARGUMENT if nothing that the loss depends on has a gradient, QKV_E_SHAPE if the loss is not
 * a scalar. */
qkv_status qkv_backward(qkv_tape *t, qkv_tensor *loss);
qkv_status qkv_backward_from(qkv_tape *t, const qkv_backward_args *args);

/* d(outputs)/dx of the last pass, for x in wrt or with qkv_require_grad: contiguous, x's shape,
 * valid until the next pass or reset. NULL if the pass did not reach x. */
const qkv_tensor *qkv_grad_of(qkv_tape *t, const qkv_tensor *x);

/* Called during a pass over all parameters as soon as the gradient of one is complete, so that
 * all-reduce overlaps with the pass. Not called for parameters that the pass does not reach. With
 * several passes per step set it for the last. NULL: none. */
typedef void qkv_grad_ready_fn(void *user, qkv_param *p);
void qkv_tape_on_grad_ready(qkv_tape *t, qkv_grad_ready_fn *fn, void *user);

/* ---- recomputing activations --------------------------------------------------------- */

/* A part of a forward pass: makes out (n_out of the call, initially NULL) of in and of parameters.
 * Returns false once anything on the tape has failed. It runs in the forward pass and again in each
 * backward pass, and must do the same: what it reads through args (sequences, masks) must be
 * unchanged until then, and it neither freezes parameters nor adds to anything but the tape. */
typedef bool qkv_recomputed_fn(qkv_tape *t, const void *args, qkv_tensor *const *in,
                               qkv_tensor **out);

typedef struct {
    qkv_recomputed_fn *fn;
    const void *args; /* args_size bytes, copied; NULL: none */
    size_t args_size;
    int n_in, n_out;  /* [0, QKV_RECOMPUTE_TENSORS] */
    qkv_tensor *const *in; /* entries may be NULL; fn may also use other tensors of the tape */
} qkv_recompute_args;

enum { QKV_RECOMPUTE_TENSORS = 8 };

/* Calls fn and keeps its outputs alone: everything between is released at once, and computed again
 * when the backward pass arrives there (gradient checkpointing: Chen et al. 2016, "Training deep
 * nets with sublinear memory cost"). Values, gradients and dropout are the same to the bit as
 * without; the memory is that of the tensors between calls and of the largest call. Running
 * statistics (qkv_batch_norm) take a batch in once. A call within fn is a plain call of its
 * function. So is every call, and everything is kept, while the tape does not record or has probes:
 * what a probe sees lasts until the reset. qkv_require_grad of a tensor that fn makes fails the
 * tape. out (n_out): entries that fn left NULL are NULL. False once anything on the tape has
 * failed. */
bool qkv_recompute(qkv_tape *t, const qkv_recompute_args *a, qkv_tensor **out);

/* Models recompute each block of a stack in the backward pass (initially false): the memory of a
 * step is that of the blocks' outputs and of one block, for one more forward pass of the blocks. */
void qkv_tape_recompute(qkv_tape *t, bool recompute);

/* ---- names and probes ---------------------------------------------------------------- */

/* Pushes a name: "h.3" then "attn" gives "h.3.attn" in errors and probes. push copies the name; the
 * full name has at most 255 characters. Pair each push with a pop. A reset pops all. */
void qkv_name_push(qkv_tape *t, const char *fmt, ...);
void qkv_name_pop(qkv_tape *t);

/* Receives the tensor at a place of a forward pass, with the place's full name ("h.3.resid_post").
 * Returns the tensor that the pass continues with: x, or a tensor of this tape with x's shape,
 * which may be made of x by ops. x is valid during the call; its elements must not be written. NULL
 * fails the tape. */
typedef qkv_tensor *qkv_probe_fn(void *user, qkv_tape *t, const char *name, qkv_tensor *x);
/* Adds a probe: fn is called at every place whose full name matches `pattern`, in which "*" stands
 * for any characters (NULL: all places). Several probes of one place are called in the order in
 * which they were added. Probes persist across resets until qkv_probes_clear. Copies the pattern.
 * QKV_E_MEMORY. */
qkv_status qkv_probe_add(qkv_tape *t, const char *pattern, qkv_probe_fn *fn, void *user);
void qkv_probes_clear(qkv_tape *t); /* removes all probes, those of attention weights included */
/* A place: what a model calls with a tensor that probes may read or replace. Returns the tensor to
 * continue with; x itself if no probe matches. */
qkv_tensor *qkv_probe(qkv_tape *t, const char *name, qkv_tensor *x);

/* Starts a stack of blocks at block `name` ("h.3"; "h.12" after the last of 12) with x (B, T,
 * width) as the residual stream there: the blocks before it are not computed. A VQGAN's "encoder"
 * and "decoder" have layers, in order of their places from 0 on ("decoder.3"), and x is the map
 * (B, H, W, channels) that the layer is given. Holds until the reset; x is a tensor of this tape.
 * For passes that repeat an earlier one up to a place. QKV_E_MEMORY. */
qkv_status qkv_tape_enter(qkv_tape *t, const char *name, qkv_tensor *x);

QKV_END_DECLS
#endif
