/* slots.h - every kernel, once: its name, its parameters, what it computes.
 *
 * The types of kernels, their table, the dry kernels and the guarded ones of the tests are made
 * from this list: whoever includes it defines
 *     KERNEL(name, (parameters), (arguments))      of those that return nothing
 *     KERNEL_SUM(name, (parameters), (arguments))  of those that return a double
 * kernel.h has the shape letters, the rules for all of them and the structs of arguments. */

/* qkv_k_gemm_args says what. */
KERNEL(gemm, (const qkv_exec *e, qkv_real *c, const qkv_real *a, const qkv_real *b,
       const qkv_k_gemm_args *args), (e, c, a, b, args))

/* y (m, n; row stride ldy) = x (m, k; row stride ldx) w^T + bias, w (n, k) dense, for few rows
 * (1 .. 32 or so): reads w once, at the speed of memory. */
#define GEMV_PARAMETERS (const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, \
    size_t ldx, const qkv_real *w, const qkv_real *bias, size_t m, size_t n, size_t k)
#define GEMV_ARGUMENTS (e, y, ldy, x, ldx, w, bias, m, n, k)
KERNEL(gemv, GEMV_PARAMETERS, GEMV_ARGUMENTS)

/* Weights w (n, k) in the order in which products of many rows read them: groups of QKV_K_PACKED
 * rows of w, each turned; packed (n / QKV_K_PACKED rounded up, k, QKV_K_PACKED), 0 past row n. */
KERNEL(pack, (const qkv_exec *e, qkv_real *packed, const qkv_real *w, size_t n, size_t k),
       (e, packed, w, n, k))

/* As gemv, for more rows, w packed. */
KERNEL(packed, GEMV_PARAMETERS, GEMV_ARGUMENTS)

/* y (m, n; row stride ldy) = x (m, k; row stride ldx) w^T + bias, for any m. In bf16 x is taken as
 * it is; where w is integers, x is rounded to 8 bits first, in blocks along k (QKV_K_INT8_BLOCK,
 * QKV_K_INT4_BLOCK): q = x / s to nearest, ties to even, s the largest |x| of the block over 127.
 * Products within a block are summed exactly. A number that is not finite gives NaN. */
KERNEL(small, (const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
       const qkv_k_small *w, const qkv_real *bias, size_t m), (e, y, ldy, x, ldx, w, bias, m))

/* The same for several rows. Of integers the bits are the same; where w is bf16, x may be rounded
 * to bf16 too, to nearest, ties to even, and what numbers a row gets may depend on m. */
KERNEL(small_many, (const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
       const qkv_k_small *w, const qkv_real *bias, size_t m), (e, y, ldy, x, ldx, w, bias, m))

/* y (k, n; row stride ldy) = rows first .. first+n-1 of w, turned; first a multiple of
 * QKV_K_PACKED. */
KERNEL(widen, (const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_k_small *w, size_t first,
       size_t n), (e, y, ldy, w, first, n))

/* y (B, OH, OW, N) = x * w + bias: y[b, i, j, n] = bias[n] + sum of w[n, k, l, c]
 * x[b, i stride + k - top, j stride + l - left, c]. w (N, KH, KW, C); bias (N) or NULL. */
KERNEL(conv, (const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *w,
       const qkv_real *bias, const qkv_k_conv_args *args), (e, y, x, w, bias, args))

/* dx and dw = [+=] what dy (B, OH, OW, N) makes of them. */
KERNEL(conv_bwd_data, (const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const qkv_real *w,
       const qkv_k_conv_args *args, bool acc), (e, dx, dy, w, args, acc))
KERNEL(conv_bwd_weights, (const qkv_exec *e, qkv_real *dw, const qkv_real *dy, const qkv_real *x,
       const qkv_k_conv_args *args, bool acc), (e, dw, dy, x, args, acc))

/* Windows as in a convolution, for each of C channels; a window that lies beside the image gives
 * -infinity, or 0. from (B, OH, OW, C): which pixel, row x W + column, was the largest, the first
 * of equals; -1: none. The mean counts the zeros around the image. */
