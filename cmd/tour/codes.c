/* codes.c - a VQGAN learns codes for the tour's images, beside as many cut-outs of images
 * that k-means picks. */
#include "tour/images.h"

#include <math.h>
#include <string.h>


enum { PATCH = 4, VALUES = PATCH * PATCH * 3, ACROSS = TOUR_SIDE / PATCH };
enum { MOST_PATCHES = 20000, ROUNDS = 8, PAIRS = 4 };
static const double LONG = 300; /* seconds that the larger model needs */
static const double PATCHES_A_SECOND = 500; /* of the chapter: what clustering may cost */

static qkv_status codes_make_model(tour_pupil *h)
{
    qkv_vqgan_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), &c);
    c.image = TOUR_SIDE;
    c.colors = 3;
    (void)qkv_model_type_preset(qkv_vqgan_type(),
                                tour_images_effort(h->t) < LONG ? "nano" : "micro", &c);
    c.disc_layers = 0;
    qkv_image_format f = {.height = TOUR_SIDE, .width = TOUR_SIDE, .channels = 3, .resample = 2,
                          .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    qkv_status status = tour_pupil_create(h, qkv_vqgan_type(), &c);
    if (status)
        return status;
    qkv_model_set_image_format(h->model, &f);
    page_text(h->t->page, "The model: convolutions make %d x %d vectors of an image, one for "
                          "every %d x %d pixels; each becomes the nearest of %zu codes; "
                          "convolutions make an image of those again. A discriminator, which "
                          "would sharpen it, takes more time than there is here.",
              ACROSS, ACROSS, PATCH, PATCH, c.codes);
    return QKV_OK;
}

static qkv_status codes_make_task(qkv_task *task, const tour_pupil *h)
{
    qkv_codes_options o = qkv_codes_defaults();
    o.perceptual = o.adversarial = 0;
    o.augment = (qkv_augment_options){.crop_pad = PATCH, .flip = true};
    return qkv_task_codes(task, h->model, NULL, h->p.train, NULL, &o,
                          h->t->page->c->common.seed);
}

/* ---- k-means of cut-outs ------------------------------------------------------------------- */

/* Patch number k of all images. */
static void take_patch(float out[VALUES], const qkv_pixels *p, size_t k)
{
    const uint8_t *data = qkv_pixels_data(p, k / (ACROSS * ACROSS));
    size_t top = k / ACROSS % ACROSS * PATCH, left = k % ACROSS * PATCH;
    for (size_t i = 0; i < VALUES; i++) {
        size_t y = top + i / (PATCH * 3), x = left + i / 3 % PATCH;
        out[i] = data[(y * TOUR_SIDE + x) * 3 + i % 3];
    }
}

/* The nearest of the centres (count, VALUES); *squared is the distance. */
static size_t codes_nearest(const float *centres, size_t count, const float x[VALUES],
                            float *squared)
{
    size_t best = 0;
    *squared = INFINITY;
    for (size_t k = 0; k < count; k++) {
        float sum = 0;
        for (size_t i = 0; i < VALUES; i++)
            sum += (x[i] - centres[k * VALUES + i]) * (x[i] - centres[k * VALUES + i]);
        if (sum < *squared) {
            *squared = sum;
            best = k;
        }
    }
    return best;
}

/* Lloyd's rounds over n patches of the images, from patches drawn among them. sums, met: room
 * for as many centres. */
static void cluster(float *centres, size_t count, const qkv_pixels *p, size_t n, float *sums,
                    size_t *met)
{
    size_t all = qkv_pixels_count(p) * ACROSS * ACROSS;
    float x[VALUES], squared;
    for (size_t k = 0; k < count; k++)
        take_patch(centres + k * VALUES, p, qkv_shuffled(k, all, 1));
    for (int round = 0; round < ROUNDS; round++) {
        memset(sums, 0, count * VALUES * sizeof *sums);
        memset(met, 0, count * sizeof *met);
        for (size_t i = 0; i < n; i++) {
            take_patch(x, p, qkv_shuffled(i, all, 2));
            size_t k = codes_nearest(centres, count, x, &squared);
            met[k]++;
            for (size_t v = 0; v < VALUES; v++)
                sums[k * VALUES + v] += x[v];
        }
        for (size_t k = 0; k < count; k++)
            for (size_t v = 0; v < VALUES && met[k]; v++)
                centres[k * VALUES + v] = sums[k * VALUES + v] / (float)met[k];
    }
}

