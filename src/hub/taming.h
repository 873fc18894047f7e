/* taming.h - models in files with taming-transformers' names. */
#ifndef QKV_SRC_HUB_TAMING_H
#define QKV_SRC_HUB_TAMING_H

#include "hub/import_source.h"

/* The model in a file with taming-transformers' names, or with those of VGG16. *out stays
 * NULL where the names are others. */
qkv_status qkv__taming_import(qkv_model **out, qkv__import_source *f,
                              const qkv_hub_import_options *o);

#endif
