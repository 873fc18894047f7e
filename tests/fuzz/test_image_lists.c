/* test_image_lists.c - PNG, JPEG and idx files under random changes; of those that are accepted,
 * every image is read. */
#include "fuzz.h"

#include "qkv/image_list.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images"

static qkv_status read_images(qkv_context *ctx, const char *path)
{
    qkv_image_list *p;
    qkv_image image;
    qkv_status status = qkv_image_list_open(&p, ctx, path);
    if (status)
        return status;
    for (size_t i = 0; !status && i < qkv_image_list_count(p); i++) {
        status = qkv_image_list_read(p, i, &image, NULL);
        qkv_image_free(&image, ctx);
    }
    qkv_image_list_close(p);
    return status;
}

const fuzz_target fuzz = {
    .read = read_images,
    .seeds = {IMAGES "/type0-16bit-key.png", IMAGES "/type3-4bit.png", IMAGES "/type6-16bit.png",
              IMAGES "/print.jpg", IMAGES "/progressive.jpg", IMAGES "/turn6.jpg",
              QKV_SOURCE_DIR "/tests/golden/io/packed.idx.gz"}};
