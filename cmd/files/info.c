/* info.c - `qkv info`: what qkv is and runs on, what tensors a file holds, where probes reach, or
 * what memory training takes. */
#include <stdio.h>

#include "core/cli.h"
#include "files/info_predict.h"

#define ISA_ROW(name, bits) {bits, name},
static const struct {
    unsigned bits;
    const char *name;
} sets[] = {QKV_ISA_LIST(ISA_ROW)};

static bool in_use(const cli *c, size_t set)
{
    return sets[set].bits != QKV_ISA_REFERENCE && !(sets[set].bits & ~qkv_context_isa(c->ctx));
}

static int info_answer_json(cli *c)
{
    const char *name, *version;
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "version", qkv_version(NULL));
    qkv_json_put_string(&w, "cpu", qkv_machine_cpu());
    qkv_json_begin_array(&w, "isa");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (in_use(c, i))
            qkv_json_put_string(&w, NULL, sets[i].name);
    qkv_json_end_array(&w);
    qkv_json_put_int(&w, "threads", qkv_context_threads(c->ctx));
    qkv_json_begin_object(&w, "libraries");
    for (size_t i = 0; (name = qkv_machine_library(i, &version)); i++)
        qkv_json_put_string(&w, name, version);
    qkv_json_end_object(&w);
    qkv_products_rate rates[QKV_PRODUCTS_KINDS];
    size_t kinds = qkv_machine_products_rates(c->ctx, rates);
    qkv_json_begin_object(&w, "products_gflops");
    for (size_t i = 0; i < kinds; i++)
        qkv_json_put_real(&w, rates[i].name, rates[i].flops / 1e9);
    qkv_json_end_object(&w);
    return cli_answer(c, &w);
}

static void print_products(const cli *c)
{
    qkv_products_rate rates[QKV_PRODUCTS_KINDS];
    size_t kinds = qkv_machine_products_rates(c->ctx, rates);
    if (!kinds)
        return;
    printf("products   ");
    const char *chosen = rates[0].name;
    for (size_t i = 0; i < kinds; i++) {
        chosen = rates[i].chosen ? rates[i].name : chosen;
        printf("%s%s %.0f", i ? ", " : "", rates[i].name, rates[i].flops / 1e9);
    }
    printf(" GFLOP/s of one thread; training takes %s\n", chosen);
}

static int answer_machine(cli *c)
{
    const char *name, *version;
    if (c->common.json)
        return info_answer_json(c);
    printf("qkv        %s\n", qkv_version(NULL));
    printf("CPU        %s\n", qkv_machine_cpu());
    printf("kernels    plain C");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (in_use(c, i))
            printf(", %s", sets[i].name);
    printf("\nthreads    %d\nlibraries ", qkv_context_threads(c->ctx));
    for (size_t i = 0; (name = qkv_machine_library(i, &version)); i++)
        printf("%s %s %s", i ? "," : "", name, version);
    printf("\n");
    print_products(c);
    return CLI_DONE;
}

/* ---- what a file holds ------------------------------------------------------------------- */

/* Of most of the bytes; of a directory in integers, these. */
static const char *info_weights(cli *c, const qkv_safetensors *s, const char *path)
{
    static const struct {
        qkv_store store;
        const char *name;
    } types[] = {{QKV_STORE_F32, "f32"}, {QKV_STORE_BF16, "bf16"}, {QKV_STORE_F16, "f16"},
                 {QKV_STORE_F64, "f64"}};
    enum { TYPES = sizeof types / sizeof *types };
    size_t bytes[TYPES] = {0}, best = 0;
    qkv_weights weights = QKV_WEIGHTS_F32;
    if (qkv_dir_exists(path) && !qkv_hub_weights(&weights, c->ctx, path) &&
        weights > QKV_WEIGHTS_F32)
        return qkv_weights_name(weights);
    for (size_t i = 0; i < qkv_safetensors_count(s); i++)
        for (size_t k = 0; k < TYPES; k++)
            if (qkv_safetensors_at(s, i)->store == types[k].store)
                bytes[k] += qkv_safetensors_at(s, i)->bytes;
    for (size_t k = 0; k < TYPES; k++)
        best = bytes[k] > bytes[best] ? k : best;
    return bytes[best] ? types[best].name : "none";
}

