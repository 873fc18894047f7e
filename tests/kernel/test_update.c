/* test_update.c - optimiser updates of every table against PyTorch's definitions in double, over
 * several steps, with and without each of their options. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels.h"

enum { ROUNDS = 24, STEPS = 4 };

/* One parameter with its state, in double. */
typedef struct {
    double p, s1, s2, s3;
} element;

typedef void rule(element *x, double g, const qkv_k_update_args *a, bool use1, bool use2,
                  bool use3);

static void sgd(element *x, double g, const qkv_k_update_args *a, bool use1, bool use2, bool use3)
{
    (void)use2, (void)use3;
    g = g * a->grad_scale + a->weight_decay * x->p;
    if (use1) {
        x->s1 = a->first ? g : a->momentum * x->s1 + (1 - a->dampening) * g;
        g = a->nesterov ? g + a->momentum * x->s1 : x->s1;
    }
    x->p -= a->lr * g;
}

static void rmsprop(element *x, double g, const qkv_k_update_args *a, bool use1, bool use2,
                    bool use3)
{
    (void)use1;
    g = g * a->grad_scale + a->weight_decay * x->p;
    x->s1 = a->alpha * x->s1 + (1 - a->alpha) * g * g;
    double square = x->s1;
    if (use3) {
        x->s3 = a->alpha * x->s3 + (1 - a->alpha) * g;
        square -= x->s3 * x->s3;
    }
    g /= sqrt(square) + a->eps;
    if (use2)
        g = x->s2 = a->momentum * x->s2 + g;
    x->p -= a->lr * g;
}

static void adam(element *x, double g, const qkv_k_update_args *a, bool use1, bool use2, bool use3)
{
    (void)use1, (void)use2, (void)use3;
    g = g * a->grad_scale + a->weight_decay * x->p;
    x->s1 = a->beta1 * x->s1 + (1 - a->beta1) * g;
    x->s2 = a->beta2 * x->s2 + (1 - a->beta2) * g * g;
    x->p -= a->lr / a->correction1 * x->s1 / (sqrt(x->s2) / a->correction2 + a->eps);
}

static void adamw(element *x, double g, const qkv_k_update_args *a, bool use1, bool use2, bool use3)
{
    qkv_k_update_args plain = *a;
    plain.weight_decay = 0;
    x->p *= 1 - a->lr * a->weight_decay;
    adam(x, g, &plain, use1, use2, use3);
}

static qkv_k_update_args random_args(void)
{
    return (qkv_k_update_args){
        .lr = 0.01, .weight_decay = coin() ? 0.1 : 0, .grad_scale = coin() ? 0.37 : 1,
        .momentum = 0.9, .dampening = coin() ? 0.2 : 0, .nesterov = coin(), .alpha = 0.97,
        .eps = coin() ? 1e-8 : 1e-3, .beta1 = 0.9, .beta2 = coin() ? 0.999 : 0.95,
    };
}

static float *zeros(size_t n)
{
    float *x = poisoned(n);
    for (size_t i = 0; i < n; i++)
        x[i] = 0;
    return x;
}

/* use[i]: state array i+1 exists. STEPS steps from zero state, every array compared after each. */
static void check_rule(const qkv_exec *e, qkv_k_adam_fn *fn, rule *want, const bool use[3])
{
    size_t n = random_size();
    qkv_k_update_args a = random_args();
    float *p = randoms(n), *s[3];
    element *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i].p = (double)p[i];
    for (int k = 0; k < 3; k++)
        s[k] = use[k] ? zeros(n) : NULL;
    for (int step = 1; step <= STEPS; step++) {
        float *g = randoms(n);
        a.first = step == 1;
        a.correction1 = 1 - pow(a.beta1, step);
        a.correction2 = sqrt(1 - pow(a.beta2, step));
        fn(e, p, s[0], s[1], s[2], g, &a, n);
        for (size_t i = 0; i < n; i++) {
            want(&x[i], (double)g[i], &a, use[0], use[1], use[2]);
            near_at("p", i, p[i], x[i].p, 2e-6, 1);
            if (use[0])
                near_at("s1", i, s[0][i], x[i].s1, 1e-6, 1);
            /* A centred square that nearly cancels magnifies rounding in the momentum. */
            if (use[1])
                near_at("s2", i, s[1][i], x[i].s2, use[2] ? 1e-3 : 2e-6, 1);
            if (use[2])
                near_at("s3", i, s[2][i], x[i].s3, 1e-6, 1);
        }
    }
    free(x);
    free_arrays();
}

static void check_sgd(const kernel_case *c)
{
    for (int i = 0; i < ROUNDS; i++)
        check_rule(&c->e, c->k->sgd, sgd, (const bool[]){i % 3 != 0, false, false});
}

static void check_rmsprop(const kernel_case *c)
{
    for (int i = 0; i < ROUNDS; i++)
        check_rule(&c->e, c->k->rmsprop, rmsprop, (const bool[]){true, i % 2 != 0, i % 4 > 1});
}

static void check_adam(const kernel_case *c)
{
    for (int i = 0; i < ROUNDS; i++)
        check_rule(&c->e, c->k->adam, adam, (const bool[]){true, true, false});
}

static void check_adamw(const kernel_case *c)
{
    for (int i = 0; i < ROUNDS; i++)
        check_rule(&c->e, c->k->adamw, adamw, (const bool[]){true, true, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_CHECK(check_sgd),
        KERNEL_CHECK(check_rmsprop),
        KERNEL_CHECK(check_adam),
        KERNEL_CHECK(check_adamw),
    };
    return run_each(tests, sizeof tests / sizeof *tests, kernel_setup, kernel_teardown);
}
