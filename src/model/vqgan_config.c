/* vqgan_config.c - VQGAN's fields, under the names that taming-transformers gives them. */
#include "model/tables.h"
#include "qkv/vqgan.h"

#define CONFIG qkv_vqgan_config
#include "model/config_rows.h"

#define SIZES_ROW(key_, member, least, initial_, help_)                                        \
    {.key = key_, .type = QKV_OPT_SIZES, .min = least, .max = QKV__MOST_SIZE, FIELD(member),   \
     .initial = initial_, .help = help_}

static const qkv_option rows[] = {
    SIZE_ROW("ch", channels, 1, "128", "channels of the first level, a multiple of 32"),
    SIZES_ROW("ch_mult", multiples, 1, "1,1,2,2,4",
              "times ch, channels of each level; a level more, half the image"),
    SIZE_ROW("num_res_blocks", blocks, 1, "2", "blocks of an encoder's level, a decoder's have "
             "one more"),
    SIZES_ROW("attn_resolutions", attention, 0, "16",
              "sides of images, in a level, whose blocks attend"),
    SIZE_ROW("resolution", image, 1, "256", "side of the images in pixels"),
    SIZE_ROW("in_channels", colors, 1, "3", "channels of a pixel, 1 or 3"),
    SIZE_ROW("z_channels", z_channels, 1, "256", "channels between encoder and codes"),
    SIZE_ROW("embed_dim", code_width, 1, "256", "width of a code's vector"),
    SIZE_ROW("n_embed", codes, 1, "1024", "codes"),
    RATE_ROW("dropout", dropout, "0", "dropout inside the blocks"),
    SIZE_ROW("disc_ndf", disc_channels, 1, "64", "the discriminator's first channels"),
    SIZE_ROW("disc_num_layers", disc_layers, 0, "3",
             "its convolutions that halve the image; 0: there is none"),
};
const qkv_option_table qkv__vqgan_config = {"VQGAN", rows, sizeof rows / sizeof *rows,
                                            sizeof(CONFIG)};

typedef struct {
    const char *name, *summary;
    size_t channels;
    qkv_sizes multiples;
    size_t blocks;
    bool attention; /* in the last level's blocks, not in the middle alone */
    size_t width, codes, disc_channels, disc_layers;
} size_row;

static const size_row sizes[] = {
    {"nano", "f4, 32 channels: a smoke test", 32, {3, {1, 1, 2}}, 1, false, 64, 256, 32, 2},
    {"micro", "f4, 64 channels, 512 codes: images of 32 pixels, an hour on two cores", 64,
     {3, {1, 1, 2}}, 1, false, 64, 512, 32, 2},
    {"mini", "f8, 64 channels, 512 codes: images of 64 pixels, an hour on two cores", 64,
     {4, {1, 1, 2, 2}}, 1, true, 64, 512, 32, 2},
    {"f8", "128 channels, 1024 codes, attention in the last level", 128, {4, {1, 1, 2, 4}}, 2, true,
     256, 1024, 64, 3},
    {"f16", "128 channels, 1024 codes: the published one of 72M", 128, {5, {1, 1, 2, 2, 4}}, 2,
     true, 256, 1024, 64, 3},
};

const char *qkv__vqgan_preset(const qkv_model_type *type, size_t i, const char **summary,
                              void *config)
{
    const size_row *s = &sizes[i];
    qkv_vqgan_config *c = config;
    (void)type;
    if (i >= sizeof sizes / sizeof *sizes)
        return NULL;
    if (summary)
        *summary = s->summary;
    if (c) {
        c->channels = s->channels;
        c->multiples = s->multiples;
        c->blocks = s->blocks;
        c->attention = (qkv_sizes){s->attention, {c->image >> (s->multiples.count - 1)}};
        c->z_channels = c->code_width = s->width;
        c->codes = s->codes;
        c->disc_channels = s->disc_channels;
        c->disc_layers = s->disc_layers;
    }
    return s->name;
}
