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

/* `qkv look DIR INPUT --change CHANGE`; page: a file, or NULL. */
int cli_look_change(cli *c, qkv_pipeline *p, const qkv_look_input *in,
                    const qkv_pipeline_look_options *o, int at, const char *page);
/* `qkv look DIR INPUT --vector FILE --place NAME`; minus: NULL, or what is taken off. */
int cli_look_vector(cli *c, qkv_pipeline *p, const qkv_look_input *in, const char *minus,
                    const char *place, const char *file);

#endif
