/* classify_images.h - `qkv classify` for images. */
#ifndef QKV_CMD_USE_CLASSIFY_IMAGES_H
#define QKV_CMD_USE_CLASSIFY_IMAGES_H

#include "core/cli.h"

/* Answers for each of the paths (count): images, or what holds some. Those that cannot be read
 * are named and passed over. An exit code: CLI_FAILED when there were any. */
int cli_classify_images(cli *c, qkv_pipeline *p, const char *const *paths, size_t count);

#endif
