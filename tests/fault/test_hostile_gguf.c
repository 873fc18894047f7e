/* test_hostile_gguf.c - GGUF files that lie: for each field and length one sentence that names the
 * file and what is wrong; failing allocations of both directions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "hub/gguf.h"
#include "qkv/convert.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/gguf/"

/* In the golden file the first `from` behind `after` (NULL: the beginning) becomes `to`; both have
 * `size` bytes. */
typedef struct {
    const char *file, *after, *from, *to;
    size_t size;
    const char *sentence;
} change;

#define TEXT(file, after, from, to, sentence) {file, after, from, to, sizeof(from) - 1, sentence}

static const change changes[] = {
    TEXT("llama", NULL, "GGUF", "GGUV", "expected a file that begins with GGUF"),
    TEXT("llama", NULL, "GGUF\3", "GGUF\4", "expected GGUF of version 2 or 3, found 4"),
    TEXT("llama", NULL, "GGUF\3\0\0\0", "GGUF\0\0\0\3", "(big-endian?)"),
    TEXT("llama", "GGUF\3", "\0\0\0\0\0\0\0", "\0\0\0\0\0\0\1", "tensors, found"),
    TEXT("llama", NULL, "\24\0\0\0\0\0\0\0general", "\24\0\0\0\0\0\0\1general", "a field's key"),
    TEXT("llama", NULL, "general.architecture", "general.arch\0tecture",
         "a field's key: expected UTF-8 without control characters"),
    TEXT("llama", NULL, "blk.1.ffn_up.weight", "blk.1.ffn_up.\33[31mt",
         "a tensor's name: expected UTF-8 without control characters"),
    TEXT("llama", NULL, "layer_norm_rms_epsilon\6\0\0\0\xac\xc5\x27\x37",
         "layer_norm_rms_epsilon\6\0\0\0\0\0\xc0\x7f", "expected a finite number, found nan"),
    TEXT("llama", NULL, "general.architecture", "general.architectura",
         "field \"general.architecture\": is missing"),
    TEXT("llama", "general.architecture", "llama", "lluma",
         "expected gpt2, llama, qwen2, qwen3, phi3, bert, found \"lluma\""),
    TEXT("llama", NULL, "llama.block_count\4", "llama.block_count\15",
         "field \"llama.block_count\": expected a kind of value"),
    TEXT("llama", NULL, "llama.block_count\4", "llama.block_count\6",
         "field \"llama.block_count\": expected an integer"),
    TEXT("llama", NULL, "llama.block_count", "llama.block_cound",
         "field \"llama.block_count\": is missing"),
    TEXT("llama", NULL, "tokenizer.ggml.merges", "tokenizer.ggml.tokens",
         "field \"tokenizer.ggml.tokens\": is there twice"),
    TEXT("llama", NULL, "llama.rope.dimension_count\4\0\0\0\10",
         "llama.rope.dimension_count\4\0\0\0\4", "expected 8, the length of a head, found 4"),
    TEXT("llama", NULL, "llama.feed_forward_length\4\0\0\0\30",
         "llama.feed_forward_length\4\0\0\0\20",
         "tensor \"blk.0.ffn_gate.weight\": expected shape (16, 16), found (24, 16)"),
    TEXT("gpt2", NULL, "gpt2.embedding_length\4\0\0\0\20",
         "gpt2.embedding_length\4\0\0\0\200", "numbers or more, the weights have"),
    TEXT("llama", NULL, "llama.block_count\4\0\0\0\2", "llama.block_count\4\0\0\0\3",
         "describes a model of 14752 numbers or more"),
    TEXT("llama", NULL, "llama.block_count\4\0\0\0\2", "llama.block_count\4\0\0\0\1",
         "has no place in this llama model"),
    TEXT("llama", NULL, "llama-bpe", "llama-bpx",
         "field \"tokenizer.ggml.pre\": \"llama-bpx\" is no pre-tokenizer"),
    TEXT("llama", "tokenizer.ggml.model", "gpt2", "gpt3",
         "expected \"gpt2\", \"llama\", \"t5\" or \"bert\", found \"gpt3\""),
    TEXT("llama", NULL, "tokenizer.ggml.merges", "tokenizer.ggml.merged",
         "field \"tokenizer.ggml.merges\": is missing"),
    TEXT("llama", NULL, "tokenizer.ggml.tokens", "tokenizer.ggml.tokena",
         "field \"tokenizer.ggml.tokens\": is missing"),
    TEXT("llama", "tokenizer.ggml.token_type", "\5\0\0\0\31\1", "\5\0\0\0\0\160",
         "field \"tokenizer.ggml.token_type\": expected 28672 values, found the end"),
    TEXT("llama", "tokenizer.ggml.tokens", "\10\0\0\0\31\1", "\10\0\0\0\0\160",
         "field \"tokenizer.ggml.tokens\": expected 28672 texts, found the end"),
    TEXT("llama", "tokenizer.ggml.tokens", "\3\0\0\0\0\0\0\0<s>", "\3\0\0\0\0\0\0\1<s>",
         "field \"tokenizer.ggml.tokens\": text 0: expected"),
    TEXT("llama", "tokenizer.ggml.merges", "t h", "tth", "expected two tokens with a space"),
    TEXT("llama", "tokenizer.ggml.tokens", "<s>", "<\xff>", "token 0 is not text in UTF-8"),
    TEXT("llama", "tokenizer.ggml.tokens", "\1\0\0\0\0\0\0\0\"", "\1\0\0\0\0\0\0\0!",
         "are both \"!\""),
    TEXT("llama", NULL, "tokenizer.ggml.bos_token_id\4\0\0\0\0\0",
         "tokenizer.ggml.bos_token_id\4\0\0\0\0\2", "field \"tokenizer.ggml.bos_token_id\""),
    TEXT("llama", NULL, "tokenizer.ggml.add_bos_token\7\0\0\0\1",
         "tokenizer.ggml.add_bos_token\7\0\0\0\2", "expected a 0 or 1, found 2"),
    TEXT("llama", NULL, "blk.1.ffn_up.weight", "blk.1.ffn_ub.weight",
         "tensor \"blk.1.ffn_up.weight\" is missing"),
    TEXT("llama", NULL, "blk.1.ffn_up.weight", "blk.0.ffn_up.weight", "is there twice"),
    TEXT("llama", NULL, "rope_freqs.weight", "rope_frequ.weight", "has no place"),
    TEXT("llama", NULL, "rope_freqs.weight\1\0\0\0\4", "rope_freqs.weight\1\0\0\0\3",
         "tensor \"rope_freqs.weight\": expected 4 numbers, found 3"),
    TEXT("llama", NULL, "rope_freqs.weight\1", "rope_freqs.weight\5",
         "expected 1 to 4 axes, found 5"),
    TEXT("llama", NULL, "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\0",
         "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\32", "type I32 is not supported"),
    TEXT("llama", NULL, "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\0",
         "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\10", "rows of a multiple of 32"),
    TEXT("llama", NULL, "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\0",
         "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\77", "type 63 is not known"),
    TEXT("llama", NULL, "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0",
         "output_norm.weight\1\0\0\0\20\0\0\0\0\1\0", "of the data, found"),
    TEXT("llama", NULL, "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0",
         "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\200", "its shape is too large"),
    TEXT("llama", NULL, "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\0\0\0\0 #",
         "output_norm.weight\1\0\0\0\20\0\0\0\0\0\0\0\0\0\0\0\0\0",
         "tensor \"output_norm.weight\": expected an offset behind the tensor before it"),
    TEXT("llama", "token_embd.weight", "\31\1\0\0\0\0\0\0\1\0\0\0\0",
         "\31\1\0\0\0\0\0\0\1\0\0\0\1",
         "expected an offset that is a multiple of 32"),
    TEXT("llama", NULL, "token_embd.weight\2\0\0\0\20\0\0\0\0\0\0\0\31",
         "token_embd.weight\2\0\0\0\20\0\0\0\0\0\0\0\30",
         "expected at most 280 tokens, the rows of token_embd.weight, found 281"),
    TEXT("spm", NULL, "tokenizer.ggml.scores", "tokenizer.ggml.scored",
         "field \"tokenizer.ggml.scores\": is missing"),
    TEXT("unigram", NULL, "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.unknown_token_ie",
         "field \"tokenizer.ggml.unknown_token_id\": is missing"),
    TEXT("unigram", "tokenizer.ggml.precompiled_charsmap", "\11\0\0\0\0", "\11\0\0\0\7",
         "field \"tokenizer.ggml.precompiled_charsmap\": expected"),
    TEXT("distilbert", NULL, "token_embd_norm.weight", "token_embd_norn.weight",
         "tensor \"token_embd_norm.weight\" is missing"),
    TEXT("roberta", NULL, "token_types.weight", "token_tyqes.weight",
         "there is no model type for a bert with a tokenizer of merges or scores and no tensor "
         "token_types.weight"),
    TEXT("roberta", NULL, "bert.context_length\4\0\0\0\100", "bert.context_length\4\0\0\0\77",
         "tensor \"position_embd.weight\": expected shape (63, 16), found (64, 16)"),
    TEXT("bert", NULL, "bert.pooling_type\4\0\0\0\2", "bert.pooling_type\4\0\0\0\3",
         "field \"bert.pooling_type\": expected 1 to 2, found 3"),
};

