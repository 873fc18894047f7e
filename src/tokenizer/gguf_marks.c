/* gguf_marks.c - SentencePiece's marks of spaces as parts of tokenizer.json: those that are made of
 * a GGUF file, and those that transformers makes of SentencePiece's models. */
#include <string.h>

#include "tokenizer/gguf_kinds.h"
#include "tokenizer/spec.h"

/* Spaces at the ends of a text, and more than one. */
static const char ends[] = "\\A +| +\\z", runs[] = " {2,}";

static json_t *marks_replace(const char *kind, const char *from, const char *to)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, from, "content",
                     to);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Takes step; false: it, or memory, is missing. */
static bool append(json_t *list, json_t *step) { return json_array_append_new(list, step) == 0; }

json_t *qkv__gguf_marks_normalizer(const qkv__gguf_marks *m)
{
    json_t *list = json_array();
    bool fine = list != NULL;
    if (fine && m->rules)
        fine = append(list, json_pack("{s:s, s:s}", "type", "Precompiled",
                                      "precompiled_charsmap", m->rules));
    if (fine && m->trim)
        fine = append(list, marks_replace("Regex", ends, "")) &&
               append(list, marks_replace("Regex", runs, " "));
    if (fine && m->prefix)
        fine = append(list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend",
                                      QKV__SPACE_MARK));
    fine = fine && append(list, marks_replace("String", " ", QKV__SPACE_MARK));
    if (fine && json_array_size(list) > 1)
        return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
    json_t *only = fine ? json_incref(json_array_get(list, 0)) : NULL;
    json_decref(list);
    return only;
}

json_t *qkv__gguf_marks_decoder(const qkv__gguf_marks *m, bool bytes)
{
    json_t *list = json_array();
    bool fine = list && append(list, marks_replace("String", QKV__SPACE_MARK, " "));
    if (fine && bytes)
        fine = append(list, json_pack("{s:s}", "type", "ByteFallback"));
    fine = fine && append(list, json_pack("{s:s}", "type", "Fuse"));
    if (fine && m->prefix)
        fine = append(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                      "start", 1, "stop", 0));
    if (fine)
        return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
    json_decref(list);
    return NULL;
}

/* ---- recognising ----------------------------------------------------------------------------- */

static bool is_replace(const json_t *at, const char *kind, const char *from)
{
    return qkv__spec_says(at, "type", "Replace") &&
           qkv__spec_says(json_object_get(at, "pattern"), kind, from);
}

/* One step from text to text; *marked: it makes the marks. */
static bool take_normalizer(qkv__gguf_marks *m, const json_t *at, bool *marked)
{
    if (*marked)
        return false;
    if (qkv__spec_says(at, "type", "Precompiled")) {
        const bool first = !m->rules && !m->trim && !m->prefix;
        m->rules = json_string_value(json_object_get(at, "precompiled_charsmap"));
        return first;
    }
    if (is_replace(at, "Regex", runs)) {
        m->trim = true;
        return qkv__spec_says(at, "content", " ") || qkv__spec_says(at, "content", QKV__SPACE_MARK);
    }
    if (qkv__spec_says(at, "type", "Strip") || is_replace(at, "Regex", ends)) {
        m->strips = true;
        return true;
    }
    if (qkv__spec_says(at, "type", "Prepend")) {
        m->prefix = true;
        return qkv__spec_says(at, "prepend", QKV__SPACE_MARK);
    }
    *marked = is_replace(at, "String", " ") && qkv__spec_says(at, "content", QKV__SPACE_MARK);
    return *marked;
}

/* Metaspace, which makes the marks, may stand behind WhitespaceSplit. */
static bool take_splitter(qkv__gguf_marks *m, const json_t *at, bool *marked)
{
    if (qkv__spec_says(at, "type", "WhitespaceSplit")) {
        m->trim = true;
        return !*marked;
    }
    if (*marked || m->prefix || !qkv__spec_says(at, "type", "Metaspace"))
        return false;
    *marked = true;
    m->splits = !json_is_false(json_object_get(at, "split"));
    m->prefix = !qkv__spec_says(at, "prepend_scheme", "never") &&
                !json_is_false(json_object_get(at, "add_prefix_space"));
    return qkv__spec_says(at, "replacement", QKV__SPACE_MARK);
}

static bool take_marks(qkv__gguf_marks *m, const json_t *part, const char *key, bool *marked,
                       bool (*take)(qkv__gguf_marks *m, const json_t *at, bool *marked))
{
    const json_t *list = json_object_get(part, key);
    bool fine = true;
    if (!part || json_is_null(part))
        return true;
    if (!qkv__spec_says(part, "type", "Sequence"))
        return take(m, part, marked);
    for (size_t i = 0; i < json_array_size(list) && fine; i++)
        fine = take(m, json_array_get(list, i), marked);
    return fine;
}

bool qkv__gguf_marks_of(qkv__gguf_marks *out, const qkv_tokenizer *t)
{
    const json_t *normalizer = json_object_get(t->spec.value, "normalizer");
    const json_t *splitter = json_object_get(t->spec.value, "pre_tokenizer");
    bool marked = false;
    *out = (qkv__gguf_marks){0};
    return take_marks(out, normalizer, "normalizers", &marked, take_normalizer) &&
           take_marks(out, splitter, "pretokenizers", &marked, take_splitter) && marked &&
           (out->trim || !out->strips);
}
