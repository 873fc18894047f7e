/* pixelwise_config.c - fields of the models of every pixel: the trunk's, in Hugging Face's
 * names. */
#include "model/tables.h"
#include "qkv/pixelwise.h"

#define CONFIG qkv_pixelwise_config
#include "model/config_rows.h"
#include "nn/patches.h"

#define CONVOLUTION_ROWS                                                                         \
    SIZE_ROW("num_conv_layers", convolutions, 0, "0",                                            \
             "convolutions before the trunk, and two behind it; 0: none"),                       \
    SIZE_ROW("conv_channels", conv_channels, 1, "32", "their channels")

static const qkv_option segmenter_rows[] = {
    PATCHES_ROWS(trunk),
    CONVOLUTION_ROWS,
    SIZE_ROW("num_labels", outputs, 1, "2", "classes"),
};
const qkv_option_table qkv__segmenter_config = {
    "Segmenter", segmenter_rows, sizeof segmenter_rows / sizeof *segmenter_rows, sizeof(CONFIG)};

#define COLOR_ROW(key_, member, help_)                                                          \
    {.key = key_, .type = QKV_OPT_REAL, .min = -128, .max = 128, FIELD(member), .initial = "0",  \
     .help = help_}
static const qkv_option colorizer_rows[] = {
    PATCHES_ROWS(trunk),
    CONVOLUTION_ROWS,
    BOOL_ROW("tanh", tanh, "false", "colours end in a tanh"),
    SIZE_ROW("hint_size", cell, 0, "0", "side of what a hint colours; 0: image_size / 16"),
    COLOR_ROW("mean_a", mean_a, "mean of a in the training images"),
    COLOR_ROW("mean_b", mean_b, "mean of b"),
};
const qkv_option_table qkv__colorizer_config = {
    "Colourer", colorizer_rows, sizeof colorizer_rows / sizeof *colorizer_rows, sizeof(CONFIG)};
