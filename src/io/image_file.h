/* image_file.h - which files hold pictures. */
#ifndef QKV_SRC_IO_IMAGE_FILE_H
#define QKV_SRC_IO_IMAGE_FILE_H

#include "qkv/image_file.h"

/* True when the bytes begin as a picture of a kind that is read does. */
bool qkv__image_begins(const uint8_t *data, size_t size);

#endif
