/* image_file.h - which files hold images. */
#ifndef QKV_SRC_IO_IMAGE_FILE_H
#define QKV_SRC_IO_IMAGE_FILE_H

#include "qkv/image_file.h"

/* True when the bytes begin as an image of a kind that is read does. */
bool qkv__image_begins(const uint8_t *data, size_t size);

#endif
