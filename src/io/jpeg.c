/* jpeg.c - JPEG through libjpeg: grey, colour and print colours become 8 bits of grey or colour,
 * the right way up. */
#include "io/image_codecs.h"

#include <stdio.h>
#include <string.h>

#ifdef QKV_HAVE_IMAGES
#include <jpeglib.h>
#include <setjmp.h>

enum { MOST_SCANS = 256 }; /* of a progressive image: each costs as much time as all of it */

typedef struct {
    struct jpeg_error_mgr base; /* first: libjpeg hands out pointers to it */
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char why[JMSG_LENGTH_MAX];
    const qkv__image_bytes *p;
    qkv_image *out;
    uint8_t *row; /* of print colours, or NULL */
    int turn;     /* Exif orientation, 1 to 8 */
} decoder;

static void jpeg_on_error(j_common_ptr c)
{
    decoder *d = (decoder *)(void *)c->err;
    c->err->format_message(c, d->why);
    longjmp(d->jump, 1);
}

/* Warnings have a level below 0: data that are not as they should be. */
static void on_message(j_common_ptr c, int level)
{
    if (level < 0)
        jpeg_on_error(c);
}

static void jpeg_on_progress(j_common_ptr c)
{
    decoder *d = (decoder *)(void *)c->err;
    const struct jpeg_decompress_struct *j = (const void *)c;
    if (j->input_scan_number <= MOST_SCANS)
        return;
    (void)snprintf(d->why, sizeof d->why, "at most %d scans expected, found more", MOST_SCANS);
    longjmp(d->jump, 1);
}

/* ---- Exif: which way is up ---------------------------------------------------------------- */

static unsigned jpeg_get(const uint8_t *p, size_t n, bool little)
{
    unsigned v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (unsigned)p[i] << 8 * (little ? i : n - 1 - i);
    return v;
}

/* The orientation in an APP1 marker's bytes (TIFF 6.0, tag 0x112), or 1. */
static int orientation(const uint8_t *data, size_t size)
{
    enum { ENTRY = 12, TAG = 0x112, SHORT = 3 };
    if (size < 14 || memcmp(data, "Exif\0\0", 6) != 0)
        return 1;
    const uint8_t *tiff = data + 6;
    size_t n = size - 6;
    bool little = tiff[0] == 'I';
    size_t at = jpeg_get(tiff + 4, 4, little);
    if (n < 2 || at > n - 2)
        return 1;
    size_t count = jpeg_get(tiff + at, 2, little);
    for (size_t i = 0; i < count && at + 2 + (i + 1) * ENTRY <= n; i++) {
        const uint8_t *entry = tiff + at + 2 + i * ENTRY;
        unsigned value = jpeg_get(entry + 8, 2, little);
        if (jpeg_get(entry, 2, little) == TAG && jpeg_get(entry + 2, 2, little) == SHORT &&
            value >= 1 && value <= 8)
            return (int)value;
    }
    return 1;
}

/* Where pixel (x, y) of the upright image, width x height, is in the file's, as (x, y). */
static void untwist(int turn, size_t width, size_t height, size_t x, size_t y, size_t at[2])
{
    size_t right = width - 1 - x, up = height - 1 - y;
    const size_t place[8][2] = {{x, y}, {right, y}, {right, up}, {x, up},
                                {y, x}, {y, right}, {up, right}, {up, x}};
    memcpy(at, place[turn - 1], sizeof place[0]);
}

static qkv_status set_upright(const decoder *d)
{
    qkv_image *out = d->out, up;
    bool swap = d->turn >= 5;
    qkv_status status = qkv_image_create(&up, d->p->ctx, swap ? out->height : out->width,
                                         swap ? out->width : out->height, out->channels);
    if (status)
        return status;
    for (size_t y = 0; y < up.height; y++)
        for (size_t x = 0; x < up.width; x++) {
            size_t at[2];
            untwist(d->turn, up.width, up.height, x, y, at);
            memcpy(up.data + (y * up.width + x) * up.channels,
                   out->data + (at[1] * out->width + at[0]) * up.channels, up.channels);
        }
    qkv_image_free(out, d->p->ctx);
    *out = up;
    return QKV_OK;
}

