/* objects.h - what the files of the PyTorch reader share: storages and tensors as a
 * pickle describes them, before their bytes are known. */
#ifndef QKV_SRC_PYTORCH_OBJECTS_H
#define QKV_SRC_PYTORCH_OBJECTS_H

#include "io/file.h"
#include "pytorch/pickle.h"
#include "pytorch/pytorch.h"

enum { QKV__PICKLED_DIMS = 64 }; /* PyTorch's own limit */
enum { QKV__LONGEST_NAME = 500 }; /* bytes of a tensor's whole name */

/* qkv__value.what of objects. */
enum { QKV__IS_STORAGE = 1, QKV__IS_TENSOR };

typedef struct {
    const char *key; /* in the pickle, no 0 behind it */
    size_t key_length;
    qkv_store store; /* U8 for one of plain bytes */
    size_t bytes;
    size_t skip;  /* bytes in front of a view's part; bytes and data are the whole's */
    const uint8_t *data; /* NULL until found; numbers may have none */
} qkv__storage;

typedef struct {
    const qkv__storage *storage;
    qkv_store store;
    size_t offset; /* numbers */
    int ndim;
    size_t *shape, *stride; /* (ndim) */
} qkv__pickled_tensor;

typedef struct {
    qkv_context *ctx;
    qkv__arena *arena;
    const char *path;
    bool skip_objects; /* names of no tensors or containers are left out, not refused */
    qkv__storage **storages; /* one for every time that a tensor names one */
    size_t count, room;
} qkv__pytorch_objects;

struct qkv__pytorch {
    qkv_context *ctx;
    qkv__arena *arena;
    const char *path;
    qkv__map map;
    qkv__pytorch_objects objects;
    qkv__pytorch_tensor *tensors;
    size_t count, room, left_out;
    /* while tensors are collected: */
    const char *under;
    size_t visited, unfolded; /* values; bytes of the tensors so far */
    char name[QKV__LONGEST_NAME + 1];
};

/* Names that PyTorch's files may ask for; objects is the user. */
qkv__pickle_host qkv__pytorch_host(qkv__pytorch_objects *objects);

/* tensors.c: fills p->tensors from the tree, once every storage has its bytes. */
qkv_status qkv__pytorch_collect(qkv__pytorch *p, const qkv__value *root);

#endif
