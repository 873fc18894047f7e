/* 12_edit_code.c - an image as a grid of codes, one of which is changed.
 *
 *     12_edit_code DIR IMAGE ROW COLUMN FROM_ROW FROM_COLUMN [OUT.png]     they count from 0
 *
 * DIR is one that `qkv train vqgan` wrote. The image becomes codes; the one at (ROW, COLUMN) is
 * exchanged for that at (FROM_ROW, FROM_COLUMN); OUT.png shows what the codes stood for before, and
 * beside it what they stand for now. Without arguments a small model learns images of coloured
 * squares, drawn here, and is saved as ./coder; a square of one that it never saw then gets another
 * one's colour, in ./edited.png.                                                              */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

enum { SIDE = 8, SQUARE = 2, ACROSS = SIDE / SQUARE, COLORS = 4, TRAIN = 256, STEPS = 600,
       LARGE = 256 };
#define DIR "coder"

static const uint8_t colors[COLORS][3] = {{200, 40, 40}, {40, 180, 60}, {50, 70, 210},
                                          {230, 210, 60}};

/* ---- a model and an image ---------------------------------------------------------------- */

/* Squares of random colours; drawn gets their numbers, row by row. */
static void draw(uint8_t *rgb, int drawn[ACROSS * ACROSS], uint32_t *random)
{
    for (int i = 0; i < ACROSS * ACROSS; i++) {
        *random = *random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        drawn[i] = (int)(*random >> 24) % COLORS;
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int square = i / SIDE / SQUARE * ACROSS + i % SIDE / SQUARE;
        memcpy(rgb + 3 * i, colors[drawn[square]], 3);
    }
}

static qkv_status draw_set(qkv_pixels **out, qkv_context *ctx, uint32_t *random)
{
    uint8_t rgb[3 * SIDE * SIDE];
    int drawn[ACROSS * ACROSS];
    qkv_pixels_writer *w = NULL;
    qkv_status status = qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, 3); /* in memory */
    for (int i = 0; i < TRAIN && !status; i++) {
        draw(rgb, drawn, random);
        status = qkv_pixels_add(w, rgb, -1, "drawn");
    }
    if (!status) return qkv_pixels_finish(w, out);
    qkv_pixels_abandon(w);
    return status;
}

static bool show(void *user, const qkv_train_event *e)
{
    (void)user;
    if (e->kind == QKV_TRAIN_STEP && e->step % 200 == 0)
        printf("step %3d  loss %.3f\n", (int)e->step, e->loss);
    return true;
}

/* Absolute error alone: neither a discriminator nor a network that says how unlike images are. */
static qkv_status train(qkv_model *m, const qkv_pixels *images)
{
    qkv_task task;
    qkv_train_result result;
    qkv_codes_options codes = qkv_codes_defaults();
    qkv_train_options o = qkv_train_defaults();
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    codes.adversarial = 0;
    o.batch = 8;
    o.steps = schedule.steps = STEPS;
    schedule.lr = 6e-3;
    schedule.warmup = 10;
    qkv_status status = qkv_task_codes(&task, m, NULL, images, NULL, &codes, 1);
    if (status) return status;
    status = qkv_train(&task, &o, &adamw, &schedule, NULL, false, show, NULL, &result);
    qkv_task_destroy(&task);
    return status;
}

/* Two levels, so that a code stands for 2 x 2 pixels: a square. */
static qkv_status create_model(qkv_model **out, qkv_context *ctx)
{
    const qkv_sizes levels = {2, {1, 1}};
    qkv_vqgan_config c;
    qkv_option_defaults(qkv_model_type_config(&qkv_vqgan_type), &c);
    c.image = SIDE;
    c.channels = 32;
    c.multiples = levels;
    c.blocks = 1;
    c.z_channels = c.code_width = 16;
    c.codes = 32;
    c.disc_layers = 0;
    qkv_status status = qkv_model_create(out, ctx, &qkv_vqgan_type, &c);
    return status ? status : qkv_model_init(*out, 1);
}

