/* likeliest.c - greedy choices: a kernel's, where the logits lie. */
#include "infer/likeliest.h"

#include <math.h>

bool qkv__takes_likeliest(const qkv_sampling *s)
{
    const bool plain = !(s->repetition_penalty > 0) || s->repetition_penalty == 1;
    return s->temperature <= 0 && plain && !s->no_repeat_ngram;
}

bool qkv__likeliest(qkv_tape *t, qkv_tensor *logits, int32_t *ids, qkv_real *log_p)
{
    if (!logits || !qkv_topk(t, logits, &(qkv_topk_options){.k = 1}, log_p, ids))
        return false;
    size_t rows = qkv_count(logits) / qkv_dim(logits, -1);
    for (size_t i = 0; i < rows; i++)
        if (ids[i] < 0 || !isfinite(log_p[i]))
            return false;
    return true;
}
