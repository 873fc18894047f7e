/* segments.c - the panels of a segmenter: "segments", the classes over the image with their
 * shares and, where the truth is given, their IoU; "source", what one pixel's class came from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/image.h"
#include "report/over.h"
#include "report/patches.h"
#include "pipeline/masks.h"
#include "qkv/image_file.h"
#include "qkv/ops.h"
#include "qkv/painting.h"
#include "qkv/segment.h"

enum { RGB = 3, LINE = 20, MOST_CELLS = 64 };

/* At the model's size, (side, side), as `qkv eval` measures. */
typedef struct {
    qkv__look_reading r;
    size_t side, classes;
    qkv_image image;  /* the input */
    qkv_image small;  /* in the model's size */
    uint8_t *guess, *truth; /* truth NULL: not given */
    size_t guessed[QKV_MASK_CLASSES], given[QKV_MASK_CLASSES], both[QKV_MASK_CLASSES];
} segments;

static void free_segments(segments *s, qkv_context *ctx)
{
    qkv_image_free(&s->image, ctx);
    qkv_image_free(&s->small, ctx);
    qkv_free(ctx, s->guess);
    qkv_free(ctx, s->truth);
}

static qkv_status read_truth(segments *s, qkv__looking *l)
{
    qkv_context *ctx = l->p->ctx;
    qkv_image_options o = qkv_image_defaults();
    qkv_mask_palette palette;
    qkv_image mask = {0};
    o.channels = 0;
    qkv_status status = qkv__masks_of_model(&palette, l->p->model);
    if (!status)
        status = qkv_image_read(&mask, ctx, l->o.truth, &o);
    if (!status && (mask.width != s->image.width || mask.height != s->image.height))
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: %zu x %zu pixels expected, as the image has, "
                          "found %zu x %zu", l->o.truth, s->image.width, s->image.height,
                          mask.width, mask.height);
    s->truth = status ? NULL : qkv_malloc(ctx, s->side * s->side);
    if (!status)
        status = s->truth ? qkv_mask_classes(s->truth, ctx, &mask, l->o.truth, &palette, s->side)
                          : QKV_E_MEMORY;
    qkv_image_free(&mask, ctx);
    return status;
}

static qkv_status make_segments(segments *s, qkv__looking *l)
{
    qkv_context *ctx = l->p->ctx;
    *s = (segments){.classes =
                        ((const qkv_pixelwise_config *)qkv_model_config(l->p->model))->outputs};
    if (!qkv__look_reading_of(&s->r, l->p))
        return QKV_E_UNSUPPORTED;
    s->side = s->r.format.height;
    qkv_status status = qkv__image_load(&s->image, ctx, &l->in->image);
    if (!status)
        status = qkv__look_reading_input(&s->r, l, &s->small);
    s->guess = status ? NULL : qkv_malloc(ctx, s->side * s->side);
    if (!status)
        status = s->guess ? qkv_segment(s->guess, l->p->model, l->p->tape, &s->small)
                          : QKV_E_MEMORY;
    if (!status && l->o.truth)
        status = read_truth(s, l);
    for (size_t i = 0; i < s->side * s->side && !status; i++) {
        s->guessed[s->guess[i]]++;
        if (!s->truth)
            continue;
        s->given[s->truth[i]]++;
        s->both[s->guess[i]] += s->guess[i] == s->truth[i];
    }
    return status;
}

/* NaN: the class is neither in the truth nor in the answer. */
static double class_iou(const segments *s, size_t k)
{
    size_t either = s->guessed[k] + s->given[k] - s->both[k];
    return either ? (double)s->both[k] / (double)either : (double)NAN;
}

static double class_share_of(const segments *s, size_t count)
{
    return (double)count / (double)(s->side * s->side);
}

/* ---- classes over the image ------------------------------------------------------------------ */

