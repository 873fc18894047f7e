/* patches.h - the trunk of all models that cut images into patches: a linear layer on each patch,
 * positions, perhaps tokens of its own before them, a pre-norm stack and its last norm.
 *
 *     x = qkv__patches_embed(p, t, pixels);            (B, patches, width)
 *     x = qkv__patches_place(p, t, x, rows, columns);  positions added
 *     x = qkv__patches_begin(p, t, x);                 its own tokens put before them
 *     x = qkv__patches_encode(p, t, x);                blocks, last norm
 *
 * Who hides patches takes them away between placing and beginning. */
#ifndef QKV_SRC_NN_PATCHES_H
#define QKV_SRC_NN_PATCHES_H

#include "nn/state_entries.h"
#include "nn/stack.h"

/* A family of files: names of tensors in a block, and what its trunk does apart. */
typedef struct {
    const char *norm1, *norm2, *up, *down;
    const char *gated_up, *gated_down; /* with `gated`; gate and up are one matrix */
    const char *scale1, *scale2;       /* factors of layer_scale; NULL: none */
    bool distilled;   /* a second token of its own, with a position (Touvron et al. 2020) */
    bool masked;      /* files always have a mask token */
    bool antialiased; /* positions of another grid are interpolated so */
} qkv__patches_family;
extern const qkv__patches_family qkv__vit_family;

/* Zeroed: ViT's. */
typedef struct {
    const qkv__patches_family *family; /* NULL: ViT's */
    const char *prefix; /* of its rows; NULL: "vit." */
    bool no_first;  /* no token of its own before the patches */
    bool sinusoids; /* MAE's fixed table instead of learned positions, zeros for the first token */
    /* Tokens come from elsewhere, in a square grid of so many rows, and blocks are CCT's. */
    size_t side;
    bool no_positions;
    uint32_t dropout_id; /* of the trunk's own two dropouts: one that no block has */
} qkv__patches_kind;

typedef struct {
    const qkv_patches_config *c; /* completed; lives as long as the model */
    qkv__patches_kind kind;
    qkv_param *patch_weight; /* (width, patch * patch * channels), channels last, or NULL */
    qkv_param *patch_bias;
    /* Tokens before the patches: the class's, that of distillation, registers. NULL: none. */
    qkv_param *first, *second, *registers; /* (1, width), (1, width), (registers, width) */
    size_t leads;         /* of them, in all */
    size_t placed;        /* of them, the first, that have positions */
    qkv_param *mask;      /* (1, width) or NULL: of files, not used */
    qkv_param *positions; /* (placed tokens and patches, width) or NULL */
    qkv__stack stack;
} qkv__patches;

/* Fills in what is derived; an error, which names the model, for a trunk that cannot be. */
qkv_status qkv__patches_complete(qkv_context *ctx, qkv_patches_config *c, const char *model);
/* How its blocks are. */
qkv_block_config qkv__patches_block(const qkv_patches_config *c);
/* The parameters, of a completed configuration, which must outlive p. */
qkv_status qkv__patches_make(qkv__patches *p, qkv_params *ps, const qkv_patches_config *c,
                             qkv__patches_kind kind);
/* Numbers in the matrices at least, of a configuration that need not be completed. */
double qkv__patches_parameters(const qkv_patches_config *c);

/* Its rows, in Hugging Face's names. */
void qkv__patches_visit(const qkv__patches *p, qkv__visit *v);
/* Those of one block of any stack of a family: v->name is its name and a dot. */
void qkv__patches_visit_block(qkv__visit *v, const qkv__patches_family *family,
                              const qkv_block *b, const qkv_patches_config *c);

/* A row for a table of positions or of other tokens, which does not decay; the file's shape is
 * (1, .., rows, columns) with ndim axes. */
void qkv__visit_positions(qkv__visit *v, const char *name, qkv_param *p, int ndim, double std);
/* A row for the weight of a convolution, which files keep as (outputs, inputs, window, window) and
 * memory as (outputs, window, window, inputs). */
void qkv__visit_convolution(qkv__visit *v, const char *name, qkv_param *p, size_t outputs,
                            size_t inputs, size_t window, double std);

/* pixels (B, H, W, channels) -> (B, H W / patch^2, width). */
qkv_tensor *qkv__patches_embed(const qkv__patches *p, qkv_tape *t, qkv_tensor *pixels);
/* x (B, rows * columns, width) plus the positions of such a grid, interpolated from those that
 * there are as Hugging Face does it. */
qkv_tensor *qkv__patches_place(const qkv__patches *p, qkv_tape *t, qkv_tensor *x, size_t rows,
                               size_t columns);
/* x (B, n, width), any patches -> (B, leads + n, width); then dropout. */
qkv_tensor *qkv__patches_begin(const qkv__patches *p, qkv_tape *t, qkv_tensor *x);
/* x (B, n, width) -> the same through the blocks and the last norm. */
qkv_tensor *qkv__patches_encode(const qkv__patches *p, qkv_tape *t, qkv_tensor *x);
/* Placed, begun and encoded: x (B, rows * columns, width) -> (B, leads + rows * columns, width). */
qkv_tensor *qkv__patches_through(const qkv__patches *p, qkv_tape *t, qkv_tensor *x, size_t rows,
                                 size_t columns);

/* FLOPs on so many sequences of `length` in such a stack; and on rows in the layer that makes them
 * of pixels. passes: as of qkv__conv_flops. */
double qkv__patches_stack_flops(const qkv_patches_config *c, int passes, double sequences,
                                size_t length);
double qkv__patches_embed_flops(const qkv_patches_config *c, int passes, double rows);

#endif
