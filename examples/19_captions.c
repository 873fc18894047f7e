/* 19_captions.c - images and captions become two encoders with one space, as by `qkv train embed
 * --captions`; a text then finds an image, and of what is held out they find each other. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, COUNT = 72, COLORS = 3, SHAPES = 3 };
static const char *const words[] = {"red", "green", "blue", "disc", "stripes", "sides"};

/* n % 9 is its colour and shape; strengths, sizes and places differ. */
static qkv_status draw(qkv_context *ctx, int n, FILE *table)
{
    char path[64];
    qkv_image image;
    qkv_status status = qkv_image_create(&image, ctx, SIDE, SIDE, 3);
    int color = n % COLORS, shape = n / COLORS % SHAPES;
    for (int i = 0; i < SIDE * SIDE * 3 && !status; i++) {
        int x = i / 3 % SIDE - SIDE / 2, y = i / 3 / SIDE - SIDE / 2, big = 4 + n / 9 % 3;
        bool in = shape == 0 ? x * x + y * y < big * big
                : shape == 1 ? (y + n / 9 + SIDE) % 4 < 2 : x < -big || x > big;
        image.data[i] = (uint8_t)(in && i % 3 == color ? 150 + n * 7 % 100 : n * 5 % 40);
    }
    (void)snprintf(path, sizeof path, "example-19/images/%03d.png", n);
    (void)fprintf(table, "%03d.png,%s %s\n", n, words[color], words[COLORS + shape]);
    if (!status) status = qkv_image_write(&image, ctx, path);
    qkv_image_free(&image, ctx);
    return status;
}

int main(void)
{
    static const char json[] =
        "{\"data\": \"example-19/images\", \"captions\": \"example-19/captions.csv\", "
        "\"out\": \"example-19/run\", \"model\": \"nano\", \"vocab\": 60, \"valid-last\": \"9\", "
        "\"crop-scale\": 0, \"batch\": 16, \"steps\": 90, \"lr\": 3e-3}";
    const char *const text = "blue stripes";
    qkv_context *ctx;
    qkv_job *job = NULL;
    qkv_pipeline *p = NULL;
    qkv_vectors asked, images;
    qkv_metrics m;
    qkv_real cosine;
    int32_t best;
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (system("rm -rf example-19") || qkv_context_create(&ctx, &c) ||
        qkv_dir_create(ctx, "example-19/images")) return 1;
    FILE *table = fopen("example-19/captions.csv", "w");
    for (int n = 0; n < COUNT; n++)
        if (!table || draw(ctx, n, table)) return 1;
    if (fclose(table) || qkv_job_create(&job, ctx, "embed") ||
        qkv_job_set_json(job, json, strlen(json)) || qkv_job_run(job, NULL, NULL, NULL) ||
        qkv_pipeline_open(&p, ctx, "example-19/run") || qkv_pipeline_evaluate(p, NULL, &m) ||
        qkv_pipeline_embed_texts(p, &text, 1, &asked) ||
        qkv_pipeline_embed_file(p, "example-19/images", &images) ||
        qkv_vectors_nearest(&asked, &images, 1, &best, &cosine))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    printf("%s %.2f; %s: %s\n", m.item[0].name, m.item[0].value, text, images.names[best]);
    qkv_vectors_free(&asked);
    qkv_vectors_free(&images);
    qkv_pipeline_close(p);
    qkv_job_destroy(job);
    qkv_context_destroy(ctx);
    return system("rm -r example-19") || m.item[0].value < 0.6 || best % 9 != 5; /* see draw */
}
