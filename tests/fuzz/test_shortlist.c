/* test_shortlist.c - a translator's shortlist under random changes; what is accepted must work. */
#include "fuzz.h"

#include "qkv/shortlist.h"

static qkv_tokenizer *make_tokenizer(qkv_context *ctx)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    qkv_tokenizer_trainer *trainer;
    qkv_tokenizer *t;
    if (qkv_tokenizer_trainer_create(&trainer, ctx, &o) ||
        qkv_tokenizer_trainer_add(trainer, "abcde 0.1\n", 10) ||
        qkv_tokenizer_trainer_finish(trainer, &t))
        abort();
    qkv_tokenizer_trainer_destroy(trainer);
    return t;
}

static qkv_status read_shortlist(qkv_context *ctx, const char *path)
{
    static const qkv_shortlist_options o = {2, 2};
    qkv_tokenizer *t = make_tokenizer(ctx);
    size_t vocab = qkv_tokenizer_vocab_size(t);
    qkv_shortlist *s;
    qkv_ids list = {0};
    qkv_status status = qkv_shortlist_load(&s, ctx, t, vocab, path);
    for (int32_t i = 0; i < (int32_t)vocab && !status; i++)
        if (qkv_shortlist_tokens(s, &o, &i, 1, &list) || list.count < 2 || list.count > vocab)
            abort();
    qkv_ids_free(&list, ctx);
    qkv_shortlist_destroy(s);
    qkv_tokenizer_destroy(t);
    return status;
}

const fuzz_target fuzz = {
    .read = read_shortlist,
    .texts = {"a b 0.5\nb a 0.25\nc a 1\nd c 1e-3\n0 . 0.1\nNULL a 0.1\n",
              "\xef\xbb\xbf" "a\tb\t.5\r\n\r\n b  a 1e0\n zz a 0.1\n"},
};
