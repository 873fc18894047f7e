/* 16_pairs_to_translator.c - two text files, line by line translations of each other, become a
 * translator. The settings are those of `qkv train translate`, by the same names, here as JSON. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[][2] = {
    {"red", "rot"}, {"green", "gruen"}, {"blue", "blau"}, {"house", "haus"}, {"dog", "hund"}};
enum { COLORS = 3, THINGS = 2, LINES = 240 };

/* Pairs of a colour and a thing; a real program has files of its own. */
static bool write_side(const char *path, int side)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < LINES; i++)
        (void)fprintf(f, "%s %s\n", words[i % COLORS][side], words[COLORS + i / 7 % THINGS][side]);
    return f && fclose(f) == 0;
}

static qkv_status train(qkv_context *ctx, const char *json)
{
    qkv_job *job;
    qkv_status status = qkv_job_create(&job, ctx, "translate");
    if (!status)
        status = qkv_job_set_json(job, json, strlen(json));
    if (!status)
        status = qkv_job_run(job, NULL, NULL, NULL);
    qkv_job_destroy(job);
    return status;
}

static bool print(void *user, size_t line, const qkv_translated *found)
{
    const qkv_text *best = &found->best->text;
    bool *right = (bool *)user;
    (void)line;
    printf("%.*s\n", (int)best->len, best->data);
    *right = best->len == 9 && memcmp(best->data, "blau hund", 9) == 0;
    return true;
}

int main(void)
{
    qkv_context *ctx;
    qkv_pipeline *p = NULL;
    bool right = false;
    const char *dir = "example-16";
    char en[300], de[300], out[300], json[1500];
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (system("rm -rf example-16") || qkv_context_create(&ctx, &c) ||
        qkv_dir_create(ctx, dir)) return 1;
    (void)snprintf(en, sizeof en, "%s/en.txt", dir);
    (void)snprintf(de, sizeof de, "%s/de.txt", dir);
    (void)snprintf(out, sizeof out, "%s/run", dir);
    (void)snprintf(json, sizeof json, "{\"source\": \"%s\", \"target\": \"%s\", \"out\": \"%s\", "
                   "\"tokenizer\": \"char\", \"model\": \"nano\", \"tokens\": 1024, "
                   "\"steps\": 150, \"dropout\": 0, \"ema\": 0}", en, de, out);
    if (!write_side(en, 0) || !write_side(de, 1) || train(ctx, json) ||
        qkv_pipeline_open(&p, ctx, out) ||
        qkv_pipeline_translate(p, "blue dog", 8, NULL, print, &right))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return system("rm -r example-16") || !right;
}
