/* sample_sheet.c - drawn codes as a sheet of images. */
#include "pipeline/sampling_run.h"

#include <string.h>

#include "qkv/codes.h"
#include "qkv/painting.h"

enum { GAP = 2, PAPER = 255, GREY = 160, RGB = 3 };

void qkv__sample_rank(qkv__sampling_run *r)
{
    qkv_sampled_images *out = r->out;
    size_t V = qkv__sample_vocab(r);
    for (size_t i = 0; i < out->count; i++) {
        qkv_next_code *next = out->next + i * out->shown;
        qkv_real *p = r->chances + i * V;
        size_t found = 0, best = 0;
        int32_t drawn = out->codes[(i * out->rows + out->row) * out->columns + out->column];
        out->drawn[i] = (qkv_next_code){drawn, (double)p[drawn], true};
        for (; found < out->shown; found++) {
            for (size_t v = best = 0; v < V; v++)
                best = p[v] > p[best] ? v : best;
            if (!(p[best] > 0))
                break;
            next[found] = (qkv_next_code){(int32_t)best, (double)p[best], (int32_t)best == drawn};
            p[best] = 0; /* listed */
        }
        out->next_count[i] = found;
    }
}

/* The image up to the place, grey from there on. */
static void hide_rest(const qkv__sampling_run *r, uint8_t *image)
{
    const qkv_sampled_images *out = r->out;
    size_t f = r->p->codecs.factor, C = out->channels;
    size_t place = out->row * out->columns + out->column;
    for (size_t i = 0; i < out->height * out->width; i++) {
        size_t code = i / out->width / f * out->columns + i % out->width / f;
        if (code >= place)
            memset(image + i * C, code == place ? PAPER : GREY, C);
    }
}

/* The place's patch of an image as large as the image. */
static void magnify(const qkv__sampling_run *r, const uint8_t *image, uint8_t *to)
{
    const qkv_sampled_images *out = r->out;
    size_t f = r->p->codecs.factor, C = out->channels;
    size_t top = out->row * f, left = out->column * f;
    for (size_t i = 0; i < out->height * out->width; i++) {
        size_t y = top + i / out->width * f / out->height;
        size_t x = left + i % out->width * f / out->width;
        memcpy(to + i * C, image + (y * out->width + x) * C, C);
    }
}

/* Image i so far, then what each of its codes would put at the place. */
static qkv_status sample_sheet_show_next(qkv__sampling_run *r, qkv_sheet *sheet, size_t i,
                                         uint8_t *room)
{
    qkv_sampled_images *out = r->out;
    const qkv__prior *c = &r->p->codecs;
    size_t bytes = qkv__sample_bytes(out), place = out->row * out->columns + out->column;
    int32_t *grid = out->codes + i * out->rows * out->columns, own = grid[place];
    qkv_status status = QKV_OK;
    memcpy(room, out->images + i * bytes, bytes);
    hide_rest(r, room);
    qkv_sheet_put(sheet, i, 0, room, out->channels);
    for (size_t k = 0; k < out->next_count[i] && !status; k++) {
        grid[place] = out->next[i * out->shown + k].code;
        status = qkv_images_decode(c->vqgan, c->tape, grid, 1, out->rows, out->columns, room);
        magnify(r, room, room + bytes);
        qkv_sheet_put(sheet, i, k + 1, room + bytes, out->channels);
    }
    grid[place] = own;
    return status;
}

qkv_status qkv__sample_sheet(qkv__sampling_run *r)
{
    qkv_sampled_images *out = r->out;
    qkv_context *ctx = r->p->ctx;
    qkv_sheet sheet = {.height = out->height, .width = out->width, .zoom = 1, .gap = GAP};
    size_t bytes = qkv__sample_bytes(out), across = 1;
    uint8_t *room = qkv_calloc(ctx, 2, bytes);
    while (across * across < out->count)
        across++;
    size_t down = (out->count + across - 1) / across;
    qkv_status status = room ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = out->shown ? qkv_sheet_create(&sheet, ctx, out->count, out->shown + 1, RGB, PAPER)
                            : qkv_sheet_create(&sheet, ctx, down, across, RGB, PAPER);
    for (size_t i = 0; i < out->count && !status; i++) {
        if (out->shown)
            status = sample_sheet_show_next(r, &sheet, i, room);
        else
            qkv_sheet_put(&sheet, i / across, i % across, out->images + i * bytes,
                          out->channels);
    }
    out->sheet = sheet.image;
    qkv_free(ctx, room);
    return status;
}