/* ---- decoding ----------------------------------------------------------------------------- */

/* Cyan, magenta, yellow, black to red, green, blue. Files that Adobe's programs write have ink
 * as 255 and none as 0 the other way round. */
static void print_colours(uint8_t *rgb, const uint8_t *cmyk, size_t width, bool inverted)
{
    for (size_t i = 0; i < width; i++)
        for (size_t c = 0; c < 3; c++) {
            unsigned paper = inverted ? cmyk[4 * i + c] : 255u - cmyk[4 * i + c];
            unsigned light = inverted ? cmyk[4 * i + 3] : 255u - cmyk[4 * i + 3];
            rgb[3 * i + c] = (uint8_t)((paper * light + 127) / 255);
        }
}

static qkv_status jpeg_read_rows(decoder *d, struct jpeg_decompress_struct *j, bool print)
{
    qkv_image *out = d->out;
    if (print) {
        d->row = qkv_malloc(d->p->ctx, 4 * out->width);
        if (!d->row)
            return QKV_E_MEMORY;
    }
    while (j->output_scanline < j->output_height) {
        uint8_t *to = out->data + j->output_scanline * out->width * out->channels;
        JSAMPROW row = print ? d->row : to;
        if (jpeg_read_scanlines(j, &row, 1) == 1 && print)
            print_colours(to, d->row, out->width, j->saw_Adobe_marker);
    }
    return QKV_OK;
}

static void find_orientation(decoder *d, const struct jpeg_decompress_struct *j)
{
    for (jpeg_saved_marker_ptr m = j->marker_list; m && d->turn == 1; m = m->next)
        d->turn = orientation(m->data, m->data_length);
}

/* Everything that libjpeg may jump out of. */
static qkv_status jpeg_decode(decoder *d, struct jpeg_decompress_struct *j)
{
    jpeg_mem_src(j, d->p->data, (unsigned long)d->p->size);
    jpeg_save_markers(j, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(j, TRUE);
    bool grey = j->jpeg_color_space == JCS_GRAYSCALE;
    bool print = j->num_components == 4;
    j->out_color_space = grey ? JCS_GRAYSCALE : print ? JCS_CMYK : JCS_RGB;
    find_orientation(d, j);
    qkv_status status = qkv__image_create(d->p, d->out, j->image_width, j->image_height,
                                          grey ? 1 : 3);
    if (status)
        return status;
    jpeg_start_decompress(j);
    status = jpeg_read_rows(d, j, print);
    if (!status)
        jpeg_finish_decompress(j);
    return status;
}

qkv_status qkv__jpeg_decode(const qkv__image_bytes *p, qkv_image *out)
{
    decoder d = {.p = p, .out = out, .turn = 1};
    struct jpeg_decompress_struct j = {.err = jpeg_std_error(&d.base)};
    d.base.error_exit = jpeg_on_error;
    d.base.emit_message = on_message;
    d.progress.progress_monitor = jpeg_on_progress;
    qkv_status status;
    if (setjmp(d.jump) == 0) {
        jpeg_create_decompress(&j);
        j.progress = &d.progress;
        status = jpeg_decode(&d, &j);
    } else {
        status = qkv_fail(p->ctx, QKV_E_FORMAT, "%s: %s", p->name, d.why);
    }
    jpeg_destroy_decompress(&j);
    qkv_free(p->ctx, d.row);
    if (!status && d.turn != 1)
        status = set_upright(&d);
    return status;
}

#else

qkv_status qkv__jpeg_decode(const qkv__image_bytes *p, qkv_image *out)
{
    (void)out;
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: this build reads no images", p->name);
}
#endif
