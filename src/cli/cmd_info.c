/* cmd_info.c - `qkv info`: what qkv is, what it runs on, and what it was built with. */
#include <jansson.h>
#include <stdio.h>

#include "cli/commands.h"

static const struct {
    unsigned bit;
    const char *name;
} sets[] = {{QKV_ISA_AVX2, "avx2"}, {QKV_ISA_AVX512, "avx512"}};

typedef struct {
    const char *name, *version;
} library;

static const library libraries[] = {
    {"jansson", JANSSON_VERSION},
#ifdef QKV_DNNL_VERSION
    {"oneDNN", QKV_DNNL_VERSION},
#endif
};

static int answer_json(cli *c)
{
    char version[40];
    qkv__json_out w;
    (void)snprintf(version, sizeof version, "%d.%d.%d", QKV_VERSION_MAJOR, QKV_VERSION_MINOR,
                   QKV_VERSION_PATCH);
    qkv__json_out_init(&w, c->ctx, 0);
    qkv__json_begin_object(&w, NULL);
    qkv__json_put_string(&w, "version", version);
    qkv__json_put_string(&w, "cpu", qkv__cpu_name());
    qkv__json_begin_array(&w, "isa");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (qkv_context_isa(c->ctx) & sets[i].bit)
            qkv__json_put_string(&w, NULL, sets[i].name);
    qkv__json_end_array(&w);
    qkv__json_put_int(&w, "threads", qkv_context_threads(c->ctx));
    qkv__json_begin_object(&w, "libraries");
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        qkv__json_put_string(&w, libraries[i].name, libraries[i].version);
    qkv__json_end_object(&w);
    qkv__json_end_object(&w);
    return cli_answer(c, &w);
}

static int run(cli *c, int argc, char **argv)
{
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    if (c->common.json)
        return answer_json(c);
    printf("qkv        %d.%d.%d\n", QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);
    printf("CPU        %s\n", qkv__cpu_name());
    printf("kernels    plain C");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (qkv_context_isa(c->ctx) & sets[i].bit)
            printf(", %s", sets[i].name);
    printf("\nthreads    %d\nlibraries ", qkv_context_threads(c->ctx));
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        printf("%s %s %s", i ? "," : "", libraries[i].name, libraries[i].version);
    printf("\n");
    return CLI_DONE;
}

static const char *const examples[] = {"qkv info", "qkv info --json", NULL};

const cli_command cli_info = {
    .manual = {.name = "info", .summary = "this machine, and what qkv was built with",
               .usage = "[options]", .examples = examples},
    .run = run};