static char *find(char *from, const char *end, const char *bytes, size_t size)
{
    for (; from + size <= end; from++)
        if (memcmp(from, bytes, size) == 0)
            return from;
    return NULL;
}

static qkv_status read_whole(const char *path)
{
    qkv_model *m;
    qkv_tokenizer *t;
    qkv_status status = qkv__hub_read_gguf(&m, &t, ctx, path, (qkv_strings){0},
                                           QKV_WEIGHTS_F32);
    qkv_tokenizer_destroy(t);
    qkv_model_destroy(m);
    return status;
}

static void changed_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        char golden[PATH_BYTES];
        size_t size;
        (void)snprintf(golden, sizeof golden, GOLDEN "%s.gguf", c->file);
        char *bytes = take_file(golden, &size), *end = bytes + size;
        char *at = c->after ? find(bytes, end, c->after, strlen(c->after)) : bytes;
        at = at ? find(at, end, c->from, c->size) : NULL;
        if (!at)
            fail_msg("change %zu: \"%s\" is not in %s", i, c->from, c->file);
        memcpy(at, c->to, c->size);
        const char *path = in(folder, "bad.gguf");
        put_file(path, bytes, size);
        free(bytes);
        if (!read_whole(path))
            fail_msg("change %zu: read; expected \"%s\"", i, c->sentence);
        if (!strstr(qkv_context_message(ctx), path) ||
            !strstr(qkv_context_message(ctx), c->sentence))
            fail_msg("change %zu: expected \"%s\": %s", i, c->sentence, qkv_context_message(ctx));
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    }
}

