/* 22_ranks.c - several processes train one model. Started alone, this program is the only rank;
 * `mpirun -n 4 22_ranks` starts four of them, which share each batch and end with the same bits,
 * since the number of shards is the same. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>

static bool write_text(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 200; i++)
        (void)fprintf(f, "the %s sat on the %s\n", i % 2 ? "cat" : "dog", i % 3 ? "mat" : "hat");
    return f && fclose(f) == 0;
}

/* Every rank makes the same calls; rank 0 reads the data and writes the run. */
static qkv_status train(qkv_context *ctx, qkv_train_result *result)
{
    const char *const settings[][2] = {
        {"data", "example-22/text.txt"}, {"out", "example-22/run"}, {"tokenizer", "char"},
        {"model", "nano"}, {"length", "32"}, {"batch", "8"}, {"steps", "60"}, {"shards", "4"}};
    qkv_job *job;
    qkv_status status = qkv_job_create(&job, ctx, "lm");
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !status; i++)
        status = qkv_job_set(job, settings[i][0], settings[i][1]);
    if (!status) status = qkv_job_run(job, NULL, NULL, result);
    qkv_job_destroy(job);
    return status;
}

int main(void)
{
    qkv_context *ctx;
    static qkv_train_result r;
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (qkv_context_create(&ctx, &c) || qkv_dist_join(ctx)) return 1;
    bool leads = qkv_dist_rank(ctx) == 0;
    bool failed = leads && (system("rm -rf example-22") || qkv_dir_create(ctx, "example-22") ||
                            !write_text("example-22/text.txt"));
    failed = failed || train(ctx, &r);
    if (leads && failed) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (leads && !failed)
        printf("%d ranks, held out after %d steps: %s %.2f\n", qkv_dist_size(ctx), (int)r.step,
               r.metrics.item[0].name, r.metrics.item[0].value);
    qkv_dist_leave(ctx, failed);
    qkv_context_destroy(ctx);
    return failed || (leads && system("rm -r example-22")) || !(r.metrics.item[0].value < 2);
}
