/* classify.h - the half of `qkv classify` that labels pictures. */
#ifndef QKV_CMD_USE_CLASSIFY_H
#define QKV_CMD_USE_CLASSIFY_H

#include "core/cli.h"
#include "qkv/pipeline.h"

/* Answers for each of the paths (count): pictures, or what holds some. Those that cannot be read
 * are named and passed over. An exit code: CLI_FAILED when there were any. */
int cli_recognize(cli *c, qkv_pipeline *p, const char *const *paths, size_t count);

#endif
