/* emoji_groups.h - what characters with images show. */
#ifndef QKV_SRC_IMAGE_EMOJI_GROUPS_H
#define QKV_SRC_IMAGE_EMOJI_GROUPS_H

#include <stdint.h>

/* "animals", "faces" ..; "things" where no group fits. */
const char *qkv__emoji_group(uint32_t code);

#endif