/* Half the image's pixels, half the classes' colours. errors: wrong pixels alone are coloured. */
static qkv_status lay_over(qkv_image *out, qkv_context *ctx, const segments *s,
                           const uint8_t *classes, bool errors)
{
    qkv_status status = qkv_image_create(out, ctx, s->image.width, s->image.height, RGB);
    for (size_t i = 0; i < s->image.width * s->image.height && !status; i++) {
        size_t y = i / s->image.width * s->side / s->image.height;
        size_t x = i % s->image.width * s->side / s->image.width;
        size_t class_ = classes[y * s->side + x];
        bool shown = !errors || class_ != s->truth[y * s->side + x];
        uint8_t color[RGB];
        qkv_class_color(class_, color);
        for (size_t c = 0; c < RGB; c++) {
            int own = s->image.data[RGB * i + c], add = errors ? 0 : 3 * color[c];
            out->data[RGB * i + c] = (uint8_t)(!shown ? own / 2 + 127 : errors ? color[c]
                                                                             : (2 * own + add) / 5);
        }
    }
    return status;
}

/* Means over the classes that occur, as qkv_segment_evaluate. */
static void score_segments(const segments *s, double *miou, double *accuracy)
{
    double sum = 0, right = 0;
    size_t present = 0;
    for (size_t k = 0; k < s->classes; k++) {
        double iou = class_iou(s, k);
        sum += isnan(iou) ? 0 : iou;
        present += isnan(iou) ? 0 : 1;
        right += (double)s->both[k];
    }
    *miou = present ? sum / (double)present : 0;
    *accuracy = right / (double)(s->side * s->side);
}

static void draw_legend(qkv_drawing *d, const segments *s, qkv_pipeline *p, double top)
{
    double miou, accuracy;
    size_t line = 0;
    char text[96];
    for (size_t k = 0; k < s->classes; k++) {
        uint8_t color[RGB];
        double y = top + (double)(line * LINE);
        if (!s->guessed[k] && !s->given[k])
            continue;
        qkv_class_color(k, color);
        qkv__look_draw_swatch(d, 4, y, 14, color);
        (void)snprintf(text, sizeof text, "%.40s", qkv_pipeline_label(p, k));
        qkv_draw_text(d, 26, y + 12, text, NULL);
        (void)snprintf(text, sizeof text, "%.1f %%", 100 * class_share_of(s, s->guessed[k]));
        qkv_draw_text(d, 220, y + 12, text, &(qkv_text_style){.anchor = QKV_ANCHOR_END});
        if (s->truth) {
            (void)snprintf(text, sizeof text, "truth %.1f %%, IoU %.3f",
                           100 * class_share_of(s, s->given[k]), class_iou(s, k));
            qkv_draw_text(d, 236, y + 12, text, NULL);
        }
        line++;
    }
    score_segments(s, &miou, &accuracy);
    (void)snprintf(text, sizeof text, "mean IoU %.3f, %.1f %% of the pixels right", miou,
                   100 * accuracy);
    if (s->truth)
        qkv_draw_text(d, 236, top + (double)(line * LINE) + 12, text,
                      &(qkv_text_style){.bold = true});
}

static qkv_status draw_segments(const segments *s, qkv__looking *l, qkv_drawing **out)
{
    static const char *const titles[] = {"The image", "The model's classes", "The truth",
                                         "Wrong pixels"};
    enum { PICTURES = 4, STEP = QKV__OVER_SIDE + 16 };
    qkv_context *ctx = l->p->ctx;
    qkv_image laid[PICTURES] = {{0}};
    size_t lines = s->truth ? 1 : 0, pictures = s->truth ? PICTURES : 2;
    for (size_t k = 0; k < s->classes; k++)
        lines += s->guessed[k] || s->given[k];
    qkv_status status = lay_over(&laid[1], ctx, s, s->guess, false);
    if (!status && s->truth)
        status = lay_over(&laid[2], ctx, s, s->truth, false);
    if (!status && s->truth)
        status = lay_over(&laid[3], ctx, s, s->guess, true);
    double wide = (double)(pictures * STEP), top = QKV__OVER_SIDE + QKV__OVER_TITLE + 20;
    if (!status)
        status = qkv_drawing_create(out, ctx, wide, top + (double)(lines * LINE) + 8);
    for (size_t i = 0; i < pictures && !status; i++)
        qkv__look_draw_picture(*out, (double)(i * STEP), 0, titles[i],
                               i ? &laid[i] : &s->image, NULL);
    if (!status) {
        draw_legend(*out, s, l->p, top);
        status = qkv_drawing_status(*out);
    }
    for (size_t i = 0; i < PICTURES; i++)
        qkv_image_free(&laid[i], ctx);
    return status;
}

