/* page.h - what a page has gathered, for the files that add to it and write it. */
#ifndef QKV_SRC_DRAW_PAGE_H
#define QKV_SRC_DRAW_PAGE_H

#include "base/base.h"
#include "qkv/page.h"

enum { QKV__PAGE_DEPTH = 32 };

/* Further styles or scripts: texts one after another, each with its 0. */
typedef struct {
    qkv_str texts;
    size_t count;
} qkv__page_texts;

struct qkv_page {
    qkv_context *ctx;
    qkv_status status; /* of the first failure */
    qkv_str title, subtitle, language; /* escaped */
    qkv_str body, contents;
    qkv_str ids; /* " one two " */
    size_t entries, figures;
    qkv__page_texts css, js;
    const char *open[QKV__PAGE_DEPTH]; /* end tags of open parts */
    size_t depth;
};

void qkv__page_fail(qkv_page *p, qkv_status status);
/* Appends text, visible and escaped. */
void qkv__page_put(qkv_str *out, const char *text, bool keep_lines);
/* Appends ` id="id"`, once it is known to be fit and new; nothing for NULL. */
void qkv__page_put_id(qkv_page *p, const char *id);

#endif
