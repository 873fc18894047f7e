/* imagining.c - drawn codes as pictures. */
#include "use/imagining.h"

#include <string.h>

#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/image_file.h"

enum { GAP = 2, PAPER = 255, GREY = 160, RGB = 3 };

size_t imagining_vocab(const imagining *j)
{
    return ((const qkv_gpt_config *)qkv_model_config(j->p.prior))->vocab;
}

size_t imagining_bytes(const imagining *j) { return j->height * j->width * j->p.colors; }

/* Puts a picture (height, width, colors) as number (row, column) of a sheet. */
static void put(const imagining *j, qkv_image *sheet, size_t row, size_t column,
                const uint8_t *picture)
{
    size_t C = j->p.colors;
    for (size_t y = 0; y < j->height; y++) {
        size_t at = (row * (j->height + GAP) + y) * sheet->width + column * (j->width + GAP);
        for (size_t x = 0; x < j->width; x++)
            for (size_t k = 0; k < RGB; k++)
                sheet->data[(at + x) * RGB + k] =
                    picture[(y * j->width + x) * C + (C == RGB ? k : 0)];
    }
}

static qkv_status begin_sheet(const imagining *j, qkv_image *sheet, size_t down, size_t across)
{
    qkv_status status = qkv_image_create(sheet, j->c->ctx, across * (j->width + GAP) - GAP,
                                         down * (j->height + GAP) - GAP, RGB);
    if (!status)
        memset(sheet->data, PAPER, sheet->width * sheet->height * RGB);
    return status;
}

qkv_status imagining_write(const imagining *j)
{
    size_t across = 1;
    while (across * across < j->s.count)
        across++;
    qkv_image sheet;
    qkv_status status = begin_sheet(j, &sheet, (j->s.count + across - 1) / across, across);
    for (size_t i = 0; i < j->s.count && !status; i++)
        put(j, &sheet, i / across, i % across, j->pictures + i * imagining_bytes(j));
    if (!status)
        status = qkv_image_write(&sheet, j->c->ctx, j->s.out);
    qkv_image_free(&sheet, j->c->ctx);
    return status;
}

size_t imagining_likeliest(const imagining *j, size_t i, int32_t out[IMAGINING_NEXT])
{
    const qkv_real *p = j->chances + i * imagining_vocab(j);
    size_t found = 0;
    while (found < j->s.show_next) {
        int32_t best = -1;
        for (size_t v = 0; v < imagining_vocab(j); v++) {
            bool listed = false;
            for (size_t k = 0; k < found; k++)
                listed = listed || out[k] == (int32_t)v;
            if (!listed && p[v] > 0 && (best < 0 || p[v] > p[best]))
                best = (int32_t)v;
        }
        if (best < 0)
            break;
        out[found++] = best;
    }
    return found;
}

/* The picture up to the place, grey from there on. */
static void hide_rest(const imagining *j, uint8_t *picture)
{
    size_t f = j->p.factor, C = j->p.colors;
    for (size_t i = 0; i < j->height * j->width; i++) {
        size_t code = i / j->width / f * j->columns + i % j->width / f;
        if (code >= j->place)
            memset(picture + i * C, code == j->place ? PAPER : GREY, C);
    }
}

/* The place's patch of a picture as large as the picture. */
static void magnify(const imagining *j, const uint8_t *picture, uint8_t *out)
{
    size_t f = j->p.factor, C = j->p.colors;
    size_t top = j->place / j->columns * f, left = j->place % j->columns * f;
    for (size_t i = 0; i < j->height * j->width; i++) {
        size_t y = top + i / j->width * f / j->height, x = left + i % j->width * f / j->width;
        memcpy(out + i * C, picture + (y * j->width + x) * C, C);
    }
}

/* Picture i so far, then what each of its codes would put at the place. */
static qkv_status show_one(const imagining *j, size_t i, qkv_image *sheet, uint8_t *room)
{
    size_t size = j->rows * j->columns, bytes = imagining_bytes(j);
    int32_t codes[IMAGINING_NEXT], *grid = j->codes + i * size, own = grid[j->place];
    size_t found = imagining_likeliest(j, i, codes);
    qkv_status status = QKV_OK;
    memcpy(room, j->pictures + i * bytes, bytes);
    hide_rest(j, room);
    put(j, sheet, i, 0, room);
    for (size_t k = 0; k < found && !status; k++) {
        grid[j->place] = codes[k];
        status = qkv_pictures_decode(j->p.vqgan, j->p.tape, grid, 1, j->rows, j->columns, room);
        magnify(j, room, room + bytes);
        put(j, sheet, i, k + 1, room + bytes);
    }
    grid[j->place] = own;
    return status;
}

qkv_status imagining_write_next(const imagining *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_image sheet = {0};
    uint8_t *room = qkv_calloc(ctx, 2, imagining_bytes(j));
    qkv_status status = room ? begin_sheet(j, &sheet, j->s.count, j->s.show_next + 1)
                             : QKV_E_MEMORY;
    for (size_t i = 0; i < j->s.count && !status; i++)
        status = show_one(j, i, &sheet, room);
    if (!status)
        status = qkv_image_write(&sheet, ctx, j->s.out);
    qkv_image_free(&sheet, ctx);
    qkv_free(ctx, room);
    return status;
}
