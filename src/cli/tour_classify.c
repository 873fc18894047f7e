/* tour_classify.c - a chapter of the tour: a compact transformer tells the classes of pictures,
 * beside the nearest picture that it learnt from. */
#include <stdio.h>
#include <string.h>

#include "cli/tour_pictures.h"
#include "qkv/hub.h"
#include "qkv/recognize.h"

enum { BATCH = 32, SHIFT = 3, COLUMNS = 12, LISTED = 9 };
static const double SMOOTHING = 0.1, RATE = 1e-3, DECAY = 0.05;

/* What so many seconds are enough for, on two Zen 4 cores. */
static const struct {
    double seconds;
    size_t width, layers, heads, channels;
} sizes[] = {{60, 128, 4, 4, 64}, {0, 64, 2, 2, 32}};

typedef struct {
    tour *t;
    qkv_context *ctx;
    tour_pictures p;
    qkv_model *model;
    tour_training training;
    size_t classes;
    size_t *numbers; /* 0, 1, .. of the held-out pictures */
    qkv_real *probs; /* (held out, classes) */
} chapter;

/* ---- learning ----------------------------------------------------------------------------- */

static qkv_status label(chapter *h)
{
    const char **names = qkv__calloc(h->ctx, h->classes, sizeof *names);
    for (size_t i = 0; names && i < h->classes; i++)
        names[i] = qkv_pixels_class_name(h->p.train, i);
    qkv_status status = names ? qkv_model_set_labels(h->model, names, h->classes) : QKV_E_MEMORY;
    qkv__free(h->ctx, names);
    return status;
}

static qkv_status make_model(chapter *h)
{
    qkv_vit_config c;
    size_t i = 0;
    double effort = tour_pictures_effort(h->t);
    while (effort < sizes[i].seconds)
        i++;
    qkv_option_defaults(qkv_model_type_config(&qkv_cct_type), &c);
    c.trunk.image = TOUR_SIDE;
    c.trunk.channels = 3;
    c.trunk.width = sizes[i].width;
    c.trunk.layers = sizes[i].layers;
    c.trunk.heads = sizes[i].heads;
    c.conv_channels = sizes[i].channels;
    c.classes = h->classes;
    qkv_status status = qkv_model_create(&h->model, h->ctx, &qkv_cct_type, &c);
    if (!status)
        status = qkv_model_init(h->model, h->t->page->c->common.seed);
    if (status)
        return status;
    tour_pictures_format(&h->p, h->model);
    page_text(h->t->page, "The model: %zu convolutions make %d x %d tokens of a picture, %zu "
                          "blocks of %zu channels follow, %zu parameters.",
              c.convolutions, TOUR_SIDE >> c.convolutions, TOUR_SIDE >> c.convolutions,
              c.trunk.layers, c.trunk.width, qkv_params_elements(qkv_model_params(h->model)));
    return label(h);
}

static qkv_status learn(chapter *h)
{
    const qkv_recognize_options o = {.smoothing = SMOOTHING,
                                     .augment = {.crop_pad = SHIFT, .flip = true}};
    qkv_task task = {0};
    cli_training s;
    cli_training_defaults(&s);
    s.loop.batch = BATCH;
    s.schedule.lr = RATE;
    s.optimizer.weight_decay = DECAY;
    qkv_status status = qkv_task_recognize(&task, h->model, h->p.train, NULL, &o,
                                           h->t->page->c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir, tour_pictures_time(h->t));
    qkv_task_destroy(&task);
    return status;
}

/* ---- judging ------------------------------------------------------------------------------ */

