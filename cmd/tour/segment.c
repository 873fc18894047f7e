/* segment.c - a chapter of the tour: which pixels are the image, and which the background
 * that it was laid over. */
#include <math.h>
#include <string.h>

#include "tour/images.h"

enum { PATCH = 4, PIXELS = TOUR_SIDE * TOUR_SIDE };
enum { SMALL = 24, ROOM = TOUR_SIDE - SMALL }; /* an image's side; how far it may lie */
enum { TIMES = 3, STREAM_BACKGROUND = 0xc0 };  /* backgrounds for each image learnt from */
enum { BACKGROUND, IMAGE, CLASSES };
static const char *const names[CLASSES] = {"0", "255"}; /* of a mask's greys */
static const double LONG = 40; /* seconds that the larger model needs */

typedef struct {
    tour_pupil pupil;           /* its images are composed of those below */
    tour_images masks;          /* the class of each of their pixels */
    tour_images white, black; /* the tour's images over either */
} chapter;

/* ---- images and masks ------------------------------------------------------------------- */

/* Two colours that go over into each other across the image, in waves. */
static void draw_background(uint8_t *rgb, qkv_rng *r)
{
    double color[2][3], wave = 1 + 8 * qkv_rng_uniform(r), angle = 6.3 * qkv_rng_uniform(r);
    for (size_t k = 0; k < 6; k++)
        color[k / 3][k % 3] = 255 * qkv_rng_uniform(r);
    for (size_t i = 0; i < PIXELS; i++) {
        double x = (double)(i % TOUR_SIDE) / TOUR_SIDE, y = (double)(i / TOUR_SIDE) / TOUR_SIDE;
        double share = 0.5 + 0.5 * sin(wave * (x * cos(angle) + y * sin(angle)) + angle);
        for (size_t k = 0; k < 3; k++)
            rgb[3 * i + k] = (uint8_t)(share * color[0][k] + (1 - share) * color[1][k]);
    }
}

/* Lays image i over it: where black shows through as much as white does, the image covers. */
static void compose(uint8_t *rgb, uint8_t *mask, const qkv_pixels *white, const qkv_pixels *black,
                    size_t i, qkv_rng *r)
{
    const uint8_t *w = qkv_pixels_data(white, i), *b = qkv_pixels_data(black, i);
    size_t left = qkv_rng_below(r, ROOM + 1), top = qkv_rng_below(r, ROOM + 1);
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
        mask[to] = clear < 3 * 128 ? IMAGE : BACKGROUND;
    }
}

static qkv_status compose_all(qkv_pixels_writer *images, qkv_pixels_writer *masks,
                              const chapter *h, bool train)
{
    static uint8_t rgb[PIXELS * 3], mask[PIXELS];
    const qkv_pixels *white = train ? h->white.train : h->white.valid;
    const qkv_pixels *black = train ? h->black.train : h->black.valid;
    size_t n = qkv_pixels_count(white), times = train ? TIMES : 1;
    qkv_status status = QKV_OK;
    qkv_rng r;
    qkv_rng_init(&r, h->pupil.t->page->c->common.seed, STREAM_BACKGROUND + !train);
    for (size_t i = 0; i < times * n && !status; i++) {
        compose(rgb, mask, white, black, i % n, &r);
        status = qkv_pixels_add(images, rgb, -1, qkv_pixels_name(white, i % n));
        if (!status)
            status = qkv_pixels_add(masks, mask, -1, qkv_pixels_name(white, i % n));
    }
    return status;
}

static qkv_status make_set(qkv_pixels **images, qkv_pixels **masks, const chapter *h, bool train)
{
    qkv_context *ctx = h->pupil.t->page->c->ctx;
    qkv_pixels_writer *to_images = NULL, *to_masks = NULL;
    qkv_status status = qkv_pixels_create(&to_images, ctx, NULL, TOUR_SIDE, TOUR_SIDE, 3);
    if (!status)
        status = qkv_pixels_create(&to_masks, ctx, NULL, TOUR_SIDE, TOUR_SIDE, 1);
    for (size_t k = 0; k < CLASSES && !status; k++)
        status = qkv_pixels_add_class(to_masks, names[k]);
    if (!status)
        status = compose_all(to_images, to_masks, h, train);
    if (status) {
        qkv_pixels_abandon(to_images);
        qkv_pixels_abandon(to_masks);
        return status;
    }
    status = qkv_pixels_finish(to_images, images);
    qkv_status second = qkv_pixels_finish(to_masks, masks);
    return status ? status : second;
}

static qkv_status make_data(chapter *h)
{
    tour_images *p = &h->pupil.p;
    qkv_status status = tour_images_read(&h->white, h->pupil.t, SMALL, UINT8_MAX);
    if (!status)
        status = tour_images_read(&h->black, h->pupil.t, SMALL, 0);
    if (!status)
        status = make_set(&p->train, &h->masks.train, h, true);
    return status ? status : make_set(&p->valid, &h->masks.valid, h, false);
}

/* ---- learning ----------------------------------------------------------------------------- */

