/* lexer.c - from text to tokens, with trim_blocks and lstrip_blocks, as transformers sets them. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/node.h"

typedef struct {
    qkv__jinja *t;
    char *s; /* the source with \n alone as ends of lines, and without the last one */
    size_t len, at;
    int line;
    bool line_starting; /* what was read last ended a line */
    qkv__jinja_token *tokens;
    size_t count, capacity;
} lexer;

static qkv_status lexer_push(lexer *l, qkv__jinja_token token)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 256;
        qkv__jinja_token *grown = qkv__jinja_alloc(&l->t->pool, capacity * sizeof *grown);
        if (!grown)
            return qkv__jinja_fail(l->t, l->line, "the template is too long");
        if (l->count)
            memcpy(grown, l->tokens, l->count * sizeof *grown);
        l->tokens = grown;
        l->capacity = capacity;
    }
    l->tokens[l->count++] = token;
    return QKV_OK;
}

static qkv_status lexer_add(lexer *l, qkv__jinja_token_kind kind, const char *data, size_t len)
{
    return lexer_push(l, (qkv__jinja_token){.kind = kind, .line = l->line, .text = {data, len}});
}

static bool lexer_sees(const lexer *l, size_t at, const char *text)
{
    size_t n = strlen(text);
    return n <= l->len - at && memcmp(l->s + at, text, n) == 0;
}

static void lexer_move(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->s[l->at] == '\n';
}

static size_t lexer_spaces(const lexer *l, size_t at)
{
    int32_t cp;
    while (at < l->len) {
        size_t n = qkv__utf8_next(l->s + at, l->len - at, &cp);
        if (!qkv__jinja_space(cp))
            break;
        at += n;
    }
    return at;
}

/* Where a tag ends that `end` closes, at `at`; SIZE_MAX: it does not end there. */
static size_t lexer_tag_end(const lexer *l, size_t at, const char *end, bool trim)
{
    if (lexer_sees(l, at, "-") && lexer_sees(l, at + 1, end))
        return lexer_spaces(l, at + 3);
    if (trim && lexer_sees(l, at, "+") && lexer_sees(l, at + 1, end))
        return at + 3;
    if (!lexer_sees(l, at, end))
        return SIZE_MAX;
    return at + 2 + (trim && at + 2 < l->len && l->s[at + 2] == '\n');
}

/* ---- between tags ---------------------------------------------------------------------------- */

/* Adds the text before a tag, without the spaces that the tag takes. */
static qkv_status lexer_text(lexer *l, size_t end, char sign, bool lstrip)
{
    qkv__jinja_str text = {l->s + l->at, end - l->at};
    if (sign == '-') {
        text = qkv__jinja_strip(&l->t->pool, text, NULL, false, true);
    } else if (sign != '+' && lstrip) {
        size_t start = text.len;
        while (start > 0 && text.data[start - 1] != '\n')
            start--;
        qkv__jinja_str last = {text.data + start, text.len - start};
        last = qkv__jinja_strip(&l->t->pool, last, NULL, true, false);
        if ((start > 0 || l->line_starting) && !last.len)
            text.len = start;
    }
    qkv_status status = text.len ? lexer_add(l, QKV__T_TEXT, text.data, text.len) : QKV_OK;
    lexer_move(l, end);
    return status;
}

/* After `{%` and its sign: the end of a tag `raw`, or SIZE_MAX. */
static size_t lexer_raw(const lexer *l, size_t at, const char *name, bool trim)
{
    at = lexer_spaces(l, at);
    if (!lexer_sees(l, at, name))
        return SIZE_MAX;
    at = lexer_spaces(l, at + strlen(name));
    return lexer_tag_end(l, at, "%}", trim);
}

static char lexer_sign(const lexer *l, size_t at)
{
    return at < l->len && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : 0;
}

static qkv_status lexer_raw_block(lexer *l)
{
    for (size_t i = l->at; i < l->len; i++) {
        if (!lexer_sees(l, i, "{%"))
            continue;
        char sign = lexer_sign(l, i + 2);
        size_t end = lexer_raw(l, i + 2 + (sign != 0), "endraw", true);
        if (end == SIZE_MAX)
            continue;
        qkv_status status = lexer_text(l, i, sign, true);
        lexer_move(l, end);
        l->line_starting = l->s[end - 1] == '\n';
        return status;
    }
    return qkv__jinja_fail(l->t, l->line, "the end of `raw` is missing");
}

