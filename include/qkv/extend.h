/* extend.h - a program's own ops, and a gradient check. (Own networks: qkv_model_type in model.h;
 * own losses and data: qkv_task_type in task.h.)
 * Layer: tensor
 *
 *     y = x sin(x), dx = dy (sin(x) + x cos(x)):
 *
 *     static void forward(const qkv_op_call *c)
 *     {
 *         for (size_t i = 0; i < c->count; i++) c->out[i] = c->in[0][i] * sinf(c->in[0][i]);
 *     }
 *     static void backward(const qkv_op_call *c)
 *     {
 *         for (size_t i = 0; i < c->count; i++)
 *             c->grad_in[0][i] = c->grad_out[i] * (sinf(c->in[0][i]) + ..);
 *     }
 *     static const qkv_op_type x_sin_x = {"x_sin_x", NULL, forward, backward};
 *     ...
 *     qkv_tensor *y = qkv_apply(t, &x_sin_x, 1, &x, NULL, 0);                                    */
#ifndef QKV_EXTEND_H
#define QKV_EXTEND_H

#include <qkv/tensor.h>

QKV_BEGIN_DECLS

enum { QKV_OP_INPUTS = 8 }; /* maximum */

/* Arguments of an op's functions. All memory is contiguous and row-major, belongs to the library,
 * and is in host memory during the call. */
typedef struct {
    qkv_tape *tape;     /* for qkv_tape_fail */
    const void *params; /* copy of qkv_apply's params */
    int inputs;
    qkv_tensor *const *x;       /* (inputs) for qkv_ndim, qkv_dim, qkv_count, qkv_tensor_dtype */
    const qkv_real *const *in;  /* (inputs) values; NULL if the input is i32 or absent */
    const int32_t *const *ids;  /* (inputs) ids of i32 inputs, else NULL */
    const qkv_tensor *y;        /* the output */
    size_t count;               /* elements of the output */
    qkv_real *out;      /* (count) forward: to be filled; backward: the output */
    qkv_real *saved;    /* forward fills it for backward; size from `shape` */
    qkv_real *scratch;  /* temporary memory of this call; size from `shape` */
    const qkv_real *grad_out; /* backward: (count) d(loss)/d(output) */
    qkv_real *const *grad_in; /* backward: (inputs) to be filled completely; NULL: not needed */
} qkv_op_call;

/* An op's output and memory. Preset to the shape of input 0, and zeros. */
typedef struct {
    int ndim;
    size_t shape[QKV_MAX_DIMS];
    size_t saved, scratch; /* elements */
} qkv_op_shape;

/* An op type; it must outlive the tapes that use it. */
typedef struct {
    const char *name; /* in error messages: "swish at h.3: .." */
    /* Checks the inputs and sets the output's shape. Only tape, params, inputs and x of the call
     * are set. Returns false, after qkv_tape_fail, to reject. NULL: the preset, for any shape. */
    bool (*shape)(const qkv_op_call *c, qkv_op_shape *out);
    void (*forward)(const qkv_op_call *c);
    void (*backward)(const qkv_op_call *c); /* NULL: no gradient */
} qkv_op_type;

/* Computes the op and records it for the backward pass. inputs (n), n in [1, QKV_OP_INPUTS]; all
 * but the first may be NULL (absent). Copies params (params_size bytes). NULL once anything on the
 * tape has failed. A meta context does not call forward and backward. */
qkv_tensor *qkv_apply(qkv_tape *t, const qkv_op_type *op, int n, qkv_tensor *const *inputs,
                      const void *params, size_t params_size);

/* Fails the tape with QKV_E_ARGUMENT and the message "what at name: ..", unless it has already
 * failed. Returns NULL. For the functions of an op, network or loss; fmt as in printf. */
void *qkv_tape_fail(qkv_tape *t, const char *what, const char *fmt, ...) QKV_PRINTF(3, 4);

/* ---- checking gradients --------------------------------------------------------------------- */

/* The function to check: computes a tensor of any shape on t, from any parameters and from data
 * that are the same in every call. NULL on failure. */
typedef qkv_tensor *qkv_function(void *user, qkv_tape *t);

/* Zeroed: the defaults. */
typedef struct {
    double tolerance; /* maximum error, relative to the parameter's largest gradient; 0: 1e-2
                         (1e-6 in the double build) */
    double step;      /* of the differences, relative to 1 + |value|; 0: 1e-2 (1e-3)  */
    size_t samples;   /* elements checked per parameter; 0: 16                        */
    uint64_t seed;    /* chooses the elements, the cotangent and dropout              */
    bool train;       /* dropout is active, the same in every call               false */
} qkv_gradient_options;

typedef struct {
    double worst;      /* maximum error, relative to the parameter's largest gradient */
    const char *param; /* its parameter; valid as long as the parameters */
    size_t checked;    /* number of elements checked */
} qkv_gradient_result;

/* Compares the backward pass of fn from a random cotangent c with fourth-order differences of
 * f = <c, fn>, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, for every parameter of ps that is not
 * frozen. Restores the values and drops the gradients. In f32 the error of a correct gradient of a
 * smooth function is at most about 1e-3; a step across a kink (ReLU, max) gives a larger one. Do
 * not use it in a context that rounds to bf16 (qkv_context_options). QKV_E_NUMERIC if the error
 * exceeds the tolerance, with parameter, index and both values; or fn's error. options and result
 * may be NULL. */
qkv_status qkv_gradient_check(qkv_params *ps, qkv_function *fn, void *user,
                              const qkv_gradient_options *options, qkv_gradient_result *result);

QKV_END_DECLS
#endif
