/* 14_text_to_gpt.c - a text file becomes a GPT: trained, stopped, resumed, evaluated; then it
 * writes. Each is one call; the settings are those of `qkv train lm`, by the same names. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>

/* A little text; a real program has a file of its own. */
static bool write_text(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 200; i++)
        (void)fprintf(f, "the %s sat on the %s\n", i % 2 ? "cat" : "dog", i % 3 ? "mat" : "hat");
    return f && fclose(f) == 0;
}

static bool stop_at_20(void *user, const qkv_train_event *e)
{
    (void)user;
    return e->kind != QKV_TRAIN_STEP || e->step < 20;
}

/* One session of the run: a new one, or one that goes on. */
static qkv_status train(qkv_context *ctx, const char *resume, qkv_train_fn *event,
                        qkv_train_result *result)
{
    const char *const settings[][2] = {
        {"data", "example-14/text.txt"}, {"out", "example-14/run"}, {"tokenizer", "char"},
        {"model", "nano"}, {"length", "32"}, {"batch", "8"}, {"steps", "120"}, {"resume", resume}};
    qkv_job *job;
    qkv_status status = qkv_job_create(&job, ctx, "lm");
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !status; i++)
        status = qkv_job_set(job, settings[i][0], settings[i][1]);
    if (!status) status = qkv_job_run(job, event, NULL, result);
    qkv_job_destroy(job);
    return status;
}

static bool print(void *user, const qkv_generated *piece)
{
    (void)user;
    return fwrite(piece->text, 1, piece->len, stdout) == piece->len;
}

int main(void)
{
    qkv_context *ctx;
    qkv_pipeline *p = NULL;
    qkv_train_result r[2];
    qkv_metrics m;
    qkv_context_options c = qkv_context_defaults();
    qkv_pipeline_generate_options o = qkv_pipeline_generate_defaults();
    c.threads = 1; /* so small a model has no work for more */
    o.prompt = "the ";
    o.tokens = 60;
    if (system("rm -rf example-14") || qkv_context_create(&ctx, &c)) return 1;
    if (qkv_dir_create(ctx, "example-14") || !write_text("example-14/text.txt") ||
        train(ctx, "false", stop_at_20, &r[0]) || train(ctx, "true", NULL, &r[1]) ||
        qkv_pipeline_open(&p, ctx, "example-14/run") || qkv_pipeline_evaluate(p, NULL, &m) ||
        qkv_pipeline_generate(p, &o, print, NULL))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    printf("\nheld out after %d steps: %s %.2f\n", (int)r[1].step, m.item[0].name,
           m.item[0].value);
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return system("rm -r example-14") || !r[0].stopped || r[1].step != 120 ||
           !(m.item[0].value < 1.5);
}
