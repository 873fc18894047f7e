/* gguf_pre.c - how byte-level BPE cuts a text, by llama.cpp's names. A GGUF file has such a name
 * where tokenizer.json has a pattern. */
#include <string.h>

#include "tokenizer/gguf_kinds.h"
#include "tokenizer/spec.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define REST_OF_CASED "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char three_digits[] = CONTRACTIONS WORDS "|\\p{N}{1,3}" REST;
static const char one_digit[] = CONTRACTIONS WORDS "|\\p{N}" REST;
static const char cased[] = "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+"
                            "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*|\\p{N}" REST_OF_CASED;
static const char cased_with_contractions[] =
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?"
    "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}" REST_OF_CASED;
static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Of those that cut alike, the first is written. */
static const qkv__gguf_pre pres[] = {
    {"gpt-2", false, NULL, false, false, false},
    {"roberta-bpe", false, NULL, false, false, false},
    {"mpt", false, NULL, false, false, false},
    {"olmo", false, NULL, false, false, false},
    {"phi-2", false, NULL, false, false, false},
    {"jais", false, NULL, false, false, false},
    {"smollm", true, NULL, false, false, false},
    {"starcoder", true, NULL, false, false, false},
    {"refact", true, NULL, false, false, false},
    {"command-r", true, NULL, false, false, false},
    {"codeshell", true, NULL, false, false, false},
    {"exaone", true, NULL, false, false, false},
    {"llama-bpe", false, three_digits, false, true, true},
    {"llama3", false, three_digits, false, true, true},
    {"llama-v3", false, three_digits, false, true, true},
    {"falcon3", false, three_digits, false, true, true},
    {"pixtral", false, three_digits, false, true, true},
    {"smaug-bpe", false, three_digits, false, false, false},
    {"dbrx", false, three_digits, false, false, false},
    {"qwen2", false, one_digit, true, false, false},
    {"deepseek-r1-qwen", false, one_digit, true, false, false},
    {"stablelm2", false, one_digit, false, false, false},
    {"megrez", false, one_digit, false, false, false},
    {"tekken", false, cased, false, true, true},
    {"gpt-4o", false, cased_with_contractions, false, false, false},
    {"llama4", false, cased_with_contractions, false, false, false},
};

const qkv__gguf_pre *qkv__gguf_pre_named(const char *name)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (strcmp(pres[i].name, name) == 0)
            return &pres[i];
    return NULL;
}

json_t *qkv__gguf_pre_normalizer(const qkv__gguf_pre *p)
{
    return p->nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
}

json_t *qkv__gguf_pre_splitter(const qkv__gguf_pre *p)
{
    json_t *bytes = qkv__spec_byte_level(!p->pattern);
    json_t *first = NULL;
    if (p->digits)
        first = json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", true);
    if (p->pattern)
        first = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                          p->pattern, "behavior", "Isolated", "invert", false);
    return first ? json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", first, bytes)
                 : bytes;
}

/* ---- recognising them ------------------------------------------------------------------------ */

/* One part of tokenizer.json's pre-tokenizer; false: none of the files' ways has it. */
static bool take_part(qkv__gguf_pre *p, const json_t *at, bool *bytes)
{
    const char *behavior = json_string_value(json_object_get(at, "behavior"));
    if (*bytes)
        return false;
    if (qkv__spec_says(at, "type", "Digits")) {
        p->digits = json_is_true(json_object_get(at, "individual_digits"));
        return p->digits && !p->pattern;
    }
    if (qkv__spec_says(at, "type", "Split")) {
        const char *pattern =
            json_string_value(json_object_get(json_object_get(at, "pattern"), "Regex"));
        const bool fits = pattern && !p->pattern && behavior && strcmp(behavior, "Isolated") == 0 &&
                          !json_is_true(json_object_get(at, "invert"));
        p->pattern = pattern;
        return fits;
    }
    *bytes = qkv__spec_says(at, "type", "ByteLevel") &&
             json_is_false(json_object_get(at, "add_prefix_space"));
    if (*bytes && !json_is_false(json_object_get(at, "use_regex"))) {
        *bytes = !p->pattern;
        p->pattern = gpt2;
    }
    return *bytes;
}

const qkv__gguf_pre *qkv__gguf_pre_of(const qkv_tokenizer *t)
{
    const json_t *splitter = json_object_get(t->spec.value, "pre_tokenizer");
    const json_t *normalizer = json_object_get(t->spec.value, "normalizer");
    const json_t *model = json_object_get(t->spec.value, "model");
    const json_t *list = json_object_get(splitter, "pretokenizers");
    qkv__gguf_pre found = {.nfc = qkv__spec_says(normalizer, "type", "NFC"),
                           .ignore_merges = json_is_true(json_object_get(model, "ignore_merges"))};
    bool bytes = false, fits = true;
    if (normalizer && !json_is_null(normalizer) && !found.nfc)
        return NULL;
    if (qkv__spec_says(splitter, "type", "Sequence"))
        for (size_t i = 0; i < json_array_size(list) && fits; i++)
            fits = take_part(&found, json_array_get(list, i), &bytes);
    else
        fits = take_part(&found, splitter, &bytes);
    for (size_t i = 0; i < sizeof pres / sizeof *pres && fits && bytes; i++) {
        const qkv__gguf_pre *p = &pres[i];
        if (p->digits == found.digits && p->nfc == found.nfc &&
            p->ignore_merges == found.ignore_merges && found.pattern &&
            strcmp(p->pattern ? p->pattern : gpt2, found.pattern) == 0)
            return p;
    }
    return NULL;
}
