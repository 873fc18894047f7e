/* label.h - names of classes. */
#ifndef QKV_CMD_USE_LABEL_H
#define QKV_CMD_USE_LABEL_H

#include "qkv/model.h"

/* The name of class i, made up in room where the model has none. */
enum { CLI_LABEL = 32 };
const char *cli_label(const qkv_model *m, size_t i, char room[CLI_LABEL]);

#endif
