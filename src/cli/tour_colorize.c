/* tour_colorize.c - a chapter of the tour: patches that lack their colour get it from the others,
 * beside what needs no network. */
#include <string.h>

#include "cli/tour_pictures.h"
#include "qkv/color.h"
#include "qkv/colorize.h"

enum { BATCH = 32, PATCH = 4, ROWS = 8, PIXELS = TOUR_SIDE * TOUR_SIDE, STREAM_HINTS = 0xb0 };
enum { CELL = 2 }; /* a side in pixels of what a hint colours */
static const double RATE = 1e-3, DECAY = 0.05;

/* What so many seconds are enough for, on two Zen 4 cores. */
static const struct {
    double seconds;
    size_t width, layers, heads;
} sizes[] = {{60, 128, 4, 4}, {0, 64, 2, 2}};

typedef struct {
    tour *t;
    qkv_context *ctx;
    tour_pictures p;
    qkv_model *model;
    tour_training training;
} chapter;

static qkv_status make_model(chapter *h)
{
    qkv_dense_config c;
    double mean[2];
    size_t i = 0;
    double effort = tour_pictures_effort(h->t);
    while (effort < sizes[i].seconds)
        i++;
    qkv_option_defaults(qkv_model_type_config(&qkv_colorizer_type), &c);
    c.trunk.image = TOUR_SIDE;
    c.trunk.patch = PATCH;
    c.trunk.channels = QKV_COLORIZER_INPUTS;
    c.trunk.width = sizes[i].width;
    c.trunk.layers = sizes[i].layers;
    c.trunk.heads = sizes[i].heads;
    c.cell = CELL;
    qkv_status status = qkv_colorize_mean(h->ctx, h->p.train, NULL, qkv_pixels_count(h->p.train),
                                          mean);
    if (status)
        return status;
    c.mean_a = mean[0];
    c.mean_b = mean[1];
    status = qkv_model_create(&h->model, h->ctx, &qkv_colorizer_type, &c);
    if (!status)
        status = qkv_model_init(h->model, h->t->page->c->common.seed);
    page_text(h->t->page, "The model: %d x %d patches, %zu blocks of %zu channels. It is told how "
                          "light every pixel is, and the colour of a few places, of none at "
                          "times; it says the colour of all.",
              TOUR_SIDE / PATCH, TOUR_SIDE / PATCH, c.trunk.layers, c.trunk.width);
    return status;
}

