/* optimizers.c - five ways down one surface, with the optimisers that training uses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain/page.h"

enum { WALKS = 5, STEPS = 40, PLOT_COLUMNS = 36, PLOT_ROWS = 11 };
static const double start[2] = {-9.0, 2.5};
static const double curvature[2] = {0.05, 1.0}; /* f = 0.05 x^2 + y^2 */
static const double left = -10.0, right = 4.0, top = 3.0, bottom = -3.0;
static const double noise = 0.7; /* standard deviation that a sample's gradient is off by */

typedef struct {
    const char *name, *key;
    qkv_optimizer_kind kind;
    double lr, momentum, alpha;
    bool noisy;
    const char *rule;
} walker;

static const walker walkers[WALKS] = {
    {"gradient descent", "gradient_descent", QKV_OPTIMIZER_SGD, 0.85, 0.0, 0.0, false, "θ -= γ g"},
    {"SGD", "sgd", QKV_OPTIMIZER_SGD, 0.3, 0.0, 0.0, true, "θ -= γ (g + noise)"},
    {"momentum", "momentum", QKV_OPTIMIZER_SGD, 0.3, 0.8, 0.0, false, "b = μ b + g;  θ -= γ b"},
    {"RMSProp", "rmsprop", QKV_OPTIMIZER_RMSPROP, 0.4, 0.0, 0.9, false, "θ -= γ g / √mean(g²)"},
    {"Adam", "adam", QKV_OPTIMIZER_ADAM, 0.6, 0.0, 0.0, false, "θ -= γ mean(g) / √mean(g²)"},
};

/* Where a walk was before each step and after the last: x, y, f. */
typedef struct {
    double at[STEPS + 1][3];
} path;

static double height(double x, double y)
{
    return curvature[0] * x * x + curvature[1] * y * y;
}

static void optimizers_note(path *w, int step, const qkv_real *at)
{
    w->at[step][0] = (double)at[0];
    w->at[step][1] = (double)at[1];
    w->at[step][2] = height((double)at[0], (double)at[1]);
}

/* One step: f and its gradient on the tape, noise if wanted, the optimiser's update. */
static qkv_status step_down(page *p, qkv_params *params, qkv_optimizer *o, const walker *w,
                            qkv_rng *rng)
{
    static const size_t shape[] = {2};
    qkv_tape *t = p->t;
    qkv_param *theta = qkv_params_at(params, 0);
    const qkv_real c[] = {(qkv_real)curvature[0], (qkv_real)curvature[1]};
    qkv_tape_reset(t);
    qkv_params_zero_grad(params);
    qkv_tensor *x = qkv_use(t, theta);
    qkv_tensor *f = qkv_sum(t, qkv_mul(t, qkv_tensor_from(t, c, 1, shape), qkv_mul(t, x, x)));
    qkv_status status = qkv_backward(t, f);
    for (int i = 0; !status && w->noisy && i < 2; i++)
        qkv_param_grad(theta)[i] += (qkv_real)(noise * qkv_rng_normal(rng));
    if (!status && w->noisy)
        qkv_param_touch_grad(theta);
    qkv_optimizer_step_args args = {.lr = w->lr};
    return status ? status : qkv_optimizer_step(o, &args, NULL);
}

static qkv_status optimizers_walk(page *p, const walker *w, path *out)
{
    static const size_t shape[] = {2};
    qkv_params *params;
    qkv_optimizer *o = NULL;
    qkv_status status = qkv_params_create(&params, p->c->ctx);
    if (status)
        return status;
    qkv_param *theta = qkv_param_create(params, "theta", 1, shape);
    qkv_optimizer_options options = qkv_optimizer_defaults(w->kind);
    options.momentum = w->momentum;
    options.alpha = w->alpha > 0.0 ? w->alpha : options.alpha;
    if (theta)
        status = qkv_optimizer_create(&o, params, &options, NULL, 0);
    else
        status = QKV_E_MEMORY;
    qkv_rng rng;
    qkv_rng_init(&rng, p->c->common.seed, qkv_hash64("explain", 7));
    for (int i = 0; !status && i < 2; i++)
        qkv_param_data(theta)[i] = (qkv_real)start[i];
    if (!status)
        qkv_param_touch(theta);
    for (int i = 0; !status && i <= STEPS; i++) {
        optimizers_note(out, i, qkv_param_data(theta));
        if (i < STEPS)
            status = step_down(p, params, o, w, &rng);
    }
    qkv_optimizer_destroy(o);
    qkv_params_destroy(params);
    return status;
}

/* ---- the image ---------------------------------------------------------------------------- */

typedef const char *plot[PLOT_ROWS][PLOT_COLUMNS];

static double column_x(int column)
{
    return left + (right - left) * (column + 0.5) / PLOT_COLUMNS;
}

static double row_y(int row)
{
    return top - (top - bottom) * (row + 0.5) / PLOT_ROWS;
}

static int level(int row, int column)
{
    return (int)(1.5 * sqrt(height(column_x(column), row_y(row))));
}