KERNEL(max_pool, (const qkv_exec *e, qkv_real *y, int32_t *from, const qkv_real *x,
       const qkv_k_conv_args *args), (e, y, from, x, args))
KERNEL(max_pool_bwd, (const qkv_exec *e, qkv_real *dx, const qkv_real *dy, const int32_t *from,
       const qkv_k_conv_args *args, bool acc), (e, dx, dy, from, args, acc))
KERNEL(mean_pool, (const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_k_conv_args *args),
       (e, y, x, args))
KERNEL(mean_pool_bwd, (const qkv_exec *e, qkv_real *dx, const qkv_real *dy,
       const qkv_k_conv_args *args, bool acc), (e, dx, dy, args, acc))

/* y = [y +] alpha x; y may be x. */
KERNEL(axpy, (const qkv_exec *e, qkv_real *y, const qkv_real *x, double alpha, bool acc, size_t n),
       (e, y, x, alpha, acc, n))

/* y = a + b; y may be a or b. */
KERNEL(add, (const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, size_t n),
       (e, y, a, b, n))

/* y = [y +] a b; y may be a or b. */
KERNEL(mul, (const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *b, bool acc,
       size_t n), (e, y, a, b, acc, n))

/* y (N, C) = [y +] factor[n] x, and not looked at where the factor is 0. */
KERNEL(scale_rows, (const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *factor,
       bool acc, size_t N, size_t C), (e, y, x, factor, acc, N, C))

/* y = exp x, and 1 / x; y may be x. */
#define MAP_PARAMETERS (const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t n)
#define MAP_ARGUMENTS (e, y, x, n)
KERNEL(exp, MAP_PARAMETERS, MAP_ARGUMENTS)
KERNEL(reciprocal, MAP_PARAMETERS, MAP_ARGUMENTS)

/* y = act(x). y may be x. */
KERNEL(act, (const qkv_exec *e, qkv_real *y, const qkv_real *x, qkv_k_act act, size_t n),
       (e, y, x, act, n))

/* dx = [dx +] act'(x) dy. dx may be dy when storing. x is the activation's input. */
KERNEL(act_bwd, (const qkv_exec *e, qkv_real *dx, const qkv_real *x, const qkv_real *dy,
       qkv_k_act act, bool acc, size_t n), (e, dx, x, dy, act, acc, n))

/* y (N, C) = act(gate) up; rows of gate and up are ldg and ldu apart. */
KERNEL(gated, (const qkv_exec *e, qkv_real *y, const qkv_real *gate, size_t ldg,
       const qkv_real *up, size_t ldu, qkv_k_act act, size_t N, size_t C),
       (e, y, gate, ldg, up, ldu, act, N, C))

/* dgate = [dgate +] act'(gate) up dy; dup = [dup +] act(gate) dy. Either may be NULL. */
KERNEL(gated_bwd, (const qkv_exec *e, qkv_real *dgate, size_t lddg, bool acc_gate, qkv_real *dup,
       size_t lddu, bool acc_up, const qkv_real *gate, size_t ldg, const qkv_real *up, size_t ldu,
       const qkv_real *dy, qkv_k_act act, size_t N, size_t C),
       (e, dgate, lddg, acc_gate, dup, lddu, acc_up, gate, ldg, up, ldu, dy, act, N, C))

/* y[c] = [y +] sum over rows of x (N, C; row stride ldx): bias gradients, broadcast sums. */
KERNEL(sum_rows, (const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t ldx, bool acc,
       size_t N, size_t C), (e, y, x, ldx, acc, N, C))

/* Sum of x and of x^2, in double, in blocks of a fixed size. */
#define SUM_PARAMETERS (const qkv_exec *e, const qkv_real *x, size_t n)
#define SUM_ARGUMENTS (e, x, n)
KERNEL_SUM(sum, SUM_PARAMETERS, SUM_ARGUMENTS)
KERNEL_SUM(sum_squares, SUM_PARAMETERS, SUM_ARGUMENTS)

/* sums[i] = sum, or sum_squares, of x[i], n[i] numbers, for i < count; the lists are the host's. */
KERNEL(many_sums, (const qkv_exec *e, double *sums, const qkv_real *const *x, const size_t *n,
       size_t count, bool squares), (e, sums, x, n, count, squares))

