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

static const char *const rope_kinds[] = {"default", "linear", "llama3", "yarn", NULL};

/* Under the names of transformers 5, and those of transformers 4. hub/config.c writes them. */
#define ROPE(name) "rope_parameters." name "|rope_scaling." name
#define ROPE_ROW(name, member, most, help_)                                                    \
    {.key = ROPE(name), .type = QKV_OPT_REAL, .flags = QKV_OPT_UNWRITTEN, .max = most,         \
     FIELD(rotary.member), .initial = "0", .help = help_}

/* What the layouts have in common. */
#define ROTARY_ROWS                                                                            \
    SIZE_ROW("vocab_size", vocab, 1, "32000", "tokens in the vocabulary"),                     \
    SIZE_ROW("max_position_embeddings", positions, 1, "2048", "training length in tokens"),    \
    SIZE_ROW("hidden_size", width, 1, "768", "width of the residual stream"),                  \
    SIZE_ROW("num_hidden_layers", layers, 1, "12", "transformer blocks"),                      \
    SIZE_ROW("num_attention_heads", heads, 1, "12", "attention heads"),                        \
    SIZE_ROW("num_key_value_heads", kv_heads, 0, "0", "key/value heads; 0: one for each head"), \
    SIZE_ROW("head_dim", head_width, 0, "0", "width of a head; 0: hidden_size / heads"),       \
    SIZE_ROW("intermediate_size", ff_width, 0, "0",                                            \
             "feed-forward width; 0: 8/3 of hidden_size, rounded up to 64"),                   \
    ENUM_ROW("hidden_act", act, qkv__activation_names, "silu", "activation of the gate"),      \
    REAL_ROW("rms_norm_eps", norm_eps, 1, "1e-6", "added to the mean square in RMSNorm"),      \
    REAL_ROW("rope_theta|rope_parameters.rope_theta", rotary.base, 1e12, "10000",              \
             "base of the rotary angles"),                                                     \
    {.key = ROPE("rope_type") "|rope_scaling.type", .type = QKV_OPT_ENUM,                      \
     .flags = QKV_OPT_UNWRITTEN, FIELD(rotary.kind), .names = rope_kinds,                      \
     .initial = "default", .help = "how the rotary angles are extended"},                      \
    ROPE_ROW("factor", factor, 1e9, "by which texts are longer than in training"),             \
    {.key = ROPE("original_max_position_embeddings"), .type = QKV_OPT_SIZE,                    \
     .flags = QKV_OPT_UNWRITTEN, .max = QKV__MOST_SIZE, FIELD(rotary.original),                \
     .initial = "0", .help = "training length before; 0: max_position_embeddings"},            \
    ROPE_ROW("low_freq_factor", low, 1e9, "llama3: turns below which angles are divided"),     \
    ROPE_ROW("high_freq_factor", high, 1e9, "llama3: turns above which angles stay"),          \
    ROPE_ROW("beta_fast", beta_fast, 1e9, "yarn: turns above which angles stay; 0: 32"),       \
    ROPE_ROW("beta_slow", beta_slow, 1e9, "yarn: turns below which angles are divided; 0: 1"), \
    ROPE_ROW("attention_factor", attention_factor, 1e9, "yarn: scale; 0: by the factor"),      \
    ROPE_ROW("mscale", mscale, 1e9, "yarn: weight in the scale"),                              \
    ROPE_ROW("mscale_all_dim", mscale_all_dim, 1e9, "yarn: weight in what divides the scale"), \
    INIT_ROW("initializer_range", init_range, "1 / sqrt(width)"),                              \
    RATE_ROW("attention_dropout", attention_dropout, "0", "dropout of attention weights"),     \
    RATE_ROW("resid_pdrop", dropout, "0", "dropout of each sublayer's output"),                \
    RATE_ROW("embd_pdrop", embd_dropout, "0", "dropout of the embedding"),                     \
    BOOL_ROW("tie_word_embeddings", tie, "false", "the output layer is the embedding"),        \
    TOKEN_ROW("bos_token_id", bos, "-1", "id of the token that begins a text; -1: none"),      \
    TOKEN_ROW("eos_token_id", eos, "-1", "id of the token that ends a text; -1: none"),        \
    TOKEN_ROW("pad_token_id", pad, "-1", "id of the padding token; -1: none")

#define ATTENTION_BIAS_ROW                                                                     \
    BOOL_ROW("attention_bias", attention_bias, "false", "biases in the attention layers")
#define WINDOW_ROW(initial_)                                                                   \
    {.key = "sliding_window", .type = QKV_OPT_SIZE, .flags = QKV_OPT_NULL,                     \
     .max = QKV__MOST_SIZE, FIELD(window), .initial = initial_,                                \
     .help = "keys that a query sees; 0: all"}
#define WINDOW_ROWS                                                                            \
    WINDOW_ROW("4096"),                                                                        \
    BOOL_ROW("use_sliding_window", use_window, "false", "the last layers have that window"),   \
    SIZE_ROW("max_window_layers", window_from, 0, "28", "layers without it, the first")

static const qkv_option llama_rows[] = {
    ROTARY_ROWS, ATTENTION_BIAS_ROW,
    BOOL_ROW("mlp_bias", ff_bias, "false", "biases in the feed-forward layers")};
static const qkv_option mistral_rows[] = {ROTARY_ROWS, WINDOW_ROW("4096")};
static const qkv_option phi3_rows[] = {
    ROTARY_ROWS, WINDOW_ROW("0"),
    {.key = "partial_rotary_factor|rope_parameters.partial_rotary_factor", .type = QKV_OPT_REAL,
     .flags = QKV_OPT_ABOVE, .max = 1, FIELD(rotary.share), .initial = "1",
     .help = "share of a head's channels that have rotary positions"}};
static const qkv_option qwen2_rows[] = {ROTARY_ROWS, WINDOW_ROWS};
static const qkv_option qwen3_rows[] = {ROTARY_ROWS, WINDOW_ROWS, ATTENTION_BIAS_ROW};

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

#define TABLE(title, rows_) {title, rows_, sizeof rows_ / sizeof *rows_, sizeof(CONFIG)}
const qkv_option_table qkv__prior_config = TABLE("Prior on codes", prior_rows);
const qkv_option_table qkv__gpt2_config = TABLE("GPT-2 model", gpt2_rows);
const qkv_option_table qkv__llama_config = TABLE("Llama model", llama_rows);
const qkv_option_table qkv__mistral_config = TABLE("Mistral model", mistral_rows);
const qkv_option_table qkv__phi3_config = TABLE("Phi-3 model", phi3_rows);
const qkv_option_table qkv__qwen2_config = TABLE("Qwen2 model", qwen2_rows);
const qkv_option_table qkv__qwen3_config = TABLE("Qwen3 model", qwen3_rows);

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
