/* pytorch.h - what torch.save wrote (.pth, .pt, .bin, .ckpt), as named tensors; and the like of it.
 *
 * Both formats are read: the zip archive, and the pickles one after another of before 1.6. Only
 * tensors and containers are built; a file that asks for any other class or function is refused
 * by that name. The first format, a tar archive, and big-endian files are refused too. */
#ifndef QKV_SRC_PYTORCH_PYTORCH_H
#define QKV_SRC_PYTORCH_PYTORCH_H

#include "base/base.h"
#include "qkv/safetensors.h"

/* One tensor of an open file; lives as long as the reader. */
typedef struct {
    const char *name; /* keys and indices on the way to it, with dots between; UTF-8 */
    qkv_store store;
    int ndim;
    const size_t *shape, *stride; /* (ndim); strides in numbers */
    size_t count;                 /* numbers */
    const uint8_t *data;          /* the first one: mapped, little-endian, possibly unaligned */
    bool contiguous;              /* row-major without gaps */
} qkv__pytorch_tensor;

typedef struct qkv__pytorch qkv__pytorch;

typedef struct {
    const char *under; /* only what stands beneath that dotted name, named from there on; NULL:
                          everything */
    bool skip_objects; /* objects of other classes are left out with all they hold; false: the
                          file is refused. Nothing is run either way */
} qkv__pytorch_options;

/* A tensor that is the whole file is called "tensor". options may be NULL. On failure *out is
 * NULL. */
qkv_status qkv__pytorch_open(qkv__pytorch **out, qkv_context *ctx, const char *path,
                             const qkv__pytorch_options *options);
void qkv__pytorch_close(qkv__pytorch *p); /* NULL is allowed */

size_t qkv__pytorch_count(const qkv__pytorch *p); /* at least 1 */
const qkv__pytorch_tensor *qkv__pytorch_at(const qkv__pytorch *p, size_t i); /* as they come */
size_t qkv__pytorch_left_out(const qkv__pytorch *p); /* values that are no tensors */

/* Numbers begin .. begin+count-1 of the tensor, row-major, as they are stored. */
void qkv__pytorch_gather(const qkv__pytorch_tensor *t, size_t begin, size_t count, void *out);

/* All tensors as safetensors: each whole, tensors that share numbers too. store: what
 * floating-point ones become; QKV_STORE_NONE: what they are. */
qkv_status qkv__pytorch_save(const qkv__pytorch *p, const char *path, qkv_store store,
                             size_t shard_bytes);

/* The same tensors for those who read safetensors; p outlives it. On failure *out is NULL. */
qkv_status qkv__pytorch_view(qkv_safetensors **out, const qkv__pytorch *p);

/* Writes {under: {name: tensor}} to path, atomically, for torch.load. Entries are F32, F16 or BF16,
 * from data or fill, or I64 from fill_raw. QKV_E_UNSUPPORTED beyond 2 GiB. */
qkv_status qkv__pytorch_write(qkv_context *ctx, const char *path, const char *under,
                              const qkv_safetensors_entry *entries, size_t count);

#endif
