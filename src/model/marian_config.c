/* marian_config.c - an encoder-decoder's fields, under the names that Hugging Face gives them. */
#include "model/tables.h"
#include "model/translator.h"

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

/* In this order; those of v1.0, v1.1 and kin. */
static const char *const feed_forwards[] = {"relu", "gated-gelu", "gelu", "silu", "gated-relu",
                                            "gated-silu", NULL};
static const struct {
    qkv_activation act;
    bool gated;
} activations_of[] = {{QKV_ACT_RELU, false}, {QKV_ACT_GELU_TANH, true}, {QKV_ACT_GELU, false},
                      {QKV_ACT_SILU, false}, {QKV_ACT_RELU, true},      {QKV_ACT_SILU, true}};

static const qkv_option t5_rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "32128", "tokens in the vocabulary"),
    SIZE_ROW("n_positions", positions, 1, "512", "longest text in tokens, of each side"),
    SIZE_ROW("d_model", width, 1, "512", "width of the residual stream"),
    SIZE_ROW("d_kv", head_width, 1, "64", "width of a head"),
    SIZE_ROW("d_ff", encoder_ff_width, 1, "2048", "feed-forward width"),
    SIZE_ROW("num_layers", encoder_layers, 1, "6", "blocks of the encoder"),
    {.key = "num_decoder_layers", .type = QKV_OPT_SIZE, .flags = QKV_OPT_NULL,
     .max = QKV__MOST_SIZE, FIELD(decoder_layers), .initial = "0",
     .help = "blocks of the decoder; 0: as many"},
    SIZE_ROW("num_heads", encoder_heads, 1, "8", "heads of either side"),
    SIZE_ROW("relative_attention_num_buckets", buckets, 4, "32", "rows of relative positions"),
    SIZE_ROW("relative_attention_max_distance", distance, 3, "128",
             "positions from here on share a bucket"),
    ENUM_ROW("feed_forward_proj", feed_forward, feed_forwards, "relu",
             "activation of the feed-forward layer"),
    ENUM_ROW("dense_act_fn", act, qkv__activation_names, "linear",
             "the same again; linear: not said"),
    BOOL_ROW("is_gated_act", gated, "false", "the same again"),
    RATE_ROW("dropout_rate", dropout, "0.1", "dropout everywhere"),
    REAL_ROW("layer_norm_epsilon", norm_eps, 1, "1e-6", "added to the mean square in RMSNorm"),
    REAL_ROW("initializer_factor", init_range, 1000, "1", "factor of T5's initial deviations"),
    /* transformers 5 says the first of every model, and the second of what it means */
    BOOL_ROW("tie_word_embeddings", tie, "true", "the output layer is the embedding, scaled"),
    BOOL_ROW("scale_decoder_outputs", tie, "true", "the same again"),
    TOKEN_ROW("pad_token_id", pad, "0", "id of the padding token; -1: none"),
    TOKEN_ROW("eos_token_id", eos, "1", "id of the token that ends a text"),
    TOKEN_ROW("decoder_start_token_id", start, "0", "id of the decoder's first input"),
};
const qkv_option_table qkv__t5_config = {"T5 model", t5_rows, sizeof t5_rows / sizeof *t5_rows,
                                         sizeof(CONFIG)};

qkv_status qkv__t5_activation(qkv_context *ctx, qkv_marian_config *c)
{
    const qkv_activation act = activations_of[c->feed_forward].act;
    const bool gated = activations_of[c->feed_forward].gated;
    if ((c->act != QKV_ACT_NONE && c->act != act) || (c->gated && !gated))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "feed_forward_proj \"%s\" means dense_act_fn \"%s\""
                        "%s, found \"%s\"%s", feed_forwards[c->feed_forward],
                        qkv__activation_names[act], gated ? ", gated" : "",
                        qkv__activation_names[c->act], c->gated ? ", gated" : "");
    c->act = act;
    c->gated = gated;
    return QKV_OK;
}

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
