/* quantize.c - a model directory in fewer bits. */
#include "pipeline/options.h"
#include "qkv/convert.h"

static const char *const targets[] = {"int8", "int4", NULL};

#define FIELD(member) .offset = offsetof(qkv_quantize_options, member)
static const qkv_option rows[] = {
    {.flag = "to", .key = "to", .type = QKV_OPT_ENUM, FIELD(to), .names = targets,
     .initial = "int8",
     .help = "int8: 8 bits and a scale for each row of a matrix; int4: 4 bits and a scale for each "
             "32 numbers"},
    {.flag = "shard", .key = "shard", .type = QKV_OPT_SIZE, .max = 1e6, FIELD(shard),
     .value = "MB", .initial = "0", .help = "split files beyond this many megabytes; 0: never"},
};
QKV__OPTIONS(qkv_quantize, "Quantising")

qkv_status qkv_quantize(qkv_context *ctx, const char *from, const char *to,
                        const qkv_quantize_options *options)
{
    const qkv_quantize_options o = options ? *options : qkv_quantize_defaults();
    qkv_convert_options c = qkv_convert_defaults();
    c.weights = o.to ? QKV_WEIGHTS_INT4 : QKV_WEIGHTS_INT8;
    c.shard = o.shard;
    return qkv_convert(ctx, from, to, &c);
}