static void put_segments(qkv_json_writer *w, const segments *s, qkv_pipeline *p)
{
    double miou, accuracy;
    score_segments(s, &miou, &accuracy);
    qkv_json_begin_object(w, NULL);
    qkv_json_begin_array(w, "classes");
    for (size_t k = 0; k < s->classes; k++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "label", qkv_pipeline_label(p, k));
        qkv_json_put_real(w, "share", class_share_of(s, s->guessed[k]));
        if (s->truth) {
            qkv_json_put_real(w, "truth", class_share_of(s, s->given[k]));
            qkv_json_put_real(w, "iou", class_iou(s, k));
        }
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    if (s->truth) {
        qkv_json_put_real(w, "miou", miou);
        qkv_json_put_real(w, "accuracy", accuracy);
    }
    qkv_json_end_object(w);
}

static qkv_status add_segments(qkv__looking *l, const segments *s)
{
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    qkv_status status = draw_segments(s, l, &d);
    if (status) {
        qkv_drawing_destroy(d);
        return status;
    }
    qkv_json_writer_init(&w, l->p->ctx, -1);
    put_segments(&w, s, l->p);
    return qkv__look_add_panel(
        l, "segments", "Classes of the pixels",
        s->truth ? "Shares of the image, and intersection over union with the truth, both at the "
                   "model's size. Wrong pixels have the colour of the class that the model gave "
                   "them."
                 : "The classes laid over the image, and the share of it that each has.", d, &w);
}

/* ---- where one pixel's class came from ------------------------------------------------------- */

typedef struct {
    size_t x, y;        /* at the model's size */
    size_t row, column; /* of its patch */
    size_t cells;       /* in a row of `gradient` */
    float *attention, *rollout; /* (patches) */
    float *gradient;    /* (cells * cells) sum of |d logit / d pixel| */
} pixel_source;

static void free_source(pixel_source *x, qkv_context *ctx)
{
    qkv_free(ctx, x->attention);
    qkv_free(ctx, x->rollout);
    qkv_free(ctx, x->gradient);
}

/* The gradient of the pixel's logit with respect to the image, summed over channels and cells. */
static qkv_status trace_gradient(pixel_source *x, const segments *s, qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    size_t n = s->side, shape[] = {1, n, n, RGB}, k = s->guess[x->y * n + x->x];
    qkv_real *values = qkv_malloc(l->p->ctx, n * n * RGB * sizeof *values);
    if (!values)
        return QKV_E_MEMORY;
    qkv__look_reading_values(&s->r, s->small.data, values);
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, false);
    qkv_tensor *in = qkv_require_grad(t, qkv_tensor_from(t, values, 4, shape));
    qkv_free(l->p->ctx, values);
    qkv_tensor *y = qkv_pixelwise_forward(l->p->model, t, in);
    y = qkv_slice(t, qkv_slice(t, qkv_slice(t, y, 1, x->y, x->y + 1), 2, x->x, x->x + 1), 3, k,
                  k + 1);
    qkv_status status = qkv_tape_status(t);
    if (!status)
        status = qkv_backward_from(t, &(qkv_backward_args){.n = 1, .outputs = &y, .n_wrt = 1,
                                                           .wrt = &in});
    const qkv_real *g = status ? NULL : qkv_data(t, qkv_grad_of(t, in));
    for (size_t i = 0; i < n * n * RGB && g; i++)
        x->gradient[i / RGB / n * x->cells / n * x->cells + i / RGB % n * x->cells / n] +=
            (float)fabs((double)g[i]);
    status = g ? QKV_OK : status ? status : qkv_tape_status(t);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    return status;
}

static qkv_status trace(pixel_source *x, const segments *s, qkv__looking *l, size_t at_x,
                        size_t at_y)
{
    const qkv_look *out = l->out;
    size_t patches = s->r.side * s->r.side;
    *x = (pixel_source){.x = at_x * s->side / s->image.width,
                        .y = at_y * s->side / s->image.height,
                        .cells = s->side < MOST_CELLS ? s->side : MOST_CELLS};
    x->row = x->y / s->r.cell;
    x->column = x->x / s->r.cell;
    x->attention = qkv_calloc(l->p->ctx, patches, sizeof *x->attention);
    x->rollout = qkv_calloc(l->p->ctx, patches, sizeof *x->rollout);
    x->gradient = qkv_calloc(l->p->ctx, x->cells * x->cells, sizeof *x->gradient);
    if (!x->attention || !x->rollout || !x->gradient)
        return QKV_E_MEMORY;
    qkv_status status =
        qkv__look_patch_row(out, (int)out->attentions[0].layers - 1, x->row, x->column,
                                     x->attention);
    if (!status && out->attentions[0].rollout)
        status = qkv__look_patch_row(out, -1, x->row, x->column, x->rollout);
    return status ? status : trace_gradient(x, s, l);
}

