/* classify.c - what texts, images and series share when classes are learnt. */
#include "job/classify.h"

#include <string.h>

#include "qkv/image_list.h"

#define FIELD(member) .offset = offsetof(qkv__classify_options, member)
static const qkv_option common_rows[] = {
    {.flag = "data", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(data),
     .value = "DATA", .help = "lines of label, tab, text; perhaps tab, second text. Or images: a "
                              "folder with a folder for each class, a tar of such, an idx file. Or "
                              "series: a .csv file of lines label,value,value,..."},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "DATA",
     .help = "the same to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: lines, images or share held out at the end of the data"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size; of images micro is the default"},
    {.flag = "smoothing", .key = "smoothing", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(smoothing),
     .initial = "0", .help = "label smoothing"},
};
const qkv_option_table qkv__classify_table = {"Classifier", common_rows,
                                             sizeof common_rows / sizeof *common_rows, 0};

const char *const qkv__classify_decides[] = {"data", NULL};
size_t qkv__job_classify_variant(const char *const *values)
{
    const char *data = values[0];
    size_t length = strlen(data);
    if (length > 4 && strcmp(data + length - 4, ".csv") == 0)
        return 2;
    return length && qkv_is_image_list(data);
}
