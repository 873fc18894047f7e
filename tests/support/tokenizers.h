/* tokenizers.h - what the tests of tokenizers share: a context, small trained tokenizers. */
#ifndef QKV_TESTS_TOKENIZERS_H
#define QKV_TESTS_TOKENIZERS_H

#include <string.h>

#include "each.h"
#include "learnt.h"
#include "qkv/tokenizer.h"

static qkv_context *ctx;

static inline int setup(void **state)
{
    (void)state;
    return qkv_context_create(&ctx, NULL);
}

static inline int teardown(void **state)
{
    (void)state;
    size_t left = qkv_context_memory(ctx).live_bytes;
    qkv_context_destroy(ctx);
    if (left)
        print_error("%zu bytes were not freed\n", left);
    return left != 0;
}

static inline void check(qkv_status status)
{
    if (status)
        fail_msg("%s", qkv_context_message(ctx));
}

static inline void expect_message(const char *part)
{
    if (!strstr(qkv_context_message(ctx), part))
        fail_msg("expected \"%s\" in: %s", part, qkv_context_message(ctx));
}

static inline qkv_tokenizer *trained(const qkv_tokenizer_options *o, const char *text)
{
    qkv_tokenizer *t;
    check(learn_tokenizer(&t, ctx, o, text));
    return t;
}

static const char *const lines = "the cat sat on the mat, the cats sat on the mats.\n"
                                 "It's the cat's mat; don't sit there!  Not  there   either.\n"
                                 "Zw\xc3\xb6lf Boxk\xc3\xa4mpfer, 12 \xe6\xbc\xa2\xe5\xad\x97\n";

static inline qkv_tokenizer *trained_bpe(void)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    o.vocab = 300;
    return trained(&o, lines);
}

#endif
