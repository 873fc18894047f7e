/* 10_classify_image.c - what is on an image, says a directory.
 *
 *     10_classify_image DIR IMAGE...     PNG or JPEG files
 *
 * DIR is one that `qkv train classify` wrote, or a Vision Transformer of Hugging Face's. Without
 * arguments a small one learns rows, columns and squares, drawn here, and is saved as
 * ./classifier; then three images that it never saw are written as PNG files and classified.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

enum { SIDE = 16, CLASSES = 3, TRAIN = 480, STEPS = 120, TOP = 3 };
#define DIR "classifier"

static const char *const class_names[CLASSES] = {"rows", "columns", "squares"};

/* ---- a directory ------------------------------------------------------------------------ */

static double uniform(uint32_t *random) /* [0, 1) */
{
    *random = *random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
    return (double)(*random >> 8) / 16777216;
}

/* Bars, or squares where they cross, of a random colour and width at a random place, on black. */
static void draw(uint8_t *rgb, int class_, uint32_t *random)
{
    const int width = 2 + (int)(2 * uniform(random)), dx = (int)(8 * uniform(random));
    const int dy = (int)(8 * uniform(random));
    double color[3];
    for (int k = 0; k < 3; k++) color[k] = 80 + 150 * uniform(random);
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int row = (i / SIDE + dy) / width % 2, column = (i % SIDE + dx) / width % 2;
        const int on = class_ == 0 ? row : class_ == 1 ? column : (row + column) % 2;
        for (int k = 0; k < 3; k++)
            rgb[3 * i + k] = (uint8_t)(on * color[k] + 20 * uniform(random));
    }
}

static qkv_status draw_set(qkv_pixels **out, qkv_context *ctx, uint32_t *random)
{
    uint8_t rgb[3 * SIDE * SIDE];
    qkv_pixels_writer *w = NULL;
    qkv_status status = qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, 3); /* in memory */
    for (int i = 0; i < CLASSES && !status; i++) status = qkv_pixels_add_class(w, class_names[i]);
    for (int i = 0; i < TRAIN && !status; i++) {
        draw(rgb, i % CLASSES, random);
        status = qkv_pixels_add(w, rgb, i % CLASSES, "drawn");
    }
    if (!status) return qkv_pixels_finish(w, out);
    qkv_pixels_abandon(w);
    return status;
}

static bool show(void *user, const qkv_train_event *e)
{
    (void)user;
    if (e->kind == QKV_TRAIN_STEP && e->step % 40 == 0)
        printf("step %3d  loss %.3f nats\n", (int)e->step, e->loss);
    return true;
}

static qkv_status train(qkv_model *m, const qkv_pixels *images)
{
    qkv_task task;
    qkv_train_result result;
    qkv_train_options o = qkv_train_defaults();
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    o.batch = 24;
    o.steps = schedule.steps = STEPS;
    schedule.lr = 3e-3;
    schedule.warmup = 10;
    qkv_status status = qkv_task_classify_images(&task, m, images, NULL, NULL, 1);
    if (status) return status;
    status = qkv_train(&task, &o, &adamw, &schedule, NULL, false, show, NULL, &result);
    qkv_task_destroy(&task);
    return status;
}

/* What the model is, and how it wants images: the directory says so later on. */
static qkv_status create_model(qkv_model **out, qkv_context *ctx, const qkv_pixels *images)
{
    qkv_vit_config c;
    qkv_image_format format;
    qkv_option_defaults(qkv_model_type_config(&qkv_vit_type), &c);
    c.trunk.image = SIDE;
    c.trunk.patch = 4;
    c.trunk.width = 48;
    c.trunk.layers = 2;
    c.trunk.heads = 3;
    c.trunk.ff_width = 96;
    c.classes = CLASSES;
    memset(&format, 0, sizeof format);
    format.height = format.width = SIDE;
    format.channels = 3;
    format.resample = 2; /* Pillow's number of bilinear */
    qkv_pixels_stats(images, NULL, TRAIN, format.mean, format.std);
    qkv_status status = qkv_model_create(out, ctx, &qkv_vit_type, &c);
    if (!status) status = qkv_model_set_labels(*out, class_names, CLASSES);
    if (!status) qkv_model_set_image_format(*out, &format);
    return status ? status : qkv_model_init(*out, 1);
}

/* ./classifier, and a PNG file of each class beside it. */
static qkv_status make(qkv_context *ctx)
{
    uint32_t random = 1;
    char path[64];
    qkv_pixels *images = NULL;
    qkv_model *m = NULL;
    qkv_image image;
    qkv_status status = draw_set(&images, ctx, &random);
    if (!status) status = create_model(&m, ctx, images);
    if (!status) status = train(m, images);
    if (!status) status = qkv_hub_save(m, DIR, NULL);
    qkv_model_destroy(m);
    qkv_pixels_close(images);
    for (int i = 0; i < CLASSES && !status; i++) {
        snprintf(path, sizeof path, "%s.png", class_names[i]);
        status = qkv_image_create(&image, ctx, SIDE, SIDE, 3);
        if (status) break;
        draw(image.data, i, &random);
        status = qkv_image_write(&image, ctx, path);
        qkv_image_free(&image, ctx);
    }
    return status;
}

