/* bench.h - what the commands of `qkv bench` share: how figures are shown, medians, random
 * models and numbers; and what a measure is, of which `qkv bench` alone runs all. */
#ifndef QKV_CMD_BENCH_BENCH_H
#define QKV_CMD_BENCH_BENCH_H

#include "core/cli.h"

enum { BENCH_PEAK_PRODUCTS = 5 }; /* timed before the work and again after it */

typedef enum { BENCH_REAL, BENCH_COUNT, BENCH_PERCENT } bench_kind;

enum { BENCH_FIGURES = 10 };

/* One figure of a measure. */
typedef struct {
    const char *key;   /* in JSON: "of_peak", in base units */
    const char *label; /* in the table: "of the peak" */
    const char *unit;  /* in the table; "" for none */
    bench_kind kind;
    double value;
    double shown; /* the table divides by it: 1e6 for megabytes; 0 means 1 */
} bench_figure;

/* What one measure found. */
typedef struct {
    char title[120];
    bench_figure figures[BENCH_FIGURES];
    size_t count;
    double reached, limit; /* the one rate that it is about; limit 0: none is known */
    const char *unit;      /* of both */
    const char *products;  /* what they were made in (qkv_machine_products); NULL: says nothing */
} bench_report;

/* What `qkv bench` asks of the measures, each of which takes what concerns it. */
typedef struct {
    const char *model;
    size_t length, repeats;
} bench_request;

/* A measure: a command of its own, and a part of `qkv bench`. */
typedef struct bench_measure {
    const char *name;           /* of its object in JSON */
    const cli_command *command; /* its own tables fill the settings */
    size_t size;                /* of these */
    void (*adapt)(void *settings, const bench_request *request); /* NULL: takes nothing */
    qkv_status (*measure)(cli *c, const void *settings, bench_report *out);
    bool bf16; /* left out by `qkv bench` where the device has no products in bf16 */
} bench_measure;

/* Their commands. */
extern const cli_command cli_bench_train, cli_bench_attention, cli_bench_decode, cli_bench_image,
    cli_bench_forward, cli_bench_prompt, cli_bench_translate, cli_bench_tokenize, cli_bench_look;
extern const bench_measure bench_train, bench_train_f32, bench_train_bf16, bench_train_codes,
    bench_attention, bench_decode, bench_prompt, bench_image, bench_translate, bench_tokenize,
    bench_look;

/* Runs a command that is one measure: its options, the work, the answer. Exit code. */
int bench_run(cli *c, int argc, char **argv);
/* The measure with its defaults, adapted. */
qkv_status bench_part(cli *c, const bench_measure *m, const bench_request *request,
                      bench_report *out);

void bench_add_all(bench_report *r, const bench_figure *figures, size_t count);

/* The figures, as JSON or as a table under the title and the processor's name. Exit code. */
int bench_answer(const cli *c, const bench_report *r);
void bench_put(qkv_json_writer *w, const bench_report *r); /* as fields of the object begun */

/* "Intel Xeon, 16 threads", under a title; on a card its name before that. */
void bench_show_machine(const cli *c);
void bench_put_machine(qkv_json_writer *w, const cli *c); /* as fields of the object begun */

/* Bytes, most, so far: of the process, or, on a card, of the context, on card and host. */
size_t bench_memory(const cli *c);
bench_figure bench_memory_figure(bool card, size_t bytes);

double bench_median(double *seconds, size_t n); /* sorts them */

/* The products' limit so far: the larger of *peak and what is measured now, of inference's products
 * with such weights; AUTO: of training's. */
qkv_status bench_peak(const cli *c, qkv_weights weights, double *peak);

/* What a pass took: the median. */
typedef struct {
    qkv_weights weights; /* set before: whose limit, as bench_peak */
    double seconds;
    double peak; /* flop/s: the products' limit, measured before and after */
    size_t memory; /* bytes, most, when the last pass ended: of the process, or of the context */
    bool card;
} bench_timing;
typedef qkv_status bench_pass_fn(void *user);
/* Times `repeats` passes after `warm_ups` that do not count. prepare comes after the first measure
 * of the limit, whose memory is free again then. On a card, whose memory is counted by the most
 * that was ever used, the limit is measured after the passes alone. */
qkv_status bench_time(const cli *c, bench_timing *out, size_t warm_ups, size_t repeats,
                      bench_pass_fn *prepare, bench_pass_fn *pass, void *user);
/* Of a rate in flop/s: that, the limit, its share and the memory; the report is about it. */
void bench_add_rate(bench_report *r, double rate, const bench_timing *t);

extern const char *const bench_layouts[]; /* "gpt2", "llama", NULL */

extern const char *const bench_weights[]; /* "f32", "bf16", "int8", "int4", NULL */
qkv_weights bench_weights_of(int row);    /* of a row of these */

/* A GPT's size and how many tokens it reads: the first field of the settings of measures of its
 * forward pass, filled by the flags --model and --length. */
