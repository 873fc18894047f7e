/* page.h - a page: text, tables, figures and data in one HTML file that needs nothing else.
 * Layer: draw
 *
 *     qkv_page *p;
 *     qkv_page_create(&p, ctx, &(qkv_page_options){.title = "A run"});
 *     qkv_page_heading(p, 2, NULL, "Loss");
 *     qkv_page_figure(p, drawing, NULL, "Loss on held-out data");
 *     qkv_page_save(p, "report.html");
 *     qkv_page_destroy(p);
 *
 * The file opens from a disk without a network. Its content-security policy allows images in data:
 * URIs and the styles and scripts of this page, known by their SHA-256, and nothing else. Content
 * is complete without JavaScript. Light or dark follows the reader's system, and a button. Each
 * figure can be saved as SVG and PNG.
 *
 * Text is shown as it is: markup in it is escaped, control characters are made visible
 * (qkv_str_visible). ids must be unique, of letters, digits, '-' and '_', the first a letter; NULL:
 * none. Functions that add return nothing: the first failure is kept, and qkv_page_text_of and
 * qkv_page_save return it. */
#ifndef QKV_PAGE_H
#define QKV_PAGE_H

#include <qkv/draw.h>

QKV_BEGIN_DECLS

typedef struct qkv_page qkv_page;

/* Zeroed fields take what is said beside them. */
typedef struct {
    const char *title;    /* "qkv" */
    const char *language; /* of the text, BCP 47: "en" */
    const char *subtitle; /* a line under the title; NULL: none */
} qkv_page_options;

/* Options may be NULL; they are copied. On failure *out is NULL. */
qkv_status qkv_page_create(qkv_page **out, qkv_context *ctx, const qkv_page_options *options);
void qkv_page_destroy(qkv_page *p); /* p may be NULL */
qkv_status qkv_page_status(const qkv_page *p);

/* ---- content, in its order ------------------------------------------------------------------ */

/* level: 2 to 4 (the title is 1). With an id, level 2 also is an entry of the table of contents,
 * which a page with three or more such headings has. */
void qkv_page_heading(qkv_page *p, int level, const char *id, const char *text);
/* A paragraph. Flags in it, as --minutes, are in a fixed font and stay on one line. */
void qkv_page_text(qkv_page *p, const char *text);
void qkv_page_printf(qkv_page *p, const char *fmt, ...) QKV_PRINTF(2, 3);
/* Text in a fixed font, with its lines and spaces. */
void qkv_page_code(qkv_page *p, const char *text);
/* A paragraph with a link to a file beside the page or below it, by a relative address.
 * QKV_E_ARGUMENT for another one. */
void qkv_page_link(qkv_page *p, const char *address, const char *text);
/* A list of items. */
void qkv_page_list(qkv_page *p, const char *const *items, size_t count);

typedef struct {
    const char *id, *caption;
    const char *const *columns; /* headings; NULL: none. With row names, the first one is theirs */
    const char *const *rows;    /* names of the rows; NULL: none */
    const char *const *cells;   /* (row_count, column_count); an entry NULL is empty */
    size_t row_count, column_count; /* column_count: cells, without the row's name */
    bool numbers;               /* cells are set flush right, digits under digits */
} qkv_page_table_options;
void qkv_page_table(qkv_page *p, const qkv_page_table_options *table);

/* The drawing as a figure with a caption (NULL: none) and buttons that save it. The drawing may be
 * destroyed afterwards. */
void qkv_page_figure(qkv_page *p, const qkv_drawing *drawing, const char *id, const char *caption);
/* An image as a figure. alt: what it shows. Needs a build with images. */
void qkv_page_image(qkv_page *p, const qkv_image *image, const char *id, const char *alt,
                    const char *caption);

/* Parts of the page, which nest. title: of QKV_PAGE_DETAILS what the reader clicks on, of the
 * others what a screen reader calls it (NULL: nothing). */
typedef enum {
    QKV_PAGE_SECTION,
    QKV_PAGE_DETAILS, /* folded until the reader opens it */
    QKV_PAGE_ROW,     /* what is in it stands side by side where there is room */
    QKV_PAGE_PANEL    /* a frame for controls and what they change */
} qkv_page_part;
void qkv_page_begin(qkv_page *p, qkv_page_part part, const char *id, const char *title);
void qkv_page_end(qkv_page *p);

/* ---- what scripts read and bring ------------------------------------------------------------ */

/* A JSON text (json.h) in <script type="application/json" id=..>: qkv.json(id) in a script. */
void qkv_page_json(qkv_page *p, const char *id, const char *json);
/* Bytes in base64, deflated where the build can (zlib) and it makes them fewer: qkv.bytes(id) in a
 * script is a promise of an Uint8Array. Numbers are little-endian, as in memory. */
void qkv_page_bytes(qkv_page *p, const char *id, const void *data, size_t size);

/* Further style and script, after the page's own. Scripts run when all content is there, in the
 * order in which they were added. They are the program's, trusted: not made of a user's data. */
void qkv_page_css(qkv_page *p, const char *text);
void qkv_page_js(qkv_page *p, const char *text);
/* HTML as it is, trusted as scripts are. The policy allows no style attributes and no handlers. */
void qkv_page_html(qkv_page *p, const char *html);

/* ---- the file ------------------------------------------------------------------------------- */

/* Appends the whole file. QKV_E_ARGUMENT if a part is still open. */
qkv_status qkv_page_text_of(const qkv_page *p, qkv_str *out);
/* Writes it, atomically. */
qkv_status qkv_page_save(const qkv_page *p, const char *path);

QKV_END_DECLS
#endif