/* Strided copy: y (shape; strides sy) = [y +] x (shape; strides sx), ndim <= 8, strides in
 * elements. */
KERNEL(copy, (const qkv_exec *e, qkv_real *y, const size_t *sy, const qkv_real *x,
       const size_t *sx, const size_t *shape, int ndim, bool acc),
       (e, y, sy, x, sx, shape, ndim, acc))

/* Rows of n elements, `row` apart, in place: from element starts[i] on row to[i] = row from[i], one
 * move after another. */
KERNEL(move, (const qkv_exec *e, qkv_real *x, size_t row, const size_t *to, const size_t *from,
       const size_t *starts, size_t moves, size_t n), (e, x, row, to, from, starts, moves, n))

/* qkv_k_norm_args says what; and of channels, groups, cross-entropy, the largest, rotations. */
KERNEL(norm, (const qkv_exec *e, qkv_real *y, qkv_real *sum, qkv_real *mean, qkv_real *rstd,
       const qkv_real *x, const qkv_real *residual, const qkv_real *weight, const qkv_real *bias,
       const qkv_k_norm_args *args), (e, y, sum, mean, rstd, x, residual, weight, bias, args))

/* dx = [dx +] gradient of the norm with respect to s (+ dsum when not NULL: the gradient that
 * reached s itself). dx may be dsum when storing. dweight, dbias (C) = [+=], NULL: not wanted.
 * dx NULL: not wanted. */
KERNEL(norm_bwd, (const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight, bool acc_weight,
       qkv_real *dbias, bool acc_bias, const qkv_real *s, const qkv_real *mean,
       const qkv_real *rstd, const qkv_real *weight, const qkv_real *dy, const qkv_real *dsum,
       const qkv_k_norm_args *args),
       (e, dx, acc, dweight, acc_weight, dbias, acc_bias, s, mean, rstd, weight, dy, dsum, args))

/* y[c] = sum over n of (x[n,c] - m[c]) a[n,c]; a NULL: of its square. */
KERNEL(channel_dot, (const qkv_exec *e, qkv_real *y, const qkv_real *a, const qkv_real *x,
       const qkv_real *m, size_t N, size_t C), (e, y, a, x, m, N, C))
KERNEL(channel_map, (const qkv_exec *e, qkv_real *y, bool acc, const qkv_real *x,
       const qkv_k_channel_map_args *args, size_t N, size_t C), (e, y, acc, x, args, N, C))
KERNEL(group_norm, (const qkv_exec *e, qkv_real *y, qkv_real *mean, qkv_real *rstd,
       const qkv_real *x, const qkv_real *weight, const qkv_real *bias,
       const qkv_k_group_norm_args *args), (e, y, mean, rstd, x, weight, bias, args))

/* dx as in other kernels; dweight and dbias (C) are stored. Each may be NULL. */
KERNEL(group_norm_bwd, (const qkv_exec *e, qkv_real *dx, bool acc, qkv_real *dweight,
       qkv_real *dbias, const qkv_real *dy, const qkv_real *x, const qkv_real *mean,
       const qkv_real *rstd, const qkv_real *weight, const qkv_real *bias,
       const qkv_k_group_norm_args *args),
       (e, dx, acc, dweight, dbias, dy, x, mean, rstd, weight, bias, args))

/* y[n] = the sum of the squares of row n of x (N, C), in double. */
KERNEL(row_squares, (const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C),
       (e, y, x, N, C))

/* y[r,:] = exp(x[r,:] - max) / sum. A row of all -inf gives zeros. y may be x. */
KERNEL(softmax, (const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t N, size_t C),
       (e, y, x, N, C))

/* dx = [dx +] y (dy - <y, dy>). dx may be dy when storing. */
KERNEL(softmax_bwd, (const qkv_exec *e, qkv_real *dx, const qkv_real *y, const qkv_real *dy,
       bool acc, size_t N, size_t C), (e, dx, y, dy, acc, N, C))
KERNEL(xent, (const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax, qkv_real *dlogits,
       const qkv_real *logits, const int32_t *targets, const qkv_k_xent_args *args),
       (e, loss, nll, argmax, dlogits, logits, targets, args))

