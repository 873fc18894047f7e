/* state_entries.h - what a layer or a model says of its parameters, in one line each: making them,
 * and visiting their rows. */
#ifndef QKV_SRC_NN_STATE_ENTRIES_H
#define QKV_SRC_NN_STATE_ENTRIES_H

#include "qkv/nn.h"

/* ---- making ---------------------------------------------------------------------------------- */

/* A copy of the name, as long-lived as ps; NULL for NULL and on failure, which ps remembers. */
char *qkv__layer_name(qkv_params *ps, const char *name);

/* Deviation of initial weights: range itself, or share / sqrt(width) when it is 0. */
double qkv__init_range(double range, double share, size_t width);
/* Parameters (rows, columns) and (n); NULL, and the context says why, when one cannot be made. */
qkv_param *qkv__matrix(qkv_params *ps, const char *name, size_t rows, size_t columns);
qkv_param *qkv__vector(qkv_params *ps, const char *name, size_t n);
/* The same under "layer.name"; columns 0: a vector. */
qkv_param *qkv__layer_param(qkv_params *ps, const char *layer, const char *name, size_t rows,
                            size_t columns);

/* The parameters layer.name.weight and, where with_bias, layer.name.bias; columns 0: a vector in
 * the matrix's place. False, and the context says why, when one cannot be made. */
bool qkv__dense_params(qkv_params *ps, qkv_param **weight, qkv_param **bias, const char *layer,
                       const char *name, size_t rows, size_t columns, bool with_bias);

/* ---- visiting--------------------------------------------------------------------------- */

typedef struct {
    qkv_state_entry_fn *fn;
    void *user;
    qkv_status status;
    char name[256]; /* of the layer, say "h.3."; put before each row's name */
    bool optional;  /* of the rows that follow */
} qkv__visit;

/* The row under that name, unless a row failed before. */
void qkv__visit_entry(qkv__visit *v, qkv_state_entry *row, const char *name);
/* A row for rows [from, from + rows) of a matrix (out, in), or of a vector when columns is 0;
 * transposed: the file holds (in, out). Does nothing when p is NULL or a row failed before. */
void qkv__visit_rows(qkv__visit *v, const char *name, qkv_param *p, size_t from, size_t rows,
                     size_t columns, bool transposed, qkv_init init, double scale);
/* Rows name.weight and name.bias of a linear layer in rows [from, from + rows) of a packed one;
 * bias may be NULL. columns 0: a vector of ones in the matrix's place. */
void qkv__visit_linear(qkv__visit *v, const char *name, qkv_param *weight, qkv_param *bias,
                       size_t from, size_t rows, size_t columns, double std);
/* The same of a whole layer. */
void qkv__visit_linear_layer(qkv__visit *v, const char *name, const qkv_linear_layer *l,
                             double std);
/* Rows name.weight (ones) and name.bias (zeros) of a norm; bias may be NULL. */
void qkv__visit_norm(qkv__visit *v, const char *name, qkv_param *weight, qkv_param *bias,
                     size_t width);
/* A row for a whole matrix; tied: another name of a row that is visited elsewhere. */
void qkv__visit_table(qkv__visit *v, const char *name, qkv_param *p, bool tied, double std);
/* A row with a kind of its own (FIXED, TIED, IGNORED), whole and as the file has it. */
void qkv__visit_kind(qkv__visit *v, const char *name, qkv_param *p, qkv_state_entry_kind kind,
                     qkv_init init, double scale);

#endif
