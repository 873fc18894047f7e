/* 10_classify_image.c - one floor below a job: a set of images in memory, a model that says how
 * it wants them, a task on both, the loop; then a directory classifies an image.
 *
 * A compact transformer learns rows and columns, drawn here. ./classifier, which `qkv classify`
 * opens as well, prepares the image as the model wants it: here one in memory, or a PNG or JPEG
 * file. Example 15 does the same from a folder of files, by a job. */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { SIDE = 32, IMAGES = 200 };

static const char *const names[2] = {"columns", "rows"};
static uint8_t rgb[3 * SIDE * SIDE]; /* the image drawn last */

/* Stripes, as bright as number says, on black. */
static void draw(int rows, int number)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        memset(rgb + 3 * i, ((rows ? i / SIDE : i) % SIDE + number) / 2 % 2 ? number : 0, 3);
}

static qkv_status draw_set(qkv_pixels **out, qkv_context *ctx)
{
    qkv_pixels_writer *w;
    qkv_status status = qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, 3); /* NULL: in memory */
    for (int i = 0; i < 2 && !status; i++) status = qkv_pixels_add_class(w, names[i]);
    for (int i = 0; i < IMAGES && !status; i++) {
        draw(i % 2, 40 + i);
        status = qkv_pixels_add(w, rgb, i % 2, "drawn");
    }
    return status ? status : qkv_pixels_finish(w, out);
}

static bool see(void *rows, const qkv_image_labels *found)
{
    *(double *)rows = (double)found->probabilities[1];
    return true;
}

int main(void)
{
    const qkv_image_format format = {SIDE, SIDE, 3, false, 2, {.5, .5, .5}, {.5, .5, .5}, 0};
    const qkv_image image = {SIDE, SIDE, 3, rgb};
    const qkv_image_source source = {NULL, &image};
    qkv_context *ctx;
    qkv_pixels *set;
    qkv_model *m;
    qkv_task task;
    qkv_pipeline *p;
    qkv_vit_config c;
    double rows = 0;
    qkv_train_options o = qkv_train_defaults();
    o.steps = 100;
    qkv_option_defaults(qkv_model_type_config(qkv_cct_type()), &c);
    if (!qkv_model_type_preset(qkv_cct_type(), "nano", &c) || /* of images of 32 x 32 */
        qkv_context_create(&ctx, NULL) || draw_set(&set, ctx) ||
        qkv_model_create(&m, ctx, qkv_cct_type(), &c) || qkv_model_init(m, 1)) return 1;
    qkv_model_set_image_format(m, &format);
    draw(1, 99);
    if (qkv_model_set_labels(m, names, 2) ||
        qkv_task_classify_images(&task, m, set, NULL, NULL, 1) ||
        qkv_train(&task, &o, NULL, NULL, NULL, false, NULL, NULL, NULL) ||
        qkv_hub_save(m, "classifier", NULL) || qkv_pipeline_open(&p, ctx, "classifier") ||
        qkv_pipeline_classify_images(p, &source, 1, see, &rows))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    qkv_pipeline_close(p);
    qkv_task_destroy(&task);
    qkv_model_destroy(m);
    qkv_pixels_close(set);
    qkv_context_destroy(ctx);
    return printf("%s: %.3f\n", names[1], rows) < 0 || rows < 0.9;
}