static qkv_status lexer_comment(lexer *l, size_t from)
{
    for (size_t i = from; i < l->len; i++) {
        size_t end = lexer_tag_end(l, i, "#}", true);
        if (end == SIZE_MAX)
            continue;
        lexer_move(l, end);
        l->line_starting = l->s[end - 1] == '\n';
        return QKV_OK;
    }
    return qkv__jinja_fail(l->t, l->line, "the end of a comment is missing");
}

/* ---- inside of tags -------------------------------------------------------------------------- */

static bool lexer_hex(const char *s, size_t n, int32_t *cp)
{
    *cp = 0;
    for (size_t i = 0; i < n; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *d = s[i] ? strchr(digits, s[i]) : NULL;
        if (!d || *cp > 0x10ffff)
            return false;
        *cp = *cp * 16 + (int32_t)((d - digits) % 16);
    }
    return *cp <= 0x10ffff && !(*cp >= 0xd800 && *cp < 0xe000);
}

/* An escape at s (after the backslash) to out; bytes read, 0 if it is none that Python reads. */
static size_t lexer_escape(const char *s, size_t len, char *out, size_t *put)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    static const struct { char letter; size_t digits; } codes[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    const char *known = *s ? strchr(from, *s) : NULL;
    int32_t cp = 0;
    *put = known != NULL;
    if (known)
        out[0] = to[known - from];
    if (known || *s == '\n')
        return 1;
    for (size_t i = 0; i < 3; i++) {
        if (*s != codes[i].letter)
            continue;
        if (len <= codes[i].digits || !lexer_hex(s + 1, codes[i].digits, &cp))
            return 0;
        *put = qkv__utf8_put(out, cp);
        return codes[i].digits + 1;
    }
    size_t n = 0;
    for (; n < 3 && n < len && s[n] >= '0' && s[n] <= '7'; n++)
        cp = cp * 8 + (s[n] - '0');
    if (n) {
        *put = qkv__utf8_put(out, cp);
        return n;
    }
    if (*s == 'N')
        return 0;
    out[0] = '\\';
    out[1] = *s;
    *put = 2;
    return 1;
}

static qkv_status lexer_string(lexer *l)
{
    const char quote = l->s[l->at];
    size_t end = l->at + 1, n = 0;
    while (end < l->len && l->s[end] != quote)
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->len)
        return qkv__jinja_fail(l->t, l->line, "the end of a string is missing");
    char *out = qkv__jinja_alloc(&l->t->pool, 2 * (end - l->at));
    if (!out)
        return qkv__jinja_fail(l->t, l->line, "the template is too long");
    for (size_t i = l->at + 1; i < end;) {
        if (l->s[i] != '\\') {
            out[n++] = l->s[i++];
            continue;
        }
        size_t put = 0, read = lexer_escape(l->s + i + 1, end - i - 1, out + n, &put);
        if (!read)
            return qkv__jinja_fail(l->t, l->line, "\\%c in a string is not understood",
                                   l->s[i + 1]);
        n += put;
        i += 1 + read;
    }
    qkv_status status = lexer_add(l, QKV__T_STRING, out, n);
    lexer_move(l, end + 1);
    return status;
}

static bool lexer_digit(const lexer *l, size_t at)
{
    return at < l->len && l->s[at] >= '0' && l->s[at] <= '9';
}

static size_t lexer_digits(const lexer *l, size_t at)
{
    while (lexer_digit(l, at) || (at < l->len && l->s[at] == '_' && lexer_digit(l, at + 1)))
        at++;
    return at;
}

static qkv_status lexer_number(lexer *l)
{
    char text[64];
    size_t from = l->at, end = lexer_digits(l, from), n = 0;
    bool real = false;
    if (end < l->len && l->s[end] == '.' && lexer_digit(l, end + 1)) {
        real = true;
        end = lexer_digits(l, end + 1);
    }
    size_t e = end + 1;
    if (end < l->len && (l->s[end] == 'e' || l->s[end] == 'E')) {
        e += e < l->len && (l->s[e] == '+' || l->s[e] == '-');
        if (lexer_digit(l, e)) {
            real = true;
            end = lexer_digits(l, e);
        }
    }
    for (size_t i = from; i < end && n + 1 < sizeof text; i++)
        if (l->s[i] != '_')
            text[n++] = l->s[i];
    text[n] = 0;
    qkv__jinja_token token = {.line = l->line, .text = {l->s + from, end - from}};
    token.kind = real ? QKV__T_REAL : QKV__T_INT;
    if (end - from >= sizeof text || (!real && n > 18))
        return qkv__jinja_fail(l->t, l->line, "a number is too long");
    token.value = real ? qkv__j_real(strtod(text, NULL)) : qkv__j_int(strtoll(text, NULL, 10));
    lexer_move(l, end);
    return lexer_push(l, token);
}

