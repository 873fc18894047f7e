/* imagine.c - a chapter of the tour: images become codes, a GPT learns what codes are like,
 * and draws images that never were. */
#include <math.h>
#include <string.h>

#include "tour/images.h"

enum { CODED = 32, VIEWS = 16, MOVED = 4, ROWS = 6, COLUMNS = 8, COMPLETED = 2 };
static const double CODES_SHARE = 0.55; /* of the chapter, for the VQGAN */
static const double CODING_SHARE = 0.1; /* at most, for coding what the prior learns from */
static const double LONG = 60; /* seconds that the larger model needs */
static const double KEEP = 0.9, DROPOUT = 0.1;
enum { TOP_K = 100 };

typedef struct {
    qkv_code_grids g;
    int32_t *codes; /* of g */
} coded;

typedef struct {
    tour *t;
    tour_images images;
    qkv_model *vqgan, *prior;
    size_t rows, columns; /* of an image's codes */
    coded train, valid;
    tour_training training;
} pupil;

static size_t codes_of(const pupil *h)
{
    return ((const qkv_vqgan_config *)qkv_model_config(h->vqgan))->codes;
}

/* ---- codes --------------------------------------------------------------------------------- */

/* Codes up to `views` views of every image, changed as `augment` says, as many as there is time
 * for. */
static qkv_status code(pupil *h, const qkv_pixels *pixels, const qkv_augment_options *augment,
                       size_t views, double until, coded *out)
{
    qkv_context *ctx = h->t->page->c->ctx;
    const qkv_batches_options o = {.count = qkv_pixels_count(pixels), .augment = *augment,
                                   .mean = {1, 1, 1}, .std = {1, 1, 1}}; /* white beyond an edge */
    size_t all = o.count * views, done = 0, length = h->rows * h->columns;
    qkv_batches *b = NULL;
    out->codes = qkv_calloc(ctx, all, length * sizeof *out->codes);
    qkv_status status = out->codes ? qkv_batches_create(&b, ctx, pixels, &o) : QKV_E_MEMORY;
    while (done < all && !status && (!done || qkv_now() < until)) {
        size_t n = all - done < CODED ? all - done : CODED;
        const uint8_t *batch;
        status = qkv_batches_bytes(b, done, n, &batch, NULL, NULL);
        if (!status)
            status = qkv_images_encode(h->vqgan, h->t->page->t, batch, n, TOUR_SIDE, TOUR_SIDE,
                                       out->codes + done * length);
        done += n;
    }
    out->g = (qkv_code_grids){.count = done, .codes = length, .columns = h->columns, .before = 1,
                              .grids = out->codes};
    qkv_batches_destroy(b);
    return status;
}

/* ---- the prior ----------------------------------------------------------------------------- */

static qkv_status make_prior(pupil *h)
{
    const page *p = h->t->page;
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    (void)qkv_model_type_preset(qkv_prior_type(),
                                tour_images_effort(h->t) < LONG ? "nano" : "mini", &c);
    c.vocab = codes_of(h);
    c.rows = h->rows;
    c.columns = h->columns;
    c.before = 1;
    c.positions = c.before + c.rows * c.columns - 1;
    c.dropout = c.embd_dropout = c.attention_dropout = DROPOUT;
    qkv_status status = tour_make(&h->prior, h->t, qkv_prior_type(), &c);
    if (!status)
        page_text(p, "Then a GPT (%zu blocks of %zu channels) reads the codes of an image row by "
                     "row, as it would read letters, and learns to tell the next one.",
                  c.layers, c.width);
    return status;
}

