/* 15_images_to_classifier.c - a folder of images, in it a folder for each class, becomes a
 * classifier that labels a file. The settings are those of `qkv train classify`, here as JSON. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 16, IMAGES = 120 };

/* Draws rows or columns, which number shifts; a real program has images of its own. */
static qkv_status draw(qkv_context *ctx, const char *path, bool rows, size_t number)
{
    qkv_image image;
    qkv_status status = qkv_image_create(&image, ctx, SIDE, SIDE, 1);
    for (size_t i = 0; i < (size_t)SIDE * SIDE && !status; i++)
        image.data[i] = ((rows ? i / SIDE : i % SIDE) + number) / (2 + number % 2) % 2 ? 220 : 30;
    if (!status) status = qkv_image_write(&image, ctx, path);
    qkv_image_free(&image, ctx);
    return status;
}

static qkv_status draw_folder(qkv_context *ctx)
{
    char path[100];
    qkv_status status = qkv_dir_create(ctx, "example-15/images/rows");
    if (!status) status = qkv_dir_create(ctx, "example-15/images/columns");
    for (size_t i = 0; i < IMAGES && !status; i++) {
        (void)snprintf(path, sizeof path, "example-15/images/%s/%d.png",
                       i % 2 ? "rows" : "columns", (int)i);
        status = draw(ctx, path, i % 2, i / 2);
    }
    return status;
}

typedef struct { qkv_pipeline *p; bool right; } answer;

static bool print(void *user, const qkv_image_labels *found)
{
    answer *a = (answer *)user;
    for (size_t i = 0; i < found->classes; i++)
        printf("%s: %.2f %s\n", found->name, (double)found->probabilities[i],
               qkv_pipeline_label(a->p, i));
    a->right = found->probabilities[1] > 0.9f; /* "rows" come after "columns" */
    return true;
}

int main(void)
{
    static const char settings[] =
        "{\"data\": \"example-15/images\", \"out\": \"example-15/run\", "
        "\"model\": \"nano\", \"steps\": 60, \"batch\": 16}";
    const qkv_image_source image = {"example-15/new.png", NULL};
    qkv_context *ctx;
    qkv_job *job = NULL;
    answer a = {NULL, false};
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (system("rm -rf example-15") || qkv_context_create(&ctx, &c)) return 1;
    if (draw_folder(ctx) || draw(ctx, image.path, true, 99) ||
        qkv_job_create(&job, ctx, "classify") ||
        qkv_job_set_json(job, settings, sizeof settings - 1) ||
        qkv_job_run(job, NULL, NULL, NULL) || qkv_pipeline_open(&a.p, ctx, "example-15/run") ||
        qkv_pipeline_classify_images(a.p, &image, 1, print, &a))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    qkv_pipeline_close(a.p);
    qkv_job_destroy(job);
    qkv_context_destroy(ctx);
    return system("rm -r example-15") || !a.right;
}
