/* test_emoji_font.c - fonts under random changes; of those that are accepted, every image is
 * read. */
#include "fuzz.h"

#include "qkv/image_list.h"

static qkv_status read_font(qkv_context *ctx, const char *path)
{
    qkv_image_list *p;
    qkv_image image;
    qkv_status status = qkv_image_list_open(&p, ctx, path);
    for (size_t i = 0; !status && i < qkv_image_list_count(p); i++)
        if (!qkv_image_list_read(p, i, &image, NULL))
            qkv_image_free(&image, ctx);
    if (!status)
        qkv_image_list_close(p);
    return status;
}

const fuzz_target fuzz = {.read = read_font,
                          .seeds = {QKV_SOURCE_DIR "/tests/golden/io/emoji.ttf"}};
