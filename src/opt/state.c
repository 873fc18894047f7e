/* state.c - describing a state array, so that whoever saves it needs no other knowledge. */
#include "opt/state.h"

qkv_state qkv__state_of(const qkv_param *p, const char *what, qkv_real *data)
{
    qkv_state s = {qkv_param_name(p), what, QKV_REAL, qkv_param_ndim(p), {0}, data};
    for (int i = 0; i < s.ndim; i++)
        s.shape[i] = qkv_param_dim(p, i);
    return s;
}
