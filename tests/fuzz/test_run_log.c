/* test_run_log.c - logs of runs under random changes. */
#include "fuzz.h"

#include <sys/stat.h>

#include "qkv/runs.h"

/* A run's folder beside the file, which is its log. */
static qkv_status read_run(qkv_context *ctx, const char *path)
{
    char dir[96], train[112], log[144];
    qkv_run_log *r;
    snprintf(dir, sizeof dir, "%s.run", path);
    snprintf(train, sizeof train, "%s/train", dir);
    snprintf(log, sizeof log, "%s/metrics.jsonl", train);
    (void)mkdir(dir, 0700);
    (void)mkdir(train, 0700);
    if (link(path, log) != 0)
        abort();
    qkv_status status = qkv_run_log_open(&r, ctx, dir);
    if (!status)
        qkv_run_log_close(r);
    unlink(log);
    rmdir(train);
    rmdir(dir);
    return status;
}

const fuzz_target fuzz = {
    .read = read_run,
    .texts = {"{\"kind\": \"step\", \"step\": 10, \"seconds\": 0.5, \"loss\": 2.5, \"lr\": 1e-3}\n"
              "{\"kind\": \"step\", \"step\": 20, \"seconds\": 0.9, \"loss\": null}\n",
              "{\"kind\": \"eval\", \"step\": 0, \"seconds\": 0, \"loss\": 3, \"best\": true}\n",
              "{\"kind\": \"sample\", \"step\": 5, \"seconds\": 1, \"name\": \"a\", \"file\": "
              "\"samples/a.txt\", \"text\": \"\\u0041\"}\n{\"kind\": \"st"},
};
