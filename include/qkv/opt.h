/* opt.h - optimisers over parameters, learning-rate schedules, averages of weights.
 * Layer: opt
 *
 *     qkv_optimizer_options oo = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
 *     qkv_optimizer_create(&o, params, &oo, qkv_optimizer_decay_matrices(), 1);
 *     for (uint64_t i = 0; i < sched.steps; i++) {
 *         ... qkv_backward(t, loss) ...
 *         qkv_optimizer_step_args step = {.lr = qkv_schedule_lr(&sched, i), .max_norm = 1.0};
 *         qkv_optimizer_step(o, &step, &norm);
 *         qkv_params_zero_grad(params);
 *     }                                                                                   */
#ifndef QKV_OPT_H
#define QKV_OPT_H

#include <qkv/options.h>
#include <qkv/tensor.h>

QKV_BEGIN_DECLS

/* ---- optimisers: PyTorch's definitions --------------------------------------------------- */

typedef enum {
    QKV_OPTIMIZER_SGD, /* gradient descent; with momentum, dampening, Nesterov's form */
    QKV_OPTIMIZER_RMSPROP,
    QKV_OPTIMIZER_ADAM,  /* weight decay is added to the gradient */
    QKV_OPTIMIZER_ADAMW, /* weight decay shrinks the weights beside the step */
    QKV_OPTIMIZER_COUNT
} qkv_optimizer_kind;

const char *qkv_optimizer_name(qkv_optimizer_kind kind); /* "sgd", "rmsprop", "adam", "adamw" */
/* The kind of that name; false if there is none, and *out is unchanged. */
bool qkv_optimizer_find(const char *name, qkv_optimizer_kind *out);

/* Fields that a kind does not use are ignored. Start from qkv_optimizer_defaults: zeros are plain
 * gradient descent, and refused for every other kind. */
typedef struct {
    qkv_optimizer_kind kind;
    double weight_decay; /* lambda                  [0, inf)     adamw 0.01, others 0 */
    double momentum;     /* sgd, rmsprop            [0, inf)     0                    */
    double dampening;    /* sgd                     any          0                    */
    bool nesterov;       /* sgd; needs momentum > 0 and no dampening     false        */
    double alpha;        /* rmsprop: smoothing      [0, 1]       0.99                 */
    bool centered;       /* rmsprop: by the variance, not the square     false        */
    double beta1, beta2; /* adam, adamw             [0, 1)       0.9, 0.999           */
    double eps;          /* rmsprop, adam, adamw; outside the root   (0, inf)  1e-8   */
} qkv_optimizer_options;

qkv_optimizer_options qkv_optimizer_defaults(qkv_optimizer_kind kind);

/* The same fields as flags (--optimizer, --weight-decay ..); the defaults are adamw's. */
const qkv_option_table *qkv_optimizer_table(void);

/* One row of a table of groups: a parameter belongs to the first row that matches it, and to
 * {lr_scale 1, the options' weight decay} when none does. */
typedef struct {
    const char *pattern;    /* of the full name: * any text, ? one character; NULL: every name */
    int min_ndim, max_ndim; /* dimensions it must have; max_ndim 0: any number                 */
    double lr_scale;        /* multiplies the step's rate                                      */
    double weight_decay;    /* instead of the options'; negative: the options'                 */
    bool exclude;           /* not this optimiser's: no state, never updated                   */
} qkv_optimizer_rule;

/* One row: parameters of one dimension (biases, norms) do not decay, matrices and tables do. */
const qkv_optimizer_rule *qkv_optimizer_decay_matrices(void);

typedef struct qkv_optimizer qkv_optimizer;

/* State for every parameter that is neither frozen nor excluded now, in one allocation, zeroed.
 * The rules (NULL with n_rules 0) are applied here and not kept. The parameters must outlive the
 * optimiser. On failure *out is NULL: QKV_E_ARGUMENT for a value out of range, QKV_E_MEMORY. */
qkv_status qkv_optimizer_create(qkv_optimizer **out, qkv_params *params,
                                const qkv_optimizer_options *options,
                                const qkv_optimizer_rule *rules, size_t n_rules);
void qkv_optimizer_destroy(qkv_optimizer *o); /* NULL is allowed */

typedef struct {
    double lr;         /* rate of this step, before the groups' scales                        */
    double grad_scale; /* multiplies every gradient first, 1/n for n summed passes; 0 means 1 */
    double max_norm;   /* gradients are scaled by min(1, max_norm / (norm + 1e-6)); 0: never  */
} qkv_optimizer_step_args;

/* One update from the gradients that are there; a parameter without one, or frozen, stays as it
 * is, state and count included. norm, if not NULL, gets the global norm of the scaled gradients
 * before clipping. QKV_E_NUMERIC when a gradient is not finite: the sentence names the
 * parameter, nothing was updated (checked whenever the norm is computed: max_norm or norm). */
qkv_status qkv_optimizer_step(qkv_optimizer *o, const qkv_optimizer_step_args *args,
                              double *norm);

/* The rate factor and weight decay of a parameter's group; false if the optimiser has no part
 * in it. Either output may be NULL. */
