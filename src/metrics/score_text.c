/* score_text.c - lines as the scores' definitions see them, which were written in Python: its
 * blanks, its lower case. */
#include <string.h>
#include <utf8proc.h>

#include "metrics/score.h"

enum { MOST_BYTES = 1 << 30 }; /* of a line: n-grams are numbered in 32 bits */

bool qkv__is_blank(int32_t cp)
{
    if (cp < 0x80)
        return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

/* ---- lower case ------------------------------------------------------------------------- */

enum { I_DOT = 0x130, CAPITAL_SIGMA = 0x3a3, SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2, DOT = 0x307 };

/* Unicode's Case_Ignorable: marks, and what may stand within a word. */
static bool ignorable(int32_t cp)
{
    static const int32_t within[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,
                                     0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                     0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (cp == within[i])
            return true;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
    }
}

/* Unicode's Cased and not Case_Ignorable; -1 is no character. */
static bool is_letter(int32_t cp)
{
    static const int32_t beyond_letters[][2] = {{0xaa, 0xaa},       {0xba, 0xba},
                                                {0x2160, 0x217f},   {0x24b6, 0x24e9},
                                                {0x1f130, 0x1f149}, {0x1f150, 0x1f169},
                                                {0x1f170, 0x1f189}};
    if (cp < 0 || ignorable(cp))
        return false;
    for (size_t i = 0; i < sizeof beyond_letters / sizeof *beyond_letters; i++)
        if (cp >= beyond_letters[i][0] && cp <= beyond_letters[i][1])
            return true;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT: return true;
    default: return false;
    }
}

/* Does the sigma in text[at..end) end a word? After a letter and before none, whatever is
 * ignorable set aside (Unicode 3.13, Final_Sigma). */
static bool ends_word(const char *text, size_t len, size_t at, size_t end)
{
    int32_t before = -1, after = -1;
    while (at > 0) {
        at = qkv__utf8_before(text, at, &before);
        if (!ignorable(before))
            break;
    }
    while (end < len) {
        end += qkv__utf8_next(text + end, len - end, &after);
        if (!ignorable(after))
            break;
    }
    return is_letter(before) && !is_letter(after);
}

/* Appends str.lower() of UTF-8 text: "İ" becomes "i̇", a sigma that ends a word "ς". */
static void score_text_lower(qkv_str *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        char bytes[8] = "i"; /* I_DOT becomes two characters */
        int32_t cp;
        size_t n = qkv__utf8_next(text + i, len - i, &cp), put;
        if (cp < 0x80)
            put = qkv__utf8_put(bytes, cp >= 'A' && cp <= 'Z' ? cp + ('a' - 'A') : cp);
        else if (cp == CAPITAL_SIGMA)
            put = qkv__utf8_put(bytes, ends_word(text, len, i, i + n) ? FINAL_SIGMA : SIGMA);
        else if (cp == I_DOT)
            put = 1 + qkv__utf8_put(bytes + 1, DOT);
        else
            put = qkv__utf8_put(bytes, utf8proc_tolower(cp));
        qkv_str_add(out, bytes, put);
        i += n;
    }
}

/* ---- lines ------------------------------------------------------------------------------ */

/* Bytes before the first that is not UTF-8; len when all are. */
static size_t valid_bytes(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len) {
        int32_t cp;
        size_t n = (unsigned char)text[i] < 0x80 ? 1 : qkv__utf8_next(text + i, len - i, &cp);
        if ((unsigned char)text[i] >= 0x80 && cp < 0)
            break;
        i += n;
    }
    return i;
}

qkv_status qkv__score_line(qkv_str *out, const char *text, size_t len, bool lowercase,
                           const char *side)
{
    size_t valid = valid_bytes(text, len);
    if (valid < len)
        return qkv_fail(out->ctx, QKV_E_FORMAT,
                        "the %s is not UTF-8: expected a character at byte %zu, found 0x%02x",
                        side, valid, (unsigned char)text[valid]);
    if (len >= MOST_BYTES)
        return qkv_fail(out->ctx, QKV_E_UNSUPPORTED,
                        "the %s: expected a line of less than %d bytes, found %zu", side,
                        MOST_BYTES, len);
    qkv_str_clear(out);
    if (lowercase)
        score_text_lower(out, text, len);
    else
        qkv_str_add(out, text, len);
    return out->failed ? QKV_E_MEMORY : QKV_OK;
}

/* The text's first line without its newline, which is taken from the text; false: none. */
static bool score_text_next_line(qkv_text_span *text, const char **line, size_t *len)
{
    if (text->len == 0)
        return false;
    const char *end = memchr(text->data, '\n', text->len);
    *line = text->data;
    *len = end ? (size_t)(end - text->data) : text->len;
    size_t taken = end ? *len + 1 : *len;
    text->data += taken;
    text->len -= taken;
    return true;
}

static size_t score_text_count_lines(qkv_text_span text)
{
    const char *line;
    size_t len, count = 0;
    while (score_text_next_line(&text, &line, &len))
        count++;
    return count;
}

qkv_status qkv__score_texts(qkv_context *ctx, const qkv_text_span *hyp, const qkv_text_span *ref,
                            qkv__add_fn *add, void *user)
{
    qkv_text_span h = *hyp, r = *ref;
    const char *h_name = hyp->name ? hyp->name : "the hypotheses";
    const char *r_name = ref->name ? ref->name : "the references", *h_line, *r_line;
    size_t h_lines = score_text_count_lines(h), r_lines = score_text_count_lines(r), h_len, r_len;
    if (h_lines != r_lines)
        return qkv_fail(ctx, QKV_E_FORMAT,
                        "expected a line for every reference, found %zu in %s and %zu in %s",
                        h_lines, h_name, r_lines, r_name);
    if (h_lines == 0)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s and %s are empty: there is nothing to score",
                        h_name, r_name);
    for (size_t i = 1; score_text_next_line(&h, &h_line, &h_len) &&
         score_text_next_line(&r, &r_line, &r_len); i++) {
        const char *name = valid_bytes(h_line, h_len) < h_len ? h_name : r_name;
        qkv_status status = add(user, h_line, h_len, r_line, r_len);
        if (status == QKV_E_FORMAT)
            return qkv_fail(ctx, status, "%s: line %zu is not UTF-8", name, i);
        if (status)
            return status;
    }
    return QKV_OK;
}
