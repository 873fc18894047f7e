/* spec.c - tokenizer.json for what is trained here or comes from older files. */
#include "tokenizer/spec.h"

#include <string.h>

static const char text[] = "Sequence", special_token[] = "SpecialToken"; /* in a template */

bool qkv__spec_says(const json_t *at, const char *key, const char *wanted)
{
    const char *found = json_string_value(json_object_get(at, key));
    return found && strcmp(found, wanted) == 0;
}

json_t *qkv__spec_byte_level(bool use_regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", false,
                     "trim_offsets", true, "use_regex", use_regex);
}

/* Every character a piece of its own. */
static json_t *char_split(void)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", "[\\s\\S]",
                     "behavior", "Isolated", "invert", false);
}

json_t *qkv__spec_added(const char *content, int32_t id)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", content,
                     "single_word", false, "lstrip", false, "rstrip", false, "normalized", false,
                     "special", true);
}

json_t *qkv__spec_vocab(const qkv__vocab *v)
{
    json_t *vocab = json_object();
    bool fine = vocab != NULL;
    for (size_t id = 0; id < v->count && fine; id++) {
        size_t len;
        const char *token = qkv__vocab_text(v, (int32_t)id, &len);
        fine = json_object_set_new(vocab, token, json_integer((json_int_t)id)) == 0;
    }
    if (fine)
        return vocab;
    json_decref(vocab);
    return NULL;
}

/* An id that files may give; most of the ids below the greatest must be there, so that a
 * small file cannot ask for much memory. */
qkv_status qkv__vocab_read(qkv__vocab *v, const qkv__json *object)
{
    const char *key;
    json_t *value;
    json_int_t greatest = -1;
    json_object_foreach(object->value, key, value) {
        if (!json_is_integer(value))
            return qkv__json_fail(object, NULL, "token \"%.60s\": expected an integer id", key);
        json_int_t id = json_integer_value(value);
        if (id < 0 || id >= QKV_TOKENIZER_ID_LIMIT)
            return qkv__json_fail(object, NULL,
                                  "token \"%.60s\": expected an id from 0 to %d, found %lld", key,
                                  QKV_TOKENIZER_ID_LIMIT - 1, (long long)id);
        if (id > greatest)
            greatest = id;
    }
    size_t count = qkv__json_count(object);
    if ((size_t)(greatest + 1) > 2 * count + 1024)
        return qkv__json_fail(object, NULL, "ids go up to %lld, but only %zu tokens are given",
                              (long long)greatest, count);
    json_object_foreach(object->value, key, value) {
        size_t old_len;
        int32_t id = (int32_t)json_integer_value(value);
        const char *old = qkv__vocab_text(v, id, &old_len);
        if (old)
            return qkv__json_fail(object, NULL, "tokens \"%.60s\" and \"%.60s\" both have id %d",
                                  old, key, (int)id);
        qkv_status status = qkv__vocab_add(v, key, strlen(key), id);
        if (status)
            return status;
    }
    return QKV_OK;
}

/* ---- templates ----------------------------------------------------------------------- */

static json_t *spec_use(const char *kind, const char *id, int type)
{
    return json_pack("{s:{s:s, s:i}}", kind, "id", id, "type_id", type);
}

static json_t *token(const char *content, int32_t id)
{
    return json_pack("{s:s, s:[i], s:[s]}", "id", content, "ids", (int)id, "tokens", content);
}

json_t *qkv__spec_template(const char *begin, int32_t begin_id, const char *end, int32_t end_id)
{
    json_t *single, *pair, *tokens;
    if (begin) {
        single = json_pack("[o, o, o]", spec_use(special_token, begin, 0), spec_use(text, "A", 0),
                           spec_use(special_token, end, 0));
        pair = json_pack("[o, o, o, o, o]", spec_use(special_token, begin, 0),
                         spec_use(text, "A", 0),
                         spec_use(special_token, end, 0), spec_use(text, "B", 1),
                         spec_use(special_token, end, 1));
    } else {
        single = json_pack("[o, o]", spec_use(text, "A", 0), spec_use(special_token, end, 0));
        pair = json_pack("[o, o, o]", spec_use(text, "A", 0), spec_use(text, "B", 0),
                         spec_use(special_token, end, 0));
    }
    if (begin && strcmp(begin, end) != 0)
        tokens = json_pack("{s:o, s:o}", begin, token(begin, begin_id), end, token(end, end_id));
    else
        tokens = json_pack("{s:o}", end, token(end, end_id));
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single,
                     "pair", pair, "special_tokens", tokens);
}

static int32_t id_of(const char *const *special, const int32_t *ids, size_t count,
                     const char *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (wanted && strcmp(special[i], wanted) == 0)
            return ids[i];
    return -1;
}

/* ---- the specification --------------------------------------------------------------- */

json_t *qkv__spec(json_t *added, json_t *normalizer, json_t *splitter, json_t *processor,
                  json_t *decoder, json_t *model)
{
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", added, "normalizer", normalizer,
                     "pre_tokenizer", splitter, "post_processor", processor, "decoder", decoder,
                     "model", model);
}

json_t *qkv__spec_plain(qkv_tokenizer_kind kind, const char *const *special, const int32_t *ids,
                        size_t count, const char *unk, const char *begin, const char *end)
{
    bool fine = true;
    json_t *added = json_array(), *model, *processor = NULL;
    for (size_t i = 0; i < count && fine; i++)
        fine = json_array_append_new(added, qkv__spec_added(special[i], ids[i])) == 0;
    if (end)
        processor = qkv__spec_template(begin, id_of(special, ids, count, begin), end,
                                       id_of(special, ids, count, end));
    if (kind == QKV_TOKENIZER_BPE) { /* its own processor changes no id */
        processor = end ? json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors",
                                    qkv__spec_byte_level(true), processor)
                        : qkv__spec_byte_level(true);
        model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout",
                          "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                          "fuse_unk", false, "byte_fallback", false, "ignore_merges", false);
        model = qkv__spec(added, json_null(), qkv__spec_byte_level(true), processor,
                          qkv__spec_byte_level(true), model);
    } else { /* the reference wants a name: one that is no token makes unknown text an error */
        model = json_pack("{s:s, s:s}", "type", "WordLevel", "unk_token", unk ? unk : "<unk>");
        model = qkv__spec(added, json_null(), char_split(), end ? processor : json_null(),
                          json_pack("{s:s}", "type", "Fuse"), model);
    }
    if (fine)
        return model;
    json_decref(model);
    return NULL;
}
