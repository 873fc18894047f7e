/* imagine.c - a chapter of the tour: pictures become codes, a GPT learns what codes are like,
 * and draws pictures that never were. */
#include <math.h>
#include <string.h>

#include "pipeline/prior.h"
#include "tour/codes.h"

enum { CODED = 32, VIEWS = 16, MOVED = 4, ROWS = 6, COLUMNS = 8, COMPLETED = 2 };
static const double CODES_SHARE = 0.55; /* of the chapter, for the VQGAN */
static const double CODING_SHARE = 0.1; /* at most, for coding what the prior learns from */
static const double LONG = 60; /* seconds that the larger model needs */
static const double KEEP = 0.9, DROPOUT = 0.1;
enum { TOP_K = 100 };

typedef struct {
    tour *t;
    tour_pictures pictures;
    qkv__prior p;
    qkv_model *prior;
    qkv__grid_set train, valid;
    tour_training training;
} pupil;

/* ---- codes --------------------------------------------------------------------------------- */

/* Codes up to `views` views of every picture, changed as `augment` says, as many as there is time
 * for. */
static qkv_status code(pupil *h, const qkv_pixels *pixels, const qkv_augment_options *augment,
                       size_t views, double until, qkv__grid_set *out)
{
    qkv_context *ctx = h->t->page->c->ctx;
    const qkv_batches_options o = {.count = qkv_pixels_count(pixels), .augment = *augment,
                                   .mean = {1, 1, 1}, .std = {1, 1, 1}}; /* white beyond an edge */
    size_t all = o.count * views, done = 0, length = h->p.before + h->p.rows * h->p.columns;
    qkv_batches *b = NULL;
    int32_t *tokens = qkv_calloc(ctx, all, length * sizeof *tokens);
    qkv_status status = tokens ? qkv_batches_create(&b, ctx, pixels, &o) : QKV_E_MEMORY;
    while (done < all && !status && (!done || qkv_now() < until)) {
        size_t n = all - done < CODED ? all - done : CODED;
        const uint8_t *batch;
        status = qkv_batches_bytes(b, done, n, &batch, NULL, NULL);
        if (!status)
            status = qkv__prior_tokens(&h->p, batch, n, NULL, tokens + done * length);
        done += n;
    }
    if (!status)
        status = qkv__grid_set_take(out, ctx, tokens, done, h->prior);
    qkv_batches_destroy(b);
    qkv_free(ctx, tokens);
    return status;
}

/* ---- the prior ----------------------------------------------------------------------------- */

