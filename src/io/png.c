/* png.c - PNG through libpng: every colour type and depth becomes 8 bits of grey or colour. */
#include "io/image_codecs.h"

#include <string.h>

#ifdef QKV_HAVE_IMAGES
#include <png.h>
#include <setjmp.h>
#include <zlib.h>

typedef struct {
    const qkv__image_bytes *p;
    size_t read;
    qkv_image *out;
    uint8_t *row;  /* with alpha, or NULL */
    char why[128]; /* libpng's words */
} decoder;

static void png_file_on_error(png_structp png, png_const_charp why)
{
    decoder *d = png_get_error_ptr(png);
    size_t n = strlen(why) < sizeof d->why - 1 ? strlen(why) : sizeof d->why - 1;
    memcpy(d->why, why, n);
    d->why[n] = 0;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    decoder *d = png_get_io_ptr(png);
    if (n > d->p->size - d->read)
        png_error(png, "the file is cut short");
    memcpy(to, d->p->data + d->read, n);
    d->read += n;
}

/* Where libpng's memory comes from, and whether it gave out. */
typedef struct {
    qkv_context *ctx;
    bool gone;
} memory;

static png_voidp on_malloc(png_structp png, png_alloc_size_t n)
{
    memory *m = png_get_mem_ptr(png);
    void *p = qkv_malloc(m->ctx, n);
    m->gone = m->gone || !p;
    return p;
}

static void png_file_on_free(png_structp png, png_voidp p)
{
    const memory *m = png_get_mem_ptr(png);
    qkv_free(m->ctx, p);
}

/* The nearest to (a colour + (255 - a) background) / 255. */
static uint8_t png_file_blend(uint8_t colour, uint8_t a, uint8_t background)
{
    return (uint8_t)((colour * a + background * (255 - a) + 127) / 255);
}

static void blend_row(const decoder *d, uint8_t *out)
{
    size_t channels = d->out->channels;
    const uint8_t *b = d->p->o.background;
    for (size_t i = 0; i < d->out->width; i++) {
        const uint8_t *in = d->row + i * (channels + 1);
        for (size_t c = 0; c < channels; c++)
            out[i * channels + c] = png_file_blend(in[c], in[channels], b[c]);
    }
}

/* 8 bits, no palette, alpha where anything is transparent. Returns how many passes there are. */
static int set_transforms(png_structp png, png_infop info, bool colour)
{
    png_set_scale_16(png);
    png_set_expand(png);
    if (colour)
        png_set_gray_to_rgb(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return passes;
}

/* Interlaced images with alpha need all of it at once: they are read whole, then blended. */
static qkv_status png_file_read_rows(decoder *d, png_structp png, size_t bytes, bool alpha,
                                     int passes)
{
    qkv_image *out = d->out;
    size_t width = out->width * out->channels;
    bool whole = alpha && passes > 1;
    if (alpha) {
        size_t room;
        if (!qkv__mul_size(bytes, whole ? out->height : 1, &room))
            return QKV_E_MEMORY;
        d->row = qkv_malloc(d->p->ctx, room);
        if (!d->row)
            return QKV_E_MEMORY;
    }
    uint8_t *first = d->row;
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < out->height; y++) {
            png_read_row(png, alpha ? first + (whole ? y * bytes : 0) : out->data + y * width,
                         NULL);
            if (alpha && !whole)
                blend_row(d, out->data + y * width);
        }
    for (size_t y = 0; whole && y < out->height; y++) {
        d->row = first + y * bytes;
        blend_row(d, out->data + y * width);
    }
    d->row = first;
    return QKV_OK;
}

/* Newer versions of libpng (1.6.48) let a damaged end pass, and a damaged palette where none needs
 * to be. All chunks that must be whole are looked at, but the pixels', which every version does. */
static void check_chunks(const decoder *d, png_structp png)
{
    enum { SIGNATURE = 8, LENGTH = 4, KIND = 4, CRC = 4 };
    const uint8_t *at = d->p->data + SIGNATURE, *end = d->p->data + d->read;
    while (end - at >= LENGTH + KIND + CRC) {
        const uint8_t *kind = at + LENGTH;
        size_t n = KIND + (size_t)png_get_uint_32(at);
        if (n > (size_t)(end - kind) - CRC)
            return;
        bool must = !(kind[0] & 0x20) && memcmp(kind, "IDAT", KIND) != 0;
        if (must && crc32(0, kind, (uInt)n) != png_get_uint_32(kind + n))
            png_error(png, "CRC error in a chunk beside the pixels");
        at = kind + n + CRC;
    }
}

