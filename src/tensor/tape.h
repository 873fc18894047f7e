/* tape.h - what ops see of tensors and the tape.
 *
 * An op is one file: shape rule, forward, backward. Its forward is
 *
 *     qkv_tensor *in[] = {a, b};
 *     if (!qkv__ready(t, "add", 2, in)) return NULL;         // NULL in, NULL out
 *     ... check shapes: return qkv__op_fail(t, "add", "...");
 *     qkv_tensor *y = qkv__new(t, QKV_REAL, ndim, shape);    // NULL when out of memory
 *     t->k->add(&t->exec, qkv__real(y), ...);                // pointers pass on, unread
 *     return qkv__record(t, &add_op, 2, in, 1, &y, &params, sizeof params);
 *
 * and its backward, called with the gradients of its outputs complete,
 *
 *     const qkv_real *dy = qkv__grad_out(t, n, 0);
 *     bool acc;
 *     qkv_real *da = qkv__grad(t, n->in[0], &acc);           // NULL: nobody wants it
 *     if (da) t->k->axpy(&t->exec, da, dy, 1.0, acc, count);
 *
 * Ops that do not understand strides take their inputs through qkv__ready_contiguous. */
#ifndef QKV_TENSOR_TAPE_H
#define QKV_TENSOR_TAPE_H

#include "base/device.h"
#include "kernel/kernel.h"
#include "qkv/ops.h"
#include "qkv/tensor.h"
#include "tensor/lend.h"
#include "tensor/make.h"

typedef struct qkv__node qkv__node;

typedef struct {
    const char *name;
    void (*backward)(qkv_tape *t, const qkv__node *n);
    /* Its backward pass reads an input for gradients of the others alone. */
    bool product;
    /* Computes output 0 again: of ops that call qkv__new_remade. */
    void (*again)(qkv_tape *t, const qkv__node *n);
} qkv_op;

struct qkv__node {
    const qkv_op *op;
    const void *params; /* the op's own struct, in step memory */
    int n_in, n_out;
    qkv_tensor **in, **out; /* inputs may be NULL (an absent bias) */
    qkv__node *prev, *next;
    int table; /* the input that qkv__record_table named; 0: none */
    size_t lent; /* qkv__lent behind it */
};

/* Dtypes of the library's own. SMALL: of a parameter in fewer bits; what takes one asks
 * qkv__small_of. ROUNDED: bf16, of activations that products and attention alone read, and of their
 * gradients (qkv__for_products), and of what group norms and activations read between two products,
 * and sums add to a stream; other ops get them through qkv__widened. */
enum { QKV__SMALL = 100, QKV__ROUNDED };

/* Which region of its root a view is: all of it, one part of the root's split, or other. */
enum { QKV__WHOLE = -1, QKV__OTHER = -2 };

/* The cut of a root into parts, so that the first writer of each part can store. Part i is
 * `outer` runs of len[i] elements, `stride` apart, from offset[i] on. */
typedef struct {
    int n;
    size_t outer, stride;
    const size_t *offset, *len;
} qkv__parts;

typedef enum { QKV__GRAD_NONE, QKV__GRAD_PARTIAL, QKV__GRAD_FULL } qkv__grad_state;

struct qkv_tensor {
    qkv_dtype dtype;
    int ndim;
    size_t shape[QKV_MAX_DIMS], stride[QKV_MAX_DIMS]; /* strides in elements */
    void *data;       /* the first element, in the device's memory */
    qkv_tensor *root; /* whose memory this is: itself when not a view */
    size_t offset;    /* of the first element within the root */
    int part;         /* QKV__WHOLE, QKV__OTHER or a part's index */
    uint64_t region;  /* in which it was made: see qkv_tape */

