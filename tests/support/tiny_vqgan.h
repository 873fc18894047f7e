/* tiny_vqgan.h - the VQGAN of the golden files (tools/make-golden/vqgan.py). */
#ifndef QKV_TESTS_TINY_VQGAN_H
#define QKV_TESTS_TINY_VQGAN_H

#include <string.h>

#include "qkv/vqgan.h"

enum { SIDE = 16 }; /* of its images */

static inline qkv_vqgan_config tiny_vqgan(void)
{
    qkv_vqgan_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), &c);
    c.channels = 32;
    c.multiples = (qkv_sizes){2, {1, 2}};
    c.blocks = 1;
    c.attention = (qkv_sizes){1, {8}};
    c.image = SIDE;
    c.z_channels = 24;
    c.code_width = 16;
    c.codes = 40;
    c.disc_channels = 8;
    c.disc_layers = 2;
    return c;
}

/* What a bias adds to all pixels of a channel, a norm whose groups are one channel takes away, so
 * many of them have no gradient by mathematics; keys' never have one. */
static inline bool idle(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && strcmp(end, ".bias") == 0 && !strstr(name, "norm");
}

#endif
