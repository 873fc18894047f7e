/* info_predict.c - `qkv info --predict`: the memory of the training step that `qkv bench train`
 * takes, part by part. */
#include "files/info_predict.h"

typedef struct {
    const bench_step *step;
    bench_training b;
} rehearsal;

static qkv_status info_predict_make(void *user, qkv_context *ctx, qkv_model *models[2])
{
    rehearsal *r = user;
    qkv_status status = bench_training_make(&r->b, ctx, r->step);
    models[0] = r->b.model;
    models[1] = r->b.lpips;
    return status;
}

static qkv_tensor *info_predict_loss(void *user, qkv_tape *t)
{
    rehearsal *r = user;
    r->b.tape = t;
    return r->b.network->loss(&r->b);
}

static void info_predict_end(void *user)
{
    rehearsal *r = user;
    r->b.tape = NULL; /* it is not ours */
    bench_training_free(&r->b);
}

static int info_predict_answer(const cli *c, const bench_training *b,
                               const qkv_memory_prediction *m)
{
    const struct {
        const char *key, *label;
        size_t bytes;
    } parts[] = {{"peak_rss_bytes", "memory, most", m->total},
                 {"parameters_bytes", "parameters", m->parameters},
                 {"gradients_bytes", "their gradients", m->gradients},
                 {"optimizer_bytes", "state of the optimiser", m->optimizer},
                 {"activations_bytes", "activations", m->activations},
                 {"scratch_bytes", "scratch", m->scratch},
                 {"base_bytes", "program and libraries", m->process}};
    enum { PARTS = sizeof parts / sizeof *parts };
    bench_figure all[PARTS];
    bench_report r = {.count = 0};
    for (size_t i = 0; i < PARTS; i++)
        all[i] = (bench_figure){parts[i].key, parts[i].label, "MB", BENCH_COUNT,
                                (double)parts[i].bytes, 1e6};
    bench_add_all(&r, all, PARTS);
    bench_training_title(b, r.title, sizeof r.title);
    return bench_answer(c, &r);
}

int info_predict(cli *c, const bench_step *step)
{
    rehearsal r = {.step = step};
    qkv_memory_prediction found;
    const qkv_predicted_step s = {.make = info_predict_make, .loss = info_predict_loss,
                                  .end = info_predict_end, .user = &r,
                                  .recompute = step->recompute};
    const qkv_optimizer_options optimizer = qkv_optimizer_defaults(step->optimizer);
    if (qkv_context_set_products(c->ctx, step->dtype) ||
        qkv_predict_memory(c->ctx, &s, &optimizer, &found))
        return cli_error(c);
    return info_predict_answer(c, &r.b, &found);
}
