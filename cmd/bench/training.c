/* training.c - a training step on made-up text or images: timed by `qkv bench train`, taken
 * apart by `qkv scale`, only laid out in memory by `qkv info --predict`. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

#define FIELD(member) .offset = offsetof(bench_step, member)

const char *const bench_dtypes[] = {"f32", "bf16", "auto", NULL};
const char bench_dtype_help[] = "operands of products: f32; rounded to bf16, where the processor "
                                "can; auto: whichever is faster here";
static const char *const optimizers[] = {"sgd", "rmsprop", "adam", "adamw", "muon", NULL};

static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "NAME", .initial = "gpt2",
     .help = "bert-base, transformer-base, vit-base, mae-base, cct-7, vqgan-nano (-micro -mini -f8 "
             "-f16), or the size of a GPT: nano tiny mini small medium large gpt2 .."},
    {.flag = "layout", .type = QKV_OPT_ENUM, FIELD(layout), .names = bench_layouts,
     .initial = "gpt2", .help = "of a GPT"},
    {.flag = "vocab", .type = QKV_OPT_SIZE, .max = 16777216, FIELD(vocab), .initial = "0",
     .help = "tokens of a GPT; 0: 50257"},
    {.flag = "dtype", .type = QKV_OPT_ENUM, FIELD(dtype), .names = bench_dtypes,
     .initial = "auto", .help = bench_dtype_help},
    {.flag = "batch", .type = QKV_OPT_SIZE, .max = 65536, FIELD(batch), .initial = "0",
     .help = "sequences or images in a step; 0: 4, of bert-base, vit-base and mae-base 8, "
             "of transformer-base and cct-7 128, of a VQGAN 16, at 256 pixels 1"},
    {.flag = "length", .type = QKV_OPT_SIZE, .max = 1048576, FIELD(length), .initial = "0",
     .help = "tokens in a sequence; 0: 256, of bert-base 128, of transformer-base 32. Of "
             "image models the images' side in pixels; 0: of vit-base and mae-base 224, of "
             "vqgan-f8 and -f16 256, of vqgan-mini 64, of others 32"},
    {.flag = "dropout", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .min = -1, .max = 1,
     FIELD(dropout), .initial = "-1",
     .help = "below 0: what the model is trained with: 0.1, of a GPT and of images' 0"},
    {.flag = "optimizer", .type = QKV_OPT_ENUM, FIELD(optimizer), .names = optimizers,
     .initial = "adamw", .help = "rule that turns gradients into updates"},
    {.flag = "recompute", .type = QKV_OPT_BOOL, FIELD(recompute),
     .help = "compute each block again in the backward pass instead of keeping its activations"},
    {.flag = "lora", .type = QKV_OPT_STRING, FIELD(lora), .value = "r=8,..",
     .help = "train an adapter of the frozen model, as `qkv train lm --lora` has it"},
};
const qkv_option_table bench_step_table = {"Training step", rows, sizeof rows / sizeof *rows, 0};

static const bench_network *training_find(const char *name)
{
    const bench_network *n = bench_networks;
    while (n->name && strcmp(n->name, name))
        n++;
    return n;
}

static qkv_status adapt(bench_training *b, const char *lora)
{
    qkv_lora_config c;
    qkv_options *owner = NULL;
    qkv_adapter *a;
    qkv_status status = qkv_model_init(b->model, 1);
    if (!status)
        status = qkv_lora_parse(&c, &owner, b->ctx, lora);
    if (!status)
        status = qkv_model_add_lora(&a, b->model, &c, 1);
    qkv_options_destroy(owner);
    return status;
}

qkv_status bench_training_make(bench_training *b, qkv_context *ctx, const bench_step *step)
{
    const bench_network *network = training_find(step->model);
    *b = (bench_training){.ctx = ctx, .network = network,
                          .batch = step->batch ? step->batch : network->batch,
                          .length = step->length ? step->length : network->length,
                          .dropout = step->dropout < 0 ? network->dropout : step->dropout,
                          .recompute = step->recompute, .adapts = step->lora != NULL};
    qkv_status status = network->create(b, step);
    if (!status && step->lora)
        status = adapt(b, step->lora);
    if (status)
        return status;
    b->id_count = network->ids(b);
    b->ids = qkv_calloc(ctx, b->id_count + 1, sizeof *b->ids);
    return b->ids ? QKV_OK : QKV_E_MEMORY;
}

qkv_status bench_training_create(bench_training *b, qkv_context *ctx, const bench_step *step)
{
    qkv_optimizer_options o = qkv_optimizer_defaults(step->optimizer);
    qkv_status status = bench_training_make(b, ctx, step);
    if (!status)
        status = qkv_tape_create(&b->tape, ctx);
    if (!status)
        status = qkv_optimizer_create(&b->optimizer, qkv_model_params(b->model), &o,
                                      qkv_optimizer_decay_matrices(), 1);
    if (b->tape)
        qkv_tape_recompute(b->tape, step->recompute);
    return status;
}

void bench_training_free(bench_training *b)
{
    qkv_free(b->ctx, b->pixels);
    qkv_free(b->ctx, b->rows);
    qkv_free(b->ctx, b->ids);
    qkv_optimizer_destroy(b->optimizer);
    qkv_tape_destroy(b->tape);
    qkv_task_destroy(&b->task);
    qkv_pixels_close(b->images);
    qkv_model_destroy(b->lpips);
    qkv_model_destroy(b->model);
}

qkv_status bench_training_fill(bench_training *b, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, 1);
    bench_random_ids(b->ids, b->id_count, b->vocab, seed);
    for (size_t i = 0; i < b->pixel_count; i++)
        b->pixels[i] = (qkv_real)(2 * qkv_rng_uniform(&r) - 1);
    qkv_status status = b->lpips ? qkv_model_init(b->lpips, seed) : QKV_OK;
    return status || b->adapts ? status : qkv_model_init(b->model, seed);
}

void bench_training_title(const bench_training *b, char *out, size_t size)
{
    (void)snprintf(out, size, "training step of %s, batch %zu x %zu%s, dropout %g%s%s", b->name,
                   b->batch, b->length, b->network->what, b->dropout,
                   b->recompute ? ", recomputing" : "",
                   b->adapts ? ", an adapter" : "");
}

qkv_status bench_training_step(bench_training *b)
{
    qkv_tape *t = b->tape;
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_status status = qkv_backward(t, b->network->loss(b));
    qkv_optimizer_step_args args = {.lr = 1e-4, .max_norm = 1};
    if (!status)
        status = qkv_optimizer_step(b->optimizer, &args, NULL);
    qkv_params_zero_grad(qkv_model_params(b->model));
    return status;
}

/* ---- for the library ------------------------------------------------------------------------ */

static qkv_status training_make(void *user, qkv_context *ctx, qkv_model *models[2])
{
    bench_rehearsal *r = user;
    qkv_status status = bench_training_make(&r->b, ctx, r->step);
    if (!status && r->fill)
        status = bench_training_fill(&r->b, r->seed);
    models[0] = r->b.model;
    models[1] = r->b.lpips;
    return status;
}

static qkv_tensor *training_loss(void *user, qkv_tape *t)
{
    bench_rehearsal *r = user;
    r->b.tape = t;
    return r->b.network->loss(&r->b);
}

static void training_end(void *user)
{
    bench_rehearsal *r = user;
    r->b.tape = NULL; /* it is not ours */
    bench_training_free(&r->b);
    r->b.model = r->b.lpips = NULL;
}

qkv_predicted_step bench_rehearse(bench_rehearsal *r)
{
    return (qkv_predicted_step){.make = training_make, .loss = training_loss, .end = training_end,
                                .user = r, .recompute = r->step->recompute};
}
