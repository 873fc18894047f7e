/* optimizer.c - the optimisers: options, groups, state, one step over all parameters. Rates come
 * from outside (schedule.c); the arithmetic is the tensor layer's (update.h). */
#include "opt/state.h"

#include <fnmatch.h>
#include <math.h>

#include "base/device.h"
#include "opt/muon.h"
#include "tensor/make.h"
#include "tensor/update.h"

typedef struct {
    qkv__update_rule update;
    const char *state[QKV__UPDATE_STATES]; /* as update.h orders them; NULL: never used */
} rule;

static const rule rules_of[QKV_OPTIMIZER_COUNT] = {
    [QKV_OPTIMIZER_SGD] = {QKV__UPDATE_SGD, {"momentum_buffer"}},
    [QKV_OPTIMIZER_RMSPROP] = {QKV__UPDATE_RMSPROP,
                               {"square_avg", "momentum_buffer", "grad_avg"}},
    [QKV_OPTIMIZER_ADAM] = {QKV__UPDATE_ADAM, {"exp_avg", "exp_avg_sq"}},
    [QKV_OPTIMIZER_ADAMW] = {QKV__UPDATE_ADAMW, {"exp_avg", "exp_avg_sq"}},
    [QKV_OPTIMIZER_MUON] = {QKV__UPDATE_MUON, {"momentum_buffer"}}, /* the rest is AdamW's */
};

typedef struct {
    qkv_param *p;
    qkv__own own;
    bool member; /* neither excluded nor frozen when the optimiser was made */
    qkv_optimizer_kind kind; /* the options', or AdamW where Muon leaves a parameter to it */
    double lr_scale, weight_decay;
    qkv_real *state[QKV__UPDATE_STATES]; /* of its own elements; NULL: not needed */
} slot;

struct qkv_optimizer {
    qkv_context *ctx;
    qkv_params *params;
    qkv_optimizer_options options;
    size_t n, bytes;
    slot *slots;   /* (n), in the order of qkv_params_at */
    int32_t *step; /* (n) updates so far */
    qkv__arena *memory;
    qkv_real *work; /* of Muon; NULL: another kind */
};

static const qkv_optimizer_rule decay_matrices = {NULL, 0, 1, 1.0, 0.0, false};
const qkv_optimizer_rule *qkv_optimizer_decay_matrices(void) { return &decay_matrices; }

static const char *const decay_fields[] = {"beta1", "beta2", "muon_momentum"};

static qkv_status optimizer_check(qkv_context *ctx, const qkv_optimizer_options *o)
{
    if ((unsigned)o->kind >= QKV_OPTIMIZER_COUNT)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser: no kind %d", (int)o->kind);
    const char *name = qkv_optimizer_name(o->kind);
    const struct {
        const char *field;
        double value;
    } not_negative[] = {{"weight_decay", o->weight_decay},
                        {"momentum", o->momentum},
                        {"eps", o->eps},
                        {"alpha", o->alpha},
                        {"muon_eps", o->muon_eps},
                        {"adamw_lr_scale", o->adamw_lr_scale}};
    for (size_t i = 0; i < sizeof not_negative / sizeof *not_negative; i++)
        if (!(not_negative[i].value >= 0.0) || isinf(not_negative[i].value))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser %s: %s is %g; 0 or more expected",
                            name, not_negative[i].field, not_negative[i].value);
    const double decays[] = {o->beta1, o->beta2, o->muon_momentum};
    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++)
        if (!(decays[i] >= 0.0 && decays[i] < 1.0))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser %s: %s is %g; 0 <= %s < 1 expected",
                            name, decay_fields[i], decays[i], decay_fields[i]);
    if (o->kind != QKV_OPTIMIZER_SGD && o->eps == 0.0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser %s: eps is 0, and a gradient of 0 would "
                        "be divided by it; start from qkv_optimizer_defaults", name);
    if (o->alpha > 1.0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser %s: alpha is %g; at most 1 expected",
                        name, o->alpha);
    if (o->kind == QKV_OPTIMIZER_SGD && o->nesterov && (o->momentum == 0.0 || o->dampening != 0.0))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "optimiser sgd: nesterov needs a momentum and no dampening; found "
                        "momentum %g, dampening %g",
                        o->momentum, o->dampening);
    return o->kind == QKV_OPTIMIZER_MUON ? qkv__muon_check(ctx, o) : QKV_OK;
}

