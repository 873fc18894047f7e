/* classify.c - a chapter of the tour: a compact transformer tells the classes of images,
 * beside the nearest image that it learnt from. */
#include <string.h>

#include "tour/images.h"

enum { SHIFT = 3, COLUMNS = 12, LISTED = 9 };
static const double LONG = 60; /* seconds that the larger model needs */
static const double SMOOTHING = 0.1;

/* ---- learning ----------------------------------------------------------------------------- */

static qkv_status classify_make_model(tour_pupil *h)
{
    qkv_vit_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_cct_type()), &c);
    tour_trunk_set(&c.trunk, tour_images_effort(h->t) < LONG ? 2 : 4);
    c.conv_channels = c.trunk.width / 2;
    c.classes = qkv_pixels_classes(h->p.train);
    qkv_status status = tour_pupil_create(h, qkv_cct_type(), &c);
    if (status)
        return status;
    tour_images_format(&h->p, h->model);
    page_text(h->t->page, "The model: %zu convolutions make %d x %d tokens of an image, %zu "
                          "blocks of %zu channels follow, %zu parameters.",
              c.convolutions, TOUR_SIDE >> c.convolutions, TOUR_SIDE >> c.convolutions,
              c.trunk.layers, c.trunk.width, qkv_params_elements(qkv_model_params(h->model)));
    return qkv_model_set_labels(h->model, qkv_pixels_class_names(h->p.train), c.classes);
}

