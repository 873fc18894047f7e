/* tensor.h - tensors, parameters, and the tape that remembers how to go backward.
 * Layer: tensor
 *
 * An op computes at once. While the tape records, the op is appended to the graph,
 * which qkv_backward walks in reverse. An op that fails returns NULL, passes NULL
 * on, and leaves the first error on the tape: ask once per step with qkv_tape_status.
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
    QKV_I32   /* ids, indices, targets: never differentiated */
} qkv_dtype;

/* Row-major with strides; the innermost dimension is contiguous. Lives in its tape's step
 * memory until qkv_tape_reset (or in a parameter), and is never freed by the caller. */
typedef struct qkv_tensor qkv_tensor;
typedef struct qkv_tape qkv_tape;

int qkv_ndim(const qkv_tensor *x); /* 0 .. QKV_MAX_DIMS; 0: one number */
size_t qkv_dim(const qkv_tensor *x, int axis); /* axis < 0 counts from the end; 1 past the end */
size_t qkv_count(const qkv_tensor *x);         /* number of elements */
qkv_dtype qkv_tensor_dtype(const qkv_tensor *x);

/* The elements for the host to read, contiguous and row-major, valid as long as x. On the CPU where
 * they lie, but for a strided view, which is copied into step memory. NULL for a NULL tensor and
 * for one that does not hold reals. */
const qkv_real *qkv_data(qkv_tape *t, const qkv_tensor *x);
/* The same of whole numbers; NULL too for a strided view. */
const int32_t *qkv_data_ids(qkv_tape *t, const qkv_tensor *x);
/* The one element; NaN when x is NULL or has another number of them. */
qkv_real qkv_item(qkv_tape *t, const qkv_tensor *x);

/* ---- parameters ------------------------------------------------------------------ */

/* A value that outlives steps, with its gradient and, later, its optimiser state. */
typedef struct qkv_param qkv_param;
typedef struct qkv_params qkv_params; /* all parameters of one model, in order of creation */

/* On failure *out is NULL. */
qkv_status qkv_params_create(qkv_params **out, qkv_context *ctx);
/* Frees all parameters, their gradients and whatever else was made on ps. Tapes that used them
 * must not be used again before a reset. NULL is allowed. */
void qkv_params_destroy(qkv_params *ps);

/* A new parameter, all zeros, which ps owns. The name is copied. No dimension may be 0. On failure
 * NULL, and the context says why. */
qkv_param *qkv_param_create(qkv_params *ps, const char *name, int ndim, const size_t *shape);

size_t qkv_params_count(const qkv_params *ps);               /* parameters */
size_t qkv_params_elements(const qkv_params *ps);            /* numbers in all of them */
size_t qkv_params_bytes(const qkv_params *ps); /* and of gradients and copies made so far */
qkv_param *qkv_params_at(const qkv_params *ps, size_t i);           /* NULL past the last */
qkv_param *qkv_params_find(const qkv_params *ps, const char *name); /* NULL if absent */

const char *qkv_param_name(const qkv_param *p); /* lives as long as p */
size_t qkv_param_count(const qkv_param *p);     /* numbers */
int qkv_param_ndim(const qkv_param *p);
size_t qkv_param_dim(const qkv_param *p, int axis); /* as qkv_dim */
/* The values for the host to read and write, contiguous and row-major; after writing:
 * qkv_param_touch. On the CPU where they lie; on another device a copy, NULL when out of memory for
 * it, that may be stale once anything but the host changed the values: ask again. */
qkv_real *qkv_param_data(qkv_param *p);
void qkv_param_touch(qkv_param *p); /* values were written: products and packed copies see them */

/* The gradient, likewise, of the parameter's shape; NULL when no backward pass reached the
 * parameter since qkv_params_zero_grad. After writing: qkv_param_touch_grad. */
qkv_real *qkv_param_grad(qkv_param *p);
void qkv_param_touch_grad(qkv_param *p);
void qkv_params_zero_grad(qkv_params *ps); /* forgets all gradients; nothing is filled */

