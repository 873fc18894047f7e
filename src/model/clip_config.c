/* clip_config.c - CLIP's fields, under the names that Hugging Face gives them. */
#include "model/tables.h"
#include "qkv/clip.h"

#define CONFIG qkv_clip_config
#include "model/config_rows.h"

#define TEXT(key_) "text_config." key_
#define VISION(key_) "vision_config." key_

/* The blocks of an encoder; the defaults are those that files may leave out. */
#define ENCODER_ROWS(KEY, member, width_, ff_, heads_)                                             \
    SIZE_ROW(KEY("hidden_size"), member.width, 1, width_, "width of the residual stream"),         \
    SIZE_ROW(KEY("intermediate_size"), member.ff_width, 1, ff_, "feed-forward width"),             \
    SIZE_ROW(KEY("num_hidden_layers"), member.layers, 1, "12", "transformer blocks"),              \
    SIZE_ROW(KEY("num_attention_heads"), member.heads, 1, heads_, "attention heads"),              \
    ENUM_ROW(KEY("hidden_act"), member.act, qkv__activation_names, "quick_gelu",                   \
             "activation of the feed-forward layer"),                                              \
    REAL_ROW(KEY("layer_norm_eps"), member.norm_eps, 1, "1e-5",                                    \
             "added to the variance in LayerNorm"),                                                \
    RATE_ROW(KEY("attention_dropout"), member.attention_dropout, "0",                              \
             "dropout of attention weights")

static const qkv_option rows[] = {
    SIZE_ROW(TEXT("vocab_size"), text.vocab, 1, "49408", "tokens in the vocabulary"),
    SIZE_ROW(TEXT("max_position_embeddings"), text.positions, 1, "77", "longest text in tokens"),
    ENCODER_ROWS(TEXT, text, "512", "2048", "8"),
    TOKEN_ROW(TEXT("pad_token_id"), text.pad, "1", "id of the padding token; -1: none"),
    TOKEN_ROW(TEXT("bos_token_id"), text.bos, "49406", "id that begins a text; -1: none"),
    {.key = TEXT("eos_token_id"), .type = QKV_OPT_INT, .max = QKV__MOST_SIZE - 1, FIELD(text.eos),
     .initial = "49407",
     .help = "id whose output is the text's; 2: the greatest id's of the text"},
    SIZE_ROW(VISION("image_size"), vision.image, 1, "224", "side of the images in pixels"),
    SIZE_ROW(VISION("patch_size"), vision.patch, 1, "32", "side of a patch in pixels"),
    SIZE_ROW(VISION("num_channels"), vision.channels, 1, "3", "channels of a pixel"),
    ENCODER_ROWS(VISION, vision, "768", "3072", "12"),
    SIZE_ROW("projection_dim", projection, 1, "512", "width of the common space"),
    {.key = "logit_scale_init_value", .type = QKV_OPT_REAL, .min = -100, .max = 100,
     FIELD(log_scale), .initial = "2.6592",
     .help = "initial logarithm of what cosines are multiplied by"},
    REAL_ROW("initializer_factor", init_factor, 100, "1", "of all initial deviations"),
};
const qkv_option_table qkv__clip_config = {"CLIP model", rows, sizeof rows / sizeof *rows,
                                           sizeof(CONFIG)};

/* Width, layers and heads of the text and of the image encoder; "base" is ViT-B's. */
static const struct {
    const char *name, *summary;
    size_t text[3], vision[3], projection;
} presets[] = {
    {"nano", "2 layers of 64 each: a smoke test", {64, 2, 2}, {64, 2, 2}, 64},
    {"micro", "3 layers of 128 for texts, 4 for images: minutes on two cores, with small images",
     {128, 3, 4}, {128, 4, 4}, 128},
    {"mini", "4 layers of 192 for texts, 6 for images: an hour, with small images",
     {192, 4, 3}, {192, 6, 3}, 192},
    {"small", "12 layers of 384 each", {384, 12, 6}, {384, 12, 6}, 384},
    {"base", "12 layers of 512 for texts, of 768 for images: CLIP ViT-B's 150M",
     {512, 12, 8}, {768, 12, 12}, 512},
    {NULL, NULL, {0}, {0}, 0},
};

const char *qkv__clip_preset(const qkv_model_type *type, size_t i, const char **summary,
                             void *config)
{
    qkv_clip_config *c = config;
    (void)type;
    if (summary)
        *summary = presets[i].summary;
    if (c && presets[i].name) {
        const size_t *t = presets[i].text, *v = presets[i].vision;
        c->text.width = t[0];
        c->text.layers = t[1];
        c->text.heads = t[2];
        c->text.ff_width = 4 * t[0];
        c->vision.width = v[0];
        c->vision.layers = v[1];
        c->vision.heads = v[2];
        c->vision.ff_width = 4 * v[0];
        c->projection = presets[i].projection;
    }
    return presets[i].name;
}
