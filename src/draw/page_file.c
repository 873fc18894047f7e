/* page_file.c - what scripts read and bring, and the file that all of it becomes. */
#include <string.h>

#include "base/base64.h"
#include "draw/encode.h"
#include "draw/ink.h"
#include "draw/page.h"
#include "draw/page_files.h"
#include "qkv/file.h"

/* A data block: browsers run no script of such a type, and the policy does not ask about it. */
static void page_begin_data(qkv_page *p, const char *type, const char *id)
{
    qkv_str_printf(&p->body, "<script type=\"%s\"", type);
    qkv__page_put_id(p, id);
}

void qkv_page_json(qkv_page *p, const char *id, const char *json)
{
    page_begin_data(p, "application/json", id);
    qkv_str_puts(&p->body, ">");
    for (const char *lower; (lower = strchr(json, '<')); json = lower + 1) {
        qkv_str_add(&p->body, json, (size_t)(lower - json));
        qkv_str_puts(&p->body, "\\u003c");
    }
    qkv_str_puts(&p->body, json);
    qkv_str_puts(&p->body, "</script>\n");
}

void qkv_page_bytes(qkv_page *p, const char *id, const void *data, size_t size)
{
    qkv_str small;
    qkv_str_init(&small, p->ctx);
    bool deflated = size && qkv__deflate(&small, data, size) && small.len < size;
    if (small.failed)
        qkv__page_fail(p, QKV_E_MEMORY);
    page_begin_data(p, "application/octet-stream", id);
    qkv_str_puts(&p->body, deflated ? " data-encoding=\"deflate\">" : ">");
    qkv__base64_put(&p->body, deflated ? small.data : data, deflated ? small.len : size);
    qkv_str_puts(&p->body, "</script>\n");
    qkv_str_free(&small);
}

/* The text's closing tag, which would end it early, or the start of a comment. */
static bool page_breaks_out(const char *text)
{
    for (const char *at = text; (at = strchr(at, '<')); at++)
        if (strncmp(at, "</", 2) == 0 || strncmp(at, "<!--", 4) == 0)
            return true;
    return false;
}

static void page_keep(qkv_page *p, qkv__page_texts *to, const char *what, const char *text)
{
    if (page_breaks_out(text)) {
        qkv__page_fail(p, qkv_fail(p->ctx, QKV_E_ARGUMENT,
                                   "a %s of a page has \"</\" or \"<!--\": written apart expected",
                                   what));
        return;
    }
    qkv_str_add(&to->texts, text, strlen(text) + 1);
    to->count++;
}

void qkv_page_css(qkv_page *p, const char *text) { page_keep(p, &p->css, "style", text); }
void qkv_page_js(qkv_page *p, const char *text) { page_keep(p, &p->js, "script", text); }
void qkv_page_html(qkv_page *p, const char *html) { qkv_str_puts(&p->body, html); }

/* ---- the file -------------------------------------------------------------------------------- */

static void page_put_hash(qkv_str *out, const char *text, size_t length)
{
    uint8_t hash[32];
    qkv__sha256(hash, text, length);
    qkv_str_puts(out, " 'sha256-");
    qkv__base64_put(out, hash, sizeof hash);
    qkv_str_puts(out, "'");
}

static void page_put_style(const qkv_page *p, qkv_str *css)
{
    const char *text = p->css.texts.data;
    qkv_str_puts(css, "\n");
    qkv__ink_css(css, false);
    qkv_str_puts(css, qkv__file_page_css);
    for (size_t i = 0; i < p->css.count; i++, text += strlen(text) + 1)
        qkv_str_puts(css, text);
}

static void page_put_head(const qkv_page *p, qkv_str *out, const qkv_str *css)
{
    const char *text = p->js.texts.data;
    qkv_str_puts(out, "<!DOCTYPE html>\n<html lang=\"");
    qkv_str_puts(out, p->language.data);
    qkv_str_puts(out, "\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "img-src data:; base-uri 'none'; form-action 'none'; style-src");
    page_put_hash(out, css->data, css->len);
    qkv_str_puts(out, "; script-src");
    page_put_hash(out, qkv__file_page_js, strlen(qkv__file_page_js));
    for (size_t i = 0; i < p->js.count; i++, text += strlen(text) + 1)
        page_put_hash(out, text, strlen(text));
    qkv_str_puts(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, "
                      "initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
    qkv_str_puts(out, p->title.data);
    qkv_str_puts(out, "</title>\n<style>");
    qkv_str_add(out, css->data, css->len);
    qkv_str_puts(out, "</style>\n</head>\n");
}

static void page_put_body(const qkv_page *p, qkv_str *out)
{
    const char *text = p->js.texts.data;
    qkv_str_puts(out, "<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n"
                      "<header><div><h1>");
    qkv_str_puts(out, p->title.data);
    qkv_str_puts(out, "</h1>\n");
    if (p->subtitle.len)
        qkv_str_printf(out, "<p class=\"subtitle\">%s</p>\n", p->subtitle.data);
    qkv_str_puts(out, "</div><button type=\"button\" id=\"theme\" hidden>Theme</button>"
                      "</header>\n");
    if (p->entries > 2)
        qkv_str_printf(out, "<nav aria-label=\"Contents\"><ul>\n%s</ul></nav>\n",
                       p->contents.data);
    qkv_str_puts(out, "<main id=\"content\">\n");
    qkv_str_add(out, p->body.data ? p->body.data : "", p->body.len);
    qkv_str_printf(out, "</main>\n<script>%s</script>\n", qkv__file_page_js);
    for (size_t i = 0; i < p->js.count; i++, text += strlen(text) + 1)
        qkv_str_printf(out, "<script>%s</script>\n", text);
    qkv_str_puts(out, "</body>\n</html>\n");
}

qkv_status qkv_page_text_of(const qkv_page *p, qkv_str *out)
{
    qkv_str css;
    if (p->status)
        return p->status;
    if (p->body.failed || p->contents.failed || p->ids.failed || p->css.texts.failed ||
        p->js.texts.failed)
        return QKV_E_MEMORY;
    if (p->depth)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "%zu parts of a page are still open: qkv_page_end",
                        p->depth);
    qkv_str_init(&css, p->ctx);
    page_put_style(p, &css);
    if (!css.failed) {
        page_put_head(p, out, &css);
        page_put_body(p, out);
    }
    bool failed = css.failed || out->failed;
    qkv_str_free(&css);
    return failed ? QKV_E_MEMORY : QKV_OK;
}

qkv_status qkv_page_save(const qkv_page *p, const char *path)
{
    qkv_str text;
    qkv_str_init(&text, p->ctx);
    qkv_status status = qkv_page_text_of(p, &text);
    if (!status)
        status = qkv_file_write(p->ctx, path, text.data, text.len);
    qkv_str_free(&text);
    return status;
}