static void cut_files_are_refused(void **state)
{
    size_t size;
    (void)state;
    char *bytes = take_file(GOLDEN "bert.gguf", &size);
    const char *path = in(folder, "cut.gguf");
    for (size_t n = 0; n + 64 < size; n += n < 200 ? 1 : 37) {
        put_file(path, bytes, n);
        if (!read_whole(path))
            fail_msg("%zu bytes of %zu are read", n, size);
        if (!strstr(qkv_context_message(ctx), path))
            fail_msg("no file in: %s", qkv_context_message(ctx));
    }
    free(bytes);
}

static qkv_status read_golden(void *path) { return read_whole(path); }

static void memory_of_reading(void **state)
{
    static char *const files[] = {GOLDEN "spm.gguf", GOLDEN "bert.gguf", GOLDEN "roberta.gguf",
                                  GOLDEN "unigram.gguf"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        expect_memory_told(read_golden, files[i], 20);
}

static qkv_status write_file(void *user)
{
    qkv_convert_options o = qkv_convert_defaults();
    const char *path = in(folder, "out.gguf");
    o.to = QKV_CONVERT_GGUF;
    unlink(path);
    qkv_status status = qkv_convert(ctx, user, path, &o);
    if (status && access(path, F_OK) == 0)
        fail_msg("a file was left");
    return status;
}

static void memory_of_writing(void **state)
{
    static const char *const names[] = {"llama", "unigram"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[PATH_BYTES], dir[2 * PATH_BYTES];
        (void)snprintf(file, sizeof file, GOLDEN "%s.gguf", names[i]);
        (void)snprintf(dir, sizeof dir, "%s/%s", folder, names[i]);
        assert_int_equal(qkv_convert(ctx, file, dir, NULL), QKV_OK);
        expect_memory_told(write_file, dir, 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_files_are_refused), cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(memory_of_reading), cmocka_unit_test(memory_of_writing)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
