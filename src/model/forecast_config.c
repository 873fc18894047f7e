/* forecast_config.c - a forecaster's fields, under names that Hugging Face's models of series have
 * where there are such. */
#include "model/tables.h"
#include "qkv/forecast.h"

#define CONFIG qkv_forecast_config
#include "model/config_rows.h"

static const char *const normalizations[] = {"series", "window", "last", NULL};
static const char *const position_kinds[] = {"learned", "sinusoid", NULL};
static const char *const losses[] = {"mse", "huber", "mae", NULL};

/* A row with a flag, NULL for none. */
#define FLAG_ROW(flag_, key_, member, least, initial_, help_)                                  \
    {.flag = flag_, .key = key_, .type = QKV_OPT_SIZE, .min = least, .max = QKV__MOST_SIZE,    \
     FIELD(member), .initial = initial_, .help = help_}

static const qkv_option rows[] = {
    SIZE_ROW("input_size", columns, 1, "1", "numbers in a row"),
    SIZE_ROW("target_size", targets, 0, "0", "the first so many columns are forecast; 0: all"),
    FLAG_ROW("context", "context_length", context, 1, "96", "rows that a forecast is made from"),
    FLAG_ROW("horizon", "prediction_length", horizon, 1, "24", "rows that it has"),
    FLAG_ROW("patch", "patch_length", patch, 1, "4", "rows in a token; divides the context"),
    SIZE_ROW("d_model", width, 1, "64", "width of the residual stream"),
    SIZE_ROW("encoder_layers", layers, 1, "2", "blocks of the encoder"),
    SIZE_ROW("decoder_layers", decoder_layers, 0, "0",
             "blocks of the decoder; 0: the encoder alone"),
    {.flag = "causal", .key = "causal_decoder", .type = QKV_OPT_BOOL, FIELD(causal),
     .initial = "false",
     .help = "a decoder that forecasts token after token, each from those before"},
    SIZE_ROW("num_attention_heads", heads, 1, "4", "attention heads"),
    SIZE_ROW("ffn_dim", ff_width, 0, "0", "feed-forward width; 0: 4 times d_model"),
    ENUM_ROW("activation_function", act, qkv__activation_names, "gelu",
             "activation of the feed-forward layer"),
    {.flag = "normalize", .key = "normalize", .type = QKV_OPT_ENUM, FIELD(normalization),
     .names = normalizations, .initial = "series",
     .help = "numbers seen from: all, or the window's mean, or its end"},
    ENUM_ROW("qkv_positions", position_kind, position_kinds, "learned",
             "how the position table was made"),
    RATE_ROW("dropout", dropout, "0.1", "dropout of each sublayer's output"),
    RATE_ROW("attention_dropout", attention_dropout, "0", "dropout of attention weights"),
    RATE_ROW("head_dropout", head_dropout, "0", "dropout before the last layer"),
    INIT_ROW("init_std", init_range, "1 / sqrt(width)"),
    {.flag = "linear", .key = "linear", .type = QKV_OPT_BOOL, FIELD(linear), .initial = "true",
     .help = "add a linear forecast from the window itself"},
    {.flag = "loss", .key = "loss", .type = QKV_OPT_ENUM, FIELD(loss), .names = losses,
     .initial = "mse", .help = "what is learnt by"},
    FLAG_ROW("season", "season", season, 0, "0",
             "rows of the naive forecast's season; 0: found in training"),
};
const qkv_option_table qkv__forecast_config = {"Forecaster", rows, sizeof rows / sizeof *rows,
                                               sizeof(CONFIG)};
