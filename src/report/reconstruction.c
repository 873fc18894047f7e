/* reconstruction.c - the panel "reconstruction": what a masked autoencoder saw, what it made
 * of it, and how far each patch is from the image. */
#include <math.h>
#include <string.h>

#include "report/over.h"
#include "report/patches.h"
#include "qkv/mae.h"

enum { PICTURES = 4 };

typedef struct {
    size_t side, patch;  /* patches in a row; pixels of one */
    float *error;        /* (side * side) mean square of differences, values in [0, 1] */
    float *masked_error; /* the same, NaN where the patch was visible */
    bool *visible;       /* (side * side) */
    double sum;          /* of the masked patches' errors */
    size_t masked;
} reconstruction;

static double patch_error(const qkv_image *a, const qkv_image *b, const reconstruction *r,
                          size_t at)
{
    size_t C = a->channels, n = r->patch * r->patch * C;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        size_t y = at / r->side * r->patch + i / C / r->patch;
        size_t x = at % r->side * r->patch + i / C % r->patch;
        double d = ((double)a->data[(y * a->width + x) * C + i % C] -
                    (double)b->data[(y * a->width + x) * C + i % C]) / 255;
        sum += d * d;
    }
    return sum / (double)n;
}

static qkv_status measure_patches(reconstruction *r, const qkv_look *l)
{
    const qkv_look_axis *seen = &l->axes[0];
    size_t n = r->side * r->side;
    r->error = qkv_calloc(l->ctx, n, sizeof *r->error);
    r->masked_error = qkv_calloc(l->ctx, n, sizeof *r->masked_error);
    r->visible = qkv_calloc(l->ctx, n, sizeof *r->visible);
    if (!r->error || !r->masked_error || !r->visible)
        return QKV_E_MEMORY;
    for (size_t i = seen->lead; i < seen->count; i++)
        r->visible[seen->cells ? (size_t)seen->cells[i - seen->lead] : i - seen->lead] = true;
    for (size_t i = 0; i < n; i++) {
        double error = patch_error(&l->images[0].image, &l->images[2].image, r, i);
        r->error[i] = (float)error;
        r->masked_error[i] = r->visible[i] ? NAN : (float)error;
        r->masked += !r->visible[i];
        r->sum += r->visible[i] ? 0 : error;
    }
    return QKV_OK;
}

/* The model's output, with what was visible in its place. */
static qkv_status paste(qkv_image *out, const qkv_look *l, const reconstruction *r)
{
    const qkv_image *input = &l->images[0].image, *filled = &l->images[2].image;
    size_t C = input->channels;
    qkv_status status = qkv_image_create(out, l->ctx, input->width, input->height, C);
    for (size_t i = 0; i < input->width * input->height && !status; i++) {
        size_t at = i / input->width / r->patch * r->side + i % input->width / r->patch;
        const qkv_image *from = r->visible[at] ? input : filled;
        memcpy(out->data + i * C, from->data + i * C, C);
    }
    return status;
}

static qkv_status draw_reconstruction(const reconstruction *r, const qkv_look *l,
                                      qkv_drawing **out)
{
    enum { STEP = QKV__OVER_SIDE + 16 };
    static const char *const titles[] = {"What the model saw", "What it made of it",
                                         "Both together", "The image"};
    qkv_image pasted = {0};
    qkv_status status = paste(&pasted, l, r);
    if (!status)
        status = qkv_drawing_create(out, l->ctx, 2 * STEP + QKV__OVER_ROOM + 8,
                                    2 * (STEP + QKV__OVER_TITLE));
    const qkv_image *const pictures[PICTURES] = {&l->images[1].image, &l->images[2].image, &pasted,
                                                 &l->images[0].image};
    for (size_t i = 0; i < PICTURES && !status; i++)
        qkv__look_draw_picture(*out, (double)(i % 2 * STEP),
                               (double)(i / 2 * (STEP + QKV__OVER_TITLE)), titles[i], pictures[i],
                               NULL);
    if (!status) {
        const qkv__look_over map = {.title = "Error of each masked patch",
                                    .picture = &l->images[0].image, .values = r->masked_error,
                                    .rows = r->side, .columns = r->side, .key = "error"};
        qkv__look_draw_over(*out, 2 * STEP, 0, &map, NULL);
        status = qkv_drawing_status(*out);
    }
    qkv_image_free(&pasted, l->ctx);
    return status;
}

static void put_reconstruction(qkv_json_writer *w, const reconstruction *r)
{
    size_t n = r->side * r->side;
    double mean = r->masked ? r->sum / (double)r->masked : 0;
    qkv_json_begin_object(w, NULL);
    qkv_json_put_int(w, "rows", (int64_t)r->side);
    qkv_json_put_int(w, "columns", (int64_t)r->side);
    qkv_json_begin_array(w, "visible");
    for (size_t i = 0; i < n; i++)
        qkv_json_put_bool(w, NULL, r->visible[i]);
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "error");
    for (size_t i = 0; i < n; i++)
        qkv_json_put_float(w, NULL, r->error[i]);
    qkv_json_end_array(w);
    qkv_json_put_real(w, "masked_error", mean);
    if (mean > 0)
        qkv_json_put_real(w, "psnr", -10 * log10(mean));
    qkv_json_end_object(w);
}

qkv_status qkv__look_reconstruction(qkv__looking *l)
{
    const qkv_mae_config *c = qkv_model_config(l->p->model);
    reconstruction r = {.side = c->trunk.image / c->trunk.patch, .patch = c->trunk.patch};
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    qkv_status status = measure_patches(&r, l->out);
    if (!status)
        status = draw_reconstruction(&r, l->out, &d);
    if (!status) {
        qkv_json_writer_init(&w, l->p->ctx, -1);
        put_reconstruction(&w, &r);
        status = qkv__look_add_panel(
            l, "reconstruction", "Masked, filled in, original",
            "The error of a patch is the mean square of its differences from the image, values in "
            "0 to 1. Training measures masked patches alone; what the model makes of visible ones "
            "is of no use.", d, &w);
    } else {
        qkv_drawing_destroy(d);
    }
    qkv_free(l->p->ctx, r.error);
    qkv_free(l->p->ctx, r.masked_error);
    qkv_free(l->p->ctx, r.visible);
    return status;
}
