/* over.c - pictures with maps over them, as several panels draw them. */
#include <math.h>

#include "pipeline/image.h"
#include "report/over.h"
#include "qkv/chart.h"

qkv_status qkv__look_pixel(const qkv__looking *l, const char *text, const char *option,
                           const qkv_image *image, size_t *x, size_t *y)
{
    const char *at = text;
    *x = image->width / 2;
    *y = image->height / 2;
    if (!text || (qkv__image_place(&at, x, y) && !*at && *x < image->width &&
                  *y < image->height))
        return QKV_OK;
    return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: x,y in an image of %zu x %zu expected, found "
                    "%.60s", option, image->width, image->height, text);
}

qkv_status qkv__look_patch_row(const qkv_look *l, int layer, size_t row, size_t column,
                               float *weights)
{
    const qkv_look_axis *a = &l->axes[l->attentions[0].key];
    const qkv_look_choice c = {.layer = layer, .head = -1,
                               .position = a->lead + row * a->columns + column};
    double *all = qkv_calloc(l->ctx, a->count, sizeof *all);
    qkv_status status = all ? qkv_look_row(l, &c, all) : QKV_E_MEMORY;
    for (size_t i = a->lead; i < a->count && !status; i++)
        weights[i - a->lead] = (float)all[i];
    qkv_free(l->ctx, all);
    return status;
}

/* The picture's frame: its shape, within QKV__OVER_SIDE. */
static qkv_frame picture_frame(double x, double y, const qkv_image *picture)
{
    double width = (double)picture->width, height = (double)picture->height;
    double scale = QKV__OVER_SIDE / fmax(width, height);
    return (qkv_frame){x + 4, y + QKV__OVER_TITLE + 4, scale * width, scale * height};
}

void qkv__look_draw_picture(qkv_drawing *d, double x, double y, const char *title,
                            const qkv_image *picture, qkv_frame *inside)
{
    const qkv_frame f = picture_frame(x, y, picture);
    qkv_draw_text(d, f.x, y + 17, title, &(qkv_text_style){.size = 14, .bold = true});
    qkv_draw_image(d, f, picture, false);
    qkv_draw_name(d, title);
    if (inside)
        *inside = f;
}

void qkv__look_draw_over(qkv_drawing *d, double x, double y, const qkv__look_over *map,
                         qkv_frame *inside)
{
    enum { EDGE = 4, SCALE = 64 }; /* room that a heat map leaves around its cells */
    const qkv_frame f = picture_frame(x, y, map->picture);
    const qkv_frame all = {f.x - EDGE, y, f.width + EDGE + SCALE,
                           f.height + QKV__OVER_TITLE + 2 * EDGE};
    qkv_draw_heat(d, &all, &(qkv_heat_map){.title = map->title, .values = map->values,
                                           .rows = map->rows, .columns = map->columns,
                                           .beneath = map->picture, .key = map->key});
    if (inside)
        *inside = f;
}

void qkv__look_draw_swatch(qkv_drawing *d, double x, double y, double side, const uint8_t rgb[3])
{
    uint8_t data[3] = {rgb[0], rgb[1], rgb[2]};
    const qkv_image one = {.width = 1, .height = 1, .channels = 3, .data = data};
    qkv_draw_image(d, (qkv_frame){x, y, side, side}, &one, false);
}
