/* tour_segment.c - a chapter of the tour: which pixels are the picture, and which the background
 * that it was laid over. */
#include <math.h>
#include <string.h>

#include "cli/pictures.h"
#include "cli/tour_pictures.h"
#include "qkv/segment.h"

enum { BATCH = 32, PATCH = 4, ROWS = 8, PIXELS = TOUR_SIDE * TOUR_SIDE };
enum { SMALL = 24, ROOM = TOUR_SIDE - SMALL }; /* a picture's side; how far it may lie */
enum { TIMES = 3, STREAM_BACKGROUND = 0xc0 };  /* backgrounds for each picture learnt from */
enum { BACKGROUND, PICTURE, CLASSES };
static const double RATE = 1e-3, DECAY = 0.05;

/* What so many seconds are enough for, on two Zen 4 cores. */
static const struct {
    double seconds;
    size_t width, layers, heads;
} sizes[] = {{40, 96, 3, 3}, {0, 64, 2, 2}};

typedef struct {
    tour *t;
    qkv_context *ctx;
    tour_pictures white, black; /* the same pictures over either */
    cli_picture_set train, valid;
    qkv_model *model;
    tour_training training;
} chapter;

/* ---- pictures and masks ------------------------------------------------------------------- */

/* Two colours that go over into each other across the picture, in waves. */
static void draw_background(uint8_t *rgb, qkv__rng *r)
{
    double color[2][3], wave = 1 + 8 * qkv__rng_uniform(r), angle = 6.3 * qkv__rng_uniform(r);
    for (size_t k = 0; k < 6; k++)
        color[k / 3][k % 3] = 255 * qkv__rng_uniform(r);
    for (size_t i = 0; i < PIXELS; i++) {
        double x = (double)(i % TOUR_SIDE) / TOUR_SIDE, y = (double)(i / TOUR_SIDE) / TOUR_SIDE;
        double share = 0.5 + 0.5 * sin(wave * (x * cos(angle) + y * sin(angle)) + angle);
        for (size_t k = 0; k < 3; k++)
            rgb[3 * i + k] = (uint8_t)(share * color[0][k] + (1 - share) * color[1][k]);
    }
}

/* Lays picture i over it: where black shows through as much as white does, the picture covers. */
static void compose(uint8_t *rgb, uint8_t *mask, const qkv_pixels *white, const qkv_pixels *black,
                    size_t i, qkv__rng *r)
{
    const uint8_t *w = qkv_pixels_data(white, i), *b = qkv_pixels_data(black, i);
    size_t left = qkv__rng_below(r, ROOM + 1), top = qkv__rng_below(r, ROOM + 1);
    draw_background(rgb, r);
    memset(mask, BACKGROUND, PIXELS);
    for (size_t k = 0; k < SMALL * SMALL; k++) {
        size_t to = (top + k / SMALL) * TOUR_SIDE + left + k % SMALL;
        int clear = 0;
        for (size_t c = 0; c < 3; c++) {
            int through = w[3 * k + c] - b[3 * k + c];
            through = through < 0 ? 0 : through;
            clear += through;
            rgb[3 * to + c] = (uint8_t)(b[3 * k + c] + through * rgb[3 * to + c] / 255);
        }
        mask[to] = clear < 3 * 128 ? PICTURE : BACKGROUND;
    }
}

static qkv_status add(qkv_pixels_writer *images, qkv_pixels_writer *classes, const chapter *h,
                      bool train, size_t times)
{
    static uint8_t rgb[PIXELS * 3], mask[PIXELS];
    const qkv_pixels *white = train ? h->white.train : h->white.valid;
    const qkv_pixels *black = train ? h->black.train : h->black.valid;
    qkv_status status = QKV_OK;
    qkv__rng r;
    qkv__rng_init(&r, h->t->page->c->common.seed, STREAM_BACKGROUND + !train);
    for (size_t i = 0; i < times * qkv_pixels_count(white) && !status; i++) {
        size_t n = i % qkv_pixels_count(white);
        compose(rgb, mask, white, black, n, &r);
        status = qkv_pixels_add(images, rgb, -1, qkv_pixels_name(white, n));
        if (!status)
            status = qkv_pixels_add(classes, mask, -1, qkv_pixels_name(white, n));
    }
    return status;
}

