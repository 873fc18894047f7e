/* visible.c - text as a reader should see it: escaped for XML, nothing in it hidden. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"
#include "qkv/draw.h"

/* Characters that cannot be seen, or that move what stands around them: controls, soft hyphen,
 * zero-width space, marks and overrides of direction, line and paragraph separators, byte order
 * marks, code points that are no characters. Zero-width joiners stay: emoji are made with them. */
static const struct {
    int32_t from, to;
} hidden[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},
    {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfdd0, 0xfdef},
    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe001f},
};

static bool visible_hides(int32_t cp)
{
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (cp >= hidden[i].from && cp <= hidden[i].to)
            return true;
    return (cp & 0xfffe) == 0xfffe;
}

static void visible_put_hidden(qkv_str *out, int32_t cp)
{
    static const char names[] = "\nn\tt\rr";
    const char *name = cp > 0 && cp < 0x20 ? strchr(names, (int)cp) : NULL;
    if (name)
        qkv_str_printf(out, "\\%c", name[1]);
    else
        qkv_str_printf(out, cp < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)cp);
}

static const char *visible_reference(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void qkv_str_visible(qkv_str *out, const char *text, size_t length, qkv_escape escape,
                     bool keep_lines)
{
    for (size_t i = 0, n; i < length; i += n) {
        int32_t cp;
        n = qkv__utf8_next(text + i, length - i, &cp);
        const char *reference = n == 1 && escape == QKV_ESCAPE_XML ? visible_reference(text[i])
                                                                   : NULL;
        if (cp < 0)
            qkv_str_printf(out, "\\x%02x", (unsigned)(unsigned char)text[i]);
        else if (keep_lines && (cp == '\n' || cp == '\t'))
            qkv_str_add(out, text + i, n);
        else if (visible_hides(cp))
            visible_put_hidden(out, cp);
        else if (reference)
            qkv_str_puts(out, reference);
        else
            qkv_str_add(out, text + i, n);
    }
}
