/* learnt.h - a tokenizer that is learnt from a text in memory. */
#ifndef QKV_TESTS_LEARNT_H
#define QKV_TESTS_LEARNT_H

#include <string.h>

#include "qkv/tokenizer.h"

static inline qkv_status learn_tokenizer(qkv_tokenizer **out, qkv_context *context,
                                         const qkv_tokenizer_options *o, const char *text)
{
    qkv_tokenizer_trainer *tr = NULL;
    qkv_status status = qkv_tokenizer_trainer_create(&tr, context, o);
    if (!status)
        status = qkv_tokenizer_trainer_add(tr, text, strlen(text));
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, out);
    qkv_tokenizer_trainer_destroy(tr);
    return status;
}

#endif