    /* The rest is used on roots alone. */
    void *host;       /* the same in the host's memory; NULL: not there, or data is */
    size_t staged;    /* bytes that the host wrote, which data is to become; 0: it has */
    bool needs_grad;
    bool required;    /* qkv_require_grad: the gradient outlives the pass */
    bool spent;       /* see qkv__spend */
    bool remade, gone; /* see qkv__for_products: in such memory; let go */
    const qkv__node *maker; /* of a tensor that is remade: the node that can do it */
    bool trains;      /* a leaf whose gradient is the parameter's: it was not frozen */
    qkv_param *param; /* the leaf of this parameter, or NULL */
    uint64_t noted;   /* 1 + the tape's `dropped` when a node made it; 0: a leaf */
    qkv_tensor *next_leaf;
    const qkv__parts *parts;
    size_t uses;      /* inputs of nodes that are this tensor or a view of it */
    size_t row_uses;  /* of them, the tables of ops, if rows of gradients are kept apart */
    /* Of the pass with number `pass`; stale otherwise. */
    uint64_t pass, wanted, kept;
    size_t used_up;
    bool complete;    /* a parameter's gradient, and on_ready was told */
    qkv__grad_state state;
    uint64_t written; /* parts, one bit each */
    qkv_real *grad;
    bool one;         /* grad is to be the number 1, which has not been put there */
    qkv_tensor *shares; /* the other root whose gradient this memory is too; NULL: none */
};

enum { QKV__NAME_BYTES = 256, QKV__NAME_DEPTH = 32, QKV__POOL_CLASSES = 128 };

typedef struct {
    size_t bytes;
    struct qkv__buffer *free; /* buffers of this size */
} qkv__pool_class;

/* A request for the tensor at places, or for rows of attention weights. */
typedef struct qkv__probe {
    char *pattern; /* NULL: all */
    qkv_probe_fn *fn; /* NULL: attention answers */
    void *user;
    qkv_attention_probe attention;
    bool met; /* a name matched it */
    struct qkv__probe *next;
} qkv__probe;

/* Where a stack is entered. */
typedef struct qkv__entry {
    const char *name;
    qkv_tensor *x;
    struct qkv__entry *next;
} qkv__entry;

/* Memory of the device and of the host. */
typedef struct {
    qkv__arena *step, *host;
} qkv__memory;

struct qkv_tape {
    qkv_context *ctx;
    const qkv_kernels *k;
    qkv_exec exec;
    const qkv__device *device;
    qkv__arena *step;  /* the device's: tensors */
    qkv__arena *host;  /* the host's: what the tape knows of them */
    /* Both are of `kept`, until the reset, or in a region of `brief`, until the region ends. */
    qkv__memory kept, brief;
    qkv__arena *remade; /* the device's: tensors between qkv__for_products and qkv__let_go */
    size_t remade_count; /* of them that are there */
    bool remaking, rounding; /* see qkv__for_products */
    bool paused;             /* see qkv__pause */
    uint64_t region; /* number of the function under qkv_recompute that runs; 0: none */
    uint64_t regions;
    const qkv__node *again; /* of the region, when it runs for its backward pass; else NULL */
    bool record, train, pack, invariant, recompute;
    qkv_status status;
    uint64_t epoch; /* counts resets, over all tapes: a parameter's leaf belongs to one */
    qkv__node *first, *last;
    qkv_tensor *leaves; /* of parameters */
    qkv__lending *lender; /* whose gradients' memory this tape borrows, or NULL */
    qkv_randomness random;

    uint64_t dropped; /* passes that dropped the graph, over this step */
    uint64_t pass;   /* number of the backward pass, from 1 */
    bool wrt;        /* the pass goes to chosen tensors only */
    bool retain_graph; /* another pass over the same steps follows */
    qkv__pool_class pool[QKV__POOL_CLASSES];
    int pool_classes;
    struct qkv__buffer *empty; /* that hold nothing now */
    char *spare; /* step memory that its op needs no more */
    size_t spare_bytes;
    qkv_grad_ready_fn *on_ready;
    void *ready_user;
    qkv__grad_rows_fn *on_rows;
    void *rows_user;

    char name[QKV__NAME_BYTES];
    size_t name_len[QKV__NAME_DEPTH];
    int name_depth;
    qkv__probe *probes; /* in the order of calls */
    qkv__entry *entries;
};

size_t qkv__dtype_size(qkv_dtype dtype); /* bytes */

/* Does the request match a full name? Remembers it if so. */
bool qkv__probe_matches(qkv__probe *p, const char *name);

/* ---- making tensors ----------------------------------------------------------------------- */