static qkv_status train_prior(pupil *h)
{
    const cli *c = h->t->page->c;
    const qkv_gpt_config *g = qkv_model_config(h->prior);
    qkv_task task = {0};
    qkv_training s = qkv_training_defaults();
    s.schedule.lr = qkv_training_rate(g->width);
    qkv_status status = qkv_task_prior(&task, h->prior, &h->train.g, &h->valid.g, KEEP,
                                       c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_images_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

/* ---- what is shown ------------------------------------------------------------------------- */

/* Draws `count` grids into a sheet, from that row on; given: codes that they have, or NULL. */
static qkv_status imagine_draw(const pupil *h, tour_sheet *sheet, size_t row, size_t count,
                               size_t column, const int32_t *given)
{
    static uint8_t image[TOUR_SIDE * TOUR_SIDE * 3];
    qkv_context *ctx = h->t->page->c->ctx;
    size_t n = h->rows * h->columns;
    const qkv_sample_codes_options o = {
        .count = count, .given = given, .seed = h->t->page->c->common.seed, .first = row * COLUMNS,
        .codes = codes_of(h),
        .sampling = {.temperature = 1, .top_k = TOP_K, .top_p = 1}};
    int32_t *codes = qkv_calloc(ctx, count, n * sizeof *codes);
    qkv_status status = codes ? qkv_sample_codes(h->prior, &o, NULL, NULL, codes) : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        status = qkv_images_decode(h->vqgan, h->t->page->t, codes + i * n, 1, h->rows,
                                   h->columns, image);
        tour_sheet_put(sheet, row + (column + i) / COLUMNS, (column + i) % COLUMNS, image, NULL);
    }
    qkv_free(ctx, codes);
    return status;
}

/* A held-out image, its upper half alone, and what the model makes of that. */
static qkv_status imagine_complete(const pupil *h, tour_sheet *sheet, size_t row)
{
    static uint8_t half[TOUR_SIDE * TOUR_SIDE * 3];
    enum { ACROSS = TOUR_SIDE / 4, KEPT = ACROSS * ACROSS / 2 };
    int32_t given[ACROSS * ACROSS];
    size_t n = qkv_pixels_count(h->images.valid);
    const uint8_t *image = qkv_pixels_data(h->images.valid, (2 * row + 1) * n / (2 * ROWS));
    qkv_status status = qkv_images_encode(h->vqgan, h->t->page->t, image, 1, TOUR_SIDE,
                                          TOUR_SIDE, given);
    if (status)
        return status;
    memset(half, 200, sizeof half);
    memcpy(half, image, sizeof half / 2);
    for (size_t i = KEPT; i < ACROSS * ACROSS; i++)
        given[i] = -1;
    tour_sheet_put(sheet, row, 0, image, NULL);
    tour_sheet_put(sheet, row, 1, half, NULL);
    return imagine_draw(h, sheet, row, COLUMNS - 2, 2, given);
}

static qkv_status imagine_show(pupil *h)
{
    const page *p = h->t->page;
    tour_sheet sheet = {0};
    qkv_prior_score s;
    double bigram;
    tour_training_show(&h->training, h->t, "Training loss, nats a code, over the time:");
    qkv_status status = qkv_prior_evaluate(h->prior, p->t, &h->valid.g, 0, &s);
    if (!status)
        status = qkv_prior_bigram(p->c->ctx, &h->train.g, &h->valid.g, qkv_lm_vocab(h->prior),
                                  &bigram);
    if (status)
        return status;
    page_text(p, "What a code of a held-out image takes to be told (less is better):");
    page_space(p);
    page_line(p, "every code alike                   %6.2f bits",
              log2((double)qkv_lm_vocab(h->prior)));
    page_line(p, "counted: after its left neighbour  %6.2f bits", bigram);
    page_line(p, "this GPT                           %6.2f bits", s.bits_per_code);
    page_number(p, "bits_bigram", bigram);
    page_number(p, "bits_per_code", s.bits_per_code);
    status = tour_sheet_create(&sheet, p->c->ctx, ROWS, COLUMNS, TOUR_SIDE);
    if (!status)
        status = imagine_draw(h, &sheet, 0, (ROWS - COMPLETED) * COLUMNS, 0, NULL);
    for (size_t row = ROWS - COMPLETED; row < ROWS && !status; row++)
        status = imagine_complete(h, &sheet, row);
    if (!status)
        status = tour_sheet_write(&sheet, h->t, "imagined.png",
                                  "images that never were; in the last two rows a held-out "
                                  "image, its upper half, and ends for it that were drawn.");
    tour_sheet_free(&sheet);
    if (!status)
        tour_say(h->t,
                 "What was learnt: %s.", s.bits_per_code < bigram
                 ? "what stands beside, above and below what in an image, which is what makes "
                 "drawn codes hang together"
                 : "less than counting neighbours knows. The time was short; give it more with "
                 "--minutes");
    if (!status)
        page_text(p, "Ask it yourself: qkv imagine %s --out grid.png", h->t->dir);
    if (!status)
        status = tour_look(h->t, h->t->dir, &(qkv_look_input){.text = NULL}, "look.html",
                           "An image that it drew: which codes the last one attends to, last "
                           "layer, mean of the heads");
    return status;
}

/* ---- the chapter --------------------------------------------------------------------------- */

static qkv_status learn_prior(pupil *h, const char *vqgan)
{
    const page *p = h->t->page;
    const qkv_augment_options none = {0}, changed = {.crop_pad = MOVED, .flip = true};
    double until = qkv_now() + CODING_SHARE * h->t->seconds;
    qkv_status status = qkv_hub_load(&h->vqgan, p->c->ctx, vqgan);
    if (status)
        return status;
    h->rows = h->columns = TOUR_SIDE / qkv_vqgan_factor(h->vqgan);
    status = make_prior(h);
    if (!status)
        status = code(h, h->images.valid, &none, 1, until, &h->valid);
    if (!status)
        status = code(h, h->images.train, &changed, VIEWS, until, &h->train);
    if (!status)
        status = train_prior(h);
    return status || h->training.result.stopped ? status : imagine_show(h);
}

qkv_status tour_imagine(tour *t)
{
    pupil h = {.t = t};
    qkv_context *ctx = t->page->c->ctx;
    bool stopped = false;
    tour part = *t;
    const qkv_path dir = qkv_path_in(t->dir, "vqgan");
    part.dir = dir.text;
    part.seconds = CODES_SHARE * t->seconds;
    qkv_status status = qkv_dir_create(ctx, dir.text);
    if (!status)
        status = tour_images_read(&h.images, t, TOUR_SIDE, UINT8_MAX);
    if (!status) {
        tour_images_tell(&h.images, t);
        status = tour_codes_learn(&part, &h.images, &stopped);
    }
    if (!status && !stopped)
        status = learn_prior(&h, dir.text);
    qkv_free(ctx, h.train.codes);
    qkv_free(ctx, h.valid.codes);
    qkv_model_destroy(h.vqgan);
    qkv_model_destroy(h.prior);
    tour_images_close(&h.images);
    return status;
}
