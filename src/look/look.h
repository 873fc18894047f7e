/* look.h - what the files of this folder share. */
#ifndef QKV_SRC_LOOK_LOOK_H
#define QKV_SRC_LOOK_LOOK_H

#include "base/base.h"
#include "io/file.h"
#include "qkv/change.h"
#include "qkv/look.h"

enum { QKV__LOOK_NAME = 320, QKV__LOOK_PREFIX = 64 }; /* bytes: a name in a file, a prefix */

/* "attentions.3" of "h.3.attn"; "NAME.weights" of an attention outside blocks. */
void qkv__look_attention_name(char out[QKV__LOOK_NAME], const char *name);

qkv_context *qkv__changes_context(const qkv_changes *c);

#endif
