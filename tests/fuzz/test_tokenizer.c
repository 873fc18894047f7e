/* test_tokenizer.c - tokenizer.json under random changes; what is accepted must work. */
#include "fuzz.h"

#include "tokenizer/json.h"
#include "io/file.h"

static qkv_status read_tokenizer(qkv_context *ctx, const char *path)
{
    static const char text[] = "a b<x>  aab\xc3\xa4\n\xff" "ab '12 \xe6\xbc\xa2";
    qkv_tokenizer *t;
    char *file;
    size_t size;
    qkv_status status = qkv_file_read(ctx, path, 0, &file, &size);
    if (status)
        return status;
    status = qkv__tokenizer_parse(&t, ctx, path, file, size);
    qkv_free(ctx, file);
    if (!status)
        use_tokenizer(ctx, t, text, sizeof text - 1);
    return status;
}

const fuzz_target fuzz = {
    .read = read_tokenizer,
    .texts = {
        "{\"added_tokens\": [{\"id\": 6, \"content\": \"<x>\", \"lstrip\": true, \"rstrip\": true,"
        " \"single_word\": false, \"normalized\": false, \"special\": true}], \"normalizer\":"
        " {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\":"
        " [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[^\\\\s]\\\\p{L}+|\\\\s\"}, "
        "\"behavior\": \"Isolated\", \"invert\": false}]}, \"post_processor\": {\"type\":"
        " \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\"}},"
        " {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<x>\": {\"ids\": [6]}}},"
        " \"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"u\","
        " \"fuse_unk\": true, \"byte_fallback\": true, \"vocab\": {\"u\": 0, \"a\": 1, \"b\": 2,"
        " \"ab\": 3, \"aab\": 4, \" \": 5}, \"merges\": [\"a b\", [\"a\", \"ab\"]]}}",
        "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}, \"decoder\":"
        " {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"a\","
        " \"vocab\": {\"a\": 0, \"b\": 1}}}",
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"<X>\"}], \"normalizer\": {\"type\":"
        " \"Sequence\", \"normalizers\": [{\"type\": \"BertNormalizer\", \"lowercase\": true},"
        " {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"b+\"}, \"content\": \" a\"},"
        " {\"type\":"
        " \"Strip\"}, {\"type\": \"Prepend\", \"prepend\": \"a\"}, {\"type\": \"Precompiled\","
        " \"precompiled_charsmap\": \"CAAAAAAEAAAAAAAAYQA=\"}]}, \"pre_tokenizer\": {\"type\":"
        " \"Sequence\", \"pretokenizers\": [{\"type\": \"BertPreTokenizer\"}, {\"type\":"
        " \"Digits\"},"
        " {\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}]}, \"post_processor\":"
        " {\"type\":"
        " \"BertProcessing\", \"sep\": [\"a\", 0], \"cls\": [\"u\", 1]}, \"decoder\": {\"type\":"
        " \"Sequence\", \"decoders\": [{\"type\": \"WordPiece\"}, {\"type\": \"Replace\","
        " \"pattern\":"
        " {\"String\": \"a\"}, \"content\": \"\"}, {\"type\": \"Strip\", \"start\": 1}]},"
        " \"model\": {"
        "\"type\": \"WordPiece\", \"unk_token\": \"u\", \"vocab\": {\"a\": 0, \"u\": 1,"
        " \"##a\": 3}}}"},
};
