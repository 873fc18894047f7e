/* param.h - a parameter's inside: what optimisers and the tape see. */
#ifndef QKV_TENSOR_PARAM_H
#define QKV_TENSOR_PARAM_H

#include "base/device.h"
#include "kernel/kernel.h"
#include "qkv/tensor.h"
#include "tensor/lend.h"
#include "tensor/make.h"

/* An array as the host sees it: made when it is asked for, unless the host can see the array. */
typedef struct {
    qkv_real *data;
    uint64_t version; /* of the array when it was copied */
} qkv__host_copy;

/* What may be kept in fewer bits: nothing, a layer's matrix, a table of tokens. */
typedef enum { QKV__FULL, QKV__LINEAR, QKV__TABLE } qkv__param_role;

struct qkv_param {
    qkv_params *owner;
    char *name;
    size_t index; /* of qkv_params_at */
    int ndim;
    size_t shape[QKV_MAX_DIMS], count;
    qkv__param_role role;
    qkv_weights weights; /* how it is kept: QKV_WEIGHTS_F32 .. */
    qkv_k_small small;   /* .. and where, unless f32; data is NULL then */
    qkv_real *data; /* of the device, as all that follow */
    qkv_real *grad; /* made on first use */
    bool has_grad;  /* grad holds something since the last zero_grad */
    bool frozen;
    bool left_out; /* of files */
    bool running; /* forward passes change it */
    bool fixed;   /* see qkv__param_fix */
    size_t held;  /* see qkv__param_hold_row: the row and 1; 0: none */
    qkv__low_rank *terms; /* NULL: none */
    size_t matrix_rows[QKV_PARAM_MATRICES]; /* of a hidden layer's matrices; 0s follow them */
    uint64_t version;      /* of data: no two states of parameters of a process have the same one */
    uint64_t grad_version; /* counts changes of grad */
    double squares;      /* of grad's numbers, the sum */
    uint64_t squares_of; /* 1 + the grad_version of which that is; 0: none */
    qkv__host_copy host, host_grad; /* what qkv_param_data and qkv_param_grad give */
    qkv_real *packed; /* a copy in the order of qkv_k_pack_fn; made on first use */
    uint64_t packed_version;
    bool has_packed;    /* packed is of packed_version, which is the last that products saw */
    int unpacked_uses;  /* of packed_version, before it was packed */
    /* The leaf on the tape that used the parameter last. */
    const qkv_tape *leaf_tape;
    uint64_t leaf_epoch;
    qkv_tensor *leaf;
};

/* The steps of making one: it is known by name and shape, values get their memory, it is entered
 * into the list, where there is room for it; returns p. NULL on failure. */
qkv_param *qkv__param_declare(qkv_params *ps, const char *name, int ndim, const size_t *shape);
void *qkv__param_memory(qkv_param *p, size_t bytes);
qkv_param *qkv__param_enter(qkv_param *p);

/* How kernels name weights in fewer bits: BF16, INT8 or INT4. */
qkv_k_small_type qkv__small_type(qkv_weights weights);

/* The parts of the owner that qkv_params_store works with. */
qkv_param **qkv__params_list(const qkv_params *ps);
const qkv__device *qkv__params_device(const qkv_params *ps);
/* The arena of values becomes `fresh`; returns the one that was it. */
qkv__arena *qkv__params_exchange(qkv_params *ps, qkv__arena *fresh);

/* Whose gradients' memory tapes borrow; NULL: they borrow none of it. */
qkv__lending *qkv__params_lending(qkv_params *ps);
/* Gives the gradients of all parameters that train their memory, unless that was done or is done
 * elsewhere. False: no memory. */
bool qkv__params_lay_out_grads(qkv_params *ps);
/* Memory of the device that lives as long as the parameters; not cleared. NULL on failure. */
void *qkv__params_memory(qkv_params *ps, size_t bytes);

/* Kernels and threads to work on parameters with, outside any tape. */
const qkv_kernels *qkv__params_kernels(const qkv_params *ps);
qkv_exec qkv__params_exec(const qkv_params *ps);

/* A version that no parameter has had. */
uint64_t qkv__new_version(void);
/* Data have changed. */
static inline void qkv__param_changed(qkv_param *p) { p->version = qkv__new_version(); }

/* A matrix as kernels for packed weights take it; *out is NULL until products have asked for its
 * present values so often that the copy will pay, or now. False: no memory. */
bool qkv__param_packed(const qkv_real **out, qkv_param *p, const qkv_kernels *k,
                       const qkv_exec *e, bool now);
bool qkv__param_packs(const qkv_param *p); /* qkv_params_pack */

/* The gradient's memory, made if need be; NULL on failure. */
qkv_real *qkv__param_grad_memory(qkv_param *p);

#endif
