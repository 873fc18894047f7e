/* utf8.c - characters and their classes.
 *
 * Classes are utf8proc's, which may know an older Unicode than the libraries that ids are
 * compared with: letters and numbers assigned since Unicode 14.0 stand in a table. */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

typedef struct {
    int32_t first, last;
    qkv__char_class class;
} class_range;

/* Unicode 15.0 to 16.0. */
static const class_range recent[] = {
    {0x1c89, 0x1c8a, QKV__LETTER},       {0xa7cb, 0xa7cd, QKV__LETTER},
    {0xa7da, 0xa7dc, QKV__LETTER},       {0x105c0, 0x105f3, QKV__LETTER},
    {0x10d40, 0x10d49, QKV__NUMBER},     {0x10d4a, 0x10d65, QKV__LETTER},
    {0x10d6f, 0x10d85, QKV__LETTER},     {0x10ec2, 0x10ec4, QKV__LETTER},
    {0x1123f, 0x11240, QKV__LETTER},     {0x11380, 0x11389, QKV__LETTER},
    {0x1138b, 0x1138b, QKV__LETTER},     {0x1138e, 0x1138e, QKV__LETTER},
    {0x11390, 0x113b5, QKV__LETTER},     {0x113b7, 0x113b7, QKV__LETTER},
    {0x113d1, 0x113d1, QKV__LETTER},     {0x113d3, 0x113d3, QKV__LETTER},
    {0x116d0, 0x116e3, QKV__NUMBER},     {0x11bc0, 0x11be0, QKV__LETTER},
    {0x11bf0, 0x11bf9, QKV__NUMBER},     {0x11f02, 0x11f02, QKV__LETTER},
    {0x11f04, 0x11f10, QKV__LETTER},     {0x11f12, 0x11f33, QKV__LETTER},
    {0x11f50, 0x11f59, QKV__NUMBER},     {0x1342f, 0x1342f, QKV__LETTER},
    {0x13441, 0x13446, QKV__LETTER},     {0x13460, 0x143fa, QKV__LETTER},
    {0x16100, 0x1611d, QKV__LETTER},     {0x16130, 0x16139, QKV__NUMBER},
    {0x16d40, 0x16d6c, QKV__LETTER},     {0x16d70, 0x16d79, QKV__NUMBER},
    {0x18cff, 0x18cff, QKV__LETTER},     {0x1b132, 0x1b132, QKV__LETTER},
    {0x1b155, 0x1b155, QKV__LETTER},     {0x1ccf0, 0x1ccf9, QKV__NUMBER},
    {0x1d2c0, 0x1d2d3, QKV__NUMBER},     {0x1df25, 0x1df2a, QKV__LETTER},
    {0x1e030, 0x1e06d, QKV__LETTER},     {0x1e4d0, 0x1e4eb, QKV__LETTER},
    {0x1e4f0, 0x1e4f9, QKV__NUMBER},     {0x1e5d0, 0x1e5ed, QKV__LETTER},
    {0x1e5f0, 0x1e5f0, QKV__LETTER},     {0x1e5f1, 0x1e5fa, QKV__NUMBER},
    {0x2b739, 0x2b739, QKV__LETTER},     {0x2ebf0, 0x2ee5d, QKV__LETTER},
    {0x31350, 0x323af, QKV__LETTER},
};

/* Well-formed sequences as in Unicode table 3-7. Returns the bytes, 0 when there is none. */
static size_t sequence(const unsigned char *s, size_t len)
{
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (len < 2)
        return 0;
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (n > len || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

size_t qkv__utf8_next(const char *s, size_t len, int32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;
    static const unsigned char lead[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t n = sequence(u, len);
    if (n == 0) {
        *cp = -1;
        return 1;
    }
    int32_t c = u[0] & lead[n];
    for (size_t i = 1; i < n; i++)
        c = c * 64 + (u[i] & 0x3f);
    *cp = c;
    return n;
}

size_t qkv__utf8_valid(const char *s, size_t len)
{
    int32_t cp;
    size_t i = 0;
    for (size_t n; i < len; i += n) {
        n = qkv__utf8_next(s + i, len - i, &cp);
        if (cp < 0)
            break;
    }
    return i;
}

size_t qkv__utf8_put(char out[4], int32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const int lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3f));
        cp >>= 6;
    }
    out[0] = (char)(lead[n] | cp);
    return n;
}

size_t qkv__utf8_before(const char *s, size_t at, int32_t *cp)
{
    size_t start = at - 1;
    while (start > 0 && at - start < 4 && ((unsigned char)s[start] & 0xc0) == 0x80)
        start--;
    if (qkv__utf8_next(s + start, at - start, cp) == at - start)
        return start;
    *cp = -1;
    return at - 1;
}

size_t qkv__utf8_unfinished(const char *s, size_t len)
{
    /* A prefix of a well-formed sequence becomes one when continuation bytes are added: the
     * second byte's range, which alone depends on the first, is tried at both ends. */
    static const char *const endings[] = {"\x80\x80\x80", "\xbf\xbf\xbf"};
    for (size_t n = len < 3 ? len : 3; n > 0; n--) {
        char whole[7];
        memcpy(whole, s + len - n, n);
        for (size_t e = 0; e < 2; e++) {
            memcpy(whole + n, endings[e], 3);
            if (sequence((unsigned char *)whole, n + 3) > n)
                return n;
        }
    }
    return 0;
}

static bool is_space(int32_t c)
{
    if (c < 0x1680)
        return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0;
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static qkv__char_class recent_class(int32_t cp)
{
    for (size_t i = 0; i < sizeof recent / sizeof *recent; i++)
        if (cp >= recent[i].first && cp <= recent[i].last)
            return recent[i].class;
    return QKV__OTHER;
}

qkv__char_class qkv__class_of(int32_t cp)
{
    if (cp < 0)
        return QKV__OTHER;
    if (is_space(cp))
        return QKV__SPACE;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return QKV__LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return QKV__NUMBER;
    case UTF8PROC_CATEGORY_CN: return recent_class(cp);
    default: return QKV__OTHER;
    }
}

void qkv__class_ranges(qkv_str *out, qkv__char_class class)
{
    if (class == QKV__SPACE)
        qkv_str_puts(out, "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
                           "\\x{2029}\\x{202f}\\x{205f}\\x{3000}");
    for (size_t i = 0; i < sizeof recent / sizeof *recent; i++)
        if (recent[i].class == class)
            qkv_str_printf(out, "\\x{%x}-\\x{%x}", (unsigned)recent[i].first,
                            (unsigned)recent[i].last);
}

bool qkv__is_word(int32_t cp)
{
    if (cp < 0)
        return false;
    if (qkv__class_of(cp) == QKV__LETTER || recent_class(cp) == QKV__NUMBER)
        return true;
    switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return cp == 0x200c || cp == 0x200d; /* joiners (UTS 18, \w) */
    }
}
