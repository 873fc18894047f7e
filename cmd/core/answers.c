/* answers.c - options, answers and errors of every command. */
#include "core/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ISA_NAME(name, bits) name,
#define ISA_BITS(name, bits) bits,
static const char *const isa_names[] = {QKV_ISA_LIST(ISA_NAME) "all", NULL};
static const unsigned isa_bits[] = {QKV_ISA_LIST(ISA_BITS) QKV_ISA_ALL};

static const qkv_option common_rows[] = {
    {.flag = "json", .type = QKV_OPT_BOOL, .offset = offsetof(cli_common, json),
     .help = "answer in JSON, one object per answer"},
    {.flag = "threads", .type = QKV_OPT_INT, .offset = offsetof(cli_common, threads),
     .max = 1024, .initial = "0", .help = "threads to use; 0: one per core"},
    {.flag = "isa", .type = QKV_OPT_ENUM, .offset = offsetof(cli_common, isa),
     .names = isa_names, .initial = "all", .help = "largest instruction set to use, by oneDNN too"},
    {.flag = "device", .type = QKV_OPT_STRING, .offset = offsetof(cli_common, device),
     .initial = "cpu", .help = "where to compute: cpu, cuda or cuda:N"},
    {.flag = "quiet", .type = QKV_OPT_BOOL, .offset = offsetof(cli_common, quiet),
     .help = "no progress line, no notes"},
    {.flag = "seed", .type = QKV_OPT_U64, .offset = offsetof(cli_common, seed), .initial = "0",
     .help = "of everything random"},
};
enum { COMMON_ROWS = sizeof common_rows / sizeof *common_rows };

const qkv_option_table cli_common_table = {"Common options", common_rows, COMMON_ROWS, 0};
const qkv_option_table cli_job_common_table = {"Common options", common_rows, COMMON_ROWS - 1, 0};

/* Two kinds of sentence: "qkv: ..." and, for notes, the text alone. */
static void answers_say(const char *fmt, va_list args)
{
    fputs("qkv: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

static int usage_error(const cli *c)
{
    fprintf(stderr, "qkv: %s (see qkv help %s)\n", qkv_context_message(c->ctx),
            c->command->manual.name);
    return CLI_USAGE;
}

/* oneDNN chooses its instructions itself, once, before its first product: it gets the same limit,
 * unless the user gave it one. */
static void limit_library(unsigned isa)
{
    if (isa & QKV_ISA_AVX2 && !(isa & QKV_ISA_AVX512))
        (void)setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 0);
}

int cli_configure(cli *c)
{
    limit_library(isa_bits[c->common.isa]);
    qkv_context_options options = qkv_context_defaults();
    options.threads = c->common.threads;
    options.isa = isa_bits[c->common.isa];
    if (c->common.device && strcmp(c->common.device, "cpu") != 0)
        options.device = c->common.device;
    qkv_status status = qkv_context_configure(c->ctx, &options);
    return status == QKV_E_ARGUMENT ? usage_error(c) : status ? cli_error(c) : 0;
}

void cli_bind(cli *c, const qkv_option_table *table, void *target)
{
    if (!c->bind_status)
        c->bind_status = qkv_options_bind(c->options, table, target);
    if (!c->bind_status)
        qkv_preset_apply(c->command->manual.presets, table, target);
}

int cli_parse(cli *c, int argc, char **argv, size_t min, size_t max)
{
    const char *usage = c->command->manual.usage;
    qkv_status status = c->bind_status;
    if (!status)
        status = qkv_options_parse(c->options, argc, argv, max ? &c->args : NULL);
    if (!status && c->command->manual.recipes)
        status = qkv_recipe_apply(c->options, c->command->manual.recipes);
    if (!status && (c->args.count < min || c->args.count > max))
        status = qkv_fail(c->ctx, QKV_E_ARGUMENT, "expected %s %s, found %zu arguments",
                          c->command->manual.name, usage ? usage : "", c->args.count);
    return status ? usage_error(c) : cli_configure(c);
}

void cli_take_given(const cli *c, const qkv_option_table *table, const void *given, void *target)
{
    static const size_t sizes[] = {
        [QKV_OPT_INT] = sizeof(int), [QKV_OPT_SIZE] = sizeof(size_t),
        [QKV_OPT_U64] = sizeof(uint64_t), [QKV_OPT_REAL] = sizeof(double),
        [QKV_OPT_BOOL] = sizeof(bool), [QKV_OPT_STRING] = sizeof(char *),
        [QKV_OPT_ENUM] = sizeof(int), [QKV_OPT_LIST] = sizeof(qkv_strings),
        [QKV_OPT_SIZES] = sizeof(qkv_sizes)};
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *row = &table->rows[i];
        if (qkv_options_given(c->options, row->key))
            memcpy((char *)target + row->offset, (const char *)given + row->offset,
                   sizes[row->type]);
    }
}

int cli_error(cli *c)
{
    cli_progress_end(&c->line);
    return cli_fail("%s", qkv_context_message(c->ctx));
}

int cli_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    answers_say(fmt, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const cli *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    qkv_vfail(c->ctx, QKV_E_ARGUMENT, fmt, args);
    va_end(args);
    return usage_error(c);
}

void cli_note(const cli *c, const char *fmt, ...)
{
    va_list args;
    if (c->common.quiet)
        return;
    cli_progress_hide_open();
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

int cli_png_only(const cli *c, const char *out)
{
    const char *end = strrchr(out, '.');
    if (!end || (strcasecmp(end, ".jpg") != 0 && strcasecmp(end, ".jpeg") != 0))
        return 0;
    return cli_usage(c, "--out: images are written as PNG: a name with .png expected, found "
                     "%.200s", out);
}

int cli_flush(void)
{
    return fflush(stdout) == 0 && !ferror(stdout)
               ? CLI_DONE
               : cli_fail("the answer cannot be written to the standard output");
}

qkv_json_writer cli_object(const cli *c)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    return w;
}

void cli_put_series(qkv_json_writer *w, const qkv_array *y)
{
    size_t columns = y->shape[1];
    if (y->names)
        qkv_json_put_strings(w, "columns", (const char *const *)y->names, columns);
    qkv_json_begin_array(w, "rows");
    for (size_t i = 0; i < y->shape[0]; i++) {
        qkv_json_begin_array(w, NULL);
        for (size_t j = 0; j < columns; j++)
            qkv_json_put_float(w, NULL, (float)y->data[i * columns + j]);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

int cli_answer(const cli *c, qkv_json_writer *w)
{
    (void)c;
    qkv_json_end_object(w);
    const char *text = qkv_json_writer_text(w);
    int code = text ? CLI_DONE : cli_fail("out of memory while writing the answer");
    if (text)
        (void)puts(text);
    if (code == CLI_DONE)
        code = cli_flush();
    qkv_json_writer_free(w);
    return code;
}
