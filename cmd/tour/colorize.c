/* colorize.c - a chapter of the tour: patches that lack their colour get it from the others,
 * beside what needs no network. */
#include <string.h>

#include "tour/images.h"

enum { PATCH = 4, PIXELS = TOUR_SIDE * TOUR_SIDE, STREAM_HINTS = 0xb0 };
enum { CELL = 2 }; /* a side in pixels of what a hint colours */
static const double LONG = 60; /* seconds that the larger model needs */

static qkv_status tour_colorize_make_model(tour_pupil *h)
{
    qkv_pixelwise_config c;
    double mean[2];
    qkv_status status = qkv_colorize_mean(h->t->page->c->ctx, h->p.train, NULL,
                                          qkv_pixels_count(h->p.train), mean);
    if (status)
        return status;
    qkv_option_defaults(qkv_model_type_config(qkv_colorizer_type()), &c);
    tour_trunk_set(&c.trunk, tour_images_effort(h->t) < LONG ? 2 : 4);
    c.trunk.patch = PATCH;
    c.trunk.channels = QKV_COLORIZER_INPUTS;
    c.cell = CELL;
    c.mean_a = mean[0];
    c.mean_b = mean[1];
    page_text(h->t->page, "The model: %d x %d patches, %zu blocks of %zu channels. It is told how "
                          "light every pixel is, and the colour of a few places, of none at "
                          "times; it says the colour of all.",
              TOUR_SIDE / PATCH, TOUR_SIDE / PATCH, c.trunk.layers, c.trunk.width);
    return tour_pupil_create(h, qkv_colorizer_type(), &c);
}

static qkv_status colorize_make_task(qkv_task *task, const tour_pupil *h)
{
    qkv_colorize_options o = qkv_colorize_defaults();
    o.augment.flip = true;
    return qkv_task_colorize(task, h->model, h->p.train, NULL, &o, h->t->page->c->common.seed);
}

/* ---- the sheet ---------------------------------------------------------------------------- */

/* An image without its colour: a and b of Lab are 0. */
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
    qkv_rng r;
    qkv_rng_init(&r, seed, STREAM_HINTS);
    for (size_t i = 0; i < QKV_COLORIZE_HINTS; i++) {
        size_t x = CELL * qkv_rng_below(&r, TOUR_SIDE / CELL);
        size_t y = CELL * qkv_rng_below(&r, TOUR_SIDE / CELL);
        hints[i] = (qkv_color_hint){.x = x, .y = y};
        memcpy(hints[i].rgb, rgb + (y * TOUR_SIDE + x) * 3, 3);
        for (size_t k = 0; k < CELL * CELL; k++)
            memcpy(told + ((y + k / CELL) * TOUR_SIDE + x + k % CELL) * 3, hints[i].rgb, 3);
    }
}

/* Grey, coloured, hints, coloured with them, truth. */
static qkv_status colorize_put_row(const tour_pupil *h, tour_sheet *sheet, size_t row, size_t i)
{
    static uint8_t grey[PIXELS * 3], told[PIXELS * 3];
    const uint8_t *truth = qkv_pixels_data(h->p.valid, i);
    qkv_color_hint hints[QKV_COLORIZE_HINTS];
    make_grey(grey, truth);
    memcpy(told, grey, sizeof told);
    draw_hints(hints, told, truth, row);
    const qkv_image in = {TOUR_SIDE, TOUR_SIDE, 3, grey};
    for (size_t k = 0; k < 2; k++) {
        qkv_image out;
        qkv_status status = qkv_colorize(&out, h->model, h->t->page->t, &in, NULL, hints,
                                         k ? QKV_COLORIZE_HINTS : 0);
        if (status)
            return status;
        tour_sheet_put(sheet, row, 1 + 2 * k, out.data, NULL);
        qkv_image_free(&out, h->t->page->c->ctx);
    }
    tour_sheet_put(sheet, row, 0, grey, NULL);
    tour_sheet_put(sheet, row, 2, told, NULL);
    tour_sheet_put(sheet, row, 4, truth, NULL);
    return QKV_OK;
}

/* ---- the chapter -------------------------------------------------------------------------- */

static qkv_status tour_colorize_evaluate(const tour_pupil *h, bool *better)
{
    const page *p = h->t->page;
    qkv_colorize_score s;
    qkv_status status = qkv_colorize_evaluate(h->model, p->t, h->p.valid, 0, &s);
    if (status)
        return status;
    *better = s.psnr > s.mean && s.psnr_hints > s.nearest;
    page_text(p, "How near the colours come to the true ones, over the held-out images (more dB "
                 "are nearer; 3 dB halve the squared error of a and b):");
    page_space(p);
    page_line(p, "no hints: the images' mean colour     %6.2f dB", s.mean);
    page_line(p, "no hints: this transformer              %6.2f dB", s.psnr);
    page_line(p, "%d hints: the nearest one's colour      %6.2f dB", QKV_COLORIZE_HINTS,
              s.nearest);
    page_line(p, "%d hints: this transformer              %6.2f dB", QKV_COLORIZE_HINTS,
              s.psnr_hints);
    page_number(p, "mean", s.mean);
    page_number(p, "psnr", s.psnr);
    page_number(p, "nearest", s.nearest);
    page_number(p, "psnr_hints", s.psnr_hints);
    return tour_pupil_sheet(h, 5, colorize_put_row, "coloured.png",
                            "held-out images, one a row: as the model sees it; the colours that "
                            "it gives; ten hints; the colours that it gives with these; the true "
                            "ones.");
}

static const tour_image_chapter chapter = {
    .make_model = tour_colorize_make_model, .make_task = colorize_make_task,
    .evaluate = tour_colorize_evaluate, .batch = 32, .rate = 1e-3,
    .learnt = "colours that go with shapes, and how far a hint's colour goes: to the edge of what "
              "it lies on, and not beyond",
    .not_learnt = "not yet both, which colours go with shapes and how far a hint's goes",
    .verb = "colorize", .options = " --hint 16,16,#ff0000 --out red.png",
};

qkv_status tour_colorize(tour *t) { return tour_image_chapter_run(&chapter, t); }
