/* info_predict.c - `qkv info --predict`: the memory of a training step, from its configuration.
 *
 * The step runs in a context that computes nothing and only reserves memory, and what the arenas
 * then hold is the answer. Beside them there is the process itself, as large as this one, and
 * what the libraries take once they work. */
#include "files/info_predict.h"

/* What a thread adds once products run: oneDNN's copies of operands in blocks, and a stack.
 * Measured with oneDNN 2.6.3 on AVX-512 and 1 to 3 threads: 23.1 MB each, and 6 MB in all for the
 * process, which is what it has before too. */
static const size_t thread_bytes = (size_t)22 << 20;

enum { PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, SCRATCH, BASE, PARTS };

static const struct {
    const char *key, *label;
} parts[PARTS] = {
    [PARAMETERS] = {"parameters_bytes", "parameters"},
    [GRADIENTS] = {"gradients_bytes", "their gradients"},
    [OPTIMIZER] = {"optimizer_bytes", "state of AdamW"},
    [ACTIVATIONS] = {"activations_bytes", "activations"},
    [SCRATCH] = {"scratch_bytes", "scratch"},
    [BASE] = {"base_bytes", "program and libraries"},
};

static qkv_status lay_out(bench_training *b, qkv_context *meta, const bench_step *step,
                          size_t bytes[PARTS])
{
    qkv_status status = bench_training_create(b, meta, step);
    if (status)
        return status;
    const qkv_params *params = qkv_model_params(b->model);
    size_t before = qkv_params_bytes(params);
    bytes[PARAMETERS] = before + (b->lpips ? qkv_params_bytes(qkv_model_params(b->lpips)) : 0);
    bytes[OPTIMIZER] = qkv_optimizer_bytes(b->optimizer);
    status = bench_training_step(b);
    bytes[GRADIENTS] = qkv_params_bytes(params) - before;
    bytes[ACTIVATIONS] = qkv_tape_high_water(b->tape);
    bytes[SCRATCH] = qkv_tape_scratch_high_water(b->tape);
    return status;
}

static int answer(const cli *c, const bench_training *b, const size_t bytes[PARTS])
{
    bench_figure all[PARTS + 1] = {{"peak_rss_bytes", "memory, most", "MB", BENCH_COUNT, 0, 1e6}};
    for (int i = 0; i < PARTS; i++) {
        all[0].value += (double)bytes[i];
        all[i + 1] = (bench_figure){parts[i].key, parts[i].label, "MB", BENCH_COUNT,
                                    (double)bytes[i], 1e6};
    }
    bench_report r = {.count = 0};
    bench_add_all(&r, all, PARTS + 1);
    bench_training_title(b, r.title, sizeof r.title);
    return bench_answer(c, &r);
}

int info_predict(cli *c, const bench_step *step)
{
    size_t bytes[PARTS] = {0};
    qkv_context *meta;
    qkv_context_options options = qkv_context_defaults();
    options.threads = qkv_context_threads(c->ctx);
    options.isa = qkv_context_isa(c->ctx);
    options.meta = true;
    bytes[BASE] = qkv_machine_rss() + (size_t)options.threads * thread_bytes;
    if (qkv_context_create(&meta, &options))
        return cli_fail("out of memory");
    bench_training b;
    qkv_status status = lay_out(&b, meta, step, bytes);
    if (status)
        (void)cli_fail("%s", qkv_context_message(meta));
    int code = status ? CLI_FAILED : answer(c, &b, bytes);
    bench_training_free(&b);
    qkv_context_destroy(meta);
    return code;
}