static qkv_status learn(chapter *h)
{
    qkv_colorize_options o = qkv_colorize_defaults();
    qkv_task task = {0};
    cli_training s;
    cli_training_defaults(&s);
    s.loop.batch = BATCH;
    s.schedule.lr = RATE;
    s.optimizer.weight_decay = DECAY;
    o.augment.flip = true;
    qkv_status status = qkv_task_colorize(&task, h->model, h->p.train, NULL, &o,
                                          h->t->page->c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_pictures_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

/* ---- the sheet ---------------------------------------------------------------------------- */

/* A picture without its colour: a and b of Lab are 0. */
static void make_grey(uint8_t grey[PIXELS * 3], const uint8_t *rgb)
{
    static qkv_real lab[PIXELS * 3];
    qkv_bytes_to_lab(lab, rgb, PIXELS);
    for (size_t i = 0; i < PIXELS; i++)
        lab[3 * i + 1] = lab[3 * i + 2] = 0;
    qkv_lab_to_srgb(lab, lab, PIXELS);
    for (size_t i = 0; i < (size_t)PIXELS * 3; i++)
        grey[i] = (uint8_t)(255 * lab[i] + (qkv_real)0.5);
}

/* Random cells, each with the colour of its first pixel; they are painted into `told`. */
static void draw_hints(qkv_color_hint hints[QKV_COLORIZE_HINTS], uint8_t told[PIXELS * 3],
                       const uint8_t *rgb, uint64_t seed)
{
    qkv__rng r;
    qkv__rng_init(&r, seed, STREAM_HINTS);
    for (size_t i = 0; i < QKV_COLORIZE_HINTS; i++) {
        size_t x = CELL * qkv__rng_below(&r, TOUR_SIDE / CELL);
        size_t y = CELL * qkv__rng_below(&r, TOUR_SIDE / CELL);
        hints[i] = (qkv_color_hint){.x = x, .y = y};
        memcpy(hints[i].rgb, rgb + (y * TOUR_SIDE + x) * 3, 3);
        for (size_t k = 0; k < CELL * CELL; k++)
            memcpy(told + ((y + k / CELL) * TOUR_SIDE + x + k % CELL) * 3, hints[i].rgb, 3);
    }
}

/* Grey, coloured, hints, coloured with them, truth. */
static qkv_status show_row(const chapter *h, tour_sheet *sheet, size_t row, const uint8_t *truth)
{
    static uint8_t grey[PIXELS * 3], told[PIXELS * 3];
    qkv_color_hint hints[QKV_COLORIZE_HINTS];
    make_grey(grey, truth);
    memcpy(told, grey, sizeof told);
    draw_hints(hints, told, truth, row);
    const qkv_image in = {TOUR_SIDE, TOUR_SIDE, 3, grey};
    qkv_status status = QKV_OK;
    for (size_t k = 0; k < 2 && !status; k++) {
        qkv_image out;
        status = qkv_colorize(&out, h->model, h->t->page->t, &in, hints,
                              k ? QKV_COLORIZE_HINTS : 0);
        if (status)
            break;
        tour_sheet_put(sheet, row, 1 + 2 * k, out.data, NULL);
        qkv_image_free(&out, h->ctx);
    }
    tour_sheet_put(sheet, row, 0, grey, NULL);
    tour_sheet_put(sheet, row, 2, told, NULL);
    tour_sheet_put(sheet, row, 4, truth, NULL);
    return status;
}

static qkv_status show_sheet(const chapter *h)
{
    size_t n = qkv_pixels_count(h->p.valid), rows = n < ROWS ? n : ROWS;
    tour_sheet sheet;
    qkv_status status = tour_sheet_create(&sheet, h->ctx, rows, 5, TOUR_SIDE);
    for (size_t row = 0; row < rows && !status; row++)
        status = show_row(h, &sheet, row,
                          qkv_pixels_data(h->p.valid, (2 * row + 1) * n / (2 * rows)));
    if (!status)
        status = tour_sheet_write(&sheet, h->t, "coloured.png",
                                  "held-out pictures, one a row: as the model sees it; the "
                                  "colours that it gives; ten hints; the colours that it gives "
                                  "with these; the true ones.");
    tour_sheet_free(&sheet);
    return status;
}

/* ---- the report --------------------------------------------------------------------------- */

static void show_scores(const page *p, const qkv_colorize_score *s)
{
    page_text(p, "How near the colours come to the true ones, over the held-out pictures (more dB "
                 "are nearer; 3 dB halve the squared error of a and b):");
    page_space(p);
    page_line(p, "no hints: the pictures' mean colour     %6.2f dB", s->mean);
    page_line(p, "no hints: this transformer              %6.2f dB", s->psnr);
    page_line(p, "%d hints: the nearest one's colour      %6.2f dB", QKV_COLORIZE_HINTS,
              s->nearest);
    page_line(p, "%d hints: this transformer              %6.2f dB", QKV_COLORIZE_HINTS,
              s->psnr_hints);
    page_number(p, "mean", s->mean);
    page_number(p, "psnr", s->psnr);
    page_number(p, "nearest", s->nearest);
    page_number(p, "psnr_hints", s->psnr_hints);
}

static qkv_status report(chapter *h)
{
    const page *p = h->t->page;
    qkv_colorize_score s;
    qkv_status status = qkv_colorize_evaluate(h->model, p->t, h->p.valid, 0, &s);
    if (status)
        return status;
    tour_training_show(&h->training, p, "Training loss over the time:");
    show_scores(p, &s);
    status = show_sheet(h);
    if (!status)
        status = tour_picture_write(h->t, "picture.png", qkv_pixels_data(h->p.valid, 0),
                                    TOUR_SIDE);
    if (s.psnr > s.mean && s.psnr_hints > s.nearest)
        page_text(p, "What was learnt: colours that go with shapes, and how far a hint's colour "
                     "goes: to the edge of what it lies on, and not beyond.");
    else
        page_text(p, "What was learnt: not yet both, which colours go with shapes and how far a "
                     "hint's goes. The time was short; give it more with --minutes.");
    page_text(p, "Ask it yourself: qkv colorize %s %s/picture.png --hint 16,16,#ff0000 --out "
                 "red.png", h->t->dir, h->t->dir);
    return status;
}

qkv_status tour_colorize(tour *t)
{
    chapter h = {.t = t, .ctx = t->page->c->ctx};
    qkv_status status = tour_pictures_read(&h.p, t, TOUR_SIDE, UINT8_MAX);
    if (!status) {
        tour_pictures_tell(&h.p, t);
        status = make_model(&h);
    }
    if (!status)
        status = learn(&h);
    if (!status && !h.training.result.stopped)
        status = report(&h);
    qkv_model_destroy(h.model);
    tour_pictures_close(&h.p);
    return status;
}
