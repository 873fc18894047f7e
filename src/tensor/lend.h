/* lend.h - memory of gradients, lent to activations.
 *
 * From qkv_params_zero_grad to the backward pass the memory of gradients holds nothing. The forward
 * pass keeps things there that the backward pass reads before it comes to write those gradients: an
 * op borrows from parameters that were used before it, because the backward pass gets to the op
 * first and to their gradients later. What it borrows is what nobody but the backward pass of ops
 * reads.
 *
 * Gradients lie one below the other in the order in which parameters were made. Memory is lent from
 * the top down, as far as parameters have been used, and comes back from the bottom up. A parameter
 * that is used again later breaks the order: its gradient moves to memory of its own.
 *
 *     param.c     lays gradients out, and moves one that would be written over what is lent
 *     tensor.c    qkv__new_inner borrows
 *     backward.c  gives back what an op borrowed after the op's backward pass */
#ifndef QKV_TENSOR_LEND_H
#define QKV_TENSOR_LEND_H

#include "qkv/tensor.h"

enum { QKV__LEND_ALIGN = 64 }; /* bytes */

typedef struct qkv__lending {
    qkv_params *owner;
    bool laid_out;
    char *begin; /* of the gradients, in the device's memory; NULL: none lie here */
    size_t size; /* bytes, as all that follow, which count from begin */
    size_t low;   /* from here to the end memory is lent */
    size_t floor; /* down to here it may be */
    size_t next;  /* the first parameter below the floor */
    struct qkv__lending **borrower; /* a tape's pointer to this; NULL: nobody borrows */
} qkv__lending;

void qkv__lend_lay_out(qkv__lending *l, void *begin, size_t bytes);
/* The gradients' memory goes. */
void qkv__lend_forget(qkv__lending *l);

/* *tape becomes l until qkv__lend_end, which makes it NULL again; nothing happens where one of them
 * is taken. */
void qkv__lend_begin(qkv__lending *l, qkv__lending **tape);
void qkv__lend_end(qkv__lending **tape);

/* NULL: so much is not to be had. */
void *qkv__lend_take(qkv__lending *l, size_t bytes);
/* What is lent, bytes; l may be NULL. And back to so much. */
size_t qkv__lent(const qkv__lending *l);
void qkv__lend_return(qkv__lending *l, size_t lent);

/* Is p, of a gradient, in this memory? And is something that is lent in its first bytes? */
bool qkv__lend_has(const qkv__lending *l, const void *p);
bool qkv__lend_holds(const qkv__lending *l, const void *p, size_t bytes);

#endif
