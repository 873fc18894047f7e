/* mae_config.c - the masked autoencoder's fields, under the names that Hugging Face gives them. */
#include "model/tables.h"
#include "qkv/mae.h"

#define CONFIG qkv_mae_config
#include "model/config_rows.h"
#include "nn/patches.h"

static const qkv_option rows[] = {
    PATCHES_ROWS(trunk),
    SIZE_ROW("decoder_hidden_size", decoder_width, 1, "512", "width of the decoder's stream"),
    SIZE_ROW("decoder_num_hidden_layers", decoder_layers, 1, "8", "blocks of the decoder"),
    SIZE_ROW("decoder_num_attention_heads", decoder_heads, 1, "16", "its attention heads"),
    SIZE_ROW("decoder_intermediate_size", decoder_ff_width, 0, "0",
             "its feed-forward width; 0: 4 times decoder_hidden_size"),
    RATE_ROW("mask_ratio", mask_ratio, "0.75", "share of the patches that training hides"),
    BOOL_ROW("norm_pix_loss", norm_pix, "false",
             "learn each patch less its mean, over its standard deviation"),
};
const qkv_option_table qkv__mae_config = {"Masked autoencoder", rows, sizeof rows / sizeof *rows,
                                          sizeof(CONFIG)};

/* From "base" on the sizes of He et al. 2021, whose decoder is always the same. */
static const qkv__named_size encoders[] = {
    {"nano", "2 layers of 64, decoder 1 of 64: a smoke test", 64, 2, 2},
    {"micro", "4 layers of 128, decoder 2 of 128: minutes on two cores, with small images", 128,
     4, 4},
    {"mini", "6 layers of 192, decoder 4 of 128: half an hour", 192, 6, 6},
    {"tiny", "12 layers of 192, decoder 4 of 192: hours", 192, 12, 6},
    {"small", "12 layers of 384, decoder 8 of 256: a day", 384, 12, 6},
    {"base", "12 layers of 768, decoder 8 of 512: ViT-B's 112M", 768, 12, 12},
    {"large", "24 layers of 1024, decoder 8 of 512: ViT-L's 330M", 1024, 24, 16},
    {NULL, NULL, 0, 0, 0},
};
static const struct {
    size_t width, layers, heads;
} decoders[] = {{64, 1, 2},  {128, 2, 4}, {128, 4, 4}, {192, 4, 6},
                {256, 8, 8}, {512, 8, 16}, {512, 8, 16}};

const char *qkv__mae_preset(const qkv_model_type *type, size_t i, const char **summary,
                            void *config)
{
    qkv_mae_config unused, *c = config ? config : &unused;
    const char *name = qkv__size_take(encoders, i, summary, &c->trunk.width, &c->trunk.layers,
                                      &c->trunk.heads);
    (void)type;
    if (name) {
        c->decoder_width = decoders[i].width;
        c->decoder_layers = decoders[i].layers;
        c->decoder_heads = decoders[i].heads;
    }
    return name;
}
