/* opt.h - optimisers, learning-rate schedules, averages of weights.
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

/* ---- optimisers, as PyTorch defines them ------------------------------------------------- */

typedef enum {
    QKV_OPTIMIZER_SGD, /* optional momentum, dampening and Nesterov momentum */
    QKV_OPTIMIZER_RMSPROP,
    QKV_OPTIMIZER_ADAM,  /* weight decay is added to the gradient */
    QKV_OPTIMIZER_ADAMW, /* weight decay is applied to the weights (decoupled) */
    QKV_OPTIMIZER_MUON,  /* hidden layers' matrices (qkv_param_set_hidden); AdamW for the rest */
    QKV_OPTIMIZER_COUNT
} qkv_optimizer_kind;

/* "sgd", "rmsprop", "adam", "adamw", "muon" */
const char *qkv_optimizer_name(qkv_optimizer_kind kind);
/* Sets *out to the kind with that name; false, with *out unchanged, if there is none. */
bool qkv_optimizer_find(const char *name, qkv_optimizer_kind *out);

/* What multiplies Muon's learning rate for a matrix (m, n), torch.optim.Muon's adjust_lr_fn. */
typedef enum {
    QKV_MUON_MATCH_RMS_ADAMW, /* 0.2 sqrt(max(m, n)): updates as large as AdamW's, so that its
                                 learning rates and weight decays fit (Liu et al. 2025) */
    QKV_MUON_ORIGINAL,        /* sqrt(max(1, m / n)) (Jordan et al. 2024) */
    QKV_MUON_SPECTRAL,        /* sqrt(m / n): "spectral_unclamped" */
    QKV_MUON_ADJUST_COUNT
} qkv_muon_adjust;

/* A kind ignores the fields it does not use. Start from qkv_optimizer_defaults: a zeroed struct is
 * plain SGD and an error for every other kind. */
typedef struct {
    qkv_optimizer_kind kind;
    double weight_decay; /* lambda        [0, inf)     adamw 0.01, muon 0.1, others 0 */
    double momentum;     /* sgd, rmsprop            [0, inf)     0                    */
    double dampening;    /* sgd                     any          0                    */
    bool nesterov;       /* sgd; needs momentum > 0 and no dampening     false        */
    double alpha;        /* rmsprop: smoothing      [0, 1]       0.99                 */
    bool centered;       /* rmsprop: divides by the centred variance         false        */
    double beta1, beta2; /* adam, adamw, muon's adamw  [0, 1)    0.9, 0.999           */
    double eps;          /* rmsprop, adam, adamw; outside the root   (0, inf)  1e-8   */
    double muon_momentum; /* muon                   [0, 1)       0.95                 */
    bool muon_nesterov;   /* muon                                true                 */
    qkv_muon_adjust muon_adjust; /* muon            QKV_MUON_MATCH_RMS_ADAMW (torch: ORIGINAL) */
    int muon_steps;       /* muon: Newton-Schulz    [1, 99]      5                    */
    double muon_eps;      /* muon: smallest norm to divide by    (0, inf)  1e-7       */
    double adamw_lr_scale; /* muon: learning rate of the parameters left to AdamW, as a
                              multiple of the step's   [0, inf)  1                    */
} qkv_optimizer_options;

qkv_optimizer_options qkv_optimizer_defaults(qkv_optimizer_kind kind);

/* The fields as flags (--optimizer, --weight-decay ..). The defaults are adamw's. */
const qkv_option_table *qkv_optimizer_table(void);

/* A rule of a parameter group. A parameter belongs to the first rule that matches; without a match
 * its lr_scale is 1 and its weight decay the options'. */
typedef struct {
    const char *pattern;    /* for the full name: * any text, ? one character; NULL: all names */
    int min_ndim, max_ndim; /* range of its dimensions; max_ndim 0: no limit                   */
    double lr_scale;        /* factor of the learning rate                                     */
    double weight_decay;    /* < 0: the options' weight decay                                  */
    bool exclude;           /* no state and no updates by this optimiser                       */
} qkv_optimizer_rule;

/* One rule: weight decay applies to matrices and embeddings, not to 1-D parameters. */
const qkv_optimizer_rule *qkv_optimizer_decay_matrices(void);

typedef struct qkv_optimizer qkv_optimizer;

/* Allocates zeroed state, in one piece, for every parameter that is now neither frozen nor
 * excluded. The rules (NULL if n_rules is 0) are applied now and not kept. params must outlive the
 * optimiser. On failure *out is NULL: QKV_E_ARGUMENT for a value out of range or Muon without the
 * matrix of a hidden layer, QKV_E_MEMORY. */
qkv_status qkv_optimizer_create(qkv_optimizer **out, qkv_params *params,
                                const qkv_optimizer_options *options,
                                const qkv_optimizer_rule *rules, size_t n_rules);
void qkv_optimizer_destroy(qkv_optimizer *o); /* NULL is allowed */

typedef struct {
    double lr;         /* learning rate, before lr_scale of the groups                        */
    double grad_scale; /* first scales every gradient: 1/n for n accumulated passes; 0: 1     */
    double max_norm;   /* clips: scales gradients by min(1, max_norm / (norm + 1e-6)); 0: none    */
} qkv_optimizer_step_args;

/* Updates the parameters from their gradients. A parameter that is frozen or has no gradient keeps
 * its value, state and count. norm, if not NULL, receives the global norm of the scaled gradients
 * before clipping. QKV_E_NUMERIC if a gradient is not finite, checked when max_norm or norm is
 * set: nothing is updated, and the message names the parameter. QKV_E_MEMORY: some parameters are
 * updated. */
