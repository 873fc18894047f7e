/* print.h - tensors and parameters as text, to look at.
 * Layer: tensor
 *
 *     qkv_str s;
 *     qkv_str_init(&s, ctx);
 *     qkv_tensor_print(&s, t, x, NULL);
 *     fputs(s.data, stdout);
 *     qkv_str_free(&s);
 *
 *     f32 (2, 3)
 *     [[ 1.0000, -0.5000,  2.0000],
 *      [ 0.2500,  3.0000,  0.0000]]                                                         */
#ifndef QKV_PRINT_H
#define QKV_PRINT_H

#include <qkv/string.h>
#include <qkv/tensor.h>

QKV_BEGIN_DECLS

/* Each field: meaning, default of PyTorch's set_printoptions. Zeroed: the defaults. */
typedef struct {
    size_t digits;    /* after the point                                     [1, 17], 0: 4    */
    size_t threshold; /* elements from which on the middle of each axis is left out  0: 1000  */
    size_t edge;      /* then, how many of an axis stay at each end                  0: 3     */
    size_t width;     /* columns of a line, at least one number; longer rows go on in the next
                         line                                                        0: 80    */
} qkv_print_options;

/* Appends dtype and shape, then the elements, to the string, with a newline at the end. Numbers are
 * rounded; they have a power of ten if the largest is 1e8 or more, the smallest but 0 is below
 * 1e-4, or one is 1000 times the other, as in PyTorch; no digits follow the point if all are whole.
 * options NULL: the defaults. x NULL, or elements that cannot be read: "none". A failed allocation
 * is reported by out->failed. */
void qkv_tensor_print(qkv_str *out, qkv_tape *t, const qkv_tensor *x,
                      const qkv_print_options *options);
/* The same of a parameter, with its name before it. */
void qkv_param_print(qkv_str *out, qkv_param *p, const qkv_print_options *options);

QKV_END_DECLS
#endif