/* ---- using it --------------------------------------------------------------------------- */

/* The image as the model wants it: a set of one. */
static qkv_status read_one_image(qkv_pixels **out, qkv_context *ctx, const qkv_image_format *f,
                                 const char *path)
{
    static const qkv_resize_filter filters[] = {QKV_RESIZE_BILINEAR, QKV_RESIZE_BICUBIC,
                                                QKV_RESIZE_BOX}; /* Pillow's 2, 3, 4 */
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_image_list *files = NULL;
    o.height = f->height;
    o.width = f->width;
    o.channels = f->channels;
    o.fit = f->crop ? QKV_FIT_CROP : QKV_FIT_SQUASH;
    o.filter = filters[f->resample - 2];
    qkv_status status = qkv_image_list_open(&files, ctx, path);
    if (!status) status = qkv_pixels_read(out, ctx, files, NULL, &o, NULL, NULL);
    qkv_image_list_close(files);
    return status;
}

/* Prints the likeliest classes; *best is the first. */
static void report(const qkv_model *m, const char *path, qkv_real *probs, size_t classes,
                   size_t *best)
{
    printf("%s:", path);
    for (size_t n = 0; n < TOP && n < classes; n++) {
        size_t at = 0;
        for (size_t i = 1; i < classes; i++)
            if (probs[i] > probs[at]) at = i;
        const char *label = qkv_model_label(m, at);
        printf("  %s %.1f %%", label ? label : "?", 100 * (double)probs[at]);
        if (n == 0) *best = at;
        probs[at] = -1; /* said */
    }
    printf("\n");
}

static qkv_status classify(qkv_model *m, qkv_tape *t, const char *path, size_t *best)
{
    const size_t first = 0, classes = ((const qkv_vit_config *)qkv_model_config(m))->classes;
    qkv_pixels *image = NULL;
    qkv_real *probs = (qkv_real *)calloc(classes, sizeof *probs);
    qkv_status status = probs ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = read_one_image(&image, qkv_model_context(m), qkv_model_image_format(m), path);
    if (!status) status = qkv_classify_images(m, t, image, &first, 1, probs);
    if (!status) report(m, path, probs, classes, best);
    qkv_pixels_close(image);
    free(probs);
    return status;
}

/* *right: of images named as their class is, how many got it. */
static qkv_status use(qkv_context *ctx, const char *dir, char *const *paths, int count, int *right)
{
    qkv_model *m = NULL;
    qkv_tape *t = NULL;
    size_t best = 0;
    qkv_status status = qkv_tape_create(&t, ctx);
    if (!status) status = qkv_hub_load(&m, ctx, dir);
    if (!status && (!qkv_model_can(m, QKV_CAN_CLASSIFY_IMAGES) || !qkv_model_image_format(m))) {
        fprintf(stderr, "%s: no classifier of images with a preprocessor_config.json\n", dir);
        status = QKV_E_ARGUMENT;
    }
    for (int i = 0; i < count && !status; i++) {
        status = classify(m, t, paths[i], &best);
        const char *label = status ? NULL : qkv_model_label(m, best);
        *right += label && strncmp(paths[i], label, strlen(label)) == 0 ? 1 : 0;
    }
    qkv_model_destroy(m);
    qkv_tape_destroy(t);
    return status;
}

int main(int argc, char **argv)
{
    char drawn[CLASSES][16] = {"rows.png", "columns.png", "squares.png"};
    char *paths[CLASSES];
    int right = 0;
    qkv_context *ctx = NULL;
    qkv_context_options options = qkv_context_defaults();
    if (argc == 2) return fprintf(stderr, "usage: %s [DIR IMAGE...]\n", argv[0]), 2;
    for (int i = 0; i < CLASSES; i++) paths[i] = drawn[i];
    if (argc == 1) options.threads = 1; /* so little work is not worth sharing */
    if (qkv_context_create(&ctx, &options) != QKV_OK) return 1;
    qkv_status status = argc == 1 ? make(ctx) : QKV_OK;
    if (!status)
        status = argc == 1 ? use(ctx, DIR, paths, CLASSES, &right)
                           : use(ctx, argv[1], argv + 2, argc - 2, &right);
    if (qkv_context_status(ctx)) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    qkv_context_destroy(ctx);
    return status ? 1 : argc == 1 && right < CLASSES ? 2 : 0;
}