/* ./coder, and ./squares.png, whose squares are drawn[]. */
static qkv_status make(qkv_context *ctx, int drawn[ACROSS * ACROSS])
{
    uint32_t random = 1;
    qkv_pixels *images = NULL;
    qkv_model *m = NULL;
    qkv_image image;
    qkv_status status = draw_set(&images, ctx, &random);
    if (!status) status = create_model(&m, ctx);
    if (!status) status = train(m, images);
    if (!status) status = qkv_hub_save(m, DIR, NULL);
    qkv_model_destroy(m);
    qkv_pixels_close(images);
    if (!status) status = qkv_image_create(&image, ctx, SIDE, SIDE, 3);
    if (status) return status;
    draw(image.data, drawn, &random);
    status = qkv_image_write(&image, ctx, "squares.png");
    qkv_image_free(&image, ctx);
    return status;
}

/* ---- editing ------------------------------------------------------------------------------ */

/* What to put where. */
typedef struct {
    size_t row, column, from_row, from_column;
} edit;

/* A model, and the codes of an image. */
typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *tape;
    size_t factor;        /* pixels of a code's side */
    size_t rows, columns; /* of codes */
    int32_t *codes;
    qkv_image before, after; /* decoded */
} coded;

static qkv_status read_one_image(coded *c, qkv_image *out, const char *path)
{
    qkv_pixels_options fit = qkv_pixels_defaults();
    qkv_status status = qkv_image_read(out, c->ctx, path, NULL);
    if (status) return status;
    c->rows = out->height / c->factor;
    c->columns = out->width / c->factor;
    if (!c->rows || !c->columns) {
        fprintf(stderr, "%s: smaller than a code's %zu x %zu pixels\n", path, c->factor, c->factor);
        return QKV_E_ARGUMENT;
    }
    fit.height = c->rows * c->factor;
    fit.width = c->columns * c->factor;
    fit.channels = ((const qkv_vqgan_config *)qkv_model_config(c->model))->colors;
    fit.fit = QKV_FIT_CROP; /* what does not make up a whole code is left out */
    return qkv_image_fit(out, c->ctx, &fit);
}

static qkv_status encode(coded *c, const char *path)
{
    qkv_image image = {0, 0, 0, NULL};
    qkv_status status = read_one_image(c, &image, path);
    c->codes = status ? NULL : (int32_t *)calloc(c->rows * c->columns, sizeof *c->codes);
    if (!status)
        status = c->codes ? qkv_images_encode(c->model, c->tape, image.data, 1,
                                              image.height, image.width, c->codes)
                          : QKV_E_MEMORY;
    qkv_image_free(&image, c->ctx);
    return status;
}

static qkv_status decode(coded *c, qkv_image *out)
{
    const size_t channels = ((const qkv_vqgan_config *)qkv_model_config(c->model))->colors;
    qkv_status status = qkv_image_create(out, c->ctx, c->columns * c->factor, c->rows * c->factor,
                                         channels);
    return status ? status : qkv_images_decode(c->model, c->tape, c->codes, 1, c->rows,
                                               c->columns, out->data);
}

static qkv_status change(coded *c, const edit *e)
{
    if (e->row >= c->rows || e->from_row >= c->rows || e->column >= c->columns ||
        e->from_column >= c->columns) {
        fprintf(stderr, "the image has %zu x %zu codes, rows x columns, from 0 on\n", c->rows,
                c->columns);
        return QKV_E_ARGUMENT;
    }
    int32_t *to = &c->codes[e->row * c->columns + e->column];
    const int32_t from = c->codes[e->from_row * c->columns + e->from_column];
    printf("%zu x %zu codes; at row %zu, column %zu: %d, now %d\n", c->rows, c->columns, e->row,
           e->column, (int)*to, (int)from);
    *to = from;
    return QKV_OK;
}

/* Before and after, large enough to see, a white gap between them. */
static qkv_status write(const coded *c, const char *path)
{
    const qkv_image *a = &c->before;
    const size_t n = a->width < LARGE ? LARGE / a->width : 1, gap = a->width * n / 16 + 1;
    qkv_image out;
    qkv_status status = qkv_image_create(&out, c->ctx, 2 * n * a->width + gap, n * a->height,
                                         a->channels);
    if (status) return status;
    for (size_t y = 0; y < out.height; y++) {
        for (size_t x = 0; x < out.width; x++) {
            uint8_t *to = out.data + (y * out.width + x) * a->channels;
            const qkv_image *from = x < n * a->width ? a : &c->after;
            const size_t column = x < n * a->width ? x : x - n * a->width - gap;
            if (x >= n * a->width && x < n * a->width + gap)
                memset(to, 255, a->channels);
            else
                memcpy(to, from->data + (y / n * a->width + column / n) * a->channels,
                       a->channels);
        }
    }
    status = qkv_image_write(&out, c->ctx, path);
    qkv_image_free(&out, c->ctx);
    return status;
}

