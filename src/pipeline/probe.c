/* probe.c - how well a linear classifier tells classes from rows of numbers. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/nn.h"
#include "qkv/opt.h"
#include "qkv/ops.h"
#include "qkv/pipeline_embed.h"
#include "qkv/random.h"

enum { EPOCHS = 20, BATCH = 256 };
static const double RATE_TIMES_WIDTH = 0.3;

typedef struct {
    qkv_context *ctx;
    const qkv_labelled_rows *train;
    size_t classes;
    uint64_t seed;
    double *mean, *scale; /* (width) of the training columns */
    qkv_params *params;
    qkv_linear_layer layer;
    qkv_optimizer *optimizer;
    qkv_tape *tape;
} probe;

static qkv_status probe_check(qkv_context *ctx, const qkv_labelled_rows *r, size_t classes,
                              size_t width)
{
    if (!r->count || !r->width || r->width != width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "a probe of %zu rows of %zu and %zu numbers: at least "
                        "one row, and as many numbers, expected", r->count, r->width, width);
    for (size_t i = 0; i < r->count; i++)
        if (r->classes[i] < 0 || (size_t)r->classes[i] >= classes)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "row %zu has class %d, there are %zu", i,
                            (int)r->classes[i], classes);
    return QKV_OK;
}

/* A column that hardly varies is not stretched. */
static void measure_columns(probe *b)
{
    const qkv_labelled_rows *r = b->train;
    for (size_t i = 0; i < r->count; i++)
        for (size_t c = 0; c < r->width; c++) {
            double x = (double)r->rows[i * r->width + c];
            b->mean[c] += x / (double)r->count;
            b->scale[c] += x * x / (double)r->count;
        }
    for (size_t c = 0; c < r->width; c++) {
        double variance = b->scale[c] - b->mean[c] * b->mean[c];
        b->scale[c] = 1 / sqrt(variance > 1e-10 ? variance : 1);
    }
}

static qkv_status probe_begin(probe *b)
{
    size_t width = b->train->width;
    qkv_optimizer_options o = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
    b->mean = qkv_calloc(b->ctx, width, sizeof *b->mean);
    b->scale = qkv_calloc(b->ctx, width, sizeof *b->scale);
    qkv_status status = b->mean && b->scale ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv_params_create(&b->params, b->ctx);
    if (!status && !qkv_linear_create(&b->layer, b->params, "probe", width, b->classes))
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv_optimizer_create(&b->optimizer, b->params, &o, NULL, 0);
    if (!status)
        status = qkv_tape_create(&b->tape, b->ctx);
    if (!status)
        measure_columns(b);
    return status;
}

static void probe_free(probe *b)
{
    qkv_tape_destroy(b->tape);
    qkv_optimizer_destroy(b->optimizer);
    qkv_params_destroy(b->params);
    qkv_free(b->ctx, b->mean);
    qkv_free(b->ctx, b->scale);
}

/* The loss of rows (n); guesses (n): their likeliest classes, or NULL. */
static qkv_tensor *probe_loss(const probe *b, const qkv_labelled_rows *r, const size_t *rows,
                              size_t n, int32_t *guesses)
{
    const size_t shape[] = {n, r->width};
    int32_t expected[BATCH];
    qkv_tensor *x = qkv_tensor_from(b->tape, NULL, 2, shape);
    qkv_real *to = qkv_tensor_fill(x);
    for (size_t i = 0; i < n && to; i++) {
        expected[i] = r->classes[rows[i]];
        for (size_t c = 0; c < r->width; c++)
            to[i * r->width + c] = (qkv_real)(((double)r->rows[rows[i] * r->width + c] -
                                               b->mean[c]) * b->scale[c]);
    }
    if (!to)
        return NULL;
    const qkv_cross_entropy_options o = {.row_argmax = guesses};
    return qkv_cross_entropy(b->tape, qkv_linear_forward(&b->layer, b->tape, x, QKV_ACT_NONE),
                             qkv_tensor_ids(b->tape, expected, 1, &n), &o);
}

static qkv_status probe_fit(probe *b)
{
    size_t n = b->train->count, batch = n < BATCH ? n : BATCH, steps = EPOCHS * n / batch;
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    schedule.lr = RATE_TIMES_WIDTH / (double)b->train->width;
    schedule.steps = steps;
    for (size_t step = 0; step < steps; step++) {
        size_t rows[BATCH];
        for (size_t i = 0; i < batch; i++)
            rows[i] = (size_t)qkv__epoch_place(b->seed, "probe", step * batch + i, n);
        qkv_tape_reset(b->tape);
        qkv_tape_mode(b->tape, true, false);
        qkv_params_zero_grad(b->params);
        qkv_status status = qkv_backward(b->tape, probe_loss(b, b->train, rows, batch, NULL));
        const qkv_optimizer_step_args args = {.lr = qkv_schedule_lr(&schedule, step)};
        if (!status)
            status = qkv_optimizer_step(b->optimizer, &args, NULL);
        if (!status && step % 100 == 0)
            status = qkv__progress(b->ctx, "probing", "steps", step, steps);
        if (status)
            return status;
    }
    return QKV_OK;
}

static qkv_status probe_ask(probe *b, const qkv_labelled_rows *test, double *accuracy)
{
    size_t right = 0;
    for (size_t begin = 0; begin < test->count; begin += BATCH) {
        size_t rows[BATCH], n = test->count - begin < BATCH ? test->count - begin : BATCH;
        int32_t guesses[BATCH];
        for (size_t i = 0; i < n; i++)
            rows[i] = begin + i;
        qkv_tape_reset(b->tape);
        qkv_tape_mode(b->tape, false, false);
        if (!probe_loss(b, test, rows, n, guesses))
            return qkv_tape_status(b->tape);
        for (size_t i = 0; i < n; i++)
            right += guesses[i] == test->classes[begin + i];
    }
    *accuracy = (double)right / (double)test->count;
    return QKV_OK;
}

qkv_status qkv_linear_probe(qkv_context *ctx, const qkv_labelled_rows *train,
                            const qkv_labelled_rows *test, size_t classes, uint64_t seed,
                            double *accuracy)
{
    probe b = {.ctx = ctx, .train = train, .classes = classes, .seed = seed};
    *accuracy = 0;
    qkv_status status = probe_check(ctx, train, classes, train->width);
    if (!status)
        status = probe_check(ctx, test, classes, train->width);
    if (!status)
        status = probe_begin(&b);
    if (!status)
        status = probe_fit(&b);
    if (!status)
        status = probe_ask(&b, test, accuracy);
    probe_free(&b);
    return status;
}
