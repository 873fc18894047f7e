/* tour_reconstruct.c - a chapter of the tour: a masked autoencoder fills in the hidden patches of
 * pictures, beside fillings that need no network. */
#include "cli/tour_pictures.h"
#include "qkv/reconstruct.h"

enum { BATCH = 64, PATCH = 4, ROWS = 8 };
static const double RATE = 2e-3, DECAY = 0.05, BETA2 = 0.95, CROP = 0.6;
static const double RATIOS[] = {0.75, 0.9}; /* the first is learnt with and judged */
enum { RATIO_COUNT = sizeof RATIOS / sizeof *RATIOS };

/* What so many seconds are enough for, on two Zen 4 cores. */
static const struct {
    double seconds;
    const char *preset;
} sizes[] = {{60, "micro"}, {0, "nano"}};

typedef struct {
    tour *t;
    tour_pictures p;
    qkv_model *model;
    tour_training training;
} chapter;

static qkv_status make_model(chapter *h)
{
    qkv_mae_config c;
    size_t i = 0;
    double effort = tour_pictures_effort(h->t);
    while (effort < sizes[i].seconds)
        i++;
    qkv_option_defaults(qkv_model_type_config(&qkv_mae_type), &c);
    (void)qkv_mae_preset(sizes[i].preset, &c);
    c.trunk.image = TOUR_SIDE;
    c.trunk.patch = PATCH;
    c.trunk.channels = 3;
    c.mask_ratio = RATIOS[0];
    qkv_status status =
        qkv_model_create(&h->model, h->t->page->c->ctx, &qkv_mae_type, &c);
    if (!status)
        status = qkv_model_init(h->model, h->t->page->c->common.seed);
    if (status)
        return status;
    tour_pictures_format(&h->p, h->model);
    page_text(h->t->page, "The model: pictures are %d x %d patches of %d x %d pixels, and of each "
                          "%.0f%% are hidden, others every time. %zu blocks of %zu channels read "
                          "the rest, %zu of %zu fill in what is missing.",
              TOUR_SIDE / PATCH, TOUR_SIDE / PATCH, PATCH, PATCH, 100 * RATIOS[0],
              c.trunk.layers, c.trunk.width, c.decoder_layers, c.decoder_width);
    return QKV_OK;
}

static qkv_status learn(chapter *h)
{
    const qkv_augment_options augment = {.crop_scale = CROP, .flip = true,
                                         .crop_filter = QKV_RESIZE_BILINEAR};
    qkv_task task = {0};
    cli_training s;
    cli_training_defaults(&s);
    s.loop.batch = BATCH;
    s.schedule.lr = RATE;
    s.optimizer.weight_decay = DECAY;
    s.optimizer.beta2 = BETA2;
    qkv_status status = qkv_task_reconstruct(&task, h->model, h->p.train, NULL, &augment,
                                             h->t->page->c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_pictures_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

/* ---- the report --------------------------------------------------------------------------- */

/* A row for each of some held-out pictures: truth, then hidden and filled in for every share. */
static qkv_status show_sheet(const chapter *h)
{
    const page *p = h->t->page;
    static uint8_t hidden[TOUR_SIDE * TOUR_SIDE * 3], filled[TOUR_SIDE * TOUR_SIDE * 3];
    size_t n = qkv_pixels_count(h->p.valid), rows = n < ROWS ? n : ROWS;
    tour_sheet sheet;
    qkv_status status =
        tour_sheet_create(&sheet, p->c->ctx, rows, 1 + 2 * RATIO_COUNT, TOUR_SIDE);
    for (size_t i = 0; i < rows * RATIO_COUNT && !status; i++) {
        size_t row = i / RATIO_COUNT, k = i % RATIO_COUNT;
        const uint8_t *truth = qkv_pixels_data(h->p.valid, (2 * row + 1) * n / (2 * rows));
        status = qkv_reconstruct(h->model, p->t, truth, RATIOS[k], row, true, hidden, filled);
        if (status)
            break;
        tour_sheet_put(&sheet, row, 0, truth, NULL);
        tour_sheet_put(&sheet, row, 1 + 2 * k, hidden, NULL);
        tour_sheet_put(&sheet, row, 2 + 2 * k, filled, NULL);
    }
    if (!status)
        status = tour_sheet_write(&sheet, h->t, "filled.png",
                                  "held-out pictures, one a row: the picture; with 75% of it "
                                  "hidden; those filled in; with 90% hidden; those filled in.");
    tour_sheet_free(&sheet);
    return status;
}

static void show_scores(const page *p, const qkv_reconstruct_score *s)
{
    page_text(p, "How near the %.0f%% that are hidden come to the truth, over the held-out "
                 "pictures (more dB are nearer; 3 dB halve the squared error):", 100 * RATIOS[0]);
    page_space(p);
    page_line(p, "filled with the mean visible colour   %6.2f dB", s->mean);
    page_line(p, "with the nearest visible pixel        %6.2f dB", s->nearest);
    page_line(p, "by this transformer                   %6.2f dB", s->psnr);
    page_number(p, "mean", s->mean);
    page_number(p, "nearest", s->nearest);
    page_number(p, "psnr", s->psnr);
}

static qkv_status report(chapter *h)
{
    const page *p = h->t->page;
    qkv_reconstruct_score s;
    qkv_status status =
        qkv_reconstruct_evaluate(h->model, p->t, h->p.valid, RATIOS[0], 0, &s);
    if (status)
        return status;
    tour_training_show(&h->training, p, "Training loss over the time:");
    show_scores(p, &s);
    status = show_sheet(h);
    if (!status)
        status = tour_picture_write(h->t, "picture.png", qkv_pixels_data(h->p.valid, 0),
                                    TOUR_SIDE);
    if (s.psnr > s.mean && s.psnr > s.nearest)
        page_text(p, "What was learnt: from a quarter of a picture, what the rest may be, without "
                     "a label; edges go on, and what is round is closed.");
    else
        page_text(p, "What was learnt: less than copying the nearest pixel knows. The time was "
                     "short; give it more with --minutes.");
    page_text(p, "Ask it yourself: qkv reconstruct %s %s/picture.png --mask 50 --out filled.png",
              h->t->dir, h->t->dir);
    return status;
}

qkv_status tour_reconstruct(tour *t)
{
    chapter h = {.t = t};
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
