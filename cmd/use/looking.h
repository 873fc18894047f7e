/* looking.h - what the files of `qkv look` share. */
#ifndef QKV_CMD_USE_LOOKING_H
#define QKV_CMD_USE_LOOKING_H

#include "core/cli.h"

/* Files that patching reads and writes; NULL: not asked for. */
typedef struct {
    const char *corrupt, *heat, *page;
} cli_look_patching;
/* `qkv look DIR CLEAN --patch CORRUPT`; in: the clean input. */
int cli_look_patch(cli *c, qkv_pipeline *p, const qkv_look_input *in,
                   const cli_look_patching *files, const qkv_pipeline_patch_options *o);

#endif