/* The picture of the training set with the smallest squared difference. */
static size_t nearest(const chapter *h, const uint8_t *picture)
{
    size_t best = 0, n = (size_t)TOUR_SIDE * TOUR_SIDE * 3;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < qkv_pixels_count(h->p.train); i++) {
        const uint8_t *other = qkv_pixels_data(h->p.train, i);
        uint32_t sum = 0;
        for (size_t k = 0; k < n; k++) {
            int32_t d = (int32_t)picture[k] - (int32_t)other[k];
            sum += (uint32_t)(d * d);
        }
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

typedef struct {
    double commonest, nearest, model; /* shares that are right */
} scores;

static size_t most_likely(const chapter *h, size_t i)
{
    size_t best = 0;
    for (size_t k = 1; k < h->classes; k++)
        if (h->probs[i * h->classes + k] > h->probs[i * h->classes + best])
            best = k;
    return best;
}

/* The class that most training pictures have. */
static int32_t commonest(const chapter *h)
{
    size_t most = 0;
    int32_t best = 0;
    for (size_t k = 0; k < h->classes; k++) {
        size_t count = 0;
        for (size_t i = 0; i < qkv_pixels_count(h->p.train); i++)
            count += qkv_pixels_class(h->p.train, i) == (int32_t)k;
        if (count > most) {
            most = count;
            best = (int32_t)k;
        }
    }
    return best;
}

static scores judge(const chapter *h)
{
    scores s = {0};
    size_t n = qkv_pixels_count(h->p.valid);
    int32_t common = commonest(h);
    for (size_t i = 0; i < n; i++) {
        int32_t class_ = qkv_pixels_class(h->p.valid, i);
        size_t near = nearest(h, qkv_pixels_data(h->p.valid, i));
        s.commonest += class_ == common;
        s.nearest += class_ == qkv_pixels_class(h->p.train, near);
        s.model += class_ == (int32_t)most_likely(h, i);
    }
    s.commonest /= (double)n;
    s.nearest /= (double)n;
    s.model /= (double)n;
    return s;
}

/* ---- the report --------------------------------------------------------------------------- */

/* A row for each class: the pictures that the model puts there, wrong ones framed red. */
static qkv_status show_sheet(const chapter *h)
{
    static const uint8_t right[3] = {40, 170, 70}, wrong[3] = {225, 30, 40};
    tour_sheet sheet;
    qkv__str caption;
    qkv_status status = tour_sheet_create(&sheet, h->ctx, h->classes, COLUMNS, TOUR_SIDE);
    qkv__str_init(&caption, h->ctx);
    qkv__str_puts(&caption, "held-out pictures, in the row of the class that the model says; a "
                            "green frame is right, a red one wrong. The rows:");
    for (size_t k = 0; k < h->classes && !status; k++) {
        size_t column = 0;
        qkv__str_printf(&caption, "%s %s", k ? "," : "", qkv_pixels_class_name(h->p.valid, k));
        for (size_t i = 0; i < qkv_pixels_count(h->p.valid) && column < COLUMNS; i++)
            if (most_likely(h, i) == k)
                tour_sheet_put(&sheet, k, column++, qkv_pixels_data(h->p.valid, i),
                               qkv_pixels_class(h->p.valid, i) == (int32_t)k ? right : wrong);
    }
    if (!status && caption.failed)
        status = QKV_E_MEMORY;
    if (!status)
        status = tour_sheet_write(&sheet, h->t, "said.png", caption.data);
    qkv__str_free(&caption);
    tour_sheet_free(&sheet);
    return status;
}

/* Some pictures with the two likeliest classes. */
static void list(const chapter *h)
{
    const page *p = h->t->page;
    size_t n = qkv_pixels_count(h->p.valid);
    page_space(p);
    page_line(p, "%-12s %-12s %s", "picture", "is of", "the model says");
    for (size_t j = 0; j < LISTED && j < n; j++) {
        size_t i = (2 * j + 1) * n / (2 * LISTED), first = most_likely(h, i), second = first == 0;
        const qkv_real *probs = h->probs + i * h->classes;
        const char *name = strrchr(qkv_pixels_name(h->p.valid, i), '/');
        for (size_t k = 0; k < h->classes; k++)
            if (k != first && probs[k] > probs[second])
                second = k;
        page_line(p, "%-12.12s %-12.12s %.12s %.0f%%, %.12s %.0f%%",
                  name ? name + 1 : qkv_pixels_name(h->p.valid, i),
                  qkv_pixels_class_name(h->p.valid, (size_t)qkv_pixels_class(h->p.valid, i)),
                  qkv_pixels_class_name(h->p.valid, first), 100 * (double)probs[first],
                  qkv_pixels_class_name(h->p.valid, second), 100 * (double)probs[second]);
    }
}

static void show_scores(const page *p, const scores *s)
{
    page_text(p, "Right, of the held-out pictures:");
    page_space(p);
    page_line(p, "always the commonest class           %5.1f%%", 100 * s->commonest);
    page_line(p, "as the nearest training picture is   %5.1f%%", 100 * s->nearest);
    page_line(p, "this transformer                     %5.1f%%", 100 * s->model);
    page_number(p, "commonest", s->commonest);
    page_number(p, "nearest", s->nearest);
    page_number(p, "accuracy", s->model);
}

static qkv_status report(chapter *h)
{
    const page *p = h->t->page;
    size_t n = qkv_pixels_count(h->p.valid);
    h->numbers = qkv__calloc(h->ctx, n, sizeof *h->numbers);
    h->probs = qkv__calloc(h->ctx, n * h->classes, sizeof *h->probs);
    if (!h->numbers || !h->probs)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        h->numbers[i] = i;
    qkv_status status = qkv_recognize(h->model, p->t, h->p.valid, h->numbers, n, h->probs);
    if (status)
        return status;
    scores s = judge(h);
    tour_training_show(&h->training, p, "Training loss over the time:");
    show_scores(p, &s);
    list(h);
    status = show_sheet(h);
    if (!status)
        status = tour_picture_write(h->t, "picture.png", qkv_pixels_data(h->p.valid, 0),
                                    TOUR_SIDE);
    if (s.model > s.nearest)
        page_text(p, "What was learnt: what pictures of a class have in common, wherever it is in "
                     "the picture; comparing pixels does not find it.");
    else
        page_text(p, "What was learnt: no more than comparing pixels tells. The time was short; "
                     "give it more with --minutes.");
    page_text(p, "Ask it yourself: qkv classify %s %s/picture.png", h->t->dir, h->t->dir);
    return status;
}

qkv_status tour_classify(tour *t)
{
    chapter h = {.t = t, .ctx = t->page->c->ctx};
    qkv_status status = tour_pictures_read(&h.p, t, TOUR_SIDE, UINT8_MAX);
    h.classes = status ? 0 : qkv_pixels_classes(h.p.train);
    if (!status && h.classes < 2) {
        page_text(t->page, "The pictures of %s have no classes to tell: none is learnt.",
                  t->pictures);
    } else if (!status) {
        tour_pictures_tell(&h.p, t);
        status = make_model(&h);
        if (!status)
            status = learn(&h);
        if (!status && !h.training.result.stopped)
            status = report(&h);
    }
    qkv__free(h.ctx, h.numbers);
    qkv__free(h.ctx, h.probs);
    qkv_model_destroy(h.model);
    tour_pictures_close(&h.p);
    return status;
}
