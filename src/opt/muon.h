/* muon.h - Muon's rule for one parameter: what optimizer.c asks of muon.c. */
#ifndef QKV_OPT_MUON_H
#define QKV_OPT_MUON_H

#include "qkv/opt.h"
#include "tensor/update.h"

/* QKV_E_ARGUMENT for a field of Muon's own that is out of range. */
qkv_status qkv__muon_check(qkv_context *ctx, const qkv_optimizer_options *o);

/* Numbers of work that an update needs, and floating-point operations of its products. */
size_t qkv__muon_work(const qkv_param *p);
double qkv__muon_flops(const qkv_param *p, int steps);

/* One update of p, a hidden layer's, from its gradient with u's learning rate, weight decay and
 * scale of the gradient. False: out of memory. */
bool qkv__muon_update(qkv_param *p, const qkv_optimizer_options *o, const qkv__update *u,
                      qkv_real *buffer, qkv_real *work);

#endif