/* False when the tape has failed already or an input is NULL (which then fails it). */
bool qkv__ready(qkv_tape *t, const char *op, int n, qkv_tensor *const *in);

/* Kernels see what the host wrote of x, which may be NULL. qkv__ready does it for inputs. */
static inline void qkv__arrive(const qkv_tape *t, const qkv_tensor *x)
{
    if (x && x->root->staged)
        t->device->copy_in(x->root->data, x->root->host, x->root->staged);
    if (x)
        x->root->staged = 0;
}

/* As qkv__ready, and every input must hold real numbers; and be dense, so in gets copies of those
 * that are not. */
bool qkv__ready_reals(qkv_tape *t, const char *op, int n, qkv_tensor *const *in);
bool qkv__ready_contiguous(qkv_tape *t, const char *op, int n, qkv_tensor **in);
/* How x is kept, where it is a whole parameter in fewer bits; else NULL. The tape fails where the
 * parameter is not frozen: such numbers cannot be trained. */
const qkv_k_small *qkv__small_of(qkv_tape *t, const char *op, const qkv_tensor *x);
/* y (m, w->n) = x (m, w->k) w^T + bias by the fastest way for m rows; on an invariant tape a row's
 * bits do not depend on m. */
void qkv__small_product(qkv_tape *t, qkv_real *y, const qkv_real *x, const qkv_k_small *w,
                        const qkv_real *bias, size_t m);
/* The same with x and w as they are, not rounded: what a backward pass takes the forward pass to
 * be; and dx (m, w->k) = [dx +] dy (m, w->n) w. */
void qkv__small_exact(qkv_tape *t, qkv_real *y, const qkv_real *x, const qkv_k_small *w,
                      const qkv_real *bias, size_t m);
void qkv__small_input_gradient(qkv_tape *t, qkv_real *dx, bool acc, const qkv_real *dy,
                               const qkv_k_small *w, size_t m);
/* The same, and in[0] may be rounded. */
bool qkv__ready_rounded(qkv_tape *t, const char *op, int n, qkv_tensor **in);
/* As qkv__ready_contiguous, of x, which may be rounded, a weight in any number of bits, and a bias
 * that may be NULL. */
bool qkv__ready_product(qkv_tape *t, const char *op, qkv_tensor *in[3]);
/* The output of an elementwise op on *x, which qkv__ready_contiguous readies; NULL on failure. */
qkv_tensor *qkv__ready_map(qkv_tape *t, const char *op, qkv_tensor **x);

/* Are values that products alone read kept in bf16 on this tape? */
bool qkv__rounds(const qkv_tape *t);
/* The dtype of what an op with n inputs makes, for products alone if the tape is told so. */
qkv_dtype qkv__dtype_of_output(const qkv_tape *t, int n, qkv_tensor *const *in);
static inline bool qkv__is_rounded(const qkv_tensor *x)
{
    return x && x->dtype == (qkv_dtype)QKV__ROUNDED;
}
/* x, or a recorded copy in f32 of what is rounded. */
qkv_tensor *qkv__widened(qkv_tape *t, qkv_tensor *x);
/* For a kernel whose parameters with these bits hold bf16 (qkv_exec). */
static inline qkv_exec qkv__exec_bf16(const qkv_tape *t, unsigned bits)
{
    qkv_exec e = t->exec;
    e.bf16 = bits;
    return e;
}

/* Fails the tape when no activation has that number. */
bool qkv__known_act(qkv_tape *t, const char *op, qkv_activation act);

/* Step memory of the device, as qkv__step_alloc gives the host's; and n reals of the device for the
 * duration of one op, which marks and releases t->exec.scratch. NULL fails the tape. */
void *qkv__step_memory(qkv_tape *t, size_t bytes);
qkv_real *qkv__scratch(qkv_tape *t, size_t n);

/* Device memory as the host reads it: p itself, or a copy until the reset. NULL fails the tape. */
const void *qkv__read(qkv_tape *t, const void *p, size_t bytes);
/* The ids of a dense tensor, likewise. */
const int32_t *qkv__read_ids(qkv_tape *t, const qkv_tensor *x);
/* Where a kernel writes what the host is to have at `host`: there, if it can; NULL for NULL. After
 * the kernel deliver it: in between lies the op's scratch memory. */
