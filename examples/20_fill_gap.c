/* 20_fill_gap.c - a series of numbers becomes a model that fills in what is missing of it, from
 * both sides: trained as `qkv train fill`, then asked for a gap of six rows beside their truth. */
#include <math.h>
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 600, FIRST = 18, GAP = 6 }; /* the gap in the rows that are asked for */

/* Of twelve rows, like months; a real program has measurements of its own. */
static double wave(int t) { return 20 + 5 * sin(t * 0.5236) + 2 * cos(t * 1.0472); }

static bool write_series(const char *path, int from, int rows, bool gap)
{
    FILE *f = fopen(path, "w");
    if (f) (void)fprintf(f, "wave\n");
    for (int i = 0; f && i < rows; i++)
        (void)fprintf(f, "%.4f\n", gap && i / GAP == FIRST / GAP ? (double)NAN : wave(from + i));
    return f && fclose(f) == 0;
}

static qkv_status train(qkv_context *ctx, const char *json)
{
    qkv_job *job;
    qkv_status status = qkv_job_create(&job, ctx, "fill");
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
        "{\"data\": \"example-20/known.csv\", \"out\": \"example-20/run\", \"context\": 48, "
        "\"patch\": 12, \"valid-last\": \"0\", \"batch\": 32, \"steps\": 400, \"lr\": 3e-3}";
    const char *const asked = "example-20/asked.csv";
    qkv_context *ctx;
    qkv_pipeline *p = NULL;
    qkv_array before, filled;
    double error = 0, straight = 0; /* squared: of the model, of a straight line */
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (system("rm -rf example-20") || qkv_context_create(&ctx, &c) ||
        qkv_dir_create(ctx, "example-20")) return 1;
    if (!write_series("example-20/known.csv", 0, ROWS, false) ||
        !write_series(asked, ROWS, 48, true) || train(ctx, json) ||
        qkv_pipeline_open(&p, ctx, "example-20/run") ||
        qkv_pipeline_fill_series_file(p, asked, &before, &filled))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    double low = (double)filled.data[FIRST - 1], high = (double)filled.data[FIRST + GAP];
    for (int i = 0; i < GAP; i++) {
        double truth = wave(ROWS + FIRST + i), y = (double)filled.data[FIRST + i];
        double line = low + (high - low) * (i + 1) / (GAP + 1);
        printf("%2d: filled in %.2f, true %.2f, a line %.2f\n", FIRST + i + 1, y, truth, line);
        error += (y - truth) * (y - truth);
        straight += (line - truth) * (line - truth);
    }
    qkv_array_free(&before);
    qkv_array_free(&filled);
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return system("rm -r example-20") || !(error < 0.25 * straight);
}
