/* 17_similar_texts.c - pairs of sentences that say the same become an encoder whose vectors are
 * near when the meanings are: trained as `qkv train embed`, then asked for nearest neighbours. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[][2] = {
    {"red", "rot"}, {"green", "gruen"}, {"blue", "blau"}, {"grey", "grau"}, {"house", "haus"},
    {"dog", "hund"}, {"tree", "baum"}, {"boat", "boot"}};
enum { COLORS = 4, THINGS = 4, LINES = 240 };

/* Each line once says a thing and its colour; a real program has files of its own. */
static bool write_side(const char *path, int side, int lines)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < lines; i++)
        (void)fprintf(f, "%s %s\n", words[COLORS + i / COLORS % THINGS][side],
                      words[i % COLORS][side]);
    return f && fclose(f) == 0;
}

static qkv_status train(qkv_context *ctx, const char *json)
{
    qkv_job *job;
    qkv_status status = qkv_job_create(&job, ctx, "embed");
    if (!status)
        status = qkv_job_set_json(job, json, strlen(json));
    if (!status)
        status = qkv_job_run(job, NULL, NULL, NULL);
    qkv_job_destroy(job);
    return status;
}

int main(void)
{
    static const char json[] =
        "{\"source\": \"example-17/en\", \"target\": \"example-17/de\", \"out\": "
        "\"example-17/run\", \"vocab\": 60, \"model\": \"nano\", \"length\": 16, "
        "\"valid-last\": \"0\", \"batch\": 16, \"steps\": 80, \"lr\": 5e-3}";
    const char *const question = "dog green";
    qkv_context *ctx;
    qkv_pipeline *p = NULL;
    qkv_vectors asked, lines;
    int32_t best[2];
    qkv_real cosines[2];
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (system("rm -rf example-17") || qkv_context_create(&ctx, &c) ||
        qkv_dir_create(ctx, "example-17")) return 1;
    if (!write_side("example-17/en", 0, LINES) || !write_side("example-17/de", 1, LINES) ||
        !write_side("example-17/all", 1, COLORS * THINGS) || train(ctx, json) ||
        qkv_pipeline_open(&p, ctx, "example-17/run") ||
        qkv_pipeline_embed_texts(p, &question, 1, &asked) ||
        qkv_pipeline_embed_file(p, "example-17/all", &lines) ||
        qkv_vectors_nearest(&asked, &lines, 2, best, cosines))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    for (int i = 0; i < 2; i++)
        printf("%.2f %s\n", (double)cosines[i], lines.names[best[i]]);
    bool right = strcmp(lines.names[best[0]], "hund gruen") == 0;
    qkv_vectors_free(&asked);
    qkv_vectors_free(&lines);
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return system("rm -r example-17") || !right;
}
