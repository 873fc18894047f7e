/* gpt_config.c - a GPT's fields, under the names that Hugging Face gives them in each layout. */
#include "model/tables.h"
#include "qkv/gpt.h"

#define CONFIG qkv_gpt_config
#include "model/config_rows.h"

static const char *const position_kinds[] = {"learned", "sinusoid", "none", "rotary", NULL};

static const qkv_option gpt2_rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "50257", "tokens in the vocabulary"),
    SIZE_ROW("n_positions|n_ctx", positions, 1, "1024", "tokens a prediction can look back on"),
    SIZE_ROW("n_embd", width, 1, "768", "width of the residual stream"),
    SIZE_ROW("n_layer", layers, 1, "12", "transformer blocks"),
    SIZE_ROW("n_head", heads, 1, "12", "attention heads"),
    {.key = "n_inner", .type = QKV_OPT_SIZE, .flags = QKV_OPT_NULL, .max = 16777216,
     FIELD(ff_width), .initial = "0", .help = "feed-forward width; 0: 4 times n_embd"},
    ENUM_ROW("activation_function", act, qkv__activation_names, "gelu_new",
             "activation of the feed-forward layer"),
    RATE_ROW("resid_pdrop", dropout, "0", "dropout of each sublayer's output"),
    RATE_ROW("embd_pdrop", embd_dropout, "0", "dropout of the embedding"),
    RATE_ROW("attn_pdrop", attention_dropout, "0", "dropout of attention weights"),
    REAL_ROW("layer_norm_epsilon", norm_eps, 1, "1e-5", "added to the variance in LayerNorm"),
    INIT_ROW("initializer_range", init_range, "1 / sqrt(width)"),
    BOOL_ROW("tie_word_embeddings", tie, "true", "the output layer is the embedding"),
    BOOL_ROW("scale_attn_weights", scale_attention, "true", "attention over sqrt(head width)"),
    BOOL_ROW("scale_attn_by_inverse_layer_idx", scale_by_layer, "false",
             "attention over the layer's number too"),
    ENUM_ROW("qkv_positions", position_kind, position_kinds, "learned",
             "how the position table was made"),
    TOKEN_ROW("bos_token_id", bos, "-1", "id of the token that begins a text; -1: none"),
    TOKEN_ROW("eos_token_id", eos, "-1", "id of the token that ends a text; -1: none"),
    TOKEN_ROW("pad_token_id", pad, "-1", "id of the padding token; -1: none"),
};

static const qkv_option llama_rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "32000", "tokens in the vocabulary"),
    SIZE_ROW("max_position_embeddings", positions, 1, "2048", "training length in tokens"),
    SIZE_ROW("hidden_size", width, 1, "768", "width of the residual stream"),
    SIZE_ROW("num_hidden_layers", layers, 1, "12", "transformer blocks"),
    SIZE_ROW("num_attention_heads", heads, 1, "12", "attention heads"),
    SIZE_ROW("num_key_value_heads", kv_heads, 0, "0", "key/value heads; 0: one for each head"),
    SIZE_ROW("head_dim", head_width, 0, "0", "width of a head; 0: hidden_size / heads"),
    SIZE_ROW("intermediate_size", ff_width, 0, "0",
             "feed-forward width; 0: 8/3 of hidden_size, rounded up to 64"),
    ENUM_ROW("hidden_act", act, qkv__activation_names, "silu", "activation of the gate"),
    REAL_ROW("rms_norm_eps", norm_eps, 1, "1e-6", "added to the mean square in RMSNorm"),
    REAL_ROW("rope_theta|rope_parameters.rope_theta", rotary_base, 1e12, "10000",
             "base of the rotary angles"),
    INIT_ROW("initializer_range", init_range, "1 / sqrt(width)"),
    RATE_ROW("attention_dropout", attention_dropout, "0", "dropout of attention weights"),
    RATE_ROW("resid_pdrop", dropout, "0", "dropout of each sublayer's output"),
    RATE_ROW("embd_pdrop", embd_dropout, "0", "dropout of the embedding"),
    BOOL_ROW("attention_bias", attention_bias, "false", "biases in the attention layers"),
    BOOL_ROW("mlp_bias", ff_bias, "false", "biases in the feed-forward layers"),
    BOOL_ROW("tie_word_embeddings", tie, "false", "the output layer is the embedding"),
    TOKEN_ROW("bos_token_id", bos, "-1", "id of the token that begins a text; -1: none"),
    TOKEN_ROW("eos_token_id", eos, "-1", "id of the token that ends a text; -1: none"),
    TOKEN_ROW("pad_token_id", pad, "-1", "id of the padding token; -1: none"),
};

