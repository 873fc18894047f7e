/* marian_config.c - an encoder-decoder's fields, under the names that Hugging Face gives them. */
#include "model/tables.h"
#include "qkv/marian.h"

#define CONFIG qkv_marian_config
#include "model/config_rows.h"

/* In the order of qkv_activation; Marian's files say "swish". */
static const char *const activations[] = {"linear", "relu", "gelu", "gelu_new", "quick_gelu",
                                          "swish", "sigmoid", "tanh", NULL};

static const qkv_option rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "58101", "tokens in the vocabulary"),
    SIZE_ROW("max_position_embeddings", positions, 1, "512", "longest sentence in tokens"),
    SIZE_ROW("d_model", width, 1, "512", "width of the residual stream"),
    SIZE_ROW("encoder_layers", encoder_layers, 1, "6", "blocks of the encoder"),
    SIZE_ROW("decoder_layers", decoder_layers, 1, "6", "blocks of the decoder"),
    SIZE_ROW("encoder_attention_heads", encoder_heads, 1, "8", "heads of the encoder"),
    SIZE_ROW("decoder_attention_heads", decoder_heads, 1, "8", "heads of the decoder"),
    SIZE_ROW("encoder_ffn_dim", encoder_ff_width, 0, "0",
             "feed-forward width of the encoder; 0: 4 times d_model"),
    SIZE_ROW("decoder_ffn_dim", decoder_ff_width, 0, "0",
             "feed-forward width of the decoder; 0: 4 times d_model"),
    ENUM_ROW("activation_function", act, activations, "swish",
             "activation of the feed-forward layer"),
    RATE_ROW("dropout", dropout, "0.1", "dropout of each sublayer's output"),
    RATE_ROW("attention_dropout", attention_dropout, "0", "dropout of attention weights"),
    RATE_ROW("activation_dropout", activation_dropout, "0", "dropout after the activation"),
    INIT_ROW("init_std", init_range, "1 / (3 sqrt(width))"),
    BOOL_ROW("scale_embedding", scale_embedding, "true", "embeddings times sqrt(d_model)"),
    BOOL_ROW("share_encoder_decoder_embeddings", share, "true", "one table for source and target"),
    BOOL_ROW("tie_word_embeddings", tie, "true", "the output layer is the target's table"),
    TOKEN_ROW("pad_token_id", pad, "58100", "id of the padding token; -1: none"),
    TOKEN_ROW("eos_token_id", eos, "0", "id of the token that ends a sentence"),
    TOKEN_ROW("decoder_start_token_id", start, "58100", "id of the decoder's first input"),
};
const qkv_option_table qkv__marian_config = {"Translator", rows, sizeof rows / sizeof *rows,
                                             sizeof(CONFIG)};

/* Encoder and decoder alike. */
static const struct {
    const char *name, *summary;
    size_t width, layers, heads, ff_width;
} presets[] = {
    {"nano", "2 + 2 layers of 64: a smoke test", 64, 2, 2, 128},
    {"tiny", "4 + 4 layers of 128: fairseq's transformer_tiny, an hour", 128, 4, 4, 256},
    {"small", "4 + 4 layers of 256", 256, 4, 4, 1024},
    {"base", "6 + 6 layers of 512: the paper's base", 512, 6, 8, 2048},
    {"big", "6 + 6 layers of 1024: the paper's big", 1024, 6, 16, 4096},
};

const char *qkv__marian_preset(const qkv_model_type *type, size_t i, const char **summary,
                               void *config)
{
    qkv_marian_config *c = config;
    (void)type;
    if (i >= sizeof presets / sizeof *presets)
        return NULL;
    if (summary)
        *summary = presets[i].summary;
    if (c) {
        c->width = presets[i].width;
        c->encoder_layers = c->decoder_layers = presets[i].layers;
        c->encoder_heads = c->decoder_heads = presets[i].heads;
        c->encoder_ff_width = c->decoder_ff_width = presets[i].ff_width;
    }
    return presets[i].name;
}
