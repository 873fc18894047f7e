/* relative.c - positions relative to the query, in buckets. */
#include <math.h>

#include "tensor/make.h"
#include "qkv/nn.h"

/* In float, as the models' own code has it: where a bucket begins may hang on the rounding. */
size_t qkv_relative_bucket(const qkv_relative_config *c, ptrdiff_t offset)
{
    size_t n = c->bidirectional ? c->buckets / 2 : c->buckets, exact = n / 2;
    size_t first = c->bidirectional && offset > 0 ? n : 0;
    size_t d = offset < 0 ? (size_t)-offset : c->bidirectional ? (size_t)offset : 0;
    if (d < exact)
        return first + d;
    float share = logf((float)d / (float)exact) /
                  (float)log((double)c->distance / (double)exact);
    size_t large = exact + (size_t)(share * (float)(n - exact));
    return first + (large < n ? large : n - 1);
}

qkv_tensor *qkv_relative_bias(qkv_tape *t, qkv_tensor *table, const qkv_relative_config *c,
                              size_t T, size_t S)
{
    static const int turned[] = {1, 0};
    size_t n = T + S - 1;
    int32_t *ids = table && T && S ? qkv__step_alloc(t, n * sizeof *ids) : NULL;
    if (!ids)
        return NULL;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)qkv_relative_bucket(c, (ptrdiff_t)i - (ptrdiff_t)(S - 1));
    return qkv_permute(t, qkv_embedding(t, qkv_tensor_ids(t, ids, 1, &n), table, 1, NULL, NULL),
                       turned);
}