void *qkv__target(qkv_tape *t, void *host, size_t bytes);
void qkv__deliver(qkv_tape *t, void *host, const void *target, size_t bytes);
/* Where the host writes n numbers that are to be at p: there, if it can; NULL for NULL. Bring puts
 * them there once they are written. */
qkv_real *qkv__draft(qkv_tape *t, qkv_real *p, size_t n);
void qkv__bring(qkv_tape *t, qkv_real *p, const qkv_real *draft, size_t n);
/* One number of the device's memory, in and out. */
qkv_real qkv__get(const qkv_tape *t, const qkv_real *p);
void qkv__put(qkv_tape *t, qkv_real *p, double value);
/* A scalar that the host has: reading it there takes no copy, and no wait. */
qkv_tensor *qkv__new_item(qkv_tape *t, double value);
qkv_tensor *qkv__new(qkv_tape *t, qkv_dtype dtype, int ndim, const size_t *shape);
/* A root over `data` of the device, which outlives the step; over new step memory if NULL. */
qkv_tensor *qkv__new_over(qkv_tape *t, qkv_dtype dtype, void *data, int ndim, const size_t *shape);
qkv_tensor *qkv__new_like(qkv_tape *t, const qkv_tensor *x); /* dense, shape of x */
/* The same, in x's own memory if x is spent: for ops that read each number of x before, or when,
 * they write it, and not in their backward pass. */
qkv_tensor *qkv__new_in_place(qkv_tape *t, const qkv_tensor *x);
/* The output, of reals, of an op with n inputs, in memory as qkv__for_products says. */
qkv_tensor *qkv__new_remade(qkv_tape *t, int ndim, const size_t *shape, int n,
                            qkv_tensor *const *in);
/* A tensor that nothing but the backward pass of ops reads, once ops that are recorded next have:
 * in memory of gradients, if some is lent. */
qkv_tensor *qkv__new_inner(qkv_tape *t, qkv_dtype dtype, int ndim, const size_t *shape);
/* The output of an op with n inputs, in memory and of a dtype as qkv__for_products says. */
qkv_tensor *qkv__new_for_products(qkv_tape *t, int ndim, const size_t *shape, int n,
                                  qkv_tensor *const *in);
/* A view of x with the given shape and strides, `offset` elements on; part says what of the
 * root it covers. */
qkv_tensor *qkv__view(qkv_tape *t, qkv_tensor *x, int ndim, const size_t *shape,
                      const size_t *stride, size_t offset, int part);
qkv_tensor *qkv__copy(qkv_tape *t, const qkv_tensor *x); /* dense, of reals, not recorded */
bool qkv__is_contiguous(const qkv_tensor *x);
/* True when the first n axes of x can be walked as one; *step: from one to the next. */
bool qkv__even_axes(const qkv_tensor *x, int n, size_t *step);
/* x itself when its rows (last axis) are contiguous and evenly spaced, else a recorded copy;
 * *step: from one row to the next. */
qkv_tensor *qkv__even_rows(qkv_tape *t, qkv_tensor *x, size_t *step);

static inline qkv_real *qkv__real(const qkv_tensor *x) { return (qkv_real *)x->data; }
/* Of a parameter, or a view of one: its version, for products. 0: it is none. */
uint64_t qkv__version_of(const qkv_tensor *x);
static inline int32_t *qkv__ids(const qkv_tensor *x) { return (int32_t *)x->data; }
/* Rows (all leading dimensions) and channels (the last; 1 for a scalar). */
static inline size_t qkv__channels(const qkv_tensor *x)
{
    return x->ndim ? x->shape[x->ndim - 1] : 1;
}
size_t qkv__rows(const qkv_tensor *x);
bool qkv__same_shape(const qkv_tensor *a, const qkv_tensor *b);
/* Is w NULL, or a dense vector of n real numbers? */
bool qkv__is_vector(const qkv_tensor *w, size_t n);

/* Would this op be recorded, given these inputs? Lets a forward skip what only backward needs. */
bool qkv__recording(const qkv_tape *t, int n, qkv_tensor *const *in);