/* A frozen parameter gets no gradient and costs no time in the backward pass. Counts for uses
 * (qkv_use) from now on: a use before keeps what it was. */
void qkv_param_freeze(qkv_param *p, bool frozen);
bool qkv_param_frozen(const qkv_param *p);
void qkv_params_freeze(qkv_params *ps, bool frozen); /* all of them */

/* ---- the tape -------------------------------------------------------------------- */

/* One tape is used from one thread at a time. On failure *out is NULL. */
qkv_status qkv_tape_create(qkv_tape **out, qkv_context *ctx);
void qkv_tape_destroy(qkv_tape *t); /* its tensors go with it; NULL is allowed */

/* Forgets all tensors, the graph and the names of the last step and clears the error. Step memory
 * is kept for the next one: steps of equal size allocate nothing. */
void qkv_tape_reset(qkv_tape *t);

/* First error since the last reset; the sentence is the context's. */
qkv_status qkv_tape_status(const qkv_tape *t);

/* record: append ops to the graph (true at first). train: dropout drops (false at first). */
void qkv_tape_mode(qkv_tape *t, bool record, bool train);

/* For many steps that record nothing, while parameters stay as they are (false at first): a weight
 * that linear layers have used a few times is copied once, as large as it is, into the order in
 * which products read it best. The copy stays, and serves every tape that asks so, until the
 * parameters are destroyed; it is made anew when the weight has changed. */
void qkv_tape_pack(qkv_tape *t, bool pack);

/* What dropout depends on, and nothing else does: the seed, the step, which dropout of the
 * model it is, and the index of the sample in the global batch (this tape holds `samples`
 * of them, from first_sample on; for packed batches rows from first_row on). */
typedef struct {
    uint64_t seed;
    uint64_t step;
    uint64_t first_sample;
    uint64_t first_row;
    size_t samples; /* 0: the leading dimension of each tensor */
} qkv_randomness;
void qkv_tape_randomness(qkv_tape *t, const qkv_randomness *r);

/* Bytes of step memory: in use now, and the most there has been; the most that an op has taken
 * for itself beside it. */
size_t qkv_tape_used(const qkv_tape *t);
size_t qkv_tape_high_water(const qkv_tape *t);
size_t qkv_tape_scratch_high_water(const qkv_tape *t);

/* Inference: releases everything made since scope_begin but the tensor `keep`, which moves, and
 * returns the moved tensor. While the tape records nothing is released and keep is returned.
 * NULL, and everything stays, when the tape has failed or keep is NULL. */
typedef struct { size_t opaque[6]; } qkv_scope;
qkv_scope qkv_scope_begin(qkv_tape *t);
qkv_tensor *qkv_scope_end(qkv_tape *t, qkv_scope s, qkv_tensor *keep);

/* ---- tensors ---------------------------------------------------------------------- */

/* What follows returns NULL once anything on the tape has failed. */

/* A copy of data (or uninitialised memory when data is NULL), not differentiated. */
qkv_tensor *qkv_tensor_from(qkv_tape *t, const qkv_real *data, int ndim, const size_t *shape);
/* A copy of ids, i32. */
qkv_tensor *qkv_tensor_ids(qkv_tape *t, const int32_t *ids, int ndim, const size_t *shape);

/* The caller's contiguous memory as a tensor, on the CPU without a copy; it must outlive the step,
 * and hold its numbers before the first op (a view is one) that takes the tensor. */
qkv_tensor *qkv_tensor_wrap(qkv_tape *t, qkv_real *data, int ndim, const size_t *shape);

/* Where the host fills in the elements of a tensor from qkv_tensor_from, before the first op that
 * takes it; NULL for NULL. */
qkv_real *qkv_tensor_fill(qkv_tensor *x);

/* A parameter on this tape; the same tensor each time within a step. */
qkv_tensor *qkv_use(qkv_tape *t, qkv_param *p);

