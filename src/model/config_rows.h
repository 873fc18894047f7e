/* config_rows.h - rows of a model's configuration table, in one line each. Before including it,
 * define CONFIG as the type of the struct that the table describes. */
#ifndef QKV_SRC_MODEL_CONFIG_ROWS_H
#define QKV_SRC_MODEL_CONFIG_ROWS_H

#include "model/model.h"

enum { QKV__MOST_SIZE = 16777216 };

#define FIELD(member) .offset = offsetof(CONFIG, member)
#define SIZE_ROW(key_, member, least, initial_, help_)                                         \
    {.key = key_, .type = QKV_OPT_SIZE, .min = least, .max = QKV__MOST_SIZE, FIELD(member),    \
     .initial = initial_, .help = help_}
#define REAL_ROW(key_, member, most, initial_, help_)                                          \
    {.key = key_, .type = QKV_OPT_REAL, .max = most, FIELD(member), .initial = initial_,       \
     .help = help_}
/* A dropout rate, in [0, 1). */
#define RATE_ROW(key_, member, initial_, help_)                                                \
    {.key = key_, .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1, FIELD(member),       \
     .initial = initial_, .help = help_}
#define BOOL_ROW(key_, member, initial_, help_)                                                \
    {.key = key_, .type = QKV_OPT_BOOL, FIELD(member), .initial = initial_, .help = help_}
#define ENUM_ROW(key_, member, names_, initial_, help_)                                        \
    {.key = key_, .type = QKV_OPT_ENUM, FIELD(member), .names = names_, .initial = initial_,   \
     .help = help_}
/* A token id; -1: none. */
#define TOKEN_ROW(key_, member, initial_, help_)                                               \
    {.key = key_, .type = QKV_OPT_INT, .flags = QKV_OPT_NULL, .min = -1,                       \
     .max = QKV__MOST_SIZE - 1, FIELD(member), .initial = initial_, .help = help_}
/* What qkv__init_range makes of it is written back. */
#define INIT_ROW(key_, member, rule)                                                           \
    REAL_ROW(key_, member, 10, "0", "standard deviation of initial weights; 0: " rule)

/* Fields of a qkv_patches_config, `member` of the struct, that all who have one can set: those of
 * its blocks. An option of the block for models of images is a row here. */
#define PATCHES_BLOCK_ROWS(member, width_, layers_, heads_, ff_help, bias, bias_help)            \
    PATCHES_SIZE_ROWS(member, width_, layers_, heads_),                                          \
    SIZE_ROW("intermediate_size", member.ff_width, 0, "0", "feed-forward width; 0: " ff_help),   \
    PATCHES_SUBLAYER_ROWS(member, bias, bias_help)
#define PATCHES_SIZE_ROWS(member, width_, layers_, heads_)                                       \
    SIZE_ROW("hidden_size", member.width, 1, width_, "width of the residual stream"),            \
    SIZE_ROW("num_hidden_layers", member.layers, 1, layers_, "transformer blocks"),              \
    SIZE_ROW("num_attention_heads", member.heads, 1, heads_, "attention heads")
#define PATCHES_SUBLAYER_ROWS(member, bias, bias_help)                                           \
    ENUM_ROW("hidden_act", member.act, qkv__activation_names, "gelu",                            \
             "activation of the feed-forward layer"),                                            \
    BOOL_ROW("qkv_bias", member.qkv_bias, bias, "biases of query, key and value" bias_help),     \
    RATE_ROW("hidden_dropout_prob", member.dropout, "0", "dropout of each sublayer's output"),   \
    RATE_ROW("attention_probs_dropout_prob", member.attention_dropout, "0",                      \
             "dropout of attention weights"),                                                    \
    RATE_ROW("drop_path_rate", member.drop_path, "0",                                            \
             "share of the last block's branches left out; less before it")

/* The rows of a trunk's fields, for the table of a configuration that has it as `member`. */
#define PATCHES_ROWS(member)                                                                     \
    PATCHES_IMAGE_ROWS(member, "16"),                                                            \
    PATCHES_BLOCK_ROWS(member, "768", "12", "12", "4 times hidden_size", "true", ""),            \
    PATCHES_NORM_ROWS(member, "1e-12")
#define PATCHES_IMAGE_ROWS(member, patch_)                                                       \
    SIZE_ROW("image_size", member.image, 1, "224", "side of the images in pixels"),              \
    SIZE_ROW("patch_size", member.patch, 1, patch_, "side of a patch in pixels"),                \
    SIZE_ROW("num_channels", member.channels, 1, "3", "channels of a pixel")
#define PATCHES_NORM_ROWS(member, eps)                                                           \
    REAL_ROW("layer_norm_eps", member.norm_eps, 1, eps, "added to the variance in LayerNorm"),   \
    INIT_ROW("initializer_range", member.init_range, "1 / sqrt(width)")

#endif
