/* lab.c - sRGB and CIE Lab, by way of XYZ. */
#include <math.h>

#include "qkv/color.h"

static const double white[3] = {0.95047, 1, 1.08883};
static const double to_xyz[3][3] = {{0.412453, 0.357580, 0.180423},
                                    {0.212671, 0.715160, 0.072169},
                                    {0.019334, 0.119193, 0.950227}};
/* The inverse of to_xyz. */
static const double to_linear[3][3] = {
    {3.240481343200527, -1.537151516271318, -0.498536326168888},
    {-0.969254949996568, 1.875990001489891, 0.041555926558293},
    {0.055646639135177, -0.204041338366511, 1.057311069645344}};

static double lab_linear(double c)
{
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static double gamma_coded(double c)
{
    c = c > 0 ? c < 1 ? c : 1 : 0; /* no number: 0 */
    return c <= 0.0031308 ? 12.92 * c : 1.055 * pow(c, 1 / 2.4) - 0.055;
}

/* The cube root, but a line near 0; and its inverse. */
static const double BEND = 0.008856, SLOPE = 7.787, RISE = 16.0 / 116;
static double root(double t) { return t > BEND ? cbrt(t) : SLOPE * t + RISE; }
static double power(double f) { return f > cbrt(BEND) ? f * f * f : (f - RISE) / SLOPE; }

/* Of linear red, green and blue. */
static void put_lab(qkv_real lab[3], const double c[3])
{
    double f[3];
    for (int k = 0; k < 3; k++)
        f[k] = root((to_xyz[k][0] * c[0] + to_xyz[k][1] * c[1] + to_xyz[k][2] * c[2]) / white[k]);
    lab[0] = (qkv_real)(116 * f[1] - 16);
    lab[1] = (qkv_real)(500 * (f[0] - f[1]));
    lab[2] = (qkv_real)(200 * (f[1] - f[2]));
}

void qkv_srgb_to_lab(qkv_real *lab, const qkv_real *rgb, size_t n)
{
    for (size_t i = 0; i < 3 * n; i += 3) {
        const double c[3] = {lab_linear((double)rgb[i]), lab_linear((double)rgb[i + 1]),
                             lab_linear((double)rgb[i + 2])};
        put_lab(lab + i, c);
    }
}

void qkv_bytes_to_lab(qkv_real *lab, const uint8_t *rgb, size_t n)
{
    double levels[256];
    for (int i = 0; i < 256 && n > 64; i++) /* fewer pixels need fewer powers */
        levels[i] = lab_linear(i / 255.0);
    for (size_t i = 0; i < 3 * n; i += 3) {
        double c[3];
        for (size_t k = 0; k < 3; k++)
            c[k] = n > 64 ? levels[rgb[i + k]] : lab_linear(rgb[i + k] / 255.0);
        put_lab(lab + i, c);
    }
}

void qkv_lab_to_srgb(qkv_real *rgb, const qkv_real *lab, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double y = ((double)lab[3 * i] + 16) / 116, f[3];
        f[0] = y + (double)lab[3 * i + 1] / 500;
        f[1] = y;
        f[2] = y - (double)lab[3 * i + 2] / 200;
        for (int k = 0; k < 3; k++)
            f[k] = white[k] * power(f[k]);
        for (int k = 0; k < 3; k++)
            rgb[3 * i + (size_t)k] = (qkv_real)gamma_coded(
                to_linear[k][0] * f[0] + to_linear[k][1] * f[1] + to_linear[k][2] * f[2]);
    }
}
