/* embed.c - what texts, images and both share when vectors are learnt. */
#include "job/embed.h"

#include "qkv/image_list.h"

#define FIELD(member) .offset = offsetof(qkv__embed_options, member)
static const qkv_option common_rows[] = {
    {.flag = "data", .type = QKV_OPT_STRING, FIELD(data), .value = "DATA",
     .help = "lines of a text, a tab and the text that belongs to it. Or images: a folder, a tar "
             "or idx file"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "DATA",
     .help = "the same to evaluate on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "5%", .help = "else: pairs, images or share held out at the end of the data"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size; of images micro is the default"},
    {.flag = "temperature", .key = "temperature", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE,
     .max = 100, FIELD(temperature), .initial = "0.05",
     .help = "divides the cosines: the lower, the more the nearest wrong ones count; of images "
             "0.5 is the default, with captions 0.07, where training changes it"},
};
const qkv_option_table qkv__embed_table = {"Vectors", common_rows,
                                           sizeof common_rows / sizeof *common_rows, 0};

const char *const qkv__embed_decides[] = {"data", "captions", NULL};

size_t qkv__embed_variant(const char *const *values)
{
    return *values[1] ? 2 : *values[0] && qkv_is_image_list(values[0]);
}
