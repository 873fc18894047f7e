/* string.c - places and characters in a string. */
#include <string.h>

#include "base/utf8.h"
#include "jinja/string.h"

bool qkv__jinja_is(qkv__jinja_str s, const char *text)
{
    return strlen(text) == s.len && memcmp(s.data, text, s.len) == 0;
}

bool qkv__jinja_same(qkv__jinja_str a, qkv__jinja_str b)
{
    return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

bool qkv__jinja_space(int32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool qkv__jinja_begins(qkv__jinja_str s, qkv__jinja_str with)
{
    return with.len <= s.len && qkv__jinja_same((qkv__jinja_str){s.data, with.len}, with);
}

bool qkv__jinja_ends(qkv__jinja_str s, qkv__jinja_str with)
{
    return with.len <= s.len &&
           qkv__jinja_same((qkv__jinja_str){s.data + (s.len - with.len), with.len}, with);
}

/* Character by character. */
static void walked(qkv__jinja_pool *p, size_t bytes) { (void)qkv__jinja_work(p, bytes / 4); }

static bool strip_takes(qkv__jinja_pool *p, const char *s, size_t n, int32_t cp,
                        const qkv__jinja_str *chars)
{
    if (!chars)
        return qkv__jinja_space(cp);
    return qkv__jinja_index(p, *chars, (qkv__jinja_str){s, n}, 0) != SIZE_MAX;
}

qkv__jinja_str qkv__jinja_strip(qkv__jinja_pool *p, qkv__jinja_str s, const qkv__jinja_str *chars,
                                bool left, bool right)
{
    const size_t before = s.len;
    int32_t cp;
    while (left && s.len && !p->full) {
        size_t n = qkv__utf8_next(s.data, s.len, &cp);
        if (!strip_takes(p, s.data, n, cp, chars))
            break;
        s.data += n;
        s.len -= n;
    }
    while (right && s.len && !p->full) {
        size_t at = qkv__utf8_before(s.data, s.len, &cp);
        if (!strip_takes(p, s.data + at, s.len - at, cp, chars))
            break;
        s.len = at;
    }
    walked(p, before - s.len);
    return s;
}

size_t qkv__jinja_length(qkv__jinja_pool *p, qkv__jinja_str s)
{
    size_t count = 0;
    int32_t cp;
    walked(p, s.len);
    for (size_t i = 0; i < s.len; count++)
        i += qkv__utf8_next(s.data + i, s.len - i, &cp);
    return count;
}

size_t qkv__jinja_offset(qkv__jinja_pool *p, qkv__jinja_str s, size_t characters)
{
    size_t i = 0;
    int32_t cp;
    for (; i < s.len && characters; characters--)
        i += qkv__utf8_next(s.data + i, s.len - i, &cp);
    walked(p, i);
    return i;
}

size_t qkv__jinja_index(qkv__jinja_pool *p, qkv__jinja_str s, qkv__jinja_str needle, size_t from)
{
    if (from > s.len || needle.len > s.len - from)
        return SIZE_MAX;
    if (!needle.len)
        return from;
    const size_t begin = from, last = s.len - needle.len;
    size_t found = SIZE_MAX;
    for (; from <= last && found == SIZE_MAX && qkv__jinja_work(p, needle.len / 16); from++) {
        const char *first = memchr(s.data + from, needle.data[0], last - from + 1);
        from = first ? (size_t)(first - s.data) : last;
        if (first && memcmp(first, needle.data, needle.len) == 0)
            found = from;
    }
    (void)qkv__jinja_work(p, (from - begin) / 16);
    return found;
}

int qkv__jinja_order(qkv__jinja_pool *p, qkv__jinja_str a, qkv__jinja_str b)
{
    size_t both = a.len < b.len ? a.len : b.len;
    int order = both && qkv__jinja_work(p, both / 16) ? memcmp(a.data, b.data, both) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static bool line_ends(int32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

size_t qkv__jinja_line_end(qkv__jinja_pool *p, qkv__jinja_str s, size_t at, size_t *next)
{
    const size_t begin = at;
    int32_t cp = -1;
    for (*next = at; at < s.len; at = *next) {
        *next = at + qkv__utf8_next(s.data + at, s.len - at, &cp);
        if (line_ends(cp))
            break;
    }
    if (at < s.len && cp == '\r' && *next < s.len && s.data[*next] == '\n')
        ++*next;
    walked(p, at - begin);
    return at;
}

bool qkv__jinja_ends_line(qkv__jinja_str s)
{
    int32_t cp = -1;
    if (s.len)
        (void)qkv__utf8_before(s.data, s.len, &cp);
    return line_ends(cp);
}
