/* codes_prior.c - looking inside a prior: where it looked for the next code, and the codes it
 * expected at every position, as patches. */
#include "report/code_panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/image.h"
#include "pipeline/sampling_run.h"
#include "qkv/chart.h"
#include "qkv/gpt.h"

enum { APART = 4, MAP_SIDE = 256, SHEET_SIDE = 192, SHEET_ACROSS = 3 };

/* ---- the tokens ------------------------------------------------------------------------------ */

static qkv_status prior_class(const qkv__looking *l, int32_t *class_)
{
    const qkv__sampling_run asked = {.p = l->p, .o = {.class_ = l->o.class_}};
    qkv_status status = qkv__sample_class(&asked, class_);
    *class_ = *class_ < 0 ? 0 : *class_;
    return status;
}

/* The image's tokens. */
static qkv_status read_prior_image(qkv__looking *l, const int32_t *class_, int32_t *tokens)
{
    qkv__prior *c = &l->p->codecs;
    qkv_image image;
    qkv_status status = qkv__image_fit(&image, l->p->ctx, &l->in->image, c->rows * c->factor,
                                       c->columns * c->factor, c->colors);
    if (!status)
        status = qkv__look_add_image(l, "input", &image);
    if (!status)
        status = qkv__prior_tokens(c, image.data, 1, class_, tokens);
    qkv_image_free(&image, l->p->ctx);
    return status;
}

/* The tokens of an image that the prior samples. */
static qkv_status draw_prior_image(qkv__looking *l, int32_t class_, int32_t *tokens)
{
    const qkv__prior *c = &l->p->codecs;
    qkv_pipeline_sample_options o = qkv_pipeline_sample_defaults();
    qkv_sampled_images drawn;
    if (c->condition)
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: an image expected: this model's codes "
                        "follow those of another image", l->p->dir);
    o.count = 1;
    o.class_ = l->o.class_;
    o.seed = l->o.seed;
    qkv_status status = qkv_pipeline_sample_images(l->p, &o, &drawn);
    tokens[0] = class_;
    if (!status)
        memcpy(tokens + 1, drawn.codes, c->rows * c->columns * sizeof *tokens);
    qkv_sampled_images_free(&drawn);
    return status;
}

/* "start", a class, or the places of the other image's codes. */
static qkv_status name_lead(qkv__looking *l, int32_t first)
{
    const qkv__prior *c = &l->p->codecs;
    qkv_look_axis *a = &l->out->axes[0];
    for (size_t i = 0; i < a->lead; i++) {
        char label[96];
        size_t side = c->condition ? qkv__prior_condition_side(c) : 1;
        const char *name = qkv_model_label(l->p->model, (size_t)first);
        if (c->condition)
            (void)snprintf(label, sizeof label, "condition %zu,%zu", i / side, i % side);
        else if (name)
            (void)snprintf(label, sizeof label, "class %.80s", name);
        else if (first || l->o.class_)
            (void)snprintf(label, sizeof label, "class %d", (int)first);
        else
            (void)snprintf(label, sizeof label, "start");
        qkv_free(l->p->ctx, a->labels[i]);
        if (!(a->labels[i] = qkv_strdup(l->p->ctx, label)))
            return QKV_E_MEMORY;
    }
    return QKV_OK;
}

/* l->ids[0] what the model reads, all tokens but the last; l->ids[1] the codes. */
static qkv_status keep_tokens(qkv__looking *l, const int32_t *tokens)
{
    const qkv__prior *c = &l->p->codecs;
    size_t n = c->rows * c->columns, length = c->before + n;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < length && !status; i++) {
        if (i + 1 < length)
            status = qkv_ids_add(&l->ids[0], l->p->ctx, tokens[i]);
        if (!status && i >= c->before)
            status = qkv_ids_add(&l->ids[1], l->p->ctx, tokens[i]);
    }
    return status ? status : qkv__look_patches(l, 0, "codes", c->before, c->rows, c->columns, NULL,
                                               n - 1);
}

