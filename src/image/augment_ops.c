/* augment_ops.c - changes of an image's values and of its geometry, rounded as Pillow rounds
 * them. */
#include <math.h>
#include <string.h>

#include "image/augment_steps.h"

static size_t augment_ops_bytes_of(const qkv_image *image)
{
    return image->width * image->height * image->channels;
}

static uint8_t clip(double x) { return (uint8_t)(x <= 0 ? 0 : x >= 255 ? 255 : x); }

/* ---- each value by a table ------------------------------------------------------------------ */

/* (channels, 256) of channel c, value v. */
typedef struct {
    uint8_t to[3][256];
} table;

static void look_up(qkv_image *out, const qkv_image *in, const table *t)
{
    size_t C = in->channels, n = augment_ops_bytes_of(in);
    for (size_t i = 0; i < n; i += C)
        for (size_t c = 0; c < C; c++)
            out->data[i + c] = t->to[c][in->data[i + c]];
}

static void count_values(size_t counts[3][256], const qkv_image *in)
{
    size_t C = in->channels, n = augment_ops_bytes_of(in);
    memset(counts, 0, 3 * 256 * sizeof counts[0][0]);
    for (size_t i = 0; i < n; i += C)
        for (size_t c = 0; c < C; c++)
            counts[c][in->data[i + c]]++;
}

void qkv__autocontrast(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)value, (void)fill;
    size_t counts[3][256];
    table t;
    count_values(counts, in);
    for (size_t c = 0; c < in->channels; c++) {
        int low = 0, high = 255;
        while (low < 255 && !counts[c][low])
            low++;
        while (high > 0 && !counts[c][high])
            high--;
        double scale = high > low ? 255.0 / (high - low) : 1;
        double offset = high > low ? -low * scale : 0;
        for (int v = 0; v < 256; v++)
            t.to[c][v] = clip(v * scale + offset);
    }
    look_up(out, in, &t);
}

static void equal_channel(uint8_t to[256], const size_t counts[256])
{
    size_t total = 0, last = 0;
    for (int v = 0; v < 256; v++) {
        total += counts[v];
        last = counts[v] ? counts[v] : last;
    }
    size_t step = (total - last) / 255, sum = step / 2;
    for (int v = 0; v < 256; v++) {
        size_t level = step ? sum / step : (size_t)v;
        to[v] = (uint8_t)(level < 255 ? level : 255);
        sum += counts[v];
    }
}

void qkv__equalize(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)value, (void)fill;
    size_t counts[3][256];
    table t;
    count_values(counts, in);
    for (size_t c = 0; c < in->channels; c++)
        equal_channel(t.to[c], counts[c]);
    look_up(out, in, &t);
}