static qkv_status draw_source(const pixel_source *x, const segments *s, qkv_context *ctx,
                              qkv_drawing **out)
{
    const qkv__look_over maps[] = {
        {.title = "Attention, last layer", .picture = &s->image,
         .values = x->attention, .rows = s->r.side, .columns = s->r.side, .key = "attention"},
        {.title = "Rollout through all layers", .picture = &s->image, .values = x->rollout,
         .rows = s->r.side, .columns = s->r.side, .key = "rollout"},
        {.title = "|d logit / d pixel|", .picture = &s->image, .values = x->gradient,
         .rows = x->cells, .columns = x->cells, .key = "gradient"}};
    enum { MAPS = sizeof maps / sizeof *maps };
    qkv_status status = qkv_drawing_create(out, ctx, MAPS * QKV__OVER_ROOM,
                                           QKV__OVER_SIDE + QKV__OVER_TITLE + 16);
    for (size_t i = 0; i < MAPS && !status; i++) {
        qkv_frame f;
        qkv__look_draw_over(*out, (double)(i * QKV__OVER_ROOM), 0, &maps[i], &f);
        qkv_draw_circle(*out, f.x + f.width * ((double)x->x + 0.5) / (double)s->side,
                        f.y + f.height * ((double)x->y + 0.5) / (double)s->side, 5,
                        qkv_ink_none(), qkv_ink_of(QKV_INK_MARK));
        qkv_draw_name(*out, "the chosen pixel");
    }
    if (!status) {
        status = qkv_drawing_status(*out);
    }
    return status;
}

static void put_source_map(qkv_json_writer *w, const char *name, const float *values, size_t count)
{
    qkv_json_begin_array(w, name);
    for (size_t i = 0; i < count; i++)
        qkv_json_put_float(w, NULL, values[i]);
    qkv_json_end_array(w);
}

static qkv_status add_pixel_source(qkv__looking *l, const segments *s, size_t at_x, size_t at_y)
{
    pixel_source x;
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    char note[400];
    size_t patches = s->r.side * s->r.side;
    qkv_status status = trace(&x, s, l, at_x, at_y);
    if (!status)
        status = draw_source(&x, s, l->p->ctx, &d);
    if (status) {
        free_source(&x, l->p->ctx);
        qkv_drawing_destroy(d);
        return status;
    }
    const char *label = qkv_pipeline_label(l->p, s->guess[x.y * s->side + x.x]);
    qkv_json_writer_init(&w, l->p->ctx, -1);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "x", (int64_t)at_x);
    qkv_json_put_int(&w, "y", (int64_t)at_y);
    qkv_json_put_string(&w, "label", label);
    qkv_json_put_int(&w, "row", (int64_t)x.row);
    qkv_json_put_int(&w, "column", (int64_t)x.column);
    put_source_map(&w, "attention", x.attention, patches);
    put_source_map(&w, "rollout", x.rollout, patches);
    put_source_map(&w, "gradient", x.gradient, x.cells * x.cells);
    qkv_json_end_object(&w);
    (void)snprintf(note, sizeof note, "The pixel at %zu,%zu (marked; --pixel X,Y chooses) has "
                   "class %.40s. What its patch attends to, the mean of the heads; what flows to "
                   "it through all layers; and how strongly the class's logit there depends on "
                   "each pixel of the image.", at_x, at_y, label);
    free_source(&x, l->p->ctx);
    return qkv__look_add_panel(l, "source", "Where a pixel's class came from", note, d, &w);
}

qkv_status qkv__look_segments(qkv__looking *l)
{
    segments s;
    size_t x = 0, y = 0;
    qkv_status status = make_segments(&s, l);
    if (!status)
        status = qkv__look_pixel(l, l->o.pixel, "--pixel", &s.image, &x, &y);
    if (!status)
        status = add_segments(l, &s);
    if (!status)
        status = add_pixel_source(l, &s, x, y);
    free_segments(&s, l->p->ctx);
    return status;
}
