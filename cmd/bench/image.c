/* image.c - `qkv bench image`: decoding an image's codes, against the limit of
 * products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 1, SMALL = 32 };

typedef struct {
    const char *model;
    size_t size, repeats;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "f16",
     .help = "size of a VQGAN: nano micro mini f8 f16"},
    {.flag = "size", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(size), .initial = "256",
     .value = "PIXELS", .help = "side of the image"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(repeats),
     .initial = "5", .help = "times it is decoded, after one that is not timed"},
};
static const qkv_option_table table = {"Decoding an image", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *tape;
    size_t side;      /* codes */
    int32_t *codes;   /* (side, side) */
    uint8_t *image; /* (size, size, 3) */
    bench_timing timing;
} job;

static qkv_status image_prepare(void *user)
{
    job *j = user;
    qkv_context *ctx = j->c->ctx;
    qkv_status status = bench_vqgan(ctx, &j->model, j->s.model, j->s.size, 0);
    if (!status)
        status = qkv_model_init(j->model, j->c->common.seed);
    if (!status)
        status = qkv_tape_create(&j->tape, ctx);
    if (status)
        return status;
    const qkv_vqgan_config *config = qkv_model_config(j->model);
    j->side = j->s.size / qkv_vqgan_factor(j->model);
    j->codes = qkv_calloc(ctx, j->side * j->side, sizeof *j->codes);
    j->image = qkv_calloc(ctx, j->s.size * j->s.size, config->colors);
    if (!j->codes || !j->image)
        return QKV_E_MEMORY;
    bench_random_ids(j->codes, j->side * j->side, config->codes, j->c->common.seed);
    return QKV_OK;
}

static qkv_status image_pass(void *user)
{
    const job *j = user;
    return qkv_images_decode(j->model, j->tape, j->codes, 1, j->side, j->side, j->image);
}

static void image_report(const job *j, bench_report *r)
{
    const qkv_workload w = {.pass = QKV_PASS_FORWARD, .part = QKV_PART_DECODER, .samples = 1,
                            .height = j->side, .width = j->side};
    double rate = qkv_model_flops(j->model, &w) / j->timing.seconds;
    const bench_figure figures[] = {
        {"image_s", "image", "s", BENCH_REAL, j->timing.seconds, 0},
    };
    *r = (bench_report){.count = 0};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    bench_add_rate(r, rate, &j->timing);
    (void)snprintf(r->title, sizeof r->title, "decoding %zu x %zu pixels, vqgan-%.24s, f32",
                   j->s.size, j->s.size, j->s.model);
}

static qkv_status image_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = bench_time(c, &j.timing, WARM_UPS, j.s.repeats, image_prepare,
                                   image_pass, &j);
    if (!status)
        image_report(&j, out);
    qkv_free(c->ctx, j.image);
    qkv_free(c->ctx, j.codes);
    qkv_tape_destroy(j.tape);
    qkv_model_destroy(j.model);
    return status;
}

/* A small request is one of somebody in a hurry. */
static void image_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->repeats = request->repeats;
    if (request->length < s->size) {
        s->model = "nano";
        s->size = SMALL;
    }
}

const bench_measure bench_image = {
    .name = "image", .command = &cli_bench_image, .size = sizeof(settings), .adapt = image_adapt,
    .measure = image_work};

static const char *const examples[] = {"qkv bench image --json",
                                       "qkv bench image --model mini --size 64", NULL};

CLI_COMMAND(cli_bench_image, 740) = {
    .manual = {.name = "bench image", .summary = "time decoding an image of its codes",
               .usage = "[--model PRESET] [--size PIXELS] [options]", .examples = examples,
               .text = "Median time in which a VQGAN with random parameters makes an image of "
                       "random codes, one image at a time: what qkv decode does once it has "
                       "read both. All products of convolutions and attention count, nothing "
                       "else. The limit is the best of ten products of 2048 x 2048 matrices, five "
                       "before and five after."},
    .own = {&table}, .measure = &bench_image, .run = bench_run};
