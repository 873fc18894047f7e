/* tokenizer_spec.c - tokenizer.json for what is trained here or comes from older files. */
#include <string.h>

#include "data/tokenizer.h"

static void put_byte_level(qkv__json_out *w, const char *key)
{
    qkv__json_begin_object(w, key);
    qkv__json_put_string(w, "type", "ByteLevel");
    qkv__json_put_bool(w, "add_prefix_space", false);
    qkv__json_put_bool(w, "trim_offsets", true);
    qkv__json_put_bool(w, "use_regex", true);
    qkv__json_end_object(w);
}

/* Every character a piece of its own. */
static void put_char_split(qkv__json_out *w)
{
    qkv__json_begin_object(w, "pre_tokenizer");
    qkv__json_put_string(w, "type", "Split");
    qkv__json_begin_object(w, "pattern");
    qkv__json_put_string(w, "Regex", "[\\s\\S]");
    qkv__json_end_object(w);
    qkv__json_put_string(w, "behavior", "Isolated");
    qkv__json_put_bool(w, "invert", false);
    qkv__json_end_object(w);
}

void qkv__put_added(qkv__json_out *w, const char *text, int32_t id)
{
    qkv__json_begin_object(w, NULL);
    qkv__json_put_int(w, "id", id);
    qkv__json_put_string(w, "content", text);
    qkv__json_put_bool(w, "single_word", false);
    qkv__json_put_bool(w, "lstrip", false);
    qkv__json_put_bool(w, "rstrip", false);
    qkv__json_put_bool(w, "normalized", false);
    qkv__json_put_bool(w, "special", true);
    qkv__json_end_object(w);
}

void qkv__tokenizer_begin_spec(qkv__json_out *w, qkv_tokenizer_kind kind,
                               const char *const *special, const int32_t *ids, size_t count,
                               const char *unk)
{
    bool bpe = kind == QKV_TOKENIZER_BPE;
    qkv__json_begin_object(w, NULL);
    qkv__json_put_string(w, "version", "1.0");
    qkv__json_put_null(w, "truncation");
    qkv__json_put_null(w, "padding");
    qkv__json_begin_array(w, "added_tokens");
    for (size_t i = 0; i < count; i++)
        qkv__put_added(w, special[i], ids[i]);
    qkv__json_end_array(w);
    qkv__json_put_null(w, "normalizer");
    if (bpe) {
        put_byte_level(w, "pre_tokenizer");
        put_byte_level(w, "post_processor");
        put_byte_level(w, "decoder");
    } else {
        put_char_split(w);
        qkv__json_put_null(w, "post_processor");
        qkv__json_begin_object(w, "decoder");
        qkv__json_put_string(w, "type", "Fuse");
        qkv__json_end_object(w);
    }
    qkv__json_begin_object(w, "model");
    qkv__json_put_string(w, "type", bpe ? "BPE" : "WordLevel");
    if (!bpe) { /* the reference wants a name: one that is no token makes unknown text an error */
        qkv__json_put_string(w, "unk_token", unk ? unk : "<unk>");
        return;
    }
    qkv__json_put_null(w, "dropout");
    qkv__json_put_null(w, "unk_token");
    qkv__json_put_null(w, "continuing_subword_prefix");
    qkv__json_put_null(w, "end_of_word_suffix");
    qkv__json_put_bool(w, "fuse_unk", false);
    qkv__json_put_bool(w, "byte_fallback", false);
    qkv__json_put_bool(w, "ignore_merges", false);
}