static qkv_status make_data(cli_picture_set *out, const chapter *h, bool train, size_t times)
{
    static const char *const names[CLASSES] = {"0", "255"};
    qkv_pixels_writer *images = NULL, *classes = NULL;
    qkv_status status = qkv_pixels_create(&images, h->ctx, NULL, TOUR_SIDE, TOUR_SIDE, 3);
    if (!status)
        status = qkv_pixels_create(&classes, h->ctx, NULL, TOUR_SIDE, TOUR_SIDE, 1);
    for (size_t k = 0; k < CLASSES && !status; k++)
        status = qkv_pixels_add_class(classes, names[k]);
    if (!status)
        status = add(images, classes, h, train, times);
    if (status) {
        qkv_pixels_abandon(images);
        qkv_pixels_abandon(classes);
        return status;
    }
    status = qkv_pixels_finish(images, &out->images);
    qkv_status second = qkv_pixels_finish(classes, &out->classes);
    return status ? status : second;
}

static qkv_status read_data(chapter *h)
{
    qkv_status status = tour_pictures_read(&h->white, h->t, SMALL, UINT8_MAX);
    if (!status)
        status = tour_pictures_read(&h->black, h->t, SMALL, 0);
    if (!status)
        status = make_data(&h->train, h, true, TIMES);
    return status ? status : make_data(&h->valid, h, false, 1);
}

/* ---- learning ----------------------------------------------------------------------------- */

static qkv_status make_model(chapter *h)
{
    static const char *const names[CLASSES] = {"0", "255"}; /* of a mask's greys */
    qkv_dense_config c;
    size_t i = 0;
    double effort = tour_pictures_effort(h->t);
    while (effort < sizes[i].seconds)
        i++;
    qkv_option_defaults(qkv_model_type_config(&qkv_segmenter_type), &c);
    c.trunk.image = TOUR_SIDE;
    c.trunk.patch = PATCH;
    c.trunk.channels = 3;
    c.trunk.width = sizes[i].width;
    c.trunk.layers = sizes[i].layers;
    c.trunk.heads = sizes[i].heads;
    c.outputs = CLASSES;
    qkv_status status = qkv_model_create(&h->model, h->ctx, &qkv_segmenter_type, &c);
    if (!status)
        status = qkv_model_init(h->model, h->t->page->c->common.seed);
    if (!status)
        status = qkv_model_set_labels(h->model, names, CLASSES);
    if (!status) {
        const tour_pictures p = {h->train.images, h->valid.images};
        tour_pictures_format(&p, h->model);
    }
    page_text(h->t->page, "Each lies somewhere over a background of two colours, and the model "
                          "says of every pixel which of the two it is: %d x %d patches, %zu "
                          "blocks of %zu channels.",
              TOUR_SIDE / PATCH, TOUR_SIDE / PATCH, c.trunk.layers, c.trunk.width);
    return status;
}

