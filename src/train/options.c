/* options.c - the loop's settings, as a table. */
#include "qkv/train.h"
#include "train/loop.h"

#define FIELD(member) .offset = offsetof(qkv_train_options, member)

static const char *const options_dtypes[] = {"f32", "bf16", "auto", NULL}; /* QKV_PRODUCTS_* */

static const qkv_option rows[] = {
    {.flag = "steps", .key = "steps", .type = QKV_OPT_SIZE, .max = 1e12, FIELD(steps),
     .initial = "0", .help = "updates to make; 0: as many as fit into --minutes"},
    {.flag = "minutes", .key = "minutes", .type = QKV_OPT_REAL, .max = 1e6, FIELD(minutes),
     .initial = "0", .help = "time to train for; 0: no limit, --steps counts"},
    {.flag = "batch", .key = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 1e6, FIELD(batch),
     .initial = "8", .help = "samples in an update"},
    {.flag = "accumulation-steps", .key = "accumulation_steps", .type = QKV_OPT_SIZE, .min = 1,
     .max = 1e6, FIELD(accumulation_steps),
     .initial = "1", .help = "passes a batch is done in, to save memory"},
    {.flag = "shards", .key = "shards", .type = QKV_OPT_SIZE, .max = 65536, FIELD(shards),
     .initial = "0",
     .help = "parts of a batch whose gradients are computed apart and added up as a tree: the same "
             "number gives the same bits on 1, 2, 4, .. ranks; 0: one for each rank"},
    {.flag = "dtype", .key = "dtype", .type = QKV_OPT_ENUM, FIELD(dtype),
     .names = options_dtypes, .initial = "auto",
     .help = "operands of products: f32; rounded to bf16, where the processor can; auto: whichever "
             "is faster here"},
    {.flag = "recompute", .key = "recompute", .type = QKV_OPT_BOOL, FIELD(recompute),
     .help = "compute each block again in the backward pass instead of keeping its activations: "
             "less memory, about a third more time, the same bits"},
    {.flag = "clip", .key = "clip", .type = QKV_OPT_REAL, .max = 1e9, FIELD(clip),
     .initial = "1", .help = "largest norm of the gradient; 0: any"},
    {.flag = "ema", .key = "ema", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1,
     FIELD(ema), .initial = "0", .help = "decay of the averaged weights to keep; 0: none"},
    {.flag = "eval-every", .key = "eval_every", .type = QKV_OPT_SIZE, .max = 1e12,
     FIELD(eval_every), .initial = "0", .help = "steps between evaluations; 0: a tenth of all"},
    {.flag = "eval-units", .key = "eval_units", .type = QKV_OPT_SIZE, .max = 1e12,
     FIELD(eval_units), .initial = "32768",
     .help = "held-out units evaluated while training; 0: all"},
    {.flag = "patience", .key = "patience", .type = QKV_OPT_SIZE, .max = 1e6, FIELD(patience),
     .initial = "0", .help = "evaluations without improvement before stopping; 0: never"},
    {.flag = "save-every", .key = "save_every", .type = QKV_OPT_SIZE, .max = 1e12,
     FIELD(save_every), .initial = "0",
     .help = "steps between checkpoints; 0: at evaluations and once a minute"},
    {.flag = "capture-step", .key = "capture_step", .type = QKV_OPT_SIZE, .max = 1e12,
     FIELD(capture_step), .initial = "0",
     .help = "update whose attention weights, hidden states and gradients go into "
             "train/capture-N.safetensors; 0: none"},
};

const qkv_option_table qkv__train_table = {"Training", rows, sizeof rows / sizeof *rows,
                                           sizeof(qkv_train_options)};
const qkv_option_table *qkv_train_table(void) { return &qkv__train_table; }

qkv_train_options qkv_train_defaults(void)
{
    qkv_train_options o;
    qkv_option_defaults(&qkv__train_table, &o);
    return o;
}