static qkv_status run(coded *c, const char *dir, const char *path, const edit *e, const char *to)
{
    qkv_status status = qkv_tape_create(&c->tape, c->ctx);
    if (!status) status = qkv_hub_load(&c->model, c->ctx, dir);
    if (!status && qkv_model_type_of(c->model) != &qkv_vqgan_type) {
        fprintf(stderr, "%s: no model that has codes for images\n", dir);
        status = QKV_E_ARGUMENT;
    }
    if (status) return status;
    c->factor = qkv_vqgan_factor(c->model);
    status = encode(c, path);
    if (!status) status = decode(c, &c->before);
    if (!status) status = change(c, e);
    if (!status) status = decode(c, &c->after);
    return status ? status : write(c, to);
}

/* ---- did it work? ------------------------------------------------------------------------- */

/* Which colour a square has, on the mean. */
static int color_of(const qkv_image *image, size_t row, size_t column)
{
    double off[COLORS] = {0};
    int best = 0;
    for (size_t k = 0; k < 3; k++) {
        double sum = 0;
        for (size_t i = 0; i < SQUARE * SQUARE; i++)
            sum += image->data[((row * SQUARE + i / SQUARE) * SIDE + column * SQUARE + i % SQUARE) *
                                   3 + k];
        for (int n = 0; n < COLORS; n++) {
            const double d = sum / (SQUARE * SQUARE) - colors[n][k];
            off[n] += d * d;
        }
    }
    for (int n = 1; n < COLORS; n++)
        if (off[n] < off[best]) best = n;
    return best;
}

/* Of all squares, how many have the colour that they should have. */
static int right(const qkv_image *image, const int drawn[ACROSS * ACROSS])
{
    int n = 0;
    for (size_t i = 0; i < ACROSS * ACROSS; i++)
        n += color_of(image, i / ACROSS, i % ACROSS) == drawn[i];
    return n;
}

static bool worked(const coded *c, const edit *e, int drawn[ACROSS * ACROSS])
{
    const int first = right(&c->before, drawn);
    drawn[e->row * ACROSS + e->column] = drawn[e->from_row * ACROSS + e->from_column];
    const int then = right(&c->after, drawn);
    printf("squares of the right colour: %d of %d, then %d\n", first, ACROSS * ACROSS, then);
    return first == ACROSS * ACROSS && then == ACROSS * ACROSS;
}

int main(int argc, char **argv)
{
    qkv_context_options options = qkv_context_defaults();
    const int own = argc == 1;
    int drawn[ACROSS * ACROSS] = {0};
    edit e = {1, 1, 0, 0};
    coded c;
    memset(&c, 0, sizeof c);
    if (!own && argc != 7 && argc != 8)
        return fprintf(stderr, "usage: %s [DIR IMAGE ROW COLUMN FROM_ROW FROM_COLUMN "
                       "[OUT.png]]\n", argv[0]), 2;
    if (own) options.threads = 1; /* so little work is not worth sharing */
    if (qkv_context_create(&c.ctx, &options) != QKV_OK) return 1;
    qkv_status status = own ? make(c.ctx, drawn) : QKV_OK;
    if (own) { /* the first square of another colour */
        size_t at = 0;
        while (at + 1 < ACROSS * ACROSS && drawn[at] == drawn[ACROSS + 1]) at++;
        e.from_row = at / ACROSS;
        e.from_column = at % ACROSS;
    } else {
        e.row = (size_t)atoi(argv[3]); /* below 0: beyond any image */
        e.column = (size_t)atoi(argv[4]);
        e.from_row = (size_t)atoi(argv[5]);
        e.from_column = (size_t)atoi(argv[6]);
    }
    if (!status)
        status = run(&c, own ? DIR : argv[1], own ? "squares.png" : argv[2], &e,
                     argc == 8 ? argv[7] : "edited.png");
    const bool fine = !status && (!own || worked(&c, &e, drawn));
    if (qkv_context_status(c.ctx)) fprintf(stderr, "%s\n", qkv_context_message(c.ctx));
    qkv_image_free(&c.before, c.ctx);
    qkv_image_free(&c.after, c.ctx);
    free(c.codes);
    qkv_tape_destroy(c.tape);
    qkv_model_destroy(c.model);
    qkv_context_destroy(c.ctx);
    return status ? 1 : fine ? 0 : 2;
}