/* What the others choose is fixed: learned positions, a layer of its own at the end. */
static const qkv_option prior_rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "1024", "codes, of the image and of what it hangs on"),
    SIZE_ROW("block_size", positions, 1, "256", "codes a prediction can look back on, and one"),
    SIZE_ROW("n_embd", width, 1, "256", "width of the residual stream"),
    SIZE_ROW("n_layer", layers, 1, "8", "transformer blocks"),
    SIZE_ROW("n_head", heads, 1, "8", "attention heads"),
    ENUM_ROW("activation_function", act, qkv__activation_names, "gelu",
             "activation of the feed-forward layer"),
    RATE_ROW("resid_pdrop", dropout, "0", "dropout of each sublayer's output"),
    RATE_ROW("embd_pdrop", embd_dropout, "0", "dropout of the embedding"),
    RATE_ROW("attn_pdrop", attention_dropout, "0", "dropout of attention weights"),
    REAL_ROW("layer_norm_epsilon", norm_eps, 1, "1e-5", "added to the variance in LayerNorm"),
    INIT_ROW("initializer_range", init_range, "1 / sqrt(width)"),
    SIZE_ROW("grid_rows", rows, 1, "16", "rows of codes of an image"),
    SIZE_ROW("grid_columns", columns, 1, "16", "columns of codes of an image"),
    SIZE_ROW("condition_length", before, 1, "1", "tokens before an image's codes"),
};

const qkv_option_table qkv__prior_config = {"Prior on codes", prior_rows,
                                            sizeof prior_rows / sizeof *prior_rows, sizeof(CONFIG)};
const qkv_option_table qkv__gpt2_config = {"GPT-2 model", gpt2_rows,
                                           sizeof gpt2_rows / sizeof *gpt2_rows, sizeof(CONFIG)};
const qkv_option_table qkv__llama_config = {"Llama model", llama_rows,
                                            sizeof llama_rows / sizeof *llama_rows, sizeof(CONFIG)};

static const qkv__named_size presets[] = {
    {"nano", "2 layers of 64: a smoke test", 64, 2, 2},
    {"tiny", "4 layers of 128: seconds to minutes on two cores", 128, 4, 4},
    {"mini", "4 layers of 192: minutes", 192, 4, 6},
    {"small", "6 layers of 256: half an hour", 256, 6, 8},
    {"medium", "6 layers of 384, nanoGPT's character model: hours", 384, 6, 6},
    {"large", "8 layers of 512", 512, 8, 8},
    {"gpt2", "12 layers of 768: GPT-2's 124M", 768, 12, 12},
    {"gpt2-medium", "24 layers of 1024: GPT-2's 355M", 1024, 24, 16},
    {"gpt2-large", "36 layers of 1280: GPT-2's 774M", 1280, 36, 20},
    {"gpt2-xl", "48 layers of 1600: GPT-2's 1.6B", 1600, 48, 25},
    {"7b", "32 layers of 4096: Llama's 7B", 4096, 32, 32},
    {NULL, NULL, 0, 0, 0},
};

const char *qkv__gpt_preset(const qkv_model_type *type, size_t i, const char **summary,
                            void *config)
{
    qkv_gpt_config unused, *c = config ? config : &unused;
    (void)type;
    return qkv__size_take(presets, i, summary, &c->width, &c->layers, &c->heads);
}
