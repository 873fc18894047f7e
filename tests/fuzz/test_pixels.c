/* test_pixels.c - pixel files under random changes; of those that are accepted, every pixel, class
 * and name is looked at and parts are made. */
#include "fuzz.h"

#include "qkv/pixels.h"

static qkv_status read_pixels(qkv_context *ctx, const char *path)
{
    qkv_pixels *p;
    qkv_held_out split;
    double mean[3], std[3];
    size_t sum = 0;
    qkv_status status = qkv_pixels_open(&p, ctx, path);
    if (status)
        return status;
    size_t n = qkv_pixels_count(p);
    for (size_t i = 0; i < n; i++) {
        int32_t class_ = qkv_pixels_class(p, i);
        sum += strlen(qkv_pixels_name(p, i));
        sum += class_ < 0 ? 0 : strlen(qkv_pixels_class_name(p, (size_t)class_));
    }
    qkv_pixels_stats(p, NULL, n, mean, std);
    if (sum == SIZE_MAX || mean[0] < 0) /* or else nobody needs them */
        puts("");
    for (int by = 0; by < QKV_SPLITS; by++)
        if (!qkv_pixels_split(&split, ctx, p, 2, (qkv_held_out_by)by, by % 2))
            qkv_held_out_free(&split);
    qkv_pixels_close(p);
    return QKV_OK;
}

const fuzz_target fuzz = {.read = read_pixels,
                          .seeds = {QKV_SOURCE_DIR "/tests/golden/io/pictures.pixels"}};