static int answer_tensors_json(cli *c, const qkv_safetensors *s, const char *weights,
                               size_t numbers, size_t bytes)
{
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "weights", weights);
    qkv_json_put_int(&w, "numbers", (int64_t)numbers);
    qkv_json_put_int(&w, "bytes", (int64_t)bytes);
    qkv_json_begin_array(&w, "tensors");
    for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
        const qkv_safetensor *t = qkv_safetensors_at(s, i);
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_string(&w, "name", t->name);
        qkv_json_put_string(&w, "dtype", t->dtype);
        qkv_json_put_sizes(&w, "shape", t->shape, (size_t)t->ndim);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    return cli_answer(c, &w);
}

static int answer_tensors(cli *c, const char *path)
{
    qkv_safetensors *s;
    size_t numbers = 0, bytes = 0;
    if (qkv_safetensors_open(&s, c->ctx, path))
        return cli_error(c);
    for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
        numbers += qkv_safetensors_at(s, i)->count;
        bytes += qkv_safetensors_at(s, i)->bytes;
    }
    const char *weights = info_weights(c, s, path);
    int code = CLI_DONE;
    if (c->common.json) {
        code = answer_tensors_json(c, s, weights, numbers, bytes);
    } else {
        for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
            const qkv_safetensor *t = qkv_safetensors_at(s, i);
            printf("%-4s  %s (", t->dtype, t->name);
            for (int d = 0; d < t->ndim; d++)
                printf("%s%zu", d ? ", " : "", t->shape[d]);
            printf(")\n");
        }
        printf("%zu tensors, %zu numbers, %zu bytes; weights in %s\n", qkv_safetensors_count(s),
               numbers, bytes, weights);
    }
    qkv_safetensors_close(s);
    return code;
}