/* Does a parameter with this kind of update need its s-th state? */
static bool keeps(const qkv_optimizer_options *o, qkv_optimizer_kind kind, int s)
{
    if (kind == QKV_OPTIMIZER_SGD && s == 0)
        return o->momentum != 0.0;
    if (kind == QKV_OPTIMIZER_RMSPROP && s > 0)
        return s == 1 ? o->momentum > 0.0 : o->centered;
    return rules_of[kind].state[s] != NULL;
}

static bool matches(const qkv_optimizer_rule *r, const qkv_param *p)
{
    int ndim = qkv_param_ndim(p);
    return ndim >= r->min_ndim && (!r->max_ndim || ndim <= r->max_ndim) &&
           (!r->pattern || fnmatch(r->pattern, qkv_param_name(p), 0) == 0);
}

static slot slot_for(qkv_param *p, qkv__own own, const qkv_optimizer_options *o,
                     const qkv_optimizer_rule *rules, size_t n)
{
    slot s = {p, own, !qkv_param_frozen(p), o->kind, 1.0, o->weight_decay, {NULL}};
    for (size_t i = 0; i < n; i++)
        if (matches(&rules[i], p)) {
            s.member = s.member && !rules[i].exclude;
            s.lr_scale = rules[i].lr_scale;
            if (rules[i].weight_decay >= 0.0)
                s.weight_decay = rules[i].weight_decay;
            break;
        }
    if (o->kind == QKV_OPTIMIZER_MUON && !qkv_param_hidden(p, 0)) {
        s.kind = QKV_OPTIMIZER_ADAMW;
        s.lr_scale *= o->adamw_lr_scale;
    }
    return s;
}

/* Bytes of the states of all members, and of the work that the largest of Muon's needs. */
static void optimizer_count_bytes(qkv_optimizer *o, size_t *work)
{
    *work = 0;
    for (size_t i = 0; i < o->n; i++) {
        const slot *x = &o->slots[i];
        for (int s = 0; x->member && s < QKV__UPDATE_STATES; s++)
            o->bytes += keeps(&o->options, x->kind, s) * qkv__state_bytes(x->own.count);
        bool muon = x->member && x->kind == QKV_OPTIMIZER_MUON && x->own.count;
        size_t need = muon ? qkv__muon_work(x->p) : 0;
        *work = need > *work ? need : *work;
    }
    o->bytes += *work ? qkv__state_bytes(*work) : 0;
}

/* All state in one block, each member's arrays side by side, as a step reads them; then work. */
static qkv_status allocate_state(qkv_optimizer *o)
{
    size_t work;
    optimizer_count_bytes(o, &work);
    if (!o->bytes)
        return QKV_OK;
    if (qkv__arena_create_on(&o->memory, o->ctx, qkv__context_device(o->ctx), "optimiser"))
        return QKV_E_MEMORY;
    char *at = qkv__arena_zalloc(o->memory, o->bytes);
    if (!at)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < o->n; i++) {
        slot *x = &o->slots[i];
        for (int s = 0; x->member && s < QKV__UPDATE_STATES; s++)
            if (keeps(&o->options, x->kind, s)) {
                x->state[s] = (qkv_real *)(void *)at;
                at += qkv__state_bytes(x->own.count);
            }
    }
    o->work = work ? (qkv_real *)(void *)at : NULL;
    return QKV_OK;
}