/* The same where every row's target is a distribution, targets (N, V): q = off + (on - off) of it,
 * no row is ignored, and nll[r] = -<target, log p>. */
KERNEL(xent_soft, (const qkv_exec *e, qkv_real *loss, qkv_real *nll, int32_t *argmax,
       qkv_real *dlogits, const qkv_real *logits, const qkv_real *targets,
       const qkv_k_xent_args *args), (e, loss, nll, argmax, dlogits, logits, targets, args))

/* The same for two readings p and q of every row: logits a and b, each (N, V). loss[r] is the sum
 * of both cross-entropies and of rdrop times kl[r] = (KL(p||q) + KL(q||p)) / 2, nll[r] that of both
 * -log p_target; nll and kl may be NULL. da and db, both or neither NULL, get scale times its
 * gradients and may be a and b. */
KERNEL(xent_pair, (const qkv_exec *e, qkv_real *loss, qkv_real *nll, qkv_real *kl, qkv_real *da,
       qkv_real *db, const qkv_real *a, const qkv_real *b, const int32_t *targets,
       const qkv_k_xent_args *args), (e, loss, nll, kl, da, db, a, b, targets, args))
KERNEL(top, (const qkv_exec *e, qkv_real *value, int32_t *id, const qkv_real *x,
       const qkv_k_top_args *args), (e, value, id, x, args))

/* The sum over n elements, in double, in blocks of a fixed size. */
KERNEL_SUM(loss, (const qkv_exec *e, const qkv_real *x, const qkv_real *target,
           const qkv_k_loss_args *args, size_t n), (e, x, target, args, n))

/* d = [d +] scale times the slope. */
KERNEL(loss_bwd, (const qkv_exec *e, qkv_real *d, const qkv_real *x, const qkv_real *target,
       bool acc, const qkv_k_loss_args *args, size_t n), (e, d, x, target, acc, args, n))

/* y (N, C) = scale table[ids] + ptable[positions]; positions and ptable may be NULL. */
KERNEL(embed, (const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_real *table,
       double scale, const int32_t *positions, const qkv_real *ptable, size_t N, size_t C),
       (e, y, ids, table, scale, positions, ptable, N, C))

/* The same of a table (rows, C) in fewer bits. */
KERNEL(embed_small, (const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_k_small *table,
       double scale, const int32_t *positions, const qkv_real *ptable, size_t N),
       (e, y, ids, table, scale, positions, ptable, N))

/* Row i of y becomes row ids[i] of x, for all rows of y: of one type and one k. */
KERNEL(take_small, (const qkv_exec *e, const qkv_k_small *y, const qkv_k_small *x,
       const int32_t *ids), (e, y, x, ids))

/* dtable[ids[r],:] += scale dy[r,:], rows in increasing order for every channel. */
KERNEL(embed_bwd, (const qkv_exec *e, qkv_real *dtable, const int32_t *ids, const qkv_real *dy,
       double scale, size_t N, size_t C), (e, dtable, ids, dy, scale, N, C))

/* id[n]: the column of products (N, K) for which x2[n] + code2[k] - 2 products[n,k] is least, the
 * first of equals: with products <x, code>, x2 = |x|^2 and code2 = |code|^2, the nearest code. */
KERNEL(nearest, (const qkv_exec *e, int32_t *id, const qkv_real *products, const qkv_real *x2,
       const qkv_real *code2, size_t N, size_t K), (e, id, products, x2, code2, N, K))
KERNEL(rotary, (const qkv_exec *e, qkv_real *y, const qkv_real *x, const int32_t *positions,
       const qkv_k_rotary_args *args), (e, y, x, positions, args))

/* y = [y +] [residual +] keep ? x / (1-p) : 0. residual may be NULL. y may be x or residual.
 * The backward pass is the same function on dy. */
KERNEL(dropout, (const qkv_exec *e, qkv_real *y, const qkv_real *x, const qkv_real *residual,
       bool acc, const qkv_k_dropout_args *args, size_t n), (e, y, x, residual, acc, args, n))
