/* series_config.c - the configurations of encoders of series as option tables. */
#include "model/tables.h"
#include "qkv/series.h"

#define CONFIG qkv_series_config
#include "model/config_rows.h"

static const char *const position_kinds[] = {"learned", "sinusoid", NULL};

#define FLAG_ROW(flag_, key_, member, least, initial_, help_)                                  \
    {.flag = flag_, .key = key_, .type = QKV_OPT_SIZE, .min = least, .max = QKV__MOST_SIZE,    \
     FIELD(member), .initial = initial_, .help = help_}

#define SERIES_ROWS(rows_help, rows_, patch_)                                                  \
    SIZE_ROW("input_size", columns, 1, "1", "numbers in a row"),                               \
    FLAG_ROW("context", "context_length", rows, 1, rows_, rows_help),                          \
    FLAG_ROW("patch", "patch_length", patch, 1, patch_, "rows in a token; divides the context"),\
    SIZE_ROW("d_model", width, 1, "64", "width of the residual stream"),                       \
    SIZE_ROW("encoder_layers", layers, 1, "2", "blocks"),                                      \
    SIZE_ROW("num_attention_heads", heads, 1, "4", "attention heads"),                         \
    SIZE_ROW("ffn_dim", ff_width, 0, "0", "feed-forward width; 0: 4 times d_model"),           \
    ENUM_ROW("activation_function", act, qkv__activation_names, "gelu",                        \
             "activation of the feed-forward layer"),                                          \
    ENUM_ROW("qkv_positions", position_kind, position_kinds, "learned",                        \
             "how the position table was made"),                                               \
    RATE_ROW("dropout", dropout, "0.1", "dropout of each sublayer's output"),                  \
    RATE_ROW("attention_dropout", attention_dropout, "0", "dropout of attention weights"),     \
    RATE_ROW("head_dropout", head_dropout, "0", "dropout before the last layer"),              \
    INIT_ROW("init_std", init_range, "1 / sqrt(width)")

static const qkv_option filler_rows[] = {
    SERIES_ROWS("rows that are read at once", "96", "4"),
    {.flag = "mask", .key = "mask_ratio", .type = QKV_OPT_REAL,
     .flags = QKV_OPT_ABOVE | QKV_OPT_BELOW, .max = 1, FIELD(mask), .initial = "0.25",
     .help = "share of the values that training hides"},
    FLAG_ROW("mask-span", "mask_span", mask_span, 1, "8",
             "mean number of consecutive rows that it hides"),
};
const qkv_option_table qkv__series_filler_config = {"Filler", filler_rows,
                                                    sizeof filler_rows / sizeof *filler_rows,
                                                    sizeof(CONFIG)};

static const qkv_option classifier_rows[] = {
    SERIES_ROWS("rows that are read of a series", "96", "4"),
    SIZE_ROW("num_labels", classes, 1, "2", "classes"),
};
const qkv_option_table qkv__series_classifier_config = {
    "Classifier of series", classifier_rows, sizeof classifier_rows / sizeof *classifier_rows,
    sizeof(CONFIG)};
