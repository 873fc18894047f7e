/* import_source.h - what the readers of files with other libraries' names share. */
#ifndef QKV_SRC_HUB_IMPORT_SOURCE_H
#define QKV_SRC_HUB_IMPORT_SOURCE_H

#include "hub/parts.h"
#include "pytorch/pytorch.h"

enum { QKV__IMPORT_NAME = 512 };

typedef struct {
    qkv_context *ctx;
    const char *path;
    qkv__pytorch *pytorch; /* what tensors is a view of, or NULL */
    qkv_safetensors *tensors;
    char under[QKV__IMPORT_NAME]; /* stands before every name of the model */
    size_t parameter_count;        /* of all tensors */
} qkv__import_source;

/* Opens the file at f->path. To be closed whether it succeeds or not. */
qkv_status qkv__import_open(qkv__import_source *f, const qkv_hub_import_options *o);
void qkv__import_close(qkv__import_source *f);

/* Finds the one place beneath which a tensor `end` stands and a tensor `beside`: f->under. within:
 * it begins with those words; part: it ends with them; NULL: anywhere. *found is false when there
 * is none. */
qkv_status qkv__import_find(qkv__import_source *f, const char *end, const char *beside,
                            const char *within, const char *part, bool *found);

/* The model's tensor of that name, or NULL. */
const qkv_safetensor *qkv__import_tensor(const qkv__import_source *f, const char *name);
/* shape[axis] of it; it must be there with ndim axes, none of them 0. */
qkv_status qkv__import_size(const qkv__import_source *f, const char *name, int ndim, int axis,
                            size_t *out);
/* How many tensors there are of that name, a number from `first` on, steps of `step`, and `end`. */
size_t qkv__import_count(const qkv__import_source *f, const char *stem, size_t first, size_t step,
                         const char *end);
/* given, or (0) width / head, which must divide the width. */
qkv_status qkv__import_heads(const qkv__import_source *f, size_t width, size_t head,
                             const char *key, size_t given, size_t *out);
/* Makes the model, unless it needs more numbers than the file has: shapes can claim any size. */
qkv_status qkv__import_make(qkv_model **out, const qkv__import_source *f,
                            const qkv_model_type *type, const void *config);

/* The model in a file with taming-transformers' names, or with those of VGG16. *out stays
 * NULL where the names are others. */
qkv_status qkv__taming_import(qkv_model **out, qkv__import_source *f,
                              const qkv_hub_import_options *o);

#endif