static qkv__look_codes prior_codes(qkv__looking *l)
{
    const qkv__prior *c = &l->p->codecs;
    return qkv__look_codes_of(l, c->vqgan, c->tape, c->rows, c->columns, l->ids[1].data);
}

static qkv_status add_decoded(qkv__looking *l, const char *name)
{
    const qkv__look_codes c = prior_codes(l);
    qkv_image decoded;
    qkv_status status = qkv__look_codes_decode(&c, c.grid, &decoded);
    if (!status)
        status = qkv__look_add_image(l, name, &decoded);
    qkv_image_free(&decoded, l->p->ctx);
    return status;
}

static qkv_status prepare_prior(qkv__looking *l)
{
    const qkv_gpt_config *g = qkv_model_config(l->p->model);
    const qkv__prior *c = &l->p->codecs;
    bool given = l->in->image.path || l->in->image.image;
    int32_t class_;
    qkv_status status = qkv__pipeline_codecs(l->p);
    if (!status)
        status = prior_class(l, &class_);
    if (status)
        return status;
    size_t length = c->before + c->rows * c->columns;
    if (length > g->positions + 1)
        return qkv_fail(l->p->ctx, QKV_E_FORMAT, "%s: block_size: %zu at least expected for %zu "
                        "tokens and %zu x %zu codes, found %zu", l->p->dir, length - 1, c->before,
                        c->rows, c->columns, g->positions);
    int32_t *tokens = qkv_calloc(l->p->ctx, length, sizeof *tokens);
    if (!tokens)
        return QKV_E_MEMORY;
    status = given ? read_prior_image(l, &class_, tokens) : draw_prior_image(l, class_, tokens);
    if (!status)
        status = keep_tokens(l, tokens);
    if (!status)
        status = name_lead(l, tokens[0]);
    qkv_free(l->p->ctx, tokens);
    return status ? status : add_decoded(l, given ? "decoded" : "drawn");
}

static qkv_status run_prior(qkv__looking *l) { return qkv__look_lm.run(l); }
static qkv_status predict_prior(qkv__looking *l, const qkv__look_kind *k)
{
    return qkv__look_lm.predict(l, k);
}

static char *prior_word(const qkv__looking *l, int32_t id)
{
    char text[32];
    (void)snprintf(text, sizeof text, "code %d", (int)id);
    return qkv_strdup(l->p->ctx, text);
}

/* ---- distributions --------------------------------------------------------------------------- */

/* softmax(logits) over the codes at every place of the grid. Freed with free_expected. */
typedef struct {
    qkv__look_codes c;
    size_t top;
    int32_t *next;  /* (places, top) the likeliest codes .. */
    double *p;      /* (places, top) .. and their probabilities */
    double *own;    /* (places) of the code that the image has */
    size_t *rank;   /* (places) codes that are likelier */
    float *entropy; /* (places) bits */
    float *bits;    /* (places) -log2 own */
    double mean_entropy, mean_bits;
} expected_codes;

static void free_expected(expected_codes *e)
{
    void *const parts[] = {e->next, e->p, e->own, e->rank, e->entropy, e->bits};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        qkv_free(e->c.ctx, parts[i]);
}

/* The likeliest codes of probs (codes), which it changes. */
static void take_top(expected_codes *e, size_t place, double *probs)
{
    for (size_t k = 0; k < e->top; k++) {
        size_t best = 0;
        for (size_t v = 1; v < e->c.config->codes; v++)
            best = probs[v] > probs[best] ? v : best;
        e->next[place * e->top + k] = (int32_t)best;
        e->p[place * e->top + k] = probs[best];
        probs[best] = -1; /* taken */
    }
}

