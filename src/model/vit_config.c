/* vit_config.c - the Vision Transformer's fields, under the names that Hugging Face gives them. */
#include "model/vit.h"

#define CONFIG qkv_vit_config
#include "model/config_rows.h"
#include "model/patches.h"

static const qkv_option rows[] = {
    PATCHES_ROWS(trunk),
    SIZE_ROW("num_labels", classes, 1, "2", "classes"),
    SIZE_ROW("encoder_stride", stride, 1, "16", "kept for other programs"),
};
const qkv_option_table qkv__vit_config = {"Vision Transformer", rows, sizeof rows / sizeof *rows};

/* From "tiny" on the sizes of Touvron et al. 2021 and Dosovitskiy et al. 2020. */
static const qkv__named_size presets[] = {
    {"nano", "2 layers of 64: a smoke test", 64, 2, 2},
    {"micro", "4 layers of 128: minutes on two cores, with small pictures", 128, 4, 4},
    {"mini", "6 layers of 192: an hour, with small pictures", 192, 6, 3},
    {"tiny", "12 layers of 192: ViT-Ti's 5.7M", 192, 12, 3},
    {"small", "12 layers of 384: ViT-S's 22M", 384, 12, 6},
    {"base", "12 layers of 768: ViT-B's 86M", 768, 12, 12},
    {"large", "24 layers of 1024: ViT-L's 304M", 1024, 24, 16},
    {NULL, NULL, 0, 0, 0},
};

bool qkv_vit_preset(const char *name, qkv_vit_config *config)
{
    qkv_patches_config *c = &config->trunk;
    return qkv__size_take(presets, name, &c->width, &c->layers, &c->heads);
}

const char *qkv_vit_preset_name(size_t i, const char **summary)
{
    return qkv__size_name(presets, i, summary);
}