/* dB of the held-out images when each patch becomes the nearest of `count` centres. */
static qkv_status evaluate_clusters(const tour_pupil *h, size_t count, double *psnr)
{
    qkv_context *ctx = h->t->page->c->ctx;
    size_t all = qkv_pixels_count(h->p.train) * ACROSS * ACROSS;
    size_t held = qkv_pixels_count(h->p.valid) * ACROSS * ACROSS;
    size_t n = (size_t)(PATCHES_A_SECOND * h->t->seconds) + count;
    n = n < MOST_PATCHES ? n : MOST_PATCHES;
    n = n < all ? n : all;
    count = count < n ? count : n;
    float *centres = qkv_calloc(ctx, count, 2 * VALUES * sizeof *centres), x[VALUES], squared;
    size_t *met = qkv_calloc(ctx, count, sizeof *met), evaluated = held < n ? held : n;
    double sum = 0;
    qkv_status status = centres && met ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        cluster(centres, count, h->p.train, n, centres + count * VALUES, met);
    for (size_t i = 0; i < evaluated && !status; i++) {
        take_patch(x, h->p.valid, qkv_shuffled(i, held, 3));
        (void)codes_nearest(centres, count, x, &squared);
        sum += (double)squared;
    }
    *psnr = qkv_psnr(sum, VALUES * (double)evaluated);
    qkv_free(ctx, centres);
    qkv_free(ctx, met);
    return status;
}

/* ---- what is shown ------------------------------------------------------------------------- */

/* Images, and each as its codes show it. */
static qkv_status codes_put_row(const tour_pupil *h, tour_sheet *sheet, size_t row, size_t i)
{
    static uint8_t decoded[TOUR_SIDE * TOUR_SIDE * 3];
    int32_t codes[ACROSS * ACROSS];
    size_t n = qkv_pixels_count(h->p.valid);
    for (size_t k = 0; k < PAIRS; k++) {
        const uint8_t *image = qkv_pixels_data(h->p.valid, (i + k) % n);
        qkv_status status = qkv_images_encode(h->model, h->t->page->t, image, 1, TOUR_SIDE,
                                              TOUR_SIDE, codes);
        if (!status)
            status = qkv_images_decode(h->model, h->t->page->t, codes, 1, ACROSS, ACROSS,
                                       decoded);
        if (status)
            return status;
        tour_sheet_put(sheet, row, 2 * k, image, NULL);
        tour_sheet_put(sheet, row, 2 * k + 1, decoded, NULL);
    }
    return QKV_OK;
}

static qkv_status tour_codes_evaluate(const tour_pupil *h, bool *better)
{
    const page *p = h->t->page;
    size_t codes = ((const qkv_vqgan_config *)qkv_model_config(h->model))->codes;
    qkv_codes_score s;
    double clusters;
    qkv_status status = qkv_codes_evaluate(h->model, NULL, 0, p->t, h->p.valid, 0, &s);
    if (!status)
        status = evaluate_clusters(h, codes, &clusters);
    if (status)
        return status;
    *better = s.psnr > clusters;
    page_text(p, "How near the held-out images come to what they were, each of %d x %d places "
                 "told by one of %zu codes:", ACROSS, ACROSS, codes);
    page_space(p);
    page_line(p, "cut-outs of images that k-means picks   %6.2f dB", clusters);
    page_line(p, "this VQGAN                                %6.2f dB", s.psnr);
    page_text(p, "They meet %.0f%% of the codes.", 100 * s.used);
    page_number(p, "clusters", clusters);
    page_number(p, "psnr", s.psnr);
    page_number(p, "codes_used", s.used);
    return tour_pupil_sheet(h, 2 * PAIRS, codes_put_row, "decoded.png",
                            "held-out images, and beside each what its codes make of it.");
}

static const tour_image_chapter chapter = {
    .make_model = codes_make_model, .make_task = codes_make_task, .evaluate = tour_codes_evaluate,
    .batch = 8, .rate = 1e-3, .beta2 = 0.95,
    .learnt = "to say an image in few words, and to paint by them: the parts join, since each is "
              "painted with those about it in view",
    .not_learnt = "words for images, but coarser ones than cut-outs are",
    .verb = "encode", .options = " --out codes.npy",
};

qkv_status tour_codes_learn(tour *t, const tour_images *images, bool *stopped)
{
    tour_pupil h = {.t = t, .p = *images};
    qkv_status status = tour_image_chapter_train(&chapter, &h);
    *stopped = h.training.result.stopped;
    return status;
}