/* Ends an op: records it if the tape records and an input needs a gradient (params and the lists
 * are copied). Returns the first output, or NULL when anything failed, a kernel that found no
 * scratch memory and returned early included. */
qkv_tensor *qkv__record(qkv_tape *t, const qkv_op *op, int n_in, qkv_tensor *const *in, int n_out,
                        qkv_tensor *const *out, const void *params, size_t params_size);

/* Of the op with output y, recorded just now: of input i's gradient, not input 0, it has some rows
 * alone, which it offers to qkv__grad_hand_rows. */
void qkv__record_table(qkv_tape *t, const qkv_tensor *y, int i);

/* ---- inside backward ---------------------------------------------------------------------- */

bool qkv__wants(const qkv_tape *t, const qkv_tensor *x); /* false for NULL */

/* Where d(loss)/dx goes: the first element, laid out with x's own strides, in its dtype. *acc: add
 * to what is there. NULL when nobody wants it, or on failure (the tape then says so). */
qkv_real *qkv__grad(qkv_tape *t, qkv_tensor *x, bool *acc);

/* Adds (or stores) dense `g`, of the shape that broadcasting made out of x's, to x's gradient:
 * the one place where broadcast gradients are reduced. */
void qkv__grad_broadcast(qkv_tape *t, qkv_tensor *x, const qkv_real *g, int ndim,
                         const size_t *gshape);

/* Gives other, too, the gradient that x has got in this pass, in the same memory until one of them
 * changes. False where one is not a whole root of f32 without a gradient before that, or was asked
 * for: nothing was done then. */
bool qkv__grad_share(qkv_tape *t, qkv_tensor *x, qkv_tensor *other);

/* Adds (or stores) factor times g, dense, of x's n numbers, to x's gradient. g NULL: nothing. */
void qkv__grad_add(qkv_tape *t, qkv_tensor *x, const qkv_real *g, double factor, size_t n);

/* Stores, or adds, one value all over d(loss)/dx, which qkv__grad gave. */
void qkv__grad_fill(qkv_tape *t, qkv_real *dx, const qkv_tensor *x, double value, bool acc);

/* Rows of x's gradient, n of them, as qkv__grad_rows says: true when they went where rows are kept
 * apart (qkv__tape_on_grad_rows). Else they are to be added to qkv__grad. */
bool qkv__grad_hand_rows(qkv_tape *t, const qkv_tensor *x, const qkv__grad_rows *rows);

/* The gradient of output i, dense, in its dtype; NULL when none arrived. */
const qkv_real *qkv__grad_out(qkv_tape *t, const qkv__node *n, int i);
/* That of output 0, which is one number. */
double qkv__grad_one(qkv_tape *t, const qkv__node *n);

/* Memory for a gradient, until it is given back with the same size. */
qkv_real *qkv__pool_take(qkv_tape *t, size_t bytes);
void qkv__pool_give(qkv_tape *t, qkv_real *p, size_t bytes);

/* An op's own step memory, which its backward has read for the last time unless another pass
 * follows: gradients made from now on may lie there. */
void qkv__grad_spare(qkv_tape *t, void *p, size_t bytes);

/* ---- tensors that are made again: remake.c ------------------------------------------------- */

/* Computes x, or what x is a view of, again if it was let go. x may be any tensor, or NULL. */
void qkv__remake(qkv_tape *t, qkv_tensor *x);
/* After n's backward pass. */
void qkv__let_outputs_go(qkv_tape *t, const qkv__node *n);

/* ---- recomputing -------------------------------------------------------------------------- */

/* Goes backward through all that the tape has recorded since its list of nodes was empty, as part
 * of the pass that runs. */
void qkv__backward_region(qkv_tape *t);
/* y, which was computed again, gets the gradient of x, which it equals: its memory too, if nobody
 * else asks for it. */
void qkv__grad_hand_over(qkv_tape *t, qkv_tensor *x, qkv_tensor *y);

/* Index in the global batch of the first row of a tensor with N rows, whose leading dimension
 * is `leading` (for dropout). */
uint64_t qkv__first_row(const qkv_tape *t, size_t N, size_t leading);

#endif
