/* info_predict.c - `qkv info --predict`: the memory of the training step that `qkv bench train`
 * takes, part by part. */
#include "files/info_predict.h"

#include <stdio.h>
#include <string.h>

static int info_predict_answer(const cli *c, const bench_training *b, const info_ranks *ranks,
                               const qkv_memory_prediction *m)
{
    const struct {
        const char *key, *label;
        size_t bytes;
    } parts[] = {{"peak_rss_bytes", "memory, most", m->total},
                 {"parameters_bytes", "parameters", m->parameters},
                 {"gradients_bytes", "their gradients", m->gradients},
                 {"optimizer_bytes", "state of the optimiser", m->optimizer},
                 {"averages_bytes", "average of the weights", m->averages},
                 {"exchange_bytes", "gradients that arrive", m->exchange},
                 {"activations_bytes", "activations", m->activations},
                 {"scratch_bytes", "scratch", m->scratch},
                 {"base_bytes", "program and libraries", m->process}};
    enum { PARTS = sizeof parts / sizeof *parts };
    bench_figure all[PARTS];
    bench_report r = {.count = 0};
    size_t n = 0;
    for (size_t i = 0; i < PARTS; i++)
        if (parts[i].bytes)
            all[n++] = (bench_figure){parts[i].key, parts[i].label, "MB", BENCH_COUNT,
                                      (double)parts[i].bytes, 1e6};
    bench_add_all(&r, all, n);
    bench_training_title(b, r.title, sizeof r.title);
    if (ranks->ranks > 1) {
        size_t length = strlen(r.title);
        (void)snprintf(r.title + length, sizeof r.title - length, ", each of %zu ranks",
                       ranks->ranks);
    }
    return bench_answer(c, &r);
}

int info_predict(cli *c, const bench_step *step, const info_ranks *ranks)
{
    bench_rehearsal r = {.step = step};
    qkv_memory_prediction found;
    qkv_predicted_step s = bench_rehearse(&r);
    const qkv_optimizer_options optimizer = qkv_optimizer_defaults(step->optimizer);
    s.ranks = ranks->ranks;
    s.average = ranks->ema > 0;
    if (qkv_context_set_products(c->ctx, step->dtype) ||
        qkv_predict_memory(c->ctx, &s, &optimizer, &found))
        return cli_error(c);
    return info_predict_answer(c, &r.b, ranks, &found);
}
