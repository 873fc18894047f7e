/* adapters.h - adapters that an option asks for. */
#ifndef QKV_SRC_PIPELINE_ADAPTERS_H
#define QKV_SRC_PIPELINE_ADAPTERS_H

#include "qkv/hub.h"

/* Puts adapters on m: "DIR", or "DIR=WEIGHT" where no directory has that whole name. */
qkv_status qkv__add_adapters(qkv_model *m, const qkv_strings *list);

#endif
