/* test_sentencepiece.c - SentencePiece models under random changes; what is accepted must work. */
#include "fuzz.h"

#include "qkv/tokenizer.h"

static qkv_status read_model(qkv_context *ctx, const char *path)
{
    static const char text[] = "Dobadi fu\t the  \xe6\xbc\xa2\xef\xbc\xa1 e\xcc\x81\xff 12";
    qkv_tokenizer *t;
    qkv_status status = qkv_tokenizer_load_sentencepiece(&t, ctx, path);
    if (!status)
        use_tokenizer(ctx, t, text, sizeof text - 1);
    return status;
}

const fuzz_target fuzz = {
    .read = read_model,
    .seeds = {QKV_SOURCE_DIR "/tests/golden/tokenizer/spm-bpe/spiece.model", NULL},
    .texts = {"\n\x0b\n\x05<unk>\x18\x02\n\x08\n\x01" "a\x15\xcd\xcc\xcc\xbe"
              "\n\x08\n\x01" "b\x15\xcd\xcc\xcc\xbf\n\x07\n\x03" "abc\x18\x04"
              "\x1a\x12\x12\x0e\x04\x02\x02\x02xxxxyyyy\x01\x18\x01"},
};