void qkv__solarize(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    table t;
    for (size_t c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            t.to[c][v] = (uint8_t)(v < value ? v : 255 - v);
    look_up(out, in, &t);
}

void qkv__posterize(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    int bits = (int)ceil(value), drop = bits < 0 ? 8 : bits > 8 ? 0 : 8 - bits;
    table t;
    for (size_t c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            t.to[c][v] = (uint8_t)(v >> drop << drop);
    look_up(out, in, &t);
}

/* ---- towards another image, or away from it ------------------------------------------------ */

/* from + factor * (to - from), cut to bytes as Pillow does, in single precision. */
static uint8_t augment_ops_blend(uint8_t from, uint8_t to, float factor)
{
    float x = (float)from + factor * (float)(to - from);
    return (uint8_t)(x <= 0 ? 0 : x >= 255 ? 255 : x);
}

/* Of a pixel, ITU-R 601: 0.299, 0.587, 0.114 in 16 bits. */
static uint8_t grey_of(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

void qkv__saturate(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    size_t n = augment_ops_bytes_of(in);
    if (in->channels == 1) {
        memcpy(out->data, in->data, n);
        return;
    }
    for (size_t i = 0; i < n; i += 3) {
        uint8_t grey = grey_of(in->data + i);
        for (size_t c = 0; c < 3; c++)
            out->data[i + c] = augment_ops_blend(grey, in->data[i + c], (float)value);
    }
}

/* Where a colour is on the circle of hues, in sixths from red; most, least: its values. */
static double hue_of(const uint8_t *rgb, int most, int least)
{
    double range = most - least;
    if (most == rgb[0])
        return (rgb[1] - rgb[2]) / range + (rgb[1] < rgb[2] ? 6 : 0);
    return most == rgb[1] ? (rgb[2] - rgb[0]) / range + 2 : (rgb[0] - rgb[1]) / range + 4;
}

/* HSV, whose value and saturation stay (Smith 1978). */
void qkv__hue(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    size_t n = augment_ops_bytes_of(in);
    memcpy(out->data, in->data, n);
    for (size_t i = 0; i < n && in->channels == 3; i += 3) {
        const uint8_t *rgb = in->data + i;
        int most = rgb[0] > rgb[1] ? rgb[0] : rgb[1], least = rgb[0] < rgb[1] ? rgb[0] : rgb[1];
        most = most > rgb[2] ? most : rgb[2];
        least = least < rgb[2] ? least : rgb[2];
        if (most == least)
            continue;
        double hue = hue_of(rgb, most, least) + 6 * value;
        for (size_t c = 0; c < 3; c++) { /* how far the hue is from that of the channel */
            double from = fmod(hue + 18 - 2 * (double)c, 6);
            from = from > 3 ? 6 - from : from;
            double share = from <= 1 ? 1 : from >= 2 ? 0 : 2 - from;
            out->data[i + c] = (uint8_t)(least + share * (most - least) + 0.5);
        }
    }
}

/* Every value towards one. */
static void blend_all(qkv_image *out, const qkv_image *in, uint8_t from, double factor)
{
    table t;
    for (int v = 0; v < 256; v++)
        t.to[0][v] = t.to[1][v] = t.to[2][v] = augment_ops_blend(from, (uint8_t)v, (float)factor);
    look_up(out, in, &t);
}

void qkv__contrast(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    size_t n = augment_ops_bytes_of(in), C = in->channels;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += C)
        sum += C == 3 ? grey_of(in->data + i) : in->data[i];
    blend_all(out, in, (uint8_t)((double)sum / (double)(n / C) + 0.5), value);
}

void qkv__brightness(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    blend_all(out, in, 0, value);
}

/* Against the image smoothed by ((1, 1, 1), (1, 5, 1), (1, 1, 1)) / 13, whose edges stay. */
void qkv__sharpness(qkv_image *out, const qkv_image *in, double value, const uint8_t fill[3])
{
    (void)fill;
    size_t C = in->channels, row = in->width * C;
    memcpy(out->data, in->data, augment_ops_bytes_of(in));
    for (size_t y = 1; y + 1 < in->height; y++)
        for (size_t i = y * row + C; i < (y + 1) * row - C; i++) {
            const uint8_t *at = in->data + i, *up = at - row, *down = at + row;
            int sum = up[0] + down[0] + 5 * at[0];
            sum += *(up - C) + up[C] + *(at - C) + at[C] + *(down - C) + down[C];
            out->data[i] = augment_ops_blend((uint8_t)((2 * sum + 13) / 26), at[0], (float)value);
        }
}

/* ---- geometry ------------------------------------------------------------------------------- */

bool qkv__place(double at[2], const double m[6], const qkv_image *of, size_t x, size_t y)
{
    double px = (double)x + 0.5, py = (double)y + 0.5;
    at[0] = m[0] * px + m[1] * py + m[2];
    at[1] = m[3] * px + m[4] * py + m[5];
    return at[0] >= 0 && at[0] < (double)of->width && at[1] >= 0 && at[1] < (double)of->height;
}

void qkv__transform(qkv_image *out, const qkv_image *in, const double m[6], const uint8_t fill[3])
{
    size_t W = in->width, H = in->height, C = in->channels;
    uint8_t *to = out->data;
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++, to += C) {
            double f[2];
            if (!qkv__place(f, m, in, x, y)) {
                memcpy(to, fill, C);
                continue;
            }
            double left = floor(f[0] - 0.5), top = floor(f[1] - 0.5);
            double dx = f[0] - 0.5 - left, dy = f[1] - 0.5 - top;
            size_t x0 = left < 0 ? 0 : (size_t)left, x1 = (size_t)(left + 1);
            size_t y0 = top < 0 ? 0 : (size_t)top, y1 = (size_t)(top + 1);
            const uint8_t *a = in->data + y0 * W * C, *b = y1 < H ? in->data + y1 * W * C : a;
            x1 = x1 < W ? x1 : W - 1;
            for (size_t c = 0; c < C; c++) {
                double above = a[x0 * C + c] + (a[x1 * C + c] - a[x0 * C + c]) * dx;
                double below = b[x0 * C + c] + (b[x1 * C + c] - b[x0 * C + c]) * dx;
                to[c] = (uint8_t)(above + (below - above) * dy);
            }
        }
}

static void set_place(double m[6], double a, double b, double c, double d, double e, double f)
{
    const double all[6] = {a, b, c, d, e, f};
    memcpy(m, all, sizeof all);
}

void qkv__rotate(double m[6], const qkv_image *of, double value)
{
    double turn = -value * 0.017453292519943295, c = cos(turn), s = sin(turn);
    double x = (double)of->width / 2, y = (double)of->height / 2;
    set_place(m, c, s, x - c * x - s * y, -s, c, y + s * x - c * y);
}

void qkv__shear_x(double m[6], const qkv_image *of, double value)
{
    (void)of;
    set_place(m, 1, value, 0, 0, 1, 0);
}

void qkv__shear_y(double m[6], const qkv_image *of, double value)
{
    (void)of;
    set_place(m, 1, 0, 0, value, 1, 0);
}

void qkv__translate_x(double m[6], const qkv_image *of, double value)
{
    set_place(m, 1, 0, value * (double)of->width, 0, 1, 0);
}

void qkv__translate_y(double m[6], const qkv_image *of, double value)
{
    set_place(m, 1, 0, 0, 0, 1, value * (double)of->height);
}
