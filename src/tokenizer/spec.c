/* spec.c - tokenizer.json for what is trained here or comes from older files. */
#include "tokenizer/spec.h"

#include <string.h>

static void put_byte_level(qkv_json_writer *w, const char *key)
{
    qkv_json_begin_object(w, key);
    qkv_json_put_string(w, "type", "ByteLevel");
    qkv_json_put_bool(w, "add_prefix_space", false);
    qkv_json_put_bool(w, "trim_offsets", true);
    qkv_json_put_bool(w, "use_regex", true);
    qkv_json_end_object(w);
}

/* Every character a piece of its own. */
static void put_char_split(qkv_json_writer *w)
{
    qkv_json_begin_object(w, "pre_tokenizer");
    qkv_json_put_string(w, "type", "Split");
    qkv_json_begin_object(w, "pattern");
    qkv_json_put_string(w, "Regex", "[\\s\\S]");
    qkv_json_end_object(w);
    qkv_json_put_string(w, "behavior", "Isolated");
    qkv_json_put_bool(w, "invert", false);
    qkv_json_end_object(w);
}

void qkv__put_added(qkv_json_writer *w, const char *text, int32_t id)
{
    qkv_json_begin_object(w, NULL);
    qkv_json_put_int(w, "id", id);
    qkv_json_put_string(w, "content", text);
    qkv_json_put_bool(w, "single_word", false);
    qkv_json_put_bool(w, "lstrip", false);
    qkv_json_put_bool(w, "rstrip", false);
    qkv_json_put_bool(w, "normalized", false);
    qkv_json_put_bool(w, "special", true);
    qkv_json_end_object(w);
}

/* ---- templates ----------------------------------------------------------------------- */

typedef struct {
    const char *id; /* of a token; "A" or "B" of a text */
    bool text;
    int type;
} use;

static void put_uses(qkv_json_writer *w, const char *key, const use *uses, size_t count)
{
    qkv_json_begin_array(w, key);
    for (size_t i = 0; i < count; i++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_begin_object(w, uses[i].text ? "Sequence" : "SpecialToken");
        qkv_json_put_string(w, "id", uses[i].id);
        qkv_json_put_int(w, "type_id", uses[i].type);
        qkv_json_end_object(w);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

static void put_token(qkv_json_writer *w, const char *text, int32_t id)
{
    qkv_json_begin_object(w, text);
    qkv_json_put_string(w, "id", text);
    qkv_json_begin_array(w, "ids");
    qkv_json_put_int(w, NULL, id);
    qkv_json_end_array(w);
    qkv_json_begin_array(w, "tokens");
    qkv_json_put_string(w, NULL, text);
    qkv_json_end_array(w);
    qkv_json_end_object(w);
}

void qkv__put_template(qkv_json_writer *w, const char *key, const char *begin, int32_t begin_id,
                       const char *end, int32_t end_id)
{
    const use single[] = {{begin, false, 0}, {"A", true, 0}, {end, false, 0}};
    const use around[] = {{begin, false, 0}, {"A", true, 0}, {end, false, 0}, {"B", true, 1},
                          {end, false, 1}};
    const use behind[] = {{"A", true, 0}, {"B", true, 0}, {end, false, 0}};
    qkv_json_begin_object(w, key);
    qkv_json_put_string(w, "type", "TemplateProcessing");
    put_uses(w, "single", begin ? single : single + 1, begin ? 3 : 2);
    put_uses(w, "pair", begin ? around : behind, begin ? 5 : 3);
    qkv_json_begin_object(w, "special_tokens");
    if (begin && strcmp(begin, end) != 0)
        put_token(w, begin, begin_id);
    put_token(w, end, end_id);
    qkv_json_end_object(w);
    qkv_json_end_object(w);
}

static int32_t id_of(const char *const *special, const int32_t *ids, size_t count,
                     const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (text && strcmp(special[i], text) == 0)
            return ids[i];
    return -1;
}

/* Byte-level BPE's own, which changes no id, perhaps with a template behind it; a template;
 * null. */
static void put_post_processor(qkv_json_writer *w, bool bpe, const char *begin, int32_t begin_id,
                               const char *end, int32_t end_id)
{
    static const char key[] = "post_processor";
    if (bpe && end) {
        qkv_json_begin_object(w, key);
        qkv_json_put_string(w, "type", "Sequence");
        qkv_json_begin_array(w, "processors");
        put_byte_level(w, NULL);
        qkv__put_template(w, NULL, begin, begin_id, end, end_id);
        qkv_json_end_array(w);
        qkv_json_end_object(w);
    } else if (bpe) {
        put_byte_level(w, key);
    } else if (end) {
        qkv__put_template(w, key, begin, begin_id, end, end_id);
    } else {
        qkv_json_put_null(w, key);
    }
}

/* ---- the specification --------------------------------------------------------------- */

void qkv__tokenizer_begin_spec(qkv_json_writer *w, qkv_tokenizer_kind kind,
                               const char *const *special, const int32_t *ids, size_t count,
                               const char *unk, const char *begin, const char *end)
{
    bool bpe = kind == QKV_TOKENIZER_BPE;
    qkv_json_begin_object(w, NULL);
    qkv_json_put_string(w, "version", "1.0");
    qkv_json_put_null(w, "truncation");
    qkv_json_put_null(w, "padding");
    qkv_json_begin_array(w, "added_tokens");
    for (size_t i = 0; i < count; i++)
        qkv__put_added(w, special[i], ids[i]);
    qkv_json_end_array(w);
    qkv_json_put_null(w, "normalizer");
    if (bpe)
        put_byte_level(w, "pre_tokenizer");
    else
        put_char_split(w);
    put_post_processor(w, bpe, begin, id_of(special, ids, count, begin), end,
                       id_of(special, ids, count, end));
    if (bpe) {
        put_byte_level(w, "decoder");
    } else {
        qkv_json_begin_object(w, "decoder");
        qkv_json_put_string(w, "type", "Fuse");
        qkv_json_end_object(w);
    }
    qkv_json_begin_object(w, "model");
    qkv_json_put_string(w, "type", bpe ? "BPE" : "WordLevel");
    if (!bpe) { /* the reference wants a name: one that is no token makes unknown text an error */
        qkv_json_put_string(w, "unk_token", unk ? unk : "<unk>");
        return;
    }
    qkv_json_put_null(w, "dropout");
    qkv_json_put_null(w, "unk_token");
    qkv_json_put_null(w, "continuing_subword_prefix");
    qkv_json_put_null(w, "end_of_word_suffix");
    qkv_json_put_bool(w, "fuse_unk", false);
    qkv_json_put_bool(w, "byte_fallback", false);
    qkv_json_put_bool(w, "ignore_merges", false);
}
