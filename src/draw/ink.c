/* ink.c - what the colours of drawings are, in the light and the dark theme. */
#include "draw/ink.h"

#include <math.h>

typedef struct {
    const char *name;
    uint8_t rgb[2][3]; /* light, dark */
} ink_entry;

/* Of the roles TEXT to MARK; then the series. */
static const ink_entry inks[] = {
    {"text", {{0x1b, 0x1f, 0x24}, {0xe6, 0xe9, 0xed}}},
    {"faint", {{0x57, 0x60, 0x6a}, {0xa3, 0xab, 0xb5}}},
    {"grid", {{0xc8, 0xcc, 0xd1}, {0x45, 0x4c, 0x55}}},
    {"bg", {{0xff, 0xff, 0xff}, {0x14, 0x17, 0x1c}}},
    {"mark", {{0xc2, 0x18, 0x5b}, {0xff, 0x6f, 0xa5}}},
    {"s0", {{0x00, 0x72, 0xb2}, {0x4f, 0xa8, 0xe0}}},
    {"s1", {{0xd5, 0x5e, 0x00}, {0xf0, 0x7f, 0x33}}},
    {"s2", {{0x00, 0x8f, 0x68}, {0x2f, 0xc1, 0x95}}},
    {"s3", {{0xb8, 0x5c, 0x90}, {0xdf, 0x94, 0xbf}}},
    {"s4", {{0xb0, 0x76, 0x00}, {0xe6, 0x9f, 0x00}}},
    {"s5", {{0x2e, 0x8c, 0xbf}, {0x8f, 0xd0, 0xf5}}},
    {"s6", {{0x84, 0x7c, 0x00}, {0xf0, 0xe4, 0x42}}},
    {"s7", {{0x4d, 0x4d, 0x4d}, {0xc4, 0xc4, 0xc4}}},
};
enum { INKS = sizeof inks / sizeof *inks, FIRST_SERIES = INKS - QKV_SERIES_COLORS };

qkv_ink qkv_ink_none(void) { return (qkv_ink){0}; }
qkv_ink qkv_ink_of(qkv_ink_role role) { return (qkv_ink){.role = role}; }
qkv_ink qkv_ink_heat(double value) { return (qkv_ink){.role = QKV_INK_HEAT, .value = value}; }

qkv_ink qkv_ink_series(size_t i)
{
    return (qkv_ink){.role = QKV_INK_SERIES, .value = (double)(i % QKV_SERIES_COLORS)};
}

qkv_ink qkv_ink_diverging(double value)
{
    return (qkv_ink){.role = QKV_INK_DIVERGING, .value = value};
}

/* ---- scales, through points in CIE Lab with even steps of lightness -------------------------- */

typedef struct {
    double l, a, b;
} lab;

static const lab sequential[] = {
    {15.0, 10.0, -34.0}, {34.25, 3.0, -20.0}, {53.5, 1.0, 2.0}, {72.75, 1.0, 32.0},
    {92.0, -7.0, 66.0}};
static const lab diverging[] = {
    {38.0, 6.0, -46.0}, {66.0, -4.0, -26.0}, {94.0, 0.0, 2.0}, {66.0, 18.0, 38.0},
    {38.0, 32.0, 46.0}};
enum { SCALE_POINTS = 5 };

/* At t from 0 to 1. */
static lab ink_between(const lab points[SCALE_POINTS], double t)
{
    double at = (t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t) * (SCALE_POINTS - 1);
    int i = at >= SCALE_POINTS - 1 ? SCALE_POINTS - 2 : (int)at;
    double f = at - i;
    const lab *p = &points[i], *q = &points[i + 1];
    return (lab){p->l + f * (q->l - p->l), p->a + f * (q->a - p->a), p->b + f * (q->b - p->b)};
}

static double ink_linear(double f)
{
    const double knee = 6.0 / 29.0;
    return f > knee ? f * f * f : 3.0 * knee * knee * (f - 4.0 / 29.0);
}

static uint8_t ink_byte(double linear)
{
    double v = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1.0 / 2.4) - 0.055;
    return (uint8_t)(v <= 0.0 ? 0.0 : v >= 1.0 ? 255.0 : floor(255.0 * v + 0.5));
}

