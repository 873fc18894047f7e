/* page.c - the content of a page, in the order in which it is added. */
#include "draw/page.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "draw/encode.h"

qkv_status qkv_page_create(qkv_page **out, qkv_context *ctx, const qkv_page_options *options)
{
    *out = NULL;
    qkv_page_options o = options ? *options : (qkv_page_options){0};
    qkv_page *p = qkv_malloc(ctx, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    *p = (qkv_page){.ctx = ctx};
    qkv_str *const all[] = {&p->title, &p->subtitle,  &p->language,  &p->body,
                            &p->ids,   &p->css.texts, &p->js.texts, &p->contents};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv_str_init(all[i], ctx);
    qkv__page_put(&p->title, o.title ? o.title : "qkv", false);
    qkv__page_put(&p->language, o.language ? o.language : "en", false);
    if (o.subtitle)
        qkv__page_put(&p->subtitle, o.subtitle, false);
    qkv_str_puts(&p->ids, " theme  content "); /* the file's own */
    if (p->title.failed || p->language.failed || p->subtitle.failed || p->ids.failed) {
        qkv_page_destroy(p);
        return QKV_E_MEMORY;
    }
    *out = p;
    return QKV_OK;
}

void qkv_page_destroy(qkv_page *p)
{
    if (!p)
        return;
    qkv_str *const all[] = {&p->title, &p->subtitle,  &p->language,  &p->body,
                            &p->ids,   &p->css.texts, &p->js.texts, &p->contents};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv_str_free(all[i]);
    qkv_free(p->ctx, p);
}

qkv_status qkv_page_status(const qkv_page *p) { return p->status; }

void qkv__page_fail(qkv_page *p, qkv_status status)
{
    p->status = p->status ? p->status : status;
}

void qkv__page_put(qkv_str *out, const char *text, bool keep_lines)
{
    qkv_str_visible(out, text, strlen(text), QKV_ESCAPE_XML, keep_lines);
}

static bool page_fit_id(const char *id)
{
    if (!isalpha((unsigned char)*id))
        return false;
    for (; *id; id++)
        if ((!isalnum((unsigned char)*id) && *id != '-' && *id != '_') || (*id & 0x80))
            return false;
    return true;
}

static bool page_has_id(const qkv_page *p, const char *id)
{
    size_t n = strlen(id);
    for (const char *at = p->ids.data; at && (at = strstr(at, id)); at++)
        if (at[-1] == ' ' && at[n] == ' ')
            return true;
    return false;
}

void qkv__page_put_id(qkv_page *p, const char *id)
{
    if (!id || p->status)
        return;
    if (!page_fit_id(id) || page_has_id(p, id)) {
        qkv__page_fail(p, qkv_fail(p->ctx, QKV_E_ARGUMENT,
                                   "the id \"%s\" of a page: %s", id,
                                   page_fit_id(id) ? "it is there already"
                                                   : "letters, digits, - and _ expected, first "
                                                     "a letter"));
        return;
    }
    qkv_str_printf(&p->ids, " %s ", id);
    qkv_str_printf(&p->body, " id=\"%s\"", id);
}

/* <tag id="id">text</tag> */
static void page_element(qkv_page *p, const char *tag, const char *id, const char *text,
                         bool keep_lines)
{
    qkv_str_printf(&p->body, "<%s", tag);
    qkv__page_put_id(p, id);
    qkv_str_puts(&p->body, ">");
    qkv__page_put(&p->body, text, keep_lines);
    qkv_str_printf(&p->body, "</%s>\n", tag);
}

void qkv_page_heading(qkv_page *p, int level, const char *id, const char *text)
{
    static const char *const tags[] = {"h2", "h3", "h4"};
    if (level < 2 || level > 4) {
        qkv__page_fail(p, qkv_fail(p->ctx, QKV_E_ARGUMENT,
                                   "a heading of level %d: 2, 3 or 4 expected", level));
        return;
    }
    page_element(p, tags[level - 2], id, text, false);
    if (level > 2 || !id)
        return;
    qkv_str_printf(&p->contents, "<li><a href=\"#%s\">", id);
    qkv__page_put(&p->contents, text, false);
    qkv_str_puts(&p->contents, "</a></li>\n");
    p->entries++;
}

/* Characters of the flag, as --minutes, at `at` in the text; 0: none begins there. */
static size_t page_flag(const char *text, const char *at)
{
    static const char follow[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (strncmp(at, "--", 2) != 0 || !islower((unsigned char)at[2]) ||
        (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '-')))
        return 0;
    return 2 + strspn(at + 2, follow);
}

void qkv_page_text(qkv_page *p, const char *text)
{
    qkv_str_puts(&p->body, "<p>");
    for (const char *at = text, *end; *at; at = end) {
        size_t flag = page_flag(text, at);
        for (end = at + (flag ? flag : 1); !flag && *end && !page_flag(text, end); end++)
            continue;
        qkv_str_puts(&p->body, flag ? "<code>" : "");
        qkv_str_visible(&p->body, at, (size_t)(end - at), QKV_ESCAPE_XML, true);
        qkv_str_puts(&p->body, flag ? "</code>" : "");
    }
    qkv_str_puts(&p->body, "</p>\n");
}

void qkv_page_code(qkv_page *p, const char *text) { page_element(p, "pre", NULL, text, true); }

void qkv_page_printf(qkv_page *p, const char *fmt, ...)
{
    char fixed[1024], *text = fixed;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(fixed, sizeof fixed, fmt, args);
    va_end(args);
    if (n >= (int)sizeof fixed) {
        text = qkv_malloc(p->ctx, (size_t)n + 1);
        va_start(args, fmt);
        n = text ? vsnprintf(text, (size_t)n + 1, fmt, args) : -1;
        va_end(args);
    }
    if (n >= 0)
        qkv_page_text(p, text);
    else
        qkv__page_fail(p, QKV_E_MEMORY);
    if (text != fixed)
        qkv_free(p->ctx, text);
}

void qkv_page_link(qkv_page *p, const char *address, const char *text)
{
    if (*address == '/' || strcspn(address, ":\\") < strlen(address)) {
        qkv__page_fail(p, qkv_fail(p->ctx, QKV_E_ARGUMENT, "a link of a page to \"%.60s\": a "
                                   "relative address expected", address));
        return;
    }
    qkv_str_puts(&p->body, "<p><a href=\"");
    for (const char *c = address; *c; c++) /* all but what a path is written with */
        qkv_str_printf(&p->body, isalnum((unsigned char)*c) || strchr("-_./", *c) ? "%c" : "%%%02X",
                       (unsigned char)*c);
    qkv_str_puts(&p->body, "\">");
    qkv__page_put(&p->body, text, false);
    qkv_str_puts(&p->body, "</a></p>\n");
}

void qkv_page_list(qkv_page *p, const char *const *items, size_t count)
{
    qkv_str_puts(&p->body, "<ul class=\"text\">\n");
    for (size_t i = 0; i < count; i++)
        page_element(p, "li", NULL, items[i], true);
    qkv_str_puts(&p->body, "</ul>\n");
}

/* ---- parts ----------------------------------------------------------------------------------- */

static const struct {
    const char *begin, *end;
} page_parts[] = {
    [QKV_PAGE_SECTION] = {"<section", "</section>\n"},
    [QKV_PAGE_DETAILS] = {"<details", "</details>\n"},
    [QKV_PAGE_ROW] = {"<div class=\"row\"", "</div>\n"},
    [QKV_PAGE_PANEL] = {"<div class=\"panel\" role=\"group\"", "</div>\n"},
};

void qkv_page_begin(qkv_page *p, qkv_page_part part, const char *id, const char *title)
{
    if (p->depth == QKV__PAGE_DEPTH) {
        qkv__page_fail(p, qkv_fail(p->ctx, QKV_E_ARGUMENT, "parts of a page nest at most %d deep",
                                   QKV__PAGE_DEPTH));
        return;
    }
    p->open[p->depth++] = page_parts[part].end;
    qkv_str_puts(&p->body, page_parts[part].begin);
    qkv__page_put_id(p, id);
    if (title && part != QKV_PAGE_DETAILS) {
        qkv_str_puts(&p->body, " aria-label=\"");
        qkv__page_put(&p->body, title, false);
        qkv_str_puts(&p->body, "\"");
    }
    qkv_str_puts(&p->body, ">\n");
    if (part == QKV_PAGE_DETAILS)
        page_element(p, "summary", NULL, title ? title : "Details", false);
}

void qkv_page_end(qkv_page *p)
{
    if (p->depth)
        qkv_str_puts(&p->body, p->open[--p->depth]);
    else
        qkv__page_fail(p, qkv_fail(p->ctx, QKV_E_ARGUMENT, "qkv_page_end without qkv_page_begin"));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void page_table_head(qkv_page *p, const qkv_page_table_options *t)
{
    size_t n = t->column_count + (t->rows != NULL);
    qkv_str_puts(&p->body, "<thead><tr>");
    for (size_t i = 0; i < n; i++) {
        qkv_str_puts(&p->body, i || !t->rows ? "<th scope=\"col\">"
                                             : "<th scope=\"col\" class=\"name\">");
        qkv__page_put(&p->body, t->columns[i] ? t->columns[i] : "", false);
        qkv_str_puts(&p->body, "</th>");
    }
    qkv_str_puts(&p->body, "</tr></thead>\n");
}

void qkv_page_table(qkv_page *p, const qkv_page_table_options *t)
{
    qkv_str_puts(&p->body, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    qkv__page_put(&p->body, t->caption ? t->caption : "Table", false);
    qkv_str_printf(&p->body, "\"><table%s", t->numbers ? " class=\"numbers\"" : "");
    qkv__page_put_id(p, t->id);
    qkv_str_puts(&p->body, ">\n");
    if (t->caption)
        page_element(p, "caption", NULL, t->caption, false);
    if (t->columns)
        page_table_head(p, t);
    qkv_str_puts(&p->body, "<tbody>\n");
    for (size_t i = 0; i < t->row_count; i++) {
        qkv_str_puts(&p->body, "<tr>");
        if (t->rows) {
            qkv_str_puts(&p->body, "<th scope=\"row\">");
            qkv__page_put(&p->body, t->rows[i] ? t->rows[i] : "", false);
            qkv_str_puts(&p->body, "</th>");
        }
        for (size_t j = 0; j < t->column_count; j++) {
            const char *cell = t->cells[i * t->column_count + j];
            qkv_str_puts(&p->body, "<td>");
            qkv__page_put(&p->body, cell ? cell : "", false);
            qkv_str_puts(&p->body, "</td>");
        }
        qkv_str_puts(&p->body, "</tr>\n");
    }
    qkv_str_puts(&p->body, "</tbody></table></div>\n");
}

/* ---- figures --------------------------------------------------------------------------------- */

void qkv_page_figure(qkv_page *p, const qkv_drawing *drawing, const char *id, const char *caption)
{
    char own[32], prefix[32];
    (void)snprintf(own, sizeof own, "figure-%zu", ++p->figures);
    (void)snprintf(prefix, sizeof prefix, "figure-%zu-", p->figures);
    qkv_str_puts(&p->body, "<figure");
    qkv__page_put_id(p, id ? id : own);
    qkv_str_puts(&p->body, ">\n");
    if (!p->status)
        qkv__page_fail(p, qkv_drawing_svg(drawing, &p->body, false, prefix));
    if (caption)
        page_element(p, "figcaption", NULL, caption, true);
    qkv_str_puts(&p->body, "</figure>\n");
}

void qkv_page_image(qkv_page *p, const qkv_image *image, const char *id, const char *alt,
                    const char *caption)
{
    enum { SMALL = 160 };
    qkv_drawing *d;
    size_t side = image->width > image->height ? image->width : image->height;
    double scale = side && side < SMALL ? (double)(SMALL / side) : 1.0;
    double width = scale * (double)image->width, height = scale * (double)image->height;
    if (p->status)
        return;
    p->status = qkv_drawing_create(&d, p->ctx, width, height);
    if (p->status)
        return;
    qkv_drawing_describe(d, alt, NULL);
    qkv_draw_image(d, (qkv_frame){0.0, 0.0, width, height}, image, scale <= 1.0);
    qkv_page_figure(p, d, id, caption);
    qkv_drawing_destroy(d);
}