typedef struct {
    const char *model;
    size_t length;
} bench_pass;
extern const qkv_option_table bench_pass_table;

/* A GPT of that layout and size with so many tokens (0: GPT-2's) and at least `positions`
 * positions. Its parameters are zero. */
qkv_status bench_model(qkv_context *ctx, qkv_model **out, int layout, const char *preset,
                       size_t vocab, size_t positions, double dropout);

/* The base model of "Attention Is All You Need", vocabulary 32,001 (networks.c). The same. */
qkv_status bench_transformer(qkv_context *ctx, qkv_model **out, size_t positions, double dropout);

/* A VQGAN of that preset for images of that side. Its parameters are zero. */
qkv_status bench_vqgan(qkv_context *ctx, qkv_model **out, const char *preset, size_t side,
                       double dropout);

void bench_random_ids(int32_t *ids, size_t n, size_t vocab, uint64_t seed);

/* ---- a training step (training.c) ------------------------------------------------------ */

/* Which step: of which model, on how many sequences of how many tokens. */
typedef struct {
    int layout;        /* of a GPT: an index into bench_layouts */
    int dtype;         /* QKV_PRODUCTS_* */
    const char *model; /* a row of bench_networks, or a GPT's preset */
    size_t vocab;         /* of a GPT; 0: GPT-2's */
    size_t batch, length; /* 0: the network's own */
    double dropout;       /* below 0: the network's own */
    qkv_optimizer_kind optimizer;
    bool recompute;       /* blocks, in the backward pass */
    const char *lora;     /* train this adapter (qkv_lora_parse); NULL: the model itself */
} bench_step;
extern const qkv_option_table bench_step_table; /* its flags */
extern const char *const bench_dtypes[];        /* QKV_PRODUCTS_*: names and help of --dtype */
extern const char bench_dtype_help[];

typedef struct bench_training bench_training;

/* A kind of network whose steps can be timed. */
typedef struct {
    const char *name; /* --model; NULL, in the last row: every preset of a GPT */
    size_t batch, length;
    double dropout;
    /* Makes b->model, with parameters of zero. */
    qkv_status (*create)(bench_training *b, const bench_step *step);
    /* How many ids it wants in b->ids, all below b->vocab. */
    size_t (*ids)(const bench_training *b);
    qkv_tensor *(*loss)(const bench_training *b);
    double (*flops)(const bench_training *b);
    size_t (*tokens)(const bench_training *b); /* of a step, all that are read or made */
    const char *unit; /* what people call these: "tokens" or "codes" */
    const char *what; /* after the batch's size, for people: "" or " pairs" */
    /* What an application computes of the same data; NULL: bench forward does not time it. */
    qkv_tensor *(*forward)(const bench_training *b);
} bench_network;
extern const bench_network bench_networks[]; /* networks.c */

/* What steps need: zeroed at first, and parameters are zero until somebody fills them. */
struct bench_training {
    qkv_context *ctx;
    const bench_network *network;
    char name[48];        /* for people */
    size_t batch, length; /* sequences, and tokens in each; images, and the pixels of a side */
    double dropout;
    bool recompute, adapts; /* its blocks; an adapter is trained */
    size_t vocab;
    qkv_model *model;
    qkv_tape *tape;
    qkv_optimizer *optimizer;
    int32_t *ids; /* (id_count) zeros until somebody draws them */
    size_t id_count;
    qkv_real *pixels; /* (pixel_count) of a network of images; else NULL */
    size_t pixel_count;
    int32_t *rows; /* a masked language model's: which it guesses; a MAE's: order of patches */
    qkv_model *lpips;     /* of a VQGAN: who says how unlike images look; else NULL */
    qkv_pixels *images; /* of a VQGAN: as many as the batch has; else NULL */
    qkv_codes_options codes;
    qkv_task task;
    qkv_micro_batch part; /* all of the batch */
};

/* Makes model and data, both zero; with an adapter the model is drawn, since it may be kept in
 * fewer bits from then on. bench_training_free is due after a failure too. */
qkv_status bench_training_make(bench_training *b, qkv_context *ctx, const bench_step *step);
/* The same with a tape and an optimiser, for steps. */
qkv_status bench_training_create(bench_training *b, qkv_context *ctx, const bench_step *step);
void bench_training_free(bench_training *b);
/* Random parameters, ids and pixels. */
qkv_status bench_training_fill(bench_training *b, uint64_t seed);
/* "bert-base, batch 8 x 128, dropout 0.1" */
void bench_training_title(const bench_training *b, char *out, size_t size);
/* Forward, backward, clipping and the update. */
qkv_status bench_training_step(bench_training *b);

/* The step for the library to take, or only to lay out: qkv_predict_memory, qkv_scale_measure. */
typedef struct {
    const bench_step *step;
    bool fill; /* with random parameters and data */
    uint64_t seed;
    bench_training b;
} bench_rehearsal;
qkv_predicted_step bench_rehearse(bench_rehearsal *r);

#endif