qkv_status qkv_optimizer_step(qkv_optimizer *o, const qkv_optimizer_step_args *args,
                              double *norm);

/* lr_scale and weight decay of the parameter's group; either may be NULL. false if the optimiser
 * does not update the parameter. */
bool qkv_optimizer_group_of(const qkv_optimizer *o, const qkv_param *p, double *lr_scale,
                            double *weight_decay);

/* Size of the state and of what a step needs beside it, bytes. */
size_t qkv_optimizer_bytes(const qkv_optimizer *o);

/* Floating-point operations of the products of a step: Muon's; 0 of other kinds. */
double qkv_optimizer_flops(const qkv_optimizer *o);

/* ---- state, for checkpoints ---------------------------------------------------------------- */

/* An array of an optimiser or average, to read when saving and to overwrite when loading. */
typedef struct {
    const char *param; /* name of its parameter; NULL: belongs to the whole object        */
    const char *what;  /* PyTorch's name: "exp_avg", "momentum_buffer", "step"            */
    qkv_dtype dtype;   /* QKV_REAL, or QKV_I32 for counts                                 */
    int ndim;
    size_t shape[QKV_MAX_DIMS];
    void *data;       /* contiguous, in the memory of ctx's device; */
    qkv_context *ctx; /* NULL: host memory */
    size_t first, held; /* data holds elements first .. first + held - 1 of the array alone: those
                           that are this rank's. One rank has them all */
} qkv_state;

/* Maps the held elements for the host to read and write: data itself in host memory, else a copy.
 * NULL if out of memory, recorded in the context. Unmap writes a copy back if `written`, and frees
 * it. mapped may be NULL. */
void *qkv_state_map(const qkv_state *s);
void qkv_state_unmap(const qkv_state *s, void *mapped, bool written);

size_t qkv_optimizer_state_count(const qkv_optimizer *o);
/* i < qkv_optimizer_state_count. Entry 0 is "step", (parameters) i32: the number of updates of each
 * parameter, in the order of qkv_params_at. */
qkv_state qkv_optimizer_state(qkv_optimizer *o, size_t i);

/* ---- averages of weights ---------------------------------------------------------------- */

typedef struct qkv_average qkv_average;

typedef struct {
    double decay; /* average = decay average + (1 - decay) weights; 0: the plain mean of all
                     additions (checkpoint averaging)                 [0, 1)      0        */
    bool ramp;    /* limits the decay of the n-th addition to (1 + n) / (10 + n), so that
                     early weights fade                                           false    */
} qkv_average_options;

/* Allocates an average of every parameter. params must outlive it. On failure *out is NULL:
 * QKV_E_ARGUMENT for a decay out of range, QKV_E_MEMORY. */
qkv_status qkv_average_create(qkv_average **out, qkv_params *params,
                              const qkv_average_options *options);
void qkv_average_destroy(qkv_average *a); /* NULL is allowed */
/* Adds the parameters' current values. The first call copies them. */
void qkv_average_add(qkv_average *a);
/* Swaps average and parameters: call once to use the averages, again to continue training.
 * QKV_E_ARGUMENT if nothing has been added. */
qkv_status qkv_average_swap(qkv_average *a);

size_t qkv_average_state_count(const qkv_average *a);
/* Entry 0 is "count", () i32: the number of additions. Then one "average" per parameter. */
qkv_state qkv_average_state(qkv_average *a, size_t i);

/* ---- learning-rate schedules: functions of the step ---------------------------------------- */

typedef enum {
    QKV_SCHEDULE_CONSTANT,
    QKV_SCHEDULE_LINEAR,       /* linear to min_lr at `steps` */
    QKV_SCHEDULE_COSINE,       /* half a cosine period to min_lr at `steps` */
    QKV_SCHEDULE_INVERSE_SQRT, /* lr sqrt(warmup / step) */
    QKV_SCHEDULE_NOAM,         /* lr width^-0.5 min(s^-0.5, s warmup^-1.5), s = step + 1 */
    QKV_SCHEDULE_WSD,          /* warm-up, stable, then 1 - sqrt(progress) over `decay` steps */
    QKV_SCHEDULE_COUNT
} qkv_schedule_kind;

const char *qkv_schedule_name(qkv_schedule_kind kind); /* "constant" .. "inverse-sqrt" .. "wsd" */
bool qkv_schedule_find(const char *name, qkv_schedule_kind *out);

/* Steps count from 0, the first update. The warm-up of all kinds but noam is linear, from start_lr
 * at step 0 to lr at step `warmup`. */
typedef struct {
    qkv_schedule_kind kind;
    double lr;       /* peak learning rate (noam: factor)       [0, inf)   1e-3 (noam 1) */
    double min_lr;   /* minimum after the warm-up                      [0, lr]    0           */
    double start_lr; /* learning rate of step 0; < 0: lr / (warmup + 1)           -1          */
    uint64_t warmup; /* steps                                                     0           */
    uint64_t steps;  /* linear, cosine, wsd: end of the decay                     0           */
    uint64_t decay;  /* wsd: length of the decay, steps; 0: steps / 5             0           */
    size_t width;    /* noam: the model's width                        [1, ..]    512         */
} qkv_schedule;

qkv_schedule qkv_schedule_defaults(qkv_schedule_kind kind);

/* The fields as flags (--schedule, --lr, --min-lr, --warmup ..). `steps` and `width` have no flag;
 * the run and the model set them by key. The defaults are cosine's. */
const qkv_option_table *qkv_schedule_table(void);

/* The learning rate of update `step`. noam: width 0 is 512. */
double qkv_schedule_lr(const qkv_schedule *s, uint64_t step);

QKV_END_DECLS
#endif
