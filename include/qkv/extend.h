/* extend.h - ops of a program's own, and the check of their gradients. (Networks of its own:
 * qkv_model_type in model.h; losses and data of its own: qkv_task_type in task.h.)
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

enum { QKV_OP_INPUTS = 8 }; /* at most */

/* What an op's functions see. All memory is contiguous, row-major and the library's, in the host's
 * memory for the duration of the call. */
typedef struct {
    qkv_tape *tape;     /* for qkv_tape_fail */
    const void *params; /* a copy of what qkv_apply was given */
    int inputs;
    qkv_tensor *const *x;       /* (inputs) for qkv_ndim, qkv_dim, qkv_count, qkv_tensor_dtype */
    const qkv_real *const *in;  /* (inputs) values; NULL where the input holds ids or is absent */
    const int32_t *const *ids;  /* (inputs) of inputs that hold ids, else NULL */
    const qkv_tensor *y;        /* the output */
    size_t count;               /* its numbers */
    qkv_real *out;      /* (count) forward: to be filled; backward: what was filled in */
    qkv_real *saved;    /* what forward keeps for backward, as many numbers as `shape` asked for */
    qkv_real *scratch;  /* as many numbers as `shape` asked for, until the function returns */
    const qkv_real *grad_out; /* backward: (count) d(loss)/d(output) */
    qkv_real *const *grad_in; /* backward: (inputs) to be filled whole; NULL: nobody wants it */
} qkv_op_call;

/* What an op makes of its inputs. Preset to the shape of input 0 and zeros. */
typedef struct {
    int ndim;
    size_t shape[QKV_MAX_DIMS];
    size_t saved, scratch; /* numbers */
} qkv_op_shape;

/* An op; it must outlive the tapes that it is on. */
typedef struct {
    const char *name; /* in errors: "swish at h.3: .." */
    /* Checks the inputs and says what comes out: of the call only tape, params, inputs and x are
     * set. false: refused, after qkv_tape_fail. NULL: the preset shape, inputs of any shape. */
    bool (*shape)(const qkv_op_call *c, qkv_op_shape *out);
    void (*forward)(const qkv_op_call *c);
    void (*backward)(const qkv_op_call *c); /* NULL: nothing flows back */
} qkv_op_type;

/* Computes, and records the op for the backward pass. inputs: n of them, [1, QKV_OP_INPUTS]; the
 * first must be there, others may be NULL (absent). params (params_size bytes) are copied. NULL
 * once anything on the tape has failed. In a meta context the functions are not called. */
qkv_tensor *qkv_apply(qkv_tape *t, const qkv_op_type *op, int n, qkv_tensor *const *inputs,
                      const void *params, size_t params_size);

/* Fails the tape with QKV_E_ARGUMENT and "what at name: sentence" unless it has failed before;
 * returns NULL. For the functions of an op, of a network or of a loss (printf's fmt). */
void *qkv_tape_fail(qkv_tape *t, const char *what, const char *fmt, ...) QKV_PRINTF(3, 4);

/* ---- checking gradients --------------------------------------------------------------------- */

/* What is checked: computes on t, of any parameters and of data that stay the same from call to
 * call, a tensor of any shape. NULL on failure. */
typedef qkv_tensor *qkv_function(void *user, qkv_tape *t);

/* Zeroed: the defaults. */
typedef struct {
    double tolerance; /* largest error, as a share of the parameter's largest gradient; 0: 1e-2
                         (1e-6 in the double build) */
    double step;      /* of a parameter, as a share of 1 + |value|; 0: 1e-2 (1e-3)    */
    size_t samples;   /* numbers of each parameter that are moved; 0: 16              */
    uint64_t seed;    /* of the choice of these, the cotangent and dropout            */
    bool train;       /* dropout drops, the same each time                       false */
} qkv_gradient_options;

typedef struct {
    double worst;      /* the largest error, as a share of the parameter's largest gradient */
    const char *param; /* where: lives as long as the parameters */
    size_t checked;    /* numbers that were moved */
} qkv_gradient_result;

/* Compares the backward pass of fn, from a random cotangent c, with differences of fourth order of
 * f = <c, fn>, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, for every parameter of ps that is not
 * frozen. Values are as before in the end, gradients are forgotten. In f32 a right gradient of a
 * smooth function is off by 1e-3 or less; kinks (ReLU, a max) that a step crosses show as errors.
 * Not for a context that rounds to bf16 (qkv_context_options). QKV_E_NUMERIC, with parameter, place
 * and both numbers: the tolerance is exceeded; or what fn fails with. options and result may be
 * NULL. */
qkv_status qkv_gradient_check(qkv_params *ps, qkv_function *fn, void *user,
                              const qkv_gradient_options *options, qkv_gradient_result *result);

QKV_END_DECLS
#endif