static qkv_status classify_make_task(qkv_task *task, const tour_pupil *h)
{
    const qkv_classify_images_options o = {.smoothing = SMOOTHING,
                                           .augment = {.crop_pad = SHIFT, .flip = true}};
    return qkv_task_classify_images(task, h->model, h->p.train, NULL, &o,
                                    h->t->page->c->common.seed);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* The image of the training set with the smallest squared difference. */
static size_t classify_nearest(const qkv_pixels *train, const uint8_t *image)
{
    size_t best = 0, n = (size_t)TOUR_SIDE * TOUR_SIDE * 3;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < qkv_pixels_count(train); i++) {
        const uint8_t *other = qkv_pixels_data(train, i);
        uint32_t sum = 0;
        for (size_t k = 0; k < n; k++) {
            int32_t d = (int32_t)image[k] - (int32_t)other[k];
            sum += (uint32_t)(d * d);
        }
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

/* The class that most training images have. */
static int32_t commonest(const qkv_pixels *train)
{
    size_t most = 0;
    int32_t best = 0;
    for (size_t k = 0; k < qkv_pixels_classes(train); k++) {
        size_t count = 0;
        for (size_t i = 0; i < qkv_pixels_count(train); i++)
            count += qkv_pixels_class(train, i) == (int32_t)k;
        if (count > most) {
            most = count;
            best = (int32_t)k;
        }
    }
    return best;
}

/* What the model says of the held-out images. */
typedef struct {
    size_t *numbers; /* 0, 1, .. of them */
    qkv_real *probs; /* (held out, classes) */
    size_t classes;
} answers;

static qkv_status ask(answers *a, const tour_pupil *h)
{
    size_t n = qkv_pixels_count(h->p.valid);
    qkv_context *ctx = h->t->page->c->ctx;
    a->classes = qkv_pixels_classes(h->p.train);
    a->numbers = qkv_calloc(ctx, n, sizeof *a->numbers);
    a->probs = qkv_calloc(ctx, n * a->classes, sizeof *a->probs);
    if (!a->numbers || !a->probs)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        a->numbers[i] = i;
    return qkv_classify_images(h->model, h->t->page->t, h->p.valid, a->numbers, n, a->probs);
}

static size_t most_likely(const answers *a, size_t i)
{
    size_t best = 0;
    for (size_t k = 1; k < a->classes; k++)
        if (a->probs[i * a->classes + k] > a->probs[i * a->classes + best])
            best = k;
    return best;
}

typedef struct {
    double commonest, nearest, model; /* shares that are right */
} scores;

static scores classify_compare(const answers *a, const tour_images *p)
{
    scores s = {0};
    size_t n = qkv_pixels_count(p->valid);
    int32_t common = commonest(p->train);
    for (size_t i = 0; i < n; i++) {
        int32_t class_ = qkv_pixels_class(p->valid, i);
        size_t near = classify_nearest(p->train, qkv_pixels_data(p->valid, i));
        s.commonest += class_ == common;
        s.nearest += class_ == qkv_pixels_class(p->train, near);
        s.model += class_ == (int32_t)most_likely(a, i);
    }
    s.commonest /= (double)n;
    s.nearest /= (double)n;
    s.model /= (double)n;
    return s;
}

/* ---- the report --------------------------------------------------------------------------- */

static void show_scores(const page *p, const scores *s)
{
    page_text(p, "Right, of the held-out images:");
    page_space(p);
    page_line(p, "always the commonest class           %5.1f%%", 100 * s->commonest);
    page_line(p, "as the nearest training image is   %5.1f%%", 100 * s->nearest);
    page_line(p, "this transformer                     %5.1f%%", 100 * s->model);
    page_number(p, "commonest", s->commonest);
    page_number(p, "nearest", s->nearest);
    page_number(p, "accuracy", s->model);
}

/* Some images with the two likeliest classes. */
static void classify_list(const page *p, const answers *a, const qkv_pixels *pixels)
{
    size_t n = qkv_pixels_count(pixels);
    page_space(p);
    page_line(p, "%-12s %-12s %s", "image", "is of", "the model says");
    for (size_t j = 0; j < LISTED && j < n; j++) {
        size_t i = (2 * j + 1) * n / (2 * LISTED), first = most_likely(a, i), second = first == 0;
        const qkv_real *probs = a->probs + i * a->classes;
        const char *name = strrchr(qkv_pixels_name(pixels, i), '/');
        for (size_t k = 0; k < a->classes; k++)
            if (k != first && probs[k] > probs[second])
                second = k;
        page_line(p, "%-12.12s %-12.12s %.12s %.0f%%, %.12s %.0f%%",
                  name ? name + 1 : qkv_pixels_name(pixels, i),
                  qkv_pixels_class_name(pixels, (size_t)qkv_pixels_class(pixels, i)),
                  qkv_pixels_class_name(pixels, first), 100 * (double)probs[first],
                  qkv_pixels_class_name(pixels, second), 100 * (double)probs[second]);
    }
}

/* A row for each class: the images that the model puts there, wrong ones framed red. */
static qkv_status show_sheet(const tour *t, const answers *a, const qkv_pixels *pixels)
{
    static const uint8_t right[3] = {40, 170, 70}, wrong[3] = {225, 30, 40};
    qkv_context *ctx = t->page->c->ctx;
    tour_sheet sheet;
    qkv_str caption;
    qkv_status status = tour_sheet_create(&sheet, ctx, a->classes, COLUMNS, TOUR_SIDE);
    qkv_str_init(&caption, ctx);
    qkv_str_puts(&caption, "held-out images, in the row of the class that the model says; a "
                            "green frame is right, a red one wrong. The rows:");
    for (size_t k = 0; k < a->classes && !status; k++) {
        size_t column = 0;
        qkv_str_printf(&caption, "%s %s", k ? "," : "", qkv_pixels_class_name(pixels, k));
        for (size_t i = 0; i < qkv_pixels_count(pixels) && column < COLUMNS; i++)
            if (most_likely(a, i) == k)
                tour_sheet_put(&sheet, k, column++, qkv_pixels_data(pixels, i),
                               qkv_pixels_class(pixels, i) == (int32_t)k ? right : wrong);
    }
    if (!status && caption.failed)
        status = QKV_E_MEMORY;
    if (!status)
        status = tour_sheet_write(&sheet, t, "said.png", caption.data);
    qkv_str_free(&caption);
    tour_sheet_free(&sheet);
    return status;
}

static qkv_status tour_classify_evaluate(const tour_pupil *h, bool *better)
{
    const page *p = h->t->page;
    answers a = {0};
    qkv_status status = ask(&a, h);
    if (!status) {
        scores s = classify_compare(&a, &h->p);
        *better = s.model > s.nearest;
        show_scores(p, &s);
        classify_list(p, &a, h->p.valid);
        status = show_sheet(h->t, &a, h->p.valid);
    }
    qkv_free(p->c->ctx, a.numbers);
    qkv_free(p->c->ctx, a.probs);
    return status;
}

/* ---- the chapter -------------------------------------------------------------------------- */

static const tour_image_chapter chapter = {
    .make_model = classify_make_model, .make_task = classify_make_task,
    .evaluate = tour_classify_evaluate, .batch = 32, .rate = 1e-3,
    .learnt = "what images of a class have in common, wherever it is in the image; comparing "
              "pixels does not find it",
    .not_learnt = "no more than comparing pixels tells",
    .verb = "classify", .options = "",
};

qkv_status tour_classify(tour *t)
{
    tour_pupil h = {.t = t};
    qkv_status status = tour_images_read(&h.p, t, TOUR_SIDE, UINT8_MAX);
    if (!status && qkv_pixels_classes(h.p.train) < 2) {
        page_text(t->page, "The images of %s have no classes to tell: none is learnt.",
                  t->images);
    } else if (!status) {
        tour_images_tell(&h.p, t);
        status = tour_image_chapter_train(&chapter, &h);
    }
    tour_images_close(&h.p);
    return status;
}