static void optimizers_put(plot out, double x, double y, const char *mark)
{
    int column = (int)floor((x - left) / (right - left) * PLOT_COLUMNS);
    int row = (int)floor((top - y) / (top - bottom) * PLOT_ROWS);
    if (row >= 0 && row < PLOT_ROWS && column >= 0 && column < PLOT_COLUMNS)
        out[row][column] = mark;
}

static void optimizers_draw(plot out, const path *w)
{
    for (int r = 0; r < PLOT_ROWS; r++)
        for (int c = 0; c < PLOT_COLUMNS; c++) {
            bool edge = (r + 1 < PLOT_ROWS && level(r, c) != level(r + 1, c)) ||
                        (c + 1 < PLOT_COLUMNS && level(r, c) != level(r, c + 1));
            out[r][c] = edge ? "·" : " ";
        }
    optimizers_put(out, 0.0, 0.0, "+");
    for (int i = STEPS; i >= 0; i--)
        optimizers_put(out, w->at[i][0], w->at[i][1], "o");
    optimizers_put(out, w->at[0][0], w->at[0][1], "S");
}

static void show_pair(const page *p, const path *walks, int first)
{
    static plot plots[2]; /* strings that outlive it; filled anew each time */
    int n = first + 1 < WALKS ? 2 : 1;
    char line[3 * 2 * (PLOT_COLUMNS + 8)];
    page_space(p);
    line[0] = 0;
    for (int i = 0; i < n; i++) {
        const walker *w = &walkers[first + i];
        char title[120];
        optimizers_draw(plots[i], &walks[first + i]);
        (void)snprintf(title, sizeof title, "%s: %s", w->name, w->rule);
        size_t width = page_width(title), used = strlen(line);
        (void)snprintf(line + used, sizeof line - used, "%s%*s", title,
                       i + 1 < n ? (int)(PLOT_COLUMNS + 3 - width) : 0, "");
    }
    page_line(p, "%s", line);
    for (int r = 0; r < PLOT_ROWS; r++) {
        line[0] = 0;
        for (int i = 0; i < n; i++) {
            strcat(line, i ? "   " : "");
            for (int c = 0; c < PLOT_COLUMNS; c++)
                strcat(line, plots[i][r][c]);
        }
        page_line(p, "%s", line);
    }
}

static void show_heights(const page *p, const path *walks)
{
    static const int steps[] = {0, 1, 2, 5, 10, 20, 30, 40};
    page_heading(p, "Height after n steps");
    page_line(p, "  n  gradient descent        SGD   momentum    RMSProp       Adam");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const int s = steps[i];
        page_line(p, "%3d  %16.5f %10.5f %10.5f %10.5f %10.5f", s, walks[0].at[s][2],
                  walks[1].at[s][2], walks[2].at[s][2], walks[3].at[s][2], walks[4].at[s][2]);
    }
}

static void optimizers_put_json(page *p, const path *walks)
{
    for (int i = 0; i < WALKS; i++) {
        qkv_tensor *x = explain_matrix(p, STEPS + 1, 3, &walks[i].at[0][0]);
        page_show(p, 1, (const panel[]){{walkers[i].key, "", x, NULL, NULL, 0}});
    }
}

void explain_optimizers(page *p)
{
    path walks[WALKS];
    page_begin(p, "optimizers", "Five ways down one valley");
    qkv_tape_mode(p->t, true, false);
    qkv_status status = QKV_OK;
    for (int i = 0; !status && i < WALKS; i++)
        status = optimizers_walk(p, &walkers[i], &walks[i]);
    qkv_tape_reset(p->t);
    qkv_tape_mode(p->t, false, false);
    if (status) {
        p->failed = true;
        return;
    }
    page_text(p, "f(x, y) = x²/20 + y²: a valley twenty times steeper across than along. All "
                 "start at S = (-9, 2.5) and take 40 steps (o) towards the lowest point (+), each "
                 "at a rate γ that suits it: %g, %g, %g, %g and %g. The dots are level lines of "
                 "f.",
              walkers[0].lr, walkers[1].lr, walkers[2].lr, walkers[3].lr, walkers[4].lr);
    for (int i = 0; !p->json && i < WALKS; i += 2)
        show_pair(p, walks, i);
    if (p->json)
        optimizers_put_json(p, walks);
    else
        show_heights(p, walks);
    page_text(p, "Gradient descent leaps from wall to wall: its rate can be no larger than the "
                 "steep side allows (γ below 1). SGD sees gradients of samples, here off by a "
                 "normal error of %g, and wanders about the goal even at a smaller rate; a rate "
                 "that falls, a schedule, calms it. Momentum (μ = %g) adds up what steps agree "
                 "on, the way along, and cancels what they do not. RMSProp and Adam divide by the "
                 "size of recent gradients, direction by direction, so the valley looks round to "
                 "them; Adam keeps momentum besides, and swings past the goal before it settles.",
              noise, walkers[2].momentum);
    page_end(p);
}