/* Everything that libpng may jump out of. */
static qkv_status png_file_decode(decoder *d, png_structp png, png_infop info)
{
    png_set_read_fn(png, d, on_read);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
    /* A few bytes of texts, profiles and palettes to suggest can unfold to gigabytes. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png, info);
    int type = png_get_color_type(png, info);
    bool clear = (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(png, info, PNG_INFO_tRNS);
    const uint8_t *b = d->p->o.background; /* makes grey colourful where it shows through */
    bool colour = (type & PNG_COLOR_MASK_COLOR) || (clear && (b[0] != b[1] || b[1] != b[2]));
    qkv_status status = qkv__image_create(d->p, d->out, png_get_image_width(png, info),
                                          png_get_image_height(png, info), colour ? 3 : 1);
    if (status)
        return status;
    int passes = set_transforms(png, info, colour);
    bool alpha = png_get_channels(png, info) > d->out->channels;
    status = png_file_read_rows(d, png, png_get_rowbytes(png, info), alpha, passes);
    if (!status) {
        png_read_end(png, NULL); /* is it all there? */
        check_chunks(d, png);
    }
    return status;
}

qkv_status qkv__png_decode(const qkv__image_bytes *p, qkv_image *out)
{
    decoder d = {.p = p, .out = out};
    memory m = {p->ctx, false};
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &d, png_file_on_error,
                                               on_warning, &m, on_malloc, png_file_on_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    qkv_status status = QKV_E_MEMORY;
    if (info && setjmp(png_jmpbuf(png)) == 0)
        status = png_file_decode(&d, png, info);
    else if (info)
        status = qkv_fail(p->ctx, m.gone ? QKV_E_MEMORY : QKV_E_FORMAT, "%s: %s", p->name,
                          d.why);
    png_destroy_read_struct(&png, &info, NULL);
    qkv_free(p->ctx, d.row);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------ */

typedef struct {
    decoder errors; /* first: where libpng's words go */
    bool (*put)(void *user, const void *data, size_t size);
    void *user;
} encoder;

static void on_write(png_structp png, png_bytep data, size_t n)
{
    encoder *e = png_get_io_ptr(png);
    if (!e->put(e->user, data, n))
        png_error(png, "it cannot be written");
}

static void on_flush(png_structp png) { (void)png; }

qkv_status qkv__png_encode(const qkv_image *image, qkv_context *ctx,
                           bool (*put)(void *user, const void *data, size_t size), void *user)
{
    encoder e = {.put = put, .user = user};
    memory m = {ctx, false};
    png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &e, png_file_on_error,
                                                on_warning, &m, on_malloc, png_file_on_free);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    volatile bool done = false; /* else gcc for Arm sets it before the last write, which may jump */
    if (info && setjmp(png_jmpbuf(png)) == 0) {
        png_set_write_fn(png, &e, on_write, on_flush);
        png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                     image->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
                     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
        png_write_info(png, info);
        for (size_t y = 0; y < image->height; y++)
            png_write_row(png, image->data + y * image->width * image->channels);
        png_write_end(png, info);
        done = true;
    }
    png_destroy_write_struct(&png, &info);
    if (done)
        return QKV_OK;
    qkv_status before = qkv_context_status(ctx); /* of the writer, which says more */
    return before ? before : qkv_fail(ctx, QKV_E_IO, "a PNG: %s", e.errors.why);
}

#else

qkv_status qkv__png_decode(const qkv__image_bytes *p, qkv_image *out)
{
    (void)out;
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: this build reads no images", p->name);
}

qkv_status qkv__png_encode(const qkv_image *image, qkv_context *ctx,
                           bool (*put)(void *user, const void *data, size_t size), void *user)
{
    (void)image;
    (void)put;
    (void)user;
    return qkv_fail(ctx, QKV_E_UNSUPPORTED, "this build writes no images");
}
#endif
