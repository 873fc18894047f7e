/* recognize.h - `qkv classify` for pictures. */
#ifndef QKV_CMD_USE_RECOGNIZE_H
#define QKV_CMD_USE_RECOGNIZE_H

#include "core/cli.h"
#include "qkv/model.h"

/* Answers for each of the paths (count): pictures, or what holds some. Those that cannot be read
 * are named and passed over. An exit code: CLI_FAILED when there were any. */
int cli_recognize(cli *c, qkv_model *m, const char *const *paths, size_t count);

#endif
