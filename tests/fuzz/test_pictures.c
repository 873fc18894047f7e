/* test_pictures.c - PNG, JPEG and idx files under random changes; of those that are accepted, every
 * picture is read. */
#include "fuzz.h"

#include "qkv/pictures.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images"

static qkv_status read_pictures(qkv_context *ctx, const char *path)
{
    qkv_pictures *p;
    qkv_image image;
    qkv_status status = qkv_pictures_open(&p, ctx, path);
    if (status)
        return status;
    for (size_t i = 0; !status && i < qkv_pictures_count(p); i++) {
        status = qkv_pictures_read(p, i, &image, NULL);
        qkv_image_free(&image, ctx);
    }
    qkv_pictures_close(p);
    return status;
}

const fuzz_target fuzz = {
    .read = read_pictures,
    .seeds = {IMAGES "/type0-16bit-key.png", IMAGES "/type3-4bit.png", IMAGES "/type6-16bit.png",
              IMAGES "/print.jpg", IMAGES "/progressive.jpg", IMAGES "/turn6.jpg",
              QKV_SOURCE_DIR "/tests/golden/io/packed.idx.gz"}};