/* Asks for the gradient of x itself (an input, say): see qkv_grad_of. Returns x. */
qkv_tensor *qkv_require_grad(qkv_tape *t, qkv_tensor *x);

/* The same value, through which no gradient flows. */
qkv_tensor *qkv_detach(qkv_tape *t, qkv_tensor *x);

/* ---- views: they copy nothing, and their gradient is a region of the original's ------- */

/* The same elements in row-major order under another shape of as many. */
qkv_tensor *qkv_reshape(qkv_tape *t, qkv_tensor *x, int ndim, const size_t *shape);
/* Axis i of the result is x's axes[i]. */
qkv_tensor *qkv_permute(qkv_tape *t, qkv_tensor *x, const int *axes); /* may copy: see below */
/* Indices begin .. end-1 of one axis. */
qkv_tensor *qkv_slice(qkv_tape *t, qkv_tensor *x, int axis, size_t begin, size_t end);
/* Cuts x along axis into n parts of the given sizes, which must add up. false on failure. */
bool qkv_split(qkv_tape *t, qkv_tensor *x, int axis, int n, const size_t *sizes,
               qkv_tensor **parts);
/* A permutation that moves the innermost axis, and a reshape of what is not contiguous, are
 * copies (recorded like any op). */

/* ---- backward ---------------------------------------------------------------------- */

typedef struct {
    int n;                        /* outputs to start from                          [1, 64] */
    qkv_tensor *const *outputs;
    const qkv_tensor *const *gradients; /* d(what you want)/d(output); NULL or NULL entries:
                                           ones */
    int n_wrt;                    /* 0: to all parameters and all tensors that require it;    */
    qkv_tensor *const *wrt;       /* else only to these (tensors, or qkv_use of parameters),
                                     whose gradients qkv_grad_of returns; parameters' own
                                     gradients are left alone then */
    bool retain_graph;            /* another pass over the same steps follows */
} qkv_backward_args;

/* From one scalar loss to every trainable parameter, adding to gradients already there. The graph
 * is dropped: what was computed before takes no part in later passes, which fail if they meet
 * it. Returns the tape's status: also QKV_E_ARGUMENT when the loss depends on nothing that has a
 * gradient, QKV_E_SHAPE when it is no scalar. */
qkv_status qkv_backward(qkv_tape *t, qkv_tensor *loss);
qkv_status qkv_backward_from(qkv_tape *t, const qkv_backward_args *args);

/* d(outputs)/dx of the last pass for x in wrt, or under qkv_require_grad: contiguous, the shape
 * of x, valid until the next pass or reset. NULL when the pass did not reach x. */
const qkv_tensor *qkv_grad_of(qkv_tape *t, const qkv_tensor *x);

/* Called during a pass to all parameters as soon as one's gradient is complete, so that sums over
 * ranks overlap with what remains; not for parameters the pass did not reach. With several passes
 * a step, set it for the last. NULL: nobody. */
typedef void qkv_grad_ready_fn(void *user, qkv_param *p);
void qkv_tape_on_grad_ready(qkv_tape *t, qkv_grad_ready_fn *fn, void *user);

/* ---- names and probes ---------------------------------------------------------------- */

/* Names what follows: "h.3" then "attn" gives "h.3.attn", in errors and probes. push copies the
 * name (255 characters in all); each push has its pop, and a reset pops all. */
void qkv_name_push(qkv_tape *t, const char *fmt, ...);
void qkv_name_pop(qkv_tape *t);

/* Called with a tensor's full name when a model passes it by: qkv_probe in model code. The
 * value may be read, not changed, and is gone when the function returns. */
typedef void qkv_probe_fn(void *user, const char *name, const qkv_tensor *x);
void qkv_tape_on_probe(qkv_tape *t, qkv_probe_fn *fn, void *user);
qkv_tensor *qkv_probe(qkv_tape *t, const char *name, qkv_tensor *x); /* returns x */

QKV_END_DECLS
#endif