static qkv_status make_prior(pupil *h)
{
    const page *p = h->t->page;
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(&qkv_prior_type), &c);
    (void)qkv_gpt_preset(tour_pictures_effort(h->t) < LONG ? "nano" : "mini", &c);
    c.vocab = qkv__codec_config(h->p.vqgan)->codes;
    c.rows = h->p.rows;
    c.columns = h->p.columns;
    c.before = h->p.before;
    c.positions = c.before + c.rows * c.columns - 1;
    c.dropout = c.embd_dropout = c.attention_dropout = DROPOUT;
    qkv_status status = qkv_model_create(&h->prior, p->c->ctx, &qkv_prior_type, &c);
    if (!status)
        status = qkv_model_init(h->prior, p->c->common.seed);
    h->p.prior = h->prior;
    if (!status)
        page_text(p, "Then a GPT (%zu blocks of %zu channels) reads the codes of a picture row by "
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
    qkv_status status = qkv_task_grids(&task, h->prior, &h->train.g, &h->valid.g, KEEP,
                                       c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_pictures_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

/* ---- what is shown ------------------------------------------------------------------------- */

/* Draws `count` grids into a sheet, from that row on; given: codes that they have, or NULL. */
static qkv_status draw(const pupil *h, tour_sheet *sheet, size_t row, size_t count, size_t column,
                       const int32_t *given)
{
    static uint8_t picture[TOUR_SIDE * TOUR_SIDE * 3];
    qkv_context *ctx = h->t->page->c->ctx;
    size_t n = h->p.rows * h->p.columns;
    const qkv_imagine_options o = {
        .count = count, .given = given, .seed = h->t->page->c->common.seed, .first = row * COLUMNS,
        .codes = qkv__codec_config(h->p.vqgan)->codes,
        .sampling = {.temperature = 1, .top_k = TOP_K, .top_p = 1}};
    int32_t *codes = qkv_calloc(ctx, count, n * sizeof *codes);
    qkv_status status = codes ? qkv_imagine(h->prior, &o, NULL, NULL, codes) : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        status = qkv_pictures_decode(h->p.vqgan, h->t->page->t, codes + i * n, 1, h->p.rows,
                                     h->p.columns, picture);
        tour_sheet_put(sheet, row + (column + i) / COLUMNS, (column + i) % COLUMNS, picture, NULL);
    }
    qkv_free(ctx, codes);
    return status;
}

/* A held-out picture, its upper half alone, and what the model makes of that. */
static qkv_status complete(const pupil *h, tour_sheet *sheet, size_t row)
{
    static uint8_t half[TOUR_SIDE * TOUR_SIDE * 3];
    enum { ACROSS = TOUR_SIDE / 4, KEPT = ACROSS * ACROSS / 2 };
    int32_t given[ACROSS * ACROSS];
    size_t n = qkv_pixels_count(h->pictures.valid);
    const uint8_t *picture = qkv_pixels_data(h->pictures.valid, (2 * row + 1) * n / (2 * ROWS));
    qkv_status status = qkv_pictures_encode(h->p.vqgan, h->t->page->t, picture, 1, TOUR_SIDE,
                                            TOUR_SIDE, given);
    if (status)
        return status;
    memset(half, 200, sizeof half);
    memcpy(half, picture, sizeof half / 2);
    for (size_t i = KEPT; i < ACROSS * ACROSS; i++)
        given[i] = -1;
    tour_sheet_put(sheet, row, 0, picture, NULL);
    tour_sheet_put(sheet, row, 1, half, NULL);
    return draw(h, sheet, row, COLUMNS - 2, 2, given);
}

static qkv_status show(pupil *h)
{
    const page *p = h->t->page;
    tour_sheet sheet = {0};
    qkv_grids_score s;
    double bigram;
    tour_training_show(&h->training, p, "Training loss, nats a code, over the time:");
    qkv_status status = qkv_grids_evaluate(h->prior, p->t, &h->valid.g, 0, &s);
    if (!status)
        status = qkv_grids_bigram(p->c->ctx, &h->train.g, &h->valid.g, qkv_lm_vocab(h->prior),
                                  &bigram);
    if (status)
        return status;
    page_text(p, "What a code of a held-out picture takes to be told (less is better):");
    page_space(p);
    page_line(p, "every code alike                   %6.2f bits",
              log2((double)qkv_lm_vocab(h->prior)));
    page_line(p, "counted: after its left neighbour  %6.2f bits", bigram);
    page_line(p, "this GPT                           %6.2f bits", s.bits_per_code);
    page_number(p, "bits_bigram", bigram);
    page_number(p, "bits_per_code", s.bits_per_code);
    status = tour_sheet_create(&sheet, p->c->ctx, ROWS, COLUMNS, TOUR_SIDE);
    if (!status)
        status = draw(h, &sheet, 0, (ROWS - COMPLETED) * COLUMNS, 0, NULL);
    for (size_t row = ROWS - COMPLETED; row < ROWS && !status; row++)
        status = complete(h, &sheet, row);
    if (!status)
        status = tour_sheet_write(&sheet, h->t, "imagined.png",
                                  "pictures that never were; in the last two rows a held-out "
                                  "picture, its upper half, and ends for it that were drawn.");
    tour_sheet_free(&sheet);
    if (!status)
        page_text(p, "What was learnt: %s.", s.bits_per_code < bigram
                  ? "what stands beside, above and below what in a picture, which is what makes "
                    "drawn codes hang together"
                  : "less than counting neighbours knows. The time was short; give it more with "
                    "--minutes");
    if (!status)
        page_text(p, "Ask it yourself: qkv imagine %s --out grid.png", h->t->dir);
    return status;
}

/* ---- the chapter --------------------------------------------------------------------------- */

static qkv_status learn_prior(pupil *h, const char *vqgan)
{
    const page *p = h->t->page;
    const qkv_augment_options none = {0}, changed = {.crop_pad = MOVED, .flip = true};
    double until = qkv_now() + CODING_SHARE * h->t->seconds;
    qkv_status status = qkv__prior_codecs(&h->p, p->c->ctx, vqgan, NULL, 0, 0);
    if (!status)
        status = make_prior(h);
    if (!status)
        status = code(h, h->pictures.valid, &none, 1, until, &h->valid);
    if (!status)
        status = code(h, h->pictures.train, &changed, VIEWS, until, &h->train);
    if (!status)
        status = train_prior(h);
    return status || h->training.result.stopped ? status : show(h);
}

qkv_status tour_imagine(tour *t)
{
    pupil h = {.t = t};
    qkv_context *ctx = t->page->c->ctx;
    bool stopped = false;
    tour part = *t;
    char *dir = qkv_path_join(ctx, t->dir, QKV__PRIOR_VQGAN);
    part.dir = dir;
    part.seconds = CODES_SHARE * t->seconds;
    qkv_status status = dir ? qkv_dir_create(ctx, dir) : QKV_E_MEMORY;
    if (!status)
        status = tour_pictures_read(&h.pictures, t, TOUR_SIDE, UINT8_MAX);
    if (!status) {
        tour_pictures_tell(&h.pictures, t);
        status = tour_codes_learn(&part, &h.pictures, &stopped);
    }
    if (!status && !stopped)
        status = learn_prior(&h, dir);
    qkv__grid_set_free(&h.train);
    qkv__grid_set_free(&h.valid);
    qkv__prior_close(&h.p);
    qkv_model_destroy(h.prior);
    tour_pictures_close(&h.pictures);
    qkv_free(ctx, dir);
    return status;
}
