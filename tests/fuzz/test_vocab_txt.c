/* test_vocab_txt.c - vocab.txt under random changes; what is accepted must work. */
#include "fuzz.h"

#include "tokenizer/words_file.h"

static qkv_status read_words(qkv_context *ctx, const char *path)
{
    static const char text[] = "The cat[MASK]s \xe6\xbc\xa2 sat,\xff caf\xc3\xa9";
    qkv_tokenizer *t;
    qkv_status status = qkv__load_vocab_txt(&t, ctx, path, NULL);
    if (!status)
        use_tokenizer(ctx, t, text, sizeof text - 1);
    return status;
}

const fuzz_target fuzz = {
    .read = read_words,
    .texts = {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nc\n##a\n##t\nthe\n\xe6\xbc\xa2\n"
              "cafe\n##s\n,\n",
              "a\r\n[UNK]\r\n\r\n##\r\n#"},
};
