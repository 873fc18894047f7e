/* vit_config.c - fields of Vision Transformers, under the names that Hugging Face gives them. */
#include "model/tables.h"
#include "qkv/vit.h"

#define CONFIG qkv_vit_config
#include "model/config_rows.h"
#include "nn/patches.h"

static const qkv_option vit_rows[] = {
    PATCHES_ROWS(trunk),
    SIZE_ROW("num_labels", classes, 1, "2", "classes"),
    SIZE_ROW("encoder_stride", stride, 1, "16", "kept for other programs"),
    SIZE_ROW("pooler_output_size", pooled, 0, "0", "kept for other programs; 0: hidden_size"),
};
const qkv_option_table qkv__vit_config = {"Vision Transformer", vit_rows,
                                          sizeof vit_rows / sizeof *vit_rows, sizeof(CONFIG)};

/* Of DINOv2 (Oquab et al. 2023), without registers and with them. */
#define DINOV2_ROWS(patch_)                                                                        \
    PATCHES_IMAGE_ROWS(trunk, patch_), PATCHES_SIZE_ROWS(trunk, "768", "12", "12"),                \
    SIZE_ROW("mlp_ratio", trunk.ff_ratio, 1, "4",                                                  \
             "feed-forward width over hidden_size, gated 2/3 of it"),                              \
    BOOL_ROW("use_swiglu_ffn", trunk.gated, "false", "gated feed-forward layer, SiLU"),            \
    REAL_ROW("layerscale_value", trunk.layer_scale, 1e6, "1",                                      \
             "first value of the factors of a sublayer's output"),                                 \
    PATCHES_SUBLAYER_ROWS(trunk, "true", ""), PATCHES_NORM_ROWS(trunk, "1e-6"),                    \
    SIZE_ROW("num_labels", classes, 1, "2", "classes")
static const qkv_option dinov2_rows[] = {
    DINOV2_ROWS("14"),
    BOOL_ROW("use_mask_token", trunk.mask_token, "true", "kept for other programs"),
};
const qkv_option_table qkv__dinov2_config = {"DINOv2", dinov2_rows,
                                             sizeof dinov2_rows / sizeof *dinov2_rows,
                                             sizeof(CONFIG)};
static const qkv_option dinov2_registers_rows[] = {
    DINOV2_ROWS("16"),
    SIZE_ROW("num_register_tokens", trunk.registers, 1, "4", "tokens that are no patches"),
};
const qkv_option_table qkv__dinov2_registers_config = {
    "DINOv2 with registers", dinov2_registers_rows,
    sizeof dinov2_registers_rows / sizeof *dinov2_registers_rows, sizeof(CONFIG)};

static const qkv_option cct_rows[] = {
    SIZE_ROW("image_size", trunk.image, 1, "32", "side of the images in pixels"),
    SIZE_ROW("num_channels", trunk.channels, 1, "3", "channels of a pixel"),
    SIZE_ROW("num_conv_layers", convolutions, 1, "2", "convolutions; each halves the image"),
    SIZE_ROW("conv_channels", conv_channels, 1, "64", "channels of all of them but the last"),
    BOOL_ROW("use_positions", positions, "true", "learn a vector for every place"),
    PATCHES_BLOCK_ROWS(trunk, "256", "7", "4", "twice hidden_size", "false", ""),
    REAL_ROW("layer_norm_eps", trunk.norm_eps, 1, "1e-5", "added to the variance in LayerNorm"),
    INIT_ROW("initializer_range", trunk.init_range, "1 / sqrt(width)"),
    SIZE_ROW("num_labels", classes, 1, "2", "classes"),
};
const qkv_option_table qkv__cct_config = {"Compact transformer", cct_rows,
                                          sizeof cct_rows / sizeof *cct_rows, sizeof(CONFIG)};

/* From "tiny" on the sizes of Touvron et al. 2021 and Dosovitskiy et al. 2020. */
static const qkv__named_size vit_presets[] = {
    {"nano", "2 layers of 64: a smoke test", 64, 2, 2},
    {"micro", "4 layers of 128: minutes on two cores, with small images", 128, 4, 4},
    {"mini", "6 layers of 192: an hour, with small images", 192, 6, 3},
    {"tiny", "12 layers of 192: ViT-Ti's 5.7M", 192, 12, 3},
    {"small", "12 layers of 384: ViT-S's 22M", 384, 12, 6},
    {"base", "12 layers of 768: ViT-B's 86M", 768, 12, 12},
    {"large", "24 layers of 1024: ViT-L's 304M", 1024, 24, 16},
    {NULL, NULL, 0, 0, 0},
};

/* From "mini" on the sizes of Hassani et al. 2021. */
static const qkv__named_size cct_presets[] = {
    {"nano", "2 layers of 64: a smoke test", 64, 2, 2},
    {"micro", "4 layers of 128: minutes on two cores", 128, 4, 4},
    {"mini", "6 layers of 256: CCT-6's 3.3M", 256, 6, 4},
    {"tiny", "7 layers of 256: CCT-7's 3.9M", 256, 7, 4},
    {"small", "14 layers of 384: CCT-14's 22M", 384, 14, 6},
    {NULL, NULL, 0, 0, 0},
};

const char *qkv__vit_preset(const qkv_model_type *type, size_t i, const char **summary,
                            void *config)
{
    const qkv__named_size *list = type->config == &qkv__cct_config ? cct_presets : vit_presets;
    qkv_vit_config unused, *c = config ? config : &unused;
    return qkv__size_take(list, i, summary, &c->trunk.width, &c->trunk.layers, &c->trunk.heads);
}
