/* ssim.c - how alike two images are: structural similarity (Wang et al. 2004), and decibels. */
#include <math.h>

#include "base/base.h"
#include "qkv/score.h"

enum { WINDOW = 11 };
static const double DEVIATION = 1.5, K1 = 0.01, K2 = 0.03, RANGE = 255;

static void make_window(double w[WINDOW])
{
    double sum = 0;
    for (int i = 0; i < WINDOW; i++) {
        w[i] = exp(-(i - WINDOW / 2) * (i - WINDOW / 2) / (2 * DEVIATION * DEVIATION));
        sum += w[i];
    }
    for (int i = 0; i < WINDOW; i++)
        w[i] /= sum;
}

/* Of the window whose first pixel's channel is at a and b; rows are `row` numbers apart, pixels
 * `channels`. */
static double of_window(const uint8_t *a, const uint8_t *b, size_t row, size_t channels,
                        const double w[WINDOW])
{
    double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < WINDOW; i++)
        for (size_t j = 0; j < WINDOW; j++) {
            double k = w[i] * w[j], x = a[i * row + j * channels], y = b[i * row + j * channels];
            ma += k * x;
            mb += k * y;
            aa += k * x * x;
            bb += k * y * y;
            ab += k * x * y;
        }
    double c1 = K1 * RANGE * K1 * RANGE, c2 = K2 * RANGE * K2 * RANGE;
    return (2 * ma * mb + c1) * (2 * (ab - ma * mb) + c2) /
           ((ma * ma + mb * mb + c1) * (aa - ma * ma + bb - mb * mb + c2));
}

double qkv_ssim(const uint8_t *a, const uint8_t *b, size_t height, size_t width, size_t channels)
{
    double w[WINDOW], sum = 0;
    if (height < WINDOW || width < WINDOW || !channels)
        return NAN;
    size_t rows = height - WINDOW + 1, columns = width - WINDOW + 1, row = width * channels;
    make_window(w);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns * channels; j++)
            sum += of_window(a + i * row + j, b + i * row + j, row, channels, w);
    return sum / (double)(rows * columns * channels);
}

double qkv_psnr(double squares, double values)
{
    return 10 * log10(RANGE * RANGE * values / fmax(squares, 1e-9));
}
