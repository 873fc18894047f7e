/* list_items.cuh - what a list holds, as its launch reads it: items one behind the other, each a
 * struct that begins with a list_item. */
#ifndef QKV_KERNEL_CUDA_LIST_ITEMS_CUH
#define QKV_KERNEL_CUDA_LIST_ITEMS_CUH

#include "kernel/cuda/activations.cuh"
#include "kernel/cuda/arithmetic.cuh"
#include "kernel/cuda/attention_few.cuh"
#include "kernel/cuda/gemv.cuh"
#include "kernel/cuda/kv.cuh"
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/norm_row.cuh"
#include "kernel/cuda/positions.cuh"
#include "kernel/cuda/small_product.cuh"
#include "kernel/cuda/top_best.cuh"

enum {
    LIST_BYTES = 24 << 10, /* of a list */
    LIST_ALIGN = 16,
    LIST_GRID = 1,         /* blocks of a multiprocessor */
    LIST_ROOM = 72 << 10,  /* shared memory of an item */
    LIST_HELD = 24 << 10,  /* of that, for rows that a product's blocks normalise themselves */
    LIST_SUMS = 8 << 10,   /* of that, at its end, for sums of a product's parts */
    LIST_RING = 4,         /* slots of a warp's ring of weights */
    STREAM_STEP = 16 * WARP, /* bytes: 16 of each lane */
    STREAM_SLOT = 4 * STREAM_STEP,
    STREAM_BLOCKS = 132,     /* that parts are made for; fixed, as they decide the order of sums */
    LIST_RING_BYTES = LIST_THREADS / WARP * LIST_RING * STREAM_SLOT,
    LIST_OUT_MOST = 4096,  /* bytes for the host */
    LIST_PARTS = 128       /* rows of an item of copies */
};

typedef enum {
    LIST_DATA, LIST_COPIES, LIST_EMBED, LIST_EMBED_SMALL, LIST_NORM, LIST_GEMV, LIST_SMALL,
    LIST_ADD, LIST_AXPY, LIST_MUL, LIST_ACT, LIST_GATED, LIST_ROTARY, LIST_KV, LIST_FEW,
    LIST_FEW_WHOLE, LIST_BEST, LIST_BEST_WHOLE, LIST_OUT
} list_kind;

enum {
    LIST_WAITS = 1, /* for all that stands before it */
    LIST_JOINED = 2, /* the product beside it does its work: of a norm the next, else the last */
    LIST_LATE = 4    /* a product whose weights are written right before it waits */
};

struct alignas(LIST_ALIGN) list_item {
    uint16_t kind, flags;
    uint32_t bytes;   /* of the item, with what follows its struct */
    uint32_t product; /* where the next product is in the list; 0: there is none */
    uint32_t shift;   /* units of products before this one: the next block has the first of it, so
                       * that all have the same work to do */
    const char *weights; /* of a product */
    size_t weight_bytes;
};

struct list_data : list_item { /* bytes behind it; read by others, or copied there */
    void *to;
    size_t n;
};

struct list_row {
    float *y;
    const float *x;
    size_t n;
};
struct list_copies : list_item {
    size_t rows;
    list_row row[LIST_PARTS]; /* as many as there are */
};

struct list_embed_item : list_item {
    embed_job a;
    float *y;
    bool quads;
};
struct list_embed_small_item : list_item {
    embed_small_args a;
};
struct list_norm_item : list_item {
    norm_job a;
};

/* How a product's weights are dealt out that come through rings (list_stream.cuh): units, a row in
 * f32 or a group of rows in bf16, to blocks, and each unit's 1 << parts parts to the warps of a
 * block. */
struct stream_plan {
    unsigned units, unit_bytes, part_bytes, parts;
};

/* What becomes of y before it is stored, and of the sum with what is added to it. */
struct list_tail {
    qkv_k_act act;
    const float *added; /* (m, n); NULL: none */
    float *sum;         /* (m, n) */
};
struct list_gemv_item : list_item {
    stream_plan plan;
    gemv_args a;
    list_tail tail;
};
struct list_small_item : list_item {
    stream_plan plan; /* of bf16 */
    small_product t;
    list_tail tail;
};

template <typename Body> struct list_elements : list_item {
    Body body;
    size_t n;
    bool fours;
};
struct act_any { /* of any activation */
    float *y;
    const float *x;
    qkv_k_act act;
};
struct list_act_item : list_item {
    act_any a;
    size_t n;
};
struct list_gated_item : list_item {
    gated_args<float> a;
    qkv_k_act act;
    size_t N;
};
struct list_rotary_item : list_item {
    rotary_job a;
};
struct list_kv_item : list_item {
    size_t rows;
    kv_rows row[LIST_PARTS]; /* as many as there are */
};
struct list_few_item : list_item { /* and of LIST_FEW_WHOLE */
    qkv_k_kv store;
    int rows, places; /* places: of few_part_of or few_whole */
    few_job w;
    att_problem p; /* as many sequences as there are */
};

struct list_best_item : list_item { /* and of LIST_BEST_WHOLE */
    best_job a;
};

struct list_out_item : list_item {
    const char *from;
    char *to;          /* the host's */
    unsigned *written; /* gets the number behind the bytes */
    unsigned number;
    size_t n;
};

/* A launch: all of a list, or one item of it. */
struct list_launch {
    const char *items;
    unsigned bytes;
    unsigned *arrived; /* counts blocks at barriers; never set back */
    unsigned before;   /* what it was before the launch */
};
unsigned list_blocks(void); /* of a launch */
/* Carries it out. False: it could not be launched. */
bool list_run(const list_launch &l);

#endif