bool qkv_optimizer_group_of(const qkv_optimizer *o, const qkv_param *p, double *lr_scale,
                            double *weight_decay);

/* Bytes of state. */
size_t qkv_optimizer_bytes(const qkv_optimizer *o);

/* ---- state, to save and to load ------------------------------------------------------------ */

/* One array inside an optimiser or an average: written out to save, overwritten to load. */
typedef struct {
    const char *param; /* name of the parameter it belongs to; NULL: to the whole object  */
    const char *what;  /* PyTorch's word: "exp_avg", "momentum_buffer", "step"            */
    qkv_dtype dtype;   /* QKV_REAL, or QKV_I32 for counts                                 */
    int ndim;
    size_t shape[QKV_MAX_DIMS];
    void *data;       /* contiguous, in the memory of */
    qkv_context *ctx; /* this context's device; NULL: in the host's */
} qkv_state;

/* The numbers for the host to read and write: data itself where the host may follow it, else a
 * copy; NULL, and the context says so, when there is no memory for that. Unmap writes the copy back
 * if it was written to, and frees it; mapped may be NULL. */
void *qkv_state_map(const qkv_state *s);
void qkv_state_unmap(const qkv_state *s, void *mapped, bool written);

size_t qkv_optimizer_state_count(const qkv_optimizer *o);
/* i < qkv_optimizer_state_count. The first is "step", (parameters) i32: how often each was
 * updated, in the order of qkv_params_at. */
qkv_state qkv_optimizer_state(qkv_optimizer *o, size_t i);

/* ---- averages of weights ---------------------------------------------------------------- */

typedef struct qkv_average qkv_average;

typedef struct {
    double decay; /* average = decay average + (1 - decay) weights; 0: the plain mean of all
                     that was added (checkpoint averaging)            [0, 1)      0        */
    bool ramp;    /* decay at most (1 + n) / (10 + n) at the n-th addition, so that the
                     beginning is forgotten                                       false    */
} qkv_average_options;

/* Room for every parameter. The parameters must outlive it. On failure *out is NULL:
 * QKV_E_ARGUMENT for a decay out of range, QKV_E_MEMORY. */
qkv_status qkv_average_create(qkv_average **out, qkv_params *params,
                              const qkv_average_options *options);
void qkv_average_destroy(qkv_average *a); /* NULL is allowed */
/* Takes in the parameters' values of now; the first time they are copied. */
void qkv_average_add(qkv_average *a);
/* Exchanges average and parameters: once to use the averages, once more to go on training.
 * QKV_E_ARGUMENT if nothing was added yet. */
qkv_status qkv_average_swap(qkv_average *a);

size_t qkv_average_state_count(const qkv_average *a);
/* The first is "count", () i32: additions so far; then one "average" for every parameter. */
qkv_state qkv_average_state(qkv_average *a, size_t i);

/* ---- schedules: pure functions of the step ------------------------------------------------ */

typedef enum {
    QKV_SCHEDULE_CONSTANT,
    QKV_SCHEDULE_LINEAR,       /* to min_lr at `steps` */
    QKV_SCHEDULE_COSINE,       /* half a cosine to min_lr at `steps` */
    QKV_SCHEDULE_INVERSE_SQRT, /* lr sqrt(warmup / step) */
    QKV_SCHEDULE_NOAM,         /* lr width^-0.5 min(s^-0.5, s warmup^-1.5), s = step + 1 */
    QKV_SCHEDULE_WSD,          /* warm-up, stable, then 1 - sqrt(progress) over `decay` steps */
    QKV_SCHEDULE_COUNT
} qkv_schedule_kind;

const char *qkv_schedule_name(qkv_schedule_kind kind); /* "constant" .. "inverse-sqrt" .. "wsd" */
bool qkv_schedule_find(const char *name, qkv_schedule_kind *out);

/* Steps count from 0: the first update. All but noam begin with a straight line from start_lr at
 * step 0 to lr at step `warmup`. */
typedef struct {
    qkv_schedule_kind kind;
    double lr;       /* the highest rate (noam: its factor)     [0, inf)   1e-3 (noam 1) */
    double min_lr;   /* never below it after the warm-up               [0, lr]    0           */
    double start_lr; /* rate of step 0; negative: lr / (warmup + 1)               -1          */
    uint64_t warmup; /* steps                                                     0           */
    uint64_t steps;  /* where the decay ends (linear, cosine, wsd)                0           */
    uint64_t decay;  /* wsd: length of the decay; 0: a fifth of steps             0           */
    size_t width;    /* noam: the model's width                        [1, ..]    512         */
} qkv_schedule;

qkv_schedule qkv_schedule_defaults(qkv_schedule_kind kind);

/* The same fields as flags (--schedule, --lr, --min-lr, --warmup ..); `steps` and `width` belong
 * to the run and the model and are set by their keys alone. The defaults are cosine's. */
const qkv_option_table *qkv_schedule_table(void);

/* The rate of update `step`. Noam: width 0 counts as 512. */
double qkv_schedule_lr(const qkv_schedule *s, uint64_t step);

QKV_END_DECLS
#endif