/* The norm over the members alone: what another optimiser updates is not this one's. *bad: the
 * first parameter with which it is no longer finite, or NULL. */
static double members_norm(const qkv_optimizer *o, qkv_param **bad)
{
    double total = 0.0;
    *bad = NULL;
    for (size_t i = 0; i < o->n; i++) {
        const slot *s = &o->slots[i];
        if (!s->member || qkv_param_frozen(s->p))
            continue;
        total += qkv__param_grad_squares(s->p);
        if (!isfinite(total) && !*bad)
            *bad = s->p;
    }
    return sqrt(total);
}

qkv_optimizer_options qkv_optimizer_defaults(qkv_optimizer_kind kind)
{
    return (qkv_optimizer_options){
        .kind = kind,
        .weight_decay = kind == QKV_OPTIMIZER_MUON ? 0.1 : kind == QKV_OPTIMIZER_ADAMW ? 0.01 : 0.0,
        .alpha = 0.99,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .muon_momentum = 0.95,
        .muon_nesterov = true,
        .muon_steps = 5,
        .muon_eps = 1e-7,
        .adamw_lr_scale = 1.0,
    };
}

/* Muon without anything to do for it, on any rank, is a mistake. */
static bool has_hidden(const qkv_optimizer *o)
{
    bool has = false;
    for (size_t i = 0; i < o->n && !has; i++)
        has = o->slots[i].member && o->slots[i].kind == QKV_OPTIMIZER_MUON;
    return has;
}

qkv_status qkv_optimizer_create(qkv_optimizer **out, qkv_params *params,
                                const qkv_optimizer_options *options,
                                const qkv_optimizer_rule *rules, size_t n_rules)
{
    return qkv__optimizer_create_of(out, params, options, rules, n_rules, NULL);
}

qkv_status qkv__optimizer_create_of(qkv_optimizer **out, qkv_params *params,
                                    const qkv_optimizer_options *options,
                                    const qkv_optimizer_rule *rules, size_t n_rules,
                                    const qkv__own *own)
{
    qkv_context *ctx = qkv__params_context(params);
    *out = NULL;
    qkv_status status = optimizer_check(ctx, options);
    if (status)
        return status;
    qkv_optimizer *o = qkv_calloc(ctx, 1, sizeof *o);
    if (!o)
        return QKV_E_MEMORY;
    o->ctx = ctx;
    o->params = params;
    o->options = *options;
    o->n = qkv_params_count(params);
    o->slots = qkv_calloc(ctx, o->n, sizeof *o->slots);
    o->step = qkv_calloc(ctx, o->n, sizeof *o->step);
    if (!o->slots || !o->step)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < o->n && !status; i++)
        o->slots[i] = slot_for(qkv_params_at(params, i), qkv__own_of(own, params, i), options,
                               rules, n_rules);
    if (!status)
        status = allocate_state(o);
    if (!status && options->kind == QKV_OPTIMIZER_MUON && !has_hidden(o))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser muon: none of the parameters to train is "
                          "the matrix of a hidden layer (qkv_param_set_hidden); use adamw");
    if (status)
        qkv_optimizer_destroy(o);
    else
        *out = o;
    return status;
}

void qkv_optimizer_destroy(qkv_optimizer *o)
{
    if (!o)
        return;
    qkv__arena_destroy(o->memory);
    qkv_free(o->ctx, o->step);
    qkv_free(o->ctx, o->slots);
    qkv_free(o->ctx, o);
}

/* Is it updated now? */
static bool moves(const slot *s)
{
    return s->member && !qkv_param_frozen(s->p) && qkv__param_has_grad(s->p);
}

void qkv__optimizer_count(qkv_optimizer *o)
{
    for (size_t i = 0; i < o->n; i++)
        o->step[i] += moves(&o->slots[i]);
}

