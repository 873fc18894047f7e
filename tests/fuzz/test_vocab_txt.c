/* test_vocab_txt.c - vocab.txt under random changes; what is accepted must work. */
#include "fuzz.h"

#include "data/tokenizer.h"

static qkv_status read_words(qkv_context *ctx, const char *path)
{
    static const char text[] = "The cat[MASK]s \xe6\xbc\xa2 sat,\xff caf\xc3\xa9";
    qkv_tokenizer *t;
    qkv_ids ids = {0};
    qkv_text back = {0};
    qkv_status status = qkv__load_vocab_txt(&t, ctx, path, NULL);
    if (status)
        return status;
    if (!qkv_tokenizer_encode(t, text, sizeof text - 1, QKV_ENCODE_ADD_SPECIAL, &ids))
        (void)qkv_tokenizer_decode(t, ids.data, ids.count, QKV_DECODE_VALID, &back);
    qkv_ids_free(ctx, &ids);
    qkv_text_free(ctx, &back);
    qkv_tokenizer_destroy(t);
    return QKV_OK;
}

const fuzz_target fuzz = {
    .read = read_words,
    .texts = {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nc\n##a\n##t\nthe\n\xe6\xbc\xa2\n"
              "cafe\n##s\n,\n",
              "a\r\n[UNK]\r\n\r\n##\r\n#"},
};