KERNEL(attention, (const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
       const qkv_real *k, const qkv_real *v, const qkv_k_attention_args *args),
       (e, out, lse, q, k, v, args))
KERNEL(attention_bwd, (const qkv_exec *e, qkv_real *dq, qkv_real *dk, qkv_real *dv,
       qkv_real *dbias, const qkv_real *dout, const qkv_real *out, const qkv_real *lse,
       const qkv_real *q, const qkv_real *k, const qkv_real *v, const qkv_k_attention_args *args,
       const qkv_k_attention_bwd_args *bwd),
       (e, dq, dk, dv, dbias, dout, out, lse, q, k, v, args, bwd))

/* Keys or values of a cache: row places[i] of y (.., heads, D), of the kind, = row i of x, for all
 * `rows` of them; rows of x are x_row apart and heads x_head. places: of the host, all different.
 * INT8: 127 stands for the largest of D numbers, scale (.., heads) says for how much; NaN if one of
 * them is not finite. BF16: to nearest, ties to even. scale: NULL but of INT8. */
KERNEL(kv_store, (const qkv_exec *e, void *y, qkv_real *scale, const qkv_real *x, size_t x_row,
       size_t x_head, const size_t *places, qkv_k_kv kind, size_t rows, size_t heads, size_t D),
       (e, y, scale, x, x_row, x_head, places, kind, rows, heads, D))
/* And back: y (rows, D) = x, scale (rows). */
KERNEL(kv_load, (const qkv_exec *e, qkv_real *y, const void *x, const qkv_real *scale,
       qkv_k_kv kind, size_t rows, size_t D), (e, y, x, scale, kind, rows, D))
/* attention to keys and values of a cache, of QKV_K_FEW queries a sequence or fewer, without
 * dropout. The strides of k and v in args are not read. */
KERNEL(attention_stored, (const qkv_exec *e, qkv_real *out, qkv_real *lse, const qkv_real *q,
       const qkv_k_stored *k, const qkv_k_stored *v, const qkv_k_attention_args *args),
       (e, out, lse, q, k, v, args))

/* weights (rows, k_len[b]) of queries row .. row+rows-1 of one sequence and head, exactly, from
 * q, k and lse; before dropout. */
KERNEL(attention_rows, (const qkv_exec *e, qkv_real *weights, const qkv_real *lse,
       const qkv_real *q, const qkv_real *k, const qkv_k_attention_args *args, size_t b, size_t h,
       size_t row, size_t rows), (e, weights, lse, q, k, args, b, h, row, rows))

/* p, s1, s2, s3 (n) in and out, g (n) in. sgd: s1 momentum buffer. rmsprop: s1 square average,
 * s2 momentum buffer, s3 gradient average (centred). adam, adamw: s1 m, s2 v. */
#define UPDATE_PARAMETERS (const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, \
    qkv_real *s3, const qkv_real *g, const qkv_k_update_args *args, size_t n)
#define UPDATE_ARGUMENTS (e, p, s1, s2, s3, g, args, n)
KERNEL(sgd, UPDATE_PARAMETERS, UPDATE_ARGUMENTS)
KERNEL(rmsprop, UPDATE_PARAMETERS, UPDATE_ARGUMENTS)
KERNEL(adam, UPDATE_PARAMETERS, UPDATE_ARGUMENTS)
KERNEL(adamw, UPDATE_PARAMETERS, UPDATE_ARGUMENTS)

/* y += weight (x - y). */
KERNEL(lerp, (const qkv_exec *e, qkv_real *y, const qkv_real *x, double weight, size_t n),
       (e, y, x, weight, n))

/* x and y change places. */
KERNEL(swap, (const qkv_exec *e, qkv_real *x, qkv_real *y, size_t n), (e, x, y, n))

#undef GEMV_PARAMETERS
#undef GEMV_ARGUMENTS
#undef MAP_PARAMETERS
#undef MAP_ARGUMENTS
#undef SUM_PARAMETERS
#undef SUM_ARGUMENTS
#undef UPDATE_PARAMETERS
#undef UPDATE_ARGUMENTS

#undef KERNEL
#undef KERNEL_SUM
