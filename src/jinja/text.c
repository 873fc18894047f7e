/* text.c - strings: what filters and methods share. */
#include "jinja/text.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

qkv__jinja_value qkv__jinja_part_of(qkv__jinja_value self, qkv__jinja_str s)
{
    qkv__jinja_value v = qkv__j_str(s.data, s.len);
    v.safe = self.kind == QKV__J_STRING && self.safe;
    return v;
}

int32_t qkv__jinja_upper(int32_t cp, int32_t before) { return (void)before, utf8proc_toupper(cp); }
int32_t qkv__jinja_lower(int32_t cp, int32_t before) { return (void)before, utf8proc_tolower(cp); }

int32_t qkv__jinja_capitalize(int32_t cp, int32_t before)
{
    return before < 0 ? utf8proc_totitle(cp) : utf8proc_tolower(cp);
}

static bool has_case(int32_t cp)
{
    return cp >= 0 && (utf8proc_tolower(cp) != cp || utf8proc_toupper(cp) != cp);
}

int32_t qkv__jinja_title(int32_t cp, int32_t before)
{
    return has_case(before) ? utf8proc_tolower(cp) : utf8proc_totitle(cp);
}

int32_t qkv__jinja_title_of_filter(int32_t cp, int32_t before)
{
    bool begins = before < 0 || qkv__jinja_space(before) ||
                  (before < 128 && strchr("-({[<", before));
    return begins ? utf8proc_toupper(cp) : utf8proc_tolower(cp);
}

qkv__jinja_value qkv__jinja_change_case(qkv__jinja_run *r, qkv__jinja_value self,
                                        qkv__jinja_case *change)
{
    const qkv__jinja_str s = qkv__jinja_string(r, self);
    qkv__jinja_text out = {.pool = &r->pool};
    int32_t cp, before = -1;
    (void)qkv__jinja_work(&r->pool, s.len / 4);
    for (size_t i = 0; i < s.len && !r->pool.full;) {
        char bytes[4];
        i += qkv__utf8_next(s.data + i, s.len - i, &cp);
        if (cp == 0xdf && change == qkv__jinja_upper) /* the one in common use that has two */
            qkv__jinja_puts(&out, "SS");
        else
            qkv__jinja_add(&out, bytes, qkv__utf8_put(bytes, change(cp, before)));
        before = cp;
    }
    return qkv__jinja_part_of(self, qkv__jinja_done(&out).s);
}

qkv__jinja_value qkv__jinja_replace(qkv__jinja_run *r, qkv__jinja_str s, qkv__jinja_str from,
                                    qkv__jinja_str to, size_t most)
{
    qkv__jinja_text out = {.pool = &r->pool};
    size_t at = 0;
    for (; most && qkv__jinja_work(&r->pool, 1); most--) {
        size_t found = qkv__jinja_index(&r->pool, s, from, at);
        if (found == SIZE_MAX)
            break;
        qkv__jinja_add(&out, s.data + at, found - at);
        qkv__jinja_add(&out, to.data, to.len);
        at = found + from.len;
        if (from.len)
            continue;
        if (at == s.len) /* between all characters */
            return qkv__jinja_done(&out);
        qkv__jinja_str rest = {s.data + at, s.len - at};
        size_t n = qkv__jinja_offset(&r->pool, rest, 1);
        qkv__jinja_add(&out, rest.data, n);
        at += n;
    }
    qkv__jinja_add(&out, s.data + at, s.len - at);
    return qkv__jinja_done(&out);
}
