/* reconstruct.c - a chapter of the tour: a masked autoencoder fills in the hidden patches of
 * images, beside fillings that need no network. */
#include "tour/images.h"

enum { PATCH = 4 };
static const double LONG = 60; /* seconds that the larger model needs */
static const double CROP = 0.6;
static const double RATIOS[] = {0.75, 0.9}; /* the first is learnt with and evaluated */
enum { RATIO_COUNT = sizeof RATIOS / sizeof *RATIOS };

static qkv_status reconstruct_make_model(tour_pupil *h)
{
    qkv_mae_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &c);
    (void)qkv_model_type_preset(qkv_mae_type(),
                                tour_images_effort(h->t) < LONG ? "nano" : "micro", &c);
    c.trunk.image = TOUR_SIDE;
    c.trunk.patch = PATCH;
    c.mask_ratio = RATIOS[0];
    qkv_status status = tour_pupil_create(h, qkv_mae_type(), &c);
    if (status)
        return status;
    tour_images_format(&h->p, h->model);
    page_text(h->t->page, "The model: images are %d x %d patches of %d x %d pixels, and of each "
                          "%.0f%% are hidden, others every time. %zu blocks of %zu channels read "
                          "the rest, %zu of %zu fill in what is missing.",
              TOUR_SIDE / PATCH, TOUR_SIDE / PATCH, PATCH, PATCH, 100 * RATIOS[0],
              c.trunk.layers, c.trunk.width, c.decoder_layers, c.decoder_width);
    return QKV_OK;
}

static qkv_status reconstruct_make_task(qkv_task *task, const tour_pupil *h)
{
    const qkv_augment_options augment = {.crop_scale = CROP, .flip = true,
                                         .crop_filter = QKV_RESIZE_BILINEAR};
    return qkv_task_reconstruct(task, h->model, h->p.train, NULL, &augment,
                                h->t->page->c->common.seed);
}

/* The truth, then hidden and filled in for every share. */
static qkv_status tour_reconstruct_put_row(const tour_pupil *h, tour_sheet *sheet, size_t row,
                                           size_t i)
{
    static uint8_t hidden[TOUR_SIDE * TOUR_SIDE * 3], filled[TOUR_SIDE * TOUR_SIDE * 3];
    const uint8_t *truth = qkv_pixels_data(h->p.valid, i);
    tour_sheet_put(sheet, row, 0, truth, NULL);
    for (size_t k = 0; k < RATIO_COUNT; k++) {
        qkv_status status = qkv_reconstruct(h->model, h->t->page->t, truth, RATIOS[k], row, true,
                                            hidden, filled);
        if (status)
            return status;
        tour_sheet_put(sheet, row, 1 + 2 * k, hidden, NULL);
        tour_sheet_put(sheet, row, 2 + 2 * k, filled, NULL);
    }
    return QKV_OK;
}

static qkv_status tour_reconstruct_evaluate(const tour_pupil *h, bool *better)
{
    const page *p = h->t->page;
    qkv_reconstruct_score s;
    qkv_status status = qkv_reconstruct_evaluate(h->model, p->t, h->p.valid, RATIOS[0], 0, &s);
    if (status)
        return status;
    *better = s.psnr > s.mean && s.psnr > s.nearest;
    page_text(p, "How near the %.0f%% that are hidden come to the truth, over the held-out "
                 "images (more dB are nearer; 3 dB halve the squared error):", 100 * RATIOS[0]);
    page_space(p);
    page_line(p, "filled with the mean visible colour   %6.2f dB", s.mean);
    page_line(p, "with the nearest visible pixel        %6.2f dB", s.nearest);
    page_line(p, "by this transformer                   %6.2f dB", s.psnr);
    page_number(p, "mean", s.mean);
    page_number(p, "nearest", s.nearest);
    page_number(p, "psnr", s.psnr);
    return tour_pupil_sheet(h, 1 + 2 * RATIO_COUNT, tour_reconstruct_put_row, "filled.png",
                            "held-out images, one a row: the image; with 75% of it hidden; "
                            "those filled in; with 90% hidden; those filled in.");
}

static const tour_image_chapter chapter = {
    .make_model = reconstruct_make_model, .make_task = reconstruct_make_task,
    .evaluate = tour_reconstruct_evaluate, .batch = 64, .rate = 2e-3, .beta2 = 0.95,
    .learnt = "from a quarter of an image, what the rest may be, without a label; edges go on, "
              "and what is round is closed",
    .not_learnt = "less than copying the nearest pixel knows",
    .verb = "reconstruct", .options = " --mask 50 --out filled.png",
};

qkv_status tour_reconstruct(tour *t) { return tour_image_chapter_run(&chapter, t); }