static bool lexer_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static qkv_status lexer_operator(lexer *l, int *brackets)
{
    static const char *const all[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%",
                                      "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":",
                                      "|", ","};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!lexer_sees(l, l->at, all[i]))
            continue;
        *brackets += strchr("[({", *all[i]) != NULL;
        *brackets -= strchr("])}", *all[i]) != NULL;
        if (*brackets < 0)
            break;
        qkv_status status = lexer_add(l, QKV__T_OPERATOR, l->s + l->at, strlen(all[i]));
        l->at += strlen(all[i]);
        return status;
    }
    return qkv__jinja_fail(l->t, l->line, "unexpected '%c'", l->s[l->at]);
}

/* A tag's tokens, after its opening. */
static qkv_status lexer_tag(lexer *l, bool block)
{
    const char *close = block ? "%}" : "}}";
    int brackets = 0;
    qkv_status status = QKV_OK;
    while (!status) {
        lexer_move(l, lexer_spaces(l, l->at));
        size_t end = l->at < l->len && !brackets ? lexer_tag_end(l, l->at, close, block) : SIZE_MAX;
        if (l->at == l->len)
            return qkv__jinja_fail(l->t, l->line, "%s is missing at the end of a tag", close);
        if (end != SIZE_MAX) {
            status = lexer_add(l, block ? QKV__T_BLOCK_END : QKV__T_PRINT_END, close, 2);
            lexer_move(l, end);
            l->line_starting = l->s[end - 1] == '\n';
            return status;
        }
        char c = l->s[l->at];
        if (c == '\'' || c == '"') {
            status = lexer_string(l);
        } else if (c >= '0' && c <= '9') {
            status = lexer_number(l);
        } else if (lexer_letter((unsigned char)c)) {
            end = l->at;
            while (end < l->len && (lexer_letter((unsigned char)l->s[end]) || lexer_digit(l, end)))
                end++;
            status = lexer_add(l, QKV__T_NAME, l->s + l->at, end - l->at);
            l->at = end;
        } else {
            status = lexer_operator(l, &brackets);
        }
    }
    return status;
}

/* The next text and tag. */
static qkv_status lexer_next(lexer *l)
{
    size_t i = l->at;
    while (i < l->len && !(l->s[i] == '{' && i + 1 < l->len && strchr("{%#", l->s[i + 1]) &&
                           l->s[i + 1]))
        i++;
    if (i == l->len)
        return lexer_text(l, l->len, '+', false);
    const char kind = l->s[i + 1], sign = lexer_sign(l, i + 2);
    size_t inside = i + 2 + (sign != 0);
    qkv_status status = lexer_text(l, i, sign, kind != '{');
    if (status)
        return status;
    size_t raw = kind == '%' ? lexer_raw(l, inside, "raw", false) : SIZE_MAX;
    lexer_move(l, raw == SIZE_MAX ? inside : raw);
    l->line_starting = l->s[l->at - 1] == '\n';
    if (kind == '#')
        return lexer_comment(l, l->at);
    if (raw != SIZE_MAX)
        return lexer_raw_block(l);
    status = lexer_add(l, kind == '%' ? QKV__T_BLOCK : QKV__T_PRINT, l->s + i, 2);
    return status ? status : lexer_tag(l, kind == '%');
}

qkv_status qkv__jinja_tokens(qkv__jinja *t, const char *source, size_t length,
                             qkv__jinja_token **out)
{
    lexer l = {.t = t, .line = 1, .line_starting = true};
    *out = NULL;
    l.s = qkv__jinja_alloc(&t->pool, length + 1);
    if (!l.s)
        return qkv__jinja_fail(t, 1, "the template is too long");
    for (size_t i = 0; i < length; i++) {
        bool pair = source[i] == '\r' && i + 1 < length && source[i + 1] == '\n';
        l.s[l.len++] = source[i] == '\r' ? '\n' : source[i];
        i += pair;
    }
    l.len -= l.len && l.s[l.len - 1] == '\n';
    qkv_status status = QKV_OK;
    while (!status && l.at < l.len)
        status = lexer_next(&l);
    if (!status)
        status = lexer_add(&l, QKV__T_END, "", 0);
    *out = l.tokens;
    return status;
}