static void expect_place(expected_codes *e, size_t place, const qkv_real *logits, double *probs)
{
    size_t codes = e->c.config->codes;
    double most = -INFINITY, sum = 0, entropy = 0;
    for (size_t v = 0; v < codes; v++)
        most = fmax(most, (double)logits[v]);
    for (size_t v = 0; v < codes; v++)
        sum += probs[v] = exp((double)logits[v] - most);
    for (size_t v = 0; v < codes; v++) {
        probs[v] /= sum;
        entropy -= probs[v] > 0 ? probs[v] * log2(probs[v]) : 0;
    }
    double own = e->own[place] = probs[e->c.grid[place]];
    for (size_t v = 0; v < codes; v++)
        e->rank[place] += probs[v] > own;
    e->entropy[place] = (float)entropy;
    e->bits[place] = (float)-log2(own);
    e->mean_entropy += entropy / (double)e->c.places;
    e->mean_bits -= log2(own) / (double)e->c.places;
    take_top(e, place, probs);
}

/* The logits of all places, (places, vocabulary), on the tape. */
static const qkv_real *place_logits(qkv__looking *l, size_t before, size_t places)
{
    qkv_tape *t = l->p->tape;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *ids = qkv_tensor_ids(t, l->ids[0].data, 2, (size_t[]){1, l->ids[0].count});
    qkv_tensor *h = qkv_lm_hidden(l->p->model, t, ids, 0, NULL, NULL);
    h = h ? qkv_slice(t, h, 1, before - 1, before - 1 + places) : NULL;
    return qkv_data(t, qkv_lm_logits(l->p->model, t, h));
}

static qkv_status expect_codes(expected_codes *e, qkv__looking *l)
{
    const qkv_gpt_config *g = qkv_model_config(l->p->model);
    *e = (expected_codes){.c = prior_codes(l)};
    qkv_context *ctx = e->c.ctx;
    size_t n = e->c.places, codes = e->c.config->codes;
    e->top = l->o.top < codes ? l->o.top : codes;
    e->next = qkv_calloc(ctx, n, (e->top + 1) * sizeof *e->next);
    e->p = qkv_calloc(ctx, n, (e->top + 1) * sizeof *e->p);
    e->own = qkv_calloc(ctx, n, sizeof *e->own);
    e->rank = qkv_calloc(ctx, n, sizeof *e->rank);
    e->entropy = qkv_calloc(ctx, n, sizeof *e->entropy);
    e->bits = qkv_calloc(ctx, n, sizeof *e->bits);
    double *probs = qkv_calloc(ctx, codes, sizeof *probs);
    qkv_status status = e->next && e->p && e->own && e->rank && e->entropy && e->bits && probs
                            ? QKV_OK
                            : QKV_E_MEMORY;
    const qkv_real *logits = status ? NULL : place_logits(l, g->before, n);
    for (size_t i = 0; i < n && logits; i++)
        expect_place(e, i, logits + i * g->vocab, probs);
    if (!status)
        status = qkv_tape_status(l->p->tape);
    qkv_free(ctx, probs);
    return status;
}

/* ---- patches --------------------------------------------------------------------------------- */

/* *out: at every place the patch that the candidate of rank k makes there. Places APART codes from
 * each other are changed in one image, so that as many are decoded whatever the grid's size. */
static qkv_status decode_candidates(const expected_codes *e, size_t k, qkv_image *out)
{
    const qkv__look_codes *c = &e->c;
    qkv_image decoded = {0};
    int32_t *grid = qkv_calloc(c->ctx, c->places, sizeof *grid);
    qkv_status status = grid ? qkv_image_create(out, c->ctx, c->columns * c->factor,
                                                c->rows * c->factor, c->config->colors)
                             : QKV_E_MEMORY;
    for (size_t phase = 0; phase < APART * APART && !status; phase++) {
        size_t top = phase / APART, left = phase % APART;
        if (top >= c->rows || left >= c->columns)
            continue;
        memcpy(grid, c->grid, c->places * sizeof *grid);
        for (size_t i = 0; i < c->places; i++)
            if (i / c->columns % APART == top && i % c->columns % APART == left)
                grid[i] = e->next[i * e->top + k];
        status = qkv__look_codes_decode(c, grid, &decoded);
        for (size_t i = 0; i < c->places && !status; i++)
            if (i / c->columns % APART == top && i % c->columns % APART == left)
                qkv__look_codes_copy(c, &decoded, i, out);
        qkv_image_free(&decoded, c->ctx);
    }
    qkv_free(c->ctx, grid);
    if (status)
        qkv_image_free(out, c->ctx);
    return status;
}

