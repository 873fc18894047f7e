/* pattern.c - regular expressions of tokenizer.json, by PCRE2: what they mean there,
 * spelled so that PCRE2 means the same. */
#include "tokenizer/pattern.h"

#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

struct qkv__pattern {
    pcre2_code *code;
    pcre2_match_data *found;
};

/* PCRE2's \s has U+180E, the reference's has not, and PCRE2's Unicode may be older: \s, \S,
 * \p{L} and \p{N} are spelled out. \S within [...] stays, which has no such spelling. */
static const struct {
    const char *escape;
    qkv__char_class class;
    bool negated;
} spelled_out[] = {
    {"\\s", QKV__SPACE, false},
    {"\\S", QKV__SPACE, true},
    {"\\p{L}", QKV__LETTER, false},
    {"\\p{N}", QKV__NUMBER, false},
};

/* Appends what the escape at p stands for; returns its bytes in the pattern. */
static size_t spell_escape(qkv_str *out, const char *p, bool in_class)
{
    for (size_t i = 0; i < sizeof spelled_out / sizeof *spelled_out; i++) {
        const char *escape = spelled_out[i].escape;
        size_t n = strlen(escape);
        if (strncmp(p, escape, n) != 0 || (in_class && spelled_out[i].negated))
            continue;
        if (!in_class)
            qkv_str_puts(out, spelled_out[i].negated ? "[^" : "[");
        if (spelled_out[i].class != QKV__SPACE)
            qkv_str_puts(out, escape);
        qkv__class_ranges(out, spelled_out[i].class);
        if (!in_class)
            qkv_str_puts(out, "]");
        return n;
    }
    size_t n = p[1] ? 2 : 1;
    qkv_str_add(out, p, n);
    return n;
}

static void spell_out(qkv_str *out, const char *p)
{
    bool in_class = false;
    while (*p) {
        if (*p == '\\') {
            p += spell_escape(out, p, in_class);
            continue;
        }
        size_t n = 1;
        if (!in_class && *p == '[') { /* a ']' that comes first is a member */
            in_class = true;
            n += p[n] == '^';
            n += p[n] == ']';
        } else if (in_class && p[0] == '[' && p[1] == ':' && strstr(p, ":]")) {
            n = (size_t)(strstr(p, ":]") + 2 - p);
        } else if (*p == ']') {
            in_class = false;
        }
        qkv_str_add(out, p, n);
        p += n;
    }
}

static qkv_status compile(qkv__pattern *p, const qkv__json *at, const char *pattern, bool literal)
{
    int error;
    PCRE2_SIZE place;
    uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
    qkv_str spelled;
    qkv_str_init(&spelled, at->ctx);
    if (literal)
        qkv_str_puts(&spelled, pattern);
    else
        spell_out(&spelled, pattern);
    flags |= literal ? PCRE2_LITERAL : PCRE2_UCP;
    if (!spelled.failed)
        p->code = pcre2_compile((PCRE2_SPTR)(spelled.data ? spelled.data : ""), spelled.len,
                                flags, &error, &place, NULL);
    bool failed = spelled.failed;
    qkv_str_free(&spelled);
    if (failed)
        return QKV_E_MEMORY;
    if (!p->code) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(error, why, sizeof why);
        return qkv__json_fail(at, NULL, "the pattern \"%.80s\" cannot be used: %s", pattern,
                              (const char *)why);
    }
    p->found = pcre2_match_data_create_from_pattern(p->code, NULL);
    if (!p->found)
        return qkv_fail(at->ctx, QKV_E_MEMORY, "out of memory while compiling a pattern");
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* slower without: no error */
    return QKV_OK;
}

qkv_status qkv__pattern_read(const qkv__json *at, const char **text, bool *literal)
{
    qkv__json pattern;
    qkv_status status = qkv__json_get_object(at, "pattern", &pattern);
    if (status)
        return status;
    *literal = qkv__json_has(&pattern, "String");
    return qkv__json_get_string(&pattern, *literal ? "String" : "Regex", text);
}

qkv_status qkv__pattern_create(qkv__pattern **out, const qkv__json *at, const char *text,
                               bool literal)
{
    qkv__pattern *p = *out = qkv_calloc(at->ctx, 1, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    qkv_status status = compile(p, at, text, literal);
    if (status) {
        qkv__pattern_destroy(p, at->ctx);
        *out = NULL;
    }
    return status;
}

void qkv__pattern_destroy(qkv__pattern *p, qkv_context *ctx)
{
    if (!p)
        return;
    pcre2_match_data_free(p->found);
    pcre2_code_free(p->code);
    qkv_free(ctx, p);
}

qkv_status qkv__pattern_next(const qkv__pattern *p, qkv_context *ctx, const char *text, size_t len,
                             size_t from, size_t *start, size_t *end)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(p->found);
    *start = *end = len;
    while (from < len) {
        int found = pcre2_match(p->code, (PCRE2_SPTR)text, len, from, 0, p->found, NULL);
        if (found == PCRE2_ERROR_NOMATCH)
            return QKV_OK;
        if (found < 0) {
            PCRE2_UCHAR why[120];
            pcre2_get_error_message(found, why, sizeof why);
            return qkv_fail(ctx, QKV_E_UNSUPPORTED, "a pattern failed on the text: %s",
                            (const char *)why);
        }
        if (span[1] > span[0]) {
            *start = span[0];
            *end = span[1];
            return QKV_OK;
        }
        int32_t cp; /* an empty match counts for nothing: go on behind the character */
        from = span[0] < len ? span[0] + qkv__utf8_next(text + span[0], len - span[0], &cp) : len;
    }
    return QKV_OK;
}