/* CIE 15: Lab of white point D65 to sRGB (IEC 61966-2-1), clipped. */
static void ink_from_lab(lab c, uint8_t rgb[3])
{
    double fy = (c.l + 16.0) / 116.0;
    double x = 0.95047 * ink_linear(fy + c.a / 500.0), y = ink_linear(fy);
    double z = 1.08883 * ink_linear(fy - c.b / 200.0);
    rgb[0] = ink_byte(3.2404542 * x - 1.5371385 * y - 0.4985314 * z);
    rgb[1] = ink_byte(-0.9692660 * x + 1.8760108 * y + 0.0415560 * z);
    rgb[2] = ink_byte(0.0556434 * x - 0.2040259 * y + 1.0572252 * z);
}

/* Black or white, whichever is read better on the colour. */
static void ink_on(lab c, uint8_t rgb[3])
{
    rgb[0] = rgb[1] = rgb[2] = c.l > 50.0 ? 0x10 : 0xff;
}

/* ---- inks ------------------------------------------------------------------------------------ */

/* Its entry in the table, or -1 for one on a scale. */
static int ink_index(qkv_ink ink)
{
    if (ink.role == QKV_INK_SERIES) {
        double v = isfinite(ink.value) ? fmod(fabs(ink.value), QKV_SERIES_COLORS) : 0.0;
        return FIRST_SERIES + (int)v;
    }
    if (ink.role >= QKV_INK_HEAT)
        return isnan(ink.value) ? QKV_INK_GRID - QKV_INK_TEXT : -1;
    return ink.role == QKV_INK_NONE ? 0 : (int)ink.role - QKV_INK_TEXT;
}

const char *qkv__ink_class(qkv_ink ink)
{
    int i = ink_index(ink);
    return i < 0 ? NULL : inks[i].name;
}

void qkv_ink_color(qkv_ink ink, bool dark, uint8_t rgb[3])
{
    int i = ink_index(ink);
    bool two_ways = ink.role == QKV_INK_DIVERGING || ink.role == QKV_INK_ON_DIVERGING;
    for (int c = 0; i >= 0 && c < 3; c++)
        rgb[c] = inks[i].rgb[dark][c];
    if (i >= 0)
        return;
    lab at = two_ways ? ink_between(diverging, 0.5 + 0.5 * ink.value)
                      : ink_between(sequential, ink.value);
    if (ink.role == QKV_INK_HEAT || ink.role == QKV_INK_DIVERGING)
        ink_from_lab(at, rgb);
    else
        ink_on(at, rgb);
}

/* ---- style sheets ---------------------------------------------------------------------------- */

static void ink_put_hex(qkv_str *out, const uint8_t rgb[3])
{
    qkv_str_printf(out, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

static void ink_rules(qkv_str *out, bool dark)
{
    for (int i = 0; i < INKS; i++) {
        qkv_str_printf(out, ".qf-%s{fill:", inks[i].name);
        ink_put_hex(out, inks[i].rgb[dark]);
        qkv_str_printf(out, "}.qs-%s{stroke:", inks[i].name);
        ink_put_hex(out, inks[i].rgb[dark]);
        qkv_str_puts(out, "}\n");
    }
}

static void ink_variables(qkv_str *out, const char *selector, bool dark)
{
    qkv_str_printf(out, "%s{color-scheme:%s", selector, dark ? "dark" : "light");
    for (int i = 0; i < INKS; i++) {
        qkv_str_printf(out, ";--%s:", inks[i].name);
        ink_put_hex(out, inks[i].rgb[dark]);
    }
    qkv_str_puts(out, "}\n");
}

void qkv__ink_css(qkv_str *out, bool alone)
{
    if (alone) {
        ink_rules(out, false);
        qkv_str_puts(out, "@media (prefers-color-scheme:dark){\n");
        ink_rules(out, true);
        qkv_str_puts(out, "}\n");
        return;
    }
    ink_variables(out, ":root", false);
    qkv_str_puts(out, "@media screen and (prefers-color-scheme:dark){\n");
    ink_variables(out, ":root:not([data-theme=light])", true);
    qkv_str_puts(out, "}\n@media screen{\n");
    ink_variables(out, ":root[data-theme=dark]", true);
    qkv_str_puts(out, "}\n");
    for (int i = 0; i < INKS; i++)
        qkv_str_printf(out, ".qf-%s{fill:var(--%s)}.qs-%s{stroke:var(--%s)}\n", inks[i].name,
                       inks[i].name, inks[i].name, inks[i].name);
}