static int info_gguf_json(cli *c, const qkv_gguf *g, size_t numbers, size_t bytes)
{
    qkv_json_writer w = cli_object(c);
    qkv_json_put_int(&w, "numbers", (int64_t)numbers);
    qkv_json_put_int(&w, "bytes", (int64_t)bytes);
    qkv_json_begin_object(&w, "fields");
    for (size_t i = 0; i < qkv_gguf_fields(g); i++) {
        qkv_str value;
        qkv_str_init(&value, c->ctx);
        const char *key = qkv_gguf_field(g, i, &value);
        qkv_json_put_string(&w, key, value.data ? value.data : "");
        qkv_str_free(&value);
    }
    qkv_json_end_object(&w);
    qkv_json_begin_array(&w, "tensors");
    for (size_t i = 0; i < qkv_gguf_tensors(g); i++) {
        const qkv_gguf_tensor t = qkv_gguf_tensor_at(g, i);
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_string(&w, "name", t.name);
        qkv_json_put_string(&w, "dtype", t.type);
        qkv_json_put_sizes(&w, "shape", t.shape, (size_t)t.ndim);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    return cli_answer(c, &w);
}

static void print_gguf(cli *c, const qkv_gguf *g, size_t numbers, size_t bytes)
{
    for (size_t i = 0; i < qkv_gguf_fields(g); i++) {
        qkv_str value;
        qkv_str_init(&value, c->ctx);
        const char *key = qkv_gguf_field(g, i, &value);
        printf("%s = %s\n", key, value.data ? value.data : "");
        qkv_str_free(&value);
    }
    for (size_t i = 0; i < qkv_gguf_tensors(g); i++) {
        const qkv_gguf_tensor t = qkv_gguf_tensor_at(g, i);
        printf("%-4s  %s (", t.type, t.name);
        for (int d = 0; d < t.ndim; d++)
            printf("%s%zu", d ? ", " : "", t.shape[d]);
        printf(")\n");
    }
    printf("%zu tensors, %zu numbers, %zu bytes\n", qkv_gguf_tensors(g), numbers, bytes);
}

static int answer_gguf(cli *c, const char *path)
{
    qkv_gguf *g;
    size_t numbers = 0, bytes = 0;
    int code = CLI_DONE;
    if (qkv_gguf_open(&g, c->ctx, path))
        return cli_error(c);
    for (size_t i = 0; i < qkv_gguf_tensors(g); i++) {
        numbers += qkv_gguf_tensor_at(g, i).count;
        bytes += qkv_gguf_tensor_at(g, i).bytes;
    }
    if (c->common.json)
        code = info_gguf_json(c, g, numbers, bytes);
    else
        print_gguf(c, g, numbers, bytes);
    qkv_gguf_close(g);
    return code;
}

/* ---- where probes reach -------------------------------------------------------------------- */

static int answer_places_json(const cli *c, const qkv_look_places *x)
{
    qkv_json_writer w = cli_object(c);
    qkv_json_begin_array(&w, "probes");
    for (size_t i = 0; i < x->count; i++) {
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_string(&w, "name", x->items[i].name);
        qkv_json_put_bool(&w, "weights", x->items[i].weights);
        qkv_json_put_sizes(&w, "shape", x->items[i].shape, (size_t)x->items[i].ndim);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    return cli_answer(c, &w);
}

static int answer_places(cli *c, const char *dir)
{
    qkv_pipeline *p = NULL;
    qkv_look_places x;
    qkv_status status = qkv_pipeline_open(&p, c->ctx, dir);
    if (!status)
        status = qkv_pipeline_places(p, &x);
    if (status) {
        qkv_pipeline_close(p);
        return cli_error(c);
    }
    int code = CLI_DONE;
    if (c->common.json)
        code = answer_places_json(c, &x);
    for (size_t i = 0; i < x.count && !c->common.json; i++) {
        printf("%-9s%s (", x.items[i].weights ? "weights" : "tensor", x.items[i].name);
        for (int d = 0; d < x.items[i].ndim; d++)
            printf("%s%zu", d ? ", " : "", x.items[i].shape[d]);
        printf(")\n");
    }
    qkv_look_places_free(&x);
    qkv_pipeline_close(p);
    return code == CLI_DONE ? cli_flush() : code;
}

/* ---- the command ------------------------------------------------------------------------- */

typedef struct {
    bool predict, probes;
    info_ranks ranks;
    bench_step step;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "predict", .type = QKV_OPT_BOOL, FIELD(predict),
     .help = "say how much memory a training step takes, without taking it"},
    {.flag = "ranks", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(ranks.ranks),
     .initial = "1", .help = "of --predict: ranks over which the step is cut; --batch is of each"},
    {.flag = "ema", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1, FIELD(ranks.ema),
     .initial = "0", .help = "of --predict: decay of an average of the weights; 0: none is kept"},
    {.flag = "probes", .type = QKV_OPT_BOOL, FIELD(probes),
     .help = "the names of all places in a model's pass, with the shapes of a pass over a sample"},
};
static const qkv_option_table table = {"Information", rows, sizeof rows / sizeof *rows, 0};

static int info_run(cli *c, int argc, char **argv)
{
    settings s;
    cli_bind(c, &table, &s);
    cli_bind(c, &bench_step_table, &s.step);
    int refused = cli_parse(c, argc, argv, 0, 1);
    if (refused)
        return refused;
    if (s.predict && c->args.count)
        return cli_usage(c, "--predict is about presets: it takes no file");
    if (s.predict)
        return info_predict(c, &s.step, &s.ranks);
    if (s.probes && !c->args.count)
        return cli_usage(c, "--probes needs a model directory");
    if (s.probes)
        return answer_places(c, c->args.items[0]);
    if (c->args.count && qkv_gguf_is(c->args.items[0]))
        return answer_gguf(c, c->args.items[0]);
    return c->args.count ? answer_tensors(c, c->args.items[0]) : answer_machine(c);
}

static const char *const examples[] = {
    "qkv info", "qkv info runs/book", "qkv info runs/book/model.safetensors --json",
    "qkv info book.gguf",
    "qkv info runs/book --probes",
    "qkv info --predict --model gpt2 --batch 4 --length 256 --json",
    "qkv info --predict --model gpt2 --ranks 8", NULL};

CLI_COMMAND(cli_info, 630) = {
    .manual = {.name = "info", .summary = "this machine, the tensors of a model, memory",
               .usage = "[FILE|DIR] [options]",
               .text = "Without an argument: the version, the processor, the instruction sets and "
                       "threads in use, the libraries. With a safetensors file, an index of "
                       "shards or a model directory: its tensors, their types and shapes, and what "
                       "its weights are in (f32, bf16, f16; a directory's int8 or int4). Of a "
                       "GGUF file also its fields. With "
                       "--predict: the memory that qkv bench train would take for the same step, "
                       "part by part; with --ranks, what each of several ranks would. With "
                       "--probes: where `qkv look --capture --places` and probes in C find "
                       "tensors, and attention weights.",
               .examples = examples},
    .own = {&table, &bench_step_table}, .run = info_run};