static double mean_probability(const expected_codes *e, size_t k)
{
    double sum = 0;
    for (size_t i = 0; i < e->c.places; i++)
        sum += e->p[i * e->top + k];
    return sum / (double)e->c.places;
}

static qkv_status draw_candidates(const expected_codes *e, const qkv_image *images,
                                  qkv_drawing **out)
{
    char text[QKV_SAMPLE_NEXT + 1][64];
    const char *labels[QKV_SAMPLE_NEXT + 1];
    double width, height;
    (void)snprintf(text[0], sizeof text[0], "the image's codes");
    for (size_t k = 1; k <= e->top; k++)
        (void)snprintf(text[k], sizeof text[k], "code of rank %zu, mean p %.3f", k,
                       mean_probability(e, k - 1));
    for (size_t k = 0; k <= e->top; k++)
        labels[k] = text[k];
    const qkv_image_sheet sheet = {.images = images, .labels = labels, .count = e->top + 1,
                                   .columns = SHEET_ACROSS};
    qkv_images_size(&sheet, SHEET_SIDE, &width, &height);
    qkv_status status = qkv_drawing_create(out, e->c.ctx, width, height);
    if (status)
        return status;
    qkv_draw_images(*out, NULL, &sheet);
    return QKV_OK;
}

static void put_expected(qkv_json_writer *w, const expected_codes *e)
{
    size_t columns = e->c.columns;
    qkv_json_begin_object(w, NULL);
    qkv_json_put_int(w, "rows", (int64_t)e->c.rows);
    qkv_json_put_int(w, "columns", (int64_t)columns);
    qkv_json_put_int(w, "top", (int64_t)e->top);
    qkv_json_begin_array(w, "positions");
    for (size_t i = 0; i < e->c.places; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "row", (int64_t)(i / columns));
        qkv_json_put_int(w, "column", (int64_t)(i % columns));
        qkv_json_put_int(w, "code", e->c.grid[i]);
        qkv_json_put_real(w, "p", e->own[i]);
        qkv_json_put_int(w, "rank", (int64_t)e->rank[i] + 1);
        qkv_json_put_float(w, "entropy", e->entropy[i]);
        qkv_json_begin_array(w, "next");
        for (size_t k = 0; k < e->top; k++) {
            qkv_json_begin_object(w, NULL);
            qkv_json_put_int(w, "code", e->next[i * e->top + k]);
            qkv_json_put_real(w, "p", e->p[i * e->top + k]);
            qkv_json_end_object(w);
        }
        qkv_json_end_array(w);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

static qkv_status panel_next(const expected_codes *e, const qkv_image *decoded)
{
    qkv_image images[QKV_SAMPLE_NEXT + 1] = {*decoded};
    qkv_drawing *d = NULL;
    qkv_status status = QKV_OK;
    for (size_t k = 0; k < e->top && !status; k++)
        status = decode_candidates(e, k, &images[k + 1]);
    if (!status)
        status = draw_candidates(e, images, &d);
    for (size_t k = 1; k <= e->top; k++)
        qkv_image_free(&images[k], e->c.ctx);
    if (status)
        return status;
    qkv_json_writer w;
    qkv_json_writer_init(&w, e->c.ctx, -1);
    put_expected(&w, e);
    return qkv__look_add_panel(
        e->c.l, "prior-next", "The codes that the prior expected",
        "The model's own distribution at every position, given the codes before it. Each patch is "
        "decoded among the image's own codes. The first image is the image itself; of each other "
        "one, every patch is what the code of that rank makes there.", d, &w);
}

/* ---- entropy --------------------------------------------------------------------------------- */

static qkv_status draw_entropy(const expected_codes *e, const qkv_image *decoded,
                               qkv_drawing **out)
{
    const char *const titles[] = {"entropy of the next code", "-log2 p of the code"};
    const float *const values[] = {e->entropy, e->bits};
    double width, height, most = 0;
    for (size_t i = 0; i < e->c.places; i++)
        most = fmax(most, fmax((double)e->entropy[i], (double)e->bits[i]));
    qkv_heat_map map = {.rows = e->c.rows, .columns = e->c.columns, .title = titles[0],
                        .square = true, .beneath = decoded, .max = most > 0 ? most : 1,
                        .transparency = 0.3, .numbers = true, .decimals = 1};
    qkv_heat_size(&map, fmax(8, MAP_SIDE / (double)map.columns), &width, &height);
    qkv_status status = qkv_drawing_create(out, e->c.ctx, 2 * width, height);
    if (status)
        return status;
    for (size_t i = 0; i < 2; i++) {
        map.title = titles[i];
        map.values = values[i];
        map.key = i ? "surprise" : "entropy";
        qkv_draw_heat(*out, &(qkv_frame){(double)i * width, 0, width, height}, &map);
    }
    return QKV_OK;
}

static void put_bits(qkv_json_writer *w, const char *name, const expected_codes *e,
                     const float *values)
{
    qkv_json_begin_array(w, name);
    for (size_t i = 0; i < e->c.rows; i++) {
        qkv_json_begin_array(w, NULL);
        for (size_t k = 0; k < e->c.columns; k++)
            qkv_json_put_float(w, NULL, values[i * e->c.columns + k]);
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

static qkv_status panel_entropy(const expected_codes *e, const qkv_image *decoded)
{
    qkv_drawing *d;
    qkv_json_writer w;
    char note[320];
    qkv_status status = draw_entropy(e, decoded, &d);
    if (status)
        return status;
    (void)snprintf(note, sizeof note, "How unsure the prior was before each code, and how much the "
                   "image's code surprised it, in bits; all %zu codes alike would be %.2f. Means: "
                   "%.2f and %.2f bits per code.", e->c.config->codes,
                   log2((double)e->c.config->codes), e->mean_entropy, e->mean_bits);
    qkv_json_writer_init(&w, e->c.ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_real(&w, "bits_per_code", e->mean_bits);
    qkv_json_put_real(&w, "mean_entropy", e->mean_entropy);
    put_bits(&w, "entropy", e, e->entropy);
    put_bits(&w, "bits", e, e->bits);
    qkv_json_end_object(&w);
    return qkv__look_add_panel(e->c.l, "prior-entropy", "Where the prior was unsure", note, d, &w);
}

static qkv_status panels_prior(qkv__looking *l)
{
    const qkv_image *decoded = &l->out->images[l->out->images_count - 1].image;
    expected_codes e;
    qkv_status status = expect_codes(&e, l);
    if (!status)
        status = qkv__look_codes_grid(&e.c, decoded);
    if (!status && e.top)
        status = panel_next(&e, decoded);
    if (!status)
        status = panel_entropy(&e, decoded);
    free_expected(&e);
    return status;
}

const qkv__look_kind qkv__look_prior = {
    .can = QKV_CAN_SAMPLE_CODES, .final_norm = true, .predicting = "h",
    .attentions = {{"h", "attn", 0, 0, true}}, .word = prior_word, .prepare = prepare_prior,
    .run = run_prior, .predict = predict_prior, .panels = panels_prior, .patch = &qkv__patch_prior};