static qkv_status learn(chapter *h)
{
    const qkv_segment_data train = {h->train.images, h->train.classes};
    const qkv_segment_options o = {.augment = {.crop_pad = 4, .flip = true}};
    qkv_task task = {0};
    cli_training s;
    cli_training_defaults(&s);
    s.loop.batch = BATCH;
    s.schedule.lr = RATE;
    s.optimizer.weight_decay = DECAY;
    qkv_status status = qkv_task_segment(&task, h->model, &train, NULL, &o,
                                         h->t->page->c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_pictures_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

/* ---- the report --------------------------------------------------------------------------- */

/* Mean intersection over union when each pixel is said to be what it most often is in training. */
static double judge_place(const chapter *h)
{
    static size_t often[PIXELS];
    size_t both[CLASSES] = {0}, either[CLASSES] = {0}, n = qkv_pixels_count(h->train.classes);
    memset(often, 0, sizeof often);
    for (size_t i = 0; i < n * PIXELS; i++)
        often[i % PIXELS] += qkv_pixels_data(h->train.classes, i / PIXELS)[i % PIXELS] == PICTURE;
    for (size_t i = 0; i < qkv_pixels_count(h->valid.classes) * PIXELS; i++) {
        size_t truth = qkv_pixels_data(h->valid.classes, i / PIXELS)[i % PIXELS];
        size_t guess = 2 * often[i % PIXELS] > n ? PICTURE : BACKGROUND;
        for (size_t k = 0; k < CLASSES; k++) {
            both[k] += truth == k && guess == k;
            either[k] += truth == k || guess == k;
        }
    }
    double sum = 0;
    for (size_t k = 0; k < CLASSES; k++)
        sum += either[k] ? (double)both[k] / (double)either[k] : 1;
    return sum / CLASSES;
}

/* A mask as a picture; with `of`, what is background turns pale. */
static void paint(uint8_t *rgb, const uint8_t *mask, const uint8_t *of)
{
    for (size_t i = 0; i < PIXELS; i++)
        for (size_t k = 0; k < 3; k++)
            rgb[3 * i + k] = of && mask[i] == PICTURE ? of[3 * i + k]
                             : of                     ? UINT8_MAX
                                                      : (uint8_t)(UINT8_MAX * mask[i]);
}

/* The picture, the true mask, the model's, what it cuts out. */
static qkv_status show_sheet(const chapter *h)
{
    static uint8_t mask[PIXELS], painted[PIXELS * 3], seen[PIXELS * 3];
    const qkv_image in = {TOUR_SIDE, TOUR_SIDE, 3, seen};
    size_t n = qkv_pixels_count(h->valid.images), rows = n < ROWS ? n : ROWS;
    tour_sheet sheet;
    qkv_status status = tour_sheet_create(&sheet, h->ctx, rows, 4, TOUR_SIDE);
    for (size_t row = 0; row < rows && !status; row++) {
        size_t i = (2 * row + 1) * n / (2 * rows);
        const uint8_t *rgb = qkv_pixels_data(h->valid.images, i);
        memcpy(seen, rgb, sizeof seen);
        status = qkv_segment(mask, h->model, h->t->page->t, &in);
        if (status)
            break;
        tour_sheet_put(&sheet, row, 0, rgb, NULL);
        paint(painted, qkv_pixels_data(h->valid.classes, i), NULL);
        tour_sheet_put(&sheet, row, 1, painted, NULL);
        paint(painted, mask, NULL);
        tour_sheet_put(&sheet, row, 2, painted, NULL);
        paint(painted, mask, rgb);
        tour_sheet_put(&sheet, row, 3, painted, NULL);
    }
    if (!status)
        status = tour_sheet_write(&sheet, h->t, "masks.png",
                                  "held-out pictures over backgrounds of their own, one a row: "
                                  "what the model sees; the true mask; the model's; what it cuts "
                                  "out.");
    tour_sheet_free(&sheet);
    return status;
}

static qkv_status report(chapter *h)
{
    const page *p = h->t->page;
    const qkv_segment_data valid = {h->valid.images, h->valid.classes};
    qkv_segment_score s;
    double place = judge_place(h);
    qkv_status status = qkv_segment_evaluate(h->model, p->t, &valid, 0, &s);
    if (status)
        return status;
    tour_training_show(&h->training, p, "Training loss over the time:");
    page_text(p, "How well masks fit, over the held-out pictures: the pixels that are in both, of "
                 "those that are in either, the mean of picture and background:");
    page_space(p);
    page_line(p, "what is most often at the place      %6.3f", place);
    page_line(p, "this transformer                     %6.3f", s.miou);
    page_number(p, "place", place);
    page_number(p, "miou", s.miou);
    status = show_sheet(h);
    if (!status)
        status = tour_picture_write(h->t, "picture.png", qkv_pixels_data(h->valid.images, 0),
                                    TOUR_SIDE);
    if (s.miou > place)
        page_text(p, "What was learnt: where a thing ends that it never saw before, over a "
                     "background that it never saw before.");
    else
        page_text(p, "What was learnt: no more than that things lie in the middle. The time was "
                     "short; give it more with --minutes.");
    page_text(p, "Ask it yourself: qkv segment %s %s/picture.png --out mask.png", h->t->dir,
              h->t->dir);
    return status;
}

qkv_status tour_segment(tour *t)
{
    chapter h = {.t = t, .ctx = t->page->c->ctx};
    qkv_status status = read_data(&h);
    if (!status) {
        tour_pictures_tell(&h.white, t);
        status = make_model(&h);
    }
    if (!status)
        status = learn(&h);
    if (!status && !h.training.result.stopped)
        status = report(&h);
    qkv_model_destroy(h.model);
    cli_picture_set_close(&h.train);
    cli_picture_set_close(&h.valid);
    tour_pictures_close(&h.white);
    tour_pictures_close(&h.black);
    return status;
}