static qkv_status tour_segment_make_model(tour_pupil *h)
{
    qkv_pixelwise_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_segmenter_type()), &c);
    tour_trunk_set(&c.trunk, tour_images_effort(h->t) < LONG ? 2 : 3);
    c.trunk.patch = PATCH;
    c.outputs = CLASSES;
    page_text(h->t->page, "Each lies somewhere over a background of two colours, and the model "
                          "says of every pixel which of the two it is: %d x %d patches, %zu "
                          "blocks of %zu channels.",
              TOUR_SIDE / PATCH, TOUR_SIDE / PATCH, c.trunk.layers, c.trunk.width);
    qkv_status status = tour_pupil_create(h, qkv_segmenter_type(), &c);
    if (status)
        return status;
    tour_images_format(&h->p, h->model);
    return qkv_model_set_labels(h->model, names, CLASSES);
}

static qkv_status segment_make_task(qkv_task *task, const tour_pupil *h)
{
    const qkv_segment_data train = {h->p.train, ((const chapter *)h)->masks.train};
    const qkv_segment_options o = {.augment = {.crop_pad = 4, .flip = true}};
    return qkv_task_segment(task, h->model, &train, NULL, &o, h->t->page->c->common.seed);
}

/* ---- the report --------------------------------------------------------------------------- */

/* Mean intersection over union when each pixel is said to be what it most often is in training. */
static double disc_place(const tour_images *masks)
{
    static size_t often[PIXELS];
    size_t both[CLASSES] = {0}, either[CLASSES] = {0}, n = qkv_pixels_count(masks->train);
    memset(often, 0, sizeof often);
    for (size_t i = 0; i < n * PIXELS; i++)
        often[i % PIXELS] += qkv_pixels_data(masks->train, i / PIXELS)[i % PIXELS] == IMAGE;
    for (size_t i = 0; i < qkv_pixels_count(masks->valid) * PIXELS; i++) {
        size_t truth = qkv_pixels_data(masks->valid, i / PIXELS)[i % PIXELS];
        size_t guess = 2 * often[i % PIXELS] > n ? IMAGE : BACKGROUND;
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

/* Puts a mask as an image; with `of`, what is background turns pale. */
static void put_mask(tour_sheet *sheet, size_t row, size_t column, const uint8_t *mask,
                     const uint8_t *of)
{
    static uint8_t rgb[PIXELS * 3];
    for (size_t i = 0; i < PIXELS; i++)
        for (size_t k = 0; k < 3; k++)
            rgb[3 * i + k] = of && mask[i] == IMAGE ? of[3 * i + k]
                             : of                     ? UINT8_MAX
                                                      : (uint8_t)(UINT8_MAX * mask[i]);
    tour_sheet_put(sheet, row, column, rgb, NULL);
}

/* The image, the true mask, the model's, what it cuts out. */
static qkv_status segment_put_row(const tour_pupil *h, tour_sheet *sheet, size_t row, size_t i)
{
    static uint8_t mask[PIXELS], seen[PIXELS * 3];
    const qkv_image in = {TOUR_SIDE, TOUR_SIDE, 3, seen};
    const uint8_t *rgb = qkv_pixels_data(h->p.valid, i);
    memcpy(seen, rgb, sizeof seen);
    qkv_status status = qkv_segment(mask, h->model, h->t->page->t, &in);
    if (status)
        return status;
    tour_sheet_put(sheet, row, 0, rgb, NULL);
    put_mask(sheet, row, 1, qkv_pixels_data(((const chapter *)h)->masks.valid, i), NULL);
    put_mask(sheet, row, 2, mask, NULL);
    put_mask(sheet, row, 3, mask, rgb);
    return QKV_OK;
}

static qkv_status tour_segment_evaluate(const tour_pupil *h, bool *better)
{
    const page *p = h->t->page;
    const tour_images *masks = &((const chapter *)h)->masks;
    const qkv_segment_data valid = {h->p.valid, masks->valid};
    qkv_segment_score s;
    double place = disc_place(masks);
    qkv_status status = qkv_segment_evaluate(h->model, p->t, &valid, 0, &s);
    if (status)
        return status;
    *better = s.miou > place;
    page_text(p, "How well masks fit, over the held-out images: the pixels that are in both, of "
                 "those that are in either, the mean of image and background:");
    page_space(p);
    page_line(p, "what is most often at the place      %6.3f", place);
    page_line(p, "this transformer                     %6.3f", s.miou);
    page_number(p, "place", place);
    page_number(p, "miou", s.miou);
    return tour_pupil_sheet(h, 4, segment_put_row, "masks.png",
                            "held-out images over backgrounds of their own, one a row: what the "
                            "model sees; the true mask; the model's; what it cuts out.");
}

/* ---- the chapter -------------------------------------------------------------------------- */

static const tour_image_chapter plan = {
    .make_model = tour_segment_make_model, .make_task = segment_make_task,
    .evaluate = tour_segment_evaluate, .batch = 32, .rate = 1e-3,
    .learnt = "where a thing ends that it never saw before, over a background that it never saw "
              "before",
    .not_learnt = "no more than that things lie in the middle",
    .verb = "segment", .options = " --out mask.png",
};

qkv_status tour_segment(tour *t)
{
    chapter h = {.pupil = {.t = t}};
    qkv_status status = make_data(&h);
    if (!status) {
        tour_images_tell(&h.white, t);
        status = tour_image_chapter_train(&plan, &h.pupil);
    }
    tour_images_close(&h.pupil.p);
    tour_images_close(&h.masks);
    tour_images_close(&h.white);
    tour_images_close(&h.black);
    return status;
}