bool qkv__optimizer_update(qkv_optimizer *o, size_t param, size_t from, size_t n,
                           const qkv_real *grad, double lr, double scale)
{
    const qkv_optimizer_options *op = &o->options;
    const slot *s = &o->slots[param];
    qkv_real *state[QKV__UPDATE_STATES];
    if (!n || !moves(s))
        return true;
    const qkv__update u = {
        .rule = rules_of[s->kind].update,
        .lr = lr * s->lr_scale,
        .weight_decay = s->weight_decay,
        .grad = grad,
        .grad_scale = scale,
        .momentum = op->momentum,
        .dampening = op->dampening,
        .nesterov = op->nesterov,
        .alpha = op->alpha,
        .eps = op->eps,
        .beta1 = op->beta1,
        .beta2 = op->beta2,
        .step = (uint64_t)o->step[param],
    };
    for (int i = 0; i < QKV__UPDATE_STATES; i++)
        state[i] = s->state[i] ? s->state[i] + (from - s->own.from) : NULL;
    if (s->kind == QKV_OPTIMIZER_MUON)
        return qkv__muon_update(s->p, op, &u, state[0], o->work);
    qkv__param_update(s->p, &u, state, from, n);
    return true;
}

qkv_status qkv_optimizer_step(qkv_optimizer *o, const qkv_optimizer_step_args *args,
                              double *norm)
{
    double scale = args->grad_scale == 0.0 ? 1.0 : args->grad_scale;
    if (norm || args->max_norm > 0.0) {
        qkv_param *bad;
        double total = scale * members_norm(o, &bad);
        if (norm)
            *norm = total;
        if (!isfinite(total) && qkv__param_lacked_scratch(bad))
            return QKV_E_MEMORY;
        if (!isfinite(total))
            return qkv_fail(o->ctx, QKV_E_NUMERIC, "the gradient of %s is not finite",
                            qkv_param_name(bad));
        if (args->max_norm > 0.0)
            scale *= fmin(1.0, args->max_norm / (total + 1e-6));
    }
    qkv__optimizer_count(o);
    for (size_t i = 0; i < o->n; i++) {
        const qkv__own *own = &o->slots[i].own;
        if (!qkv__optimizer_update(o, i, own->from, own->count, NULL, args->lr, scale))
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

bool qkv_optimizer_group_of(const qkv_optimizer *o, const qkv_param *p, double *lr_scale,
                            double *weight_decay)
{
    for (size_t i = 0; i < o->n; i++) {
        const slot *s = &o->slots[i];
        if (s->p != p || !s->member)
            continue;
        if (lr_scale)
            *lr_scale = s->lr_scale;
        if (weight_decay)
            *weight_decay = s->weight_decay;
        return true;
    }
    return false;
}

size_t qkv_optimizer_bytes(const qkv_optimizer *o) { return o->bytes; }

double qkv_optimizer_flops(const qkv_optimizer *o)
{
    double sum = 0;
    for (size_t i = 0; i < o->n; i++)
        if (o->slots[i].member && o->slots[i].kind == QKV_OPTIMIZER_MUON)
            sum += qkv__muon_flops(o->slots[i].p, o->options.muon_steps);
    return sum;
}

size_t qkv_optimizer_state_count(const qkv_optimizer *o)
{
    size_t count = 1;
    for (size_t i = 0; i < o->n; i++)
        for (int s = 0; s < QKV__UPDATE_STATES; s++)
            count += o->slots[i].state[s] != NULL;
    return count;
}

qkv_state qkv_optimizer_state(qkv_optimizer *o, size_t i)
{
    if (i == 0)
        return qkv__state_counts("step", 1, o->n, o->step);
    size_t left = i - 1;
    for (size_t k = 0; k < o->n; k++) {
        const slot *x = &o->slots[k];
        for (int s = 0; s < QKV__UPDATE_STATES; s++)
            if (x->state[s] && left-- == 0)
                return qkv__state_of(x->p, rules_of[x->kind].state[s], x->state[s], x->own);
    }
    return qkv__state_counts("none", 1, 0, NULL);
}
