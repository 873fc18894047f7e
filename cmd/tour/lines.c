/* lines.c - lines of C and of documents, told apart by where they stand: what a comment is,
 * and what a code example, is seen from marks that are then taken off. */
#include <ctype.h>
#include <string.h>

#include "tour/lines.h"

enum { CODE, COMMENT, PROSE };
enum { SHORTEST = 16, VALID_BYTES = 200000 };
const char *const tour_kinds[TOUR_KINDS] = {"code", "comment", "prose"};

typedef struct {
    tour_lines *out;
    size_t count[TOUR_KINDS]; /* labelled */
} taker;

static void lines_strip(qkv_line *l)
{
    while (l->len && isspace((unsigned char)l->data[0]))
        l->data++, l->len--;
    while (l->len && isspace((unsigned char)l->data[l->len - 1]))
        l->len--;
}

static bool lines_begins(const qkv_line *l, const char *with)
{
    return l->len >= strlen(with) && memcmp(l->data, with, strlen(with)) == 0;
}

static bool lines_has(const qkv_line *l, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= l->len; i++)
        if (memcmp(l->data + i, what, n) == 0)
            return true;
    return false;
}

static void lines_take(taker *k, int kind, qkv_line l)
{
    lines_strip(&l);
    if (l.len < SHORTEST || lines_begins(&l, "---") || memchr(l.data, '\t', l.len))
        return;
    qkv_str_add(&k->out->text, l.data, l.len);
    qkv_str_puts(&k->out->text, "\n");
    k->out->count++;
    if (kind == CODE && k->count[CODE] > k->count[COMMENT])
        return; /* there would be little else */
    qkv_str_printf(&k->out->labelled, "%s\t%.*s\n", tour_kinds[kind], (int)l.len, l.data);
    k->count[kind]++;
}

/* The text of a comment's line, without what marks it as one. */
static qkv_line unmark(qkv_line l)
{
    if (lines_begins(&l, "/*"))
        l.data += 2, l.len -= 2;
    else if (lines_begins(&l, "*") && !lines_begins(&l, "*/"))
        l.data++, l.len--;
    if (l.len >= 2 && memcmp(l.data + l.len - 2, "*/", 2) == 0)
        l.len -= 2;
    return l;
}

static void take_c(taker *k, const qkv_str *text)
{
    bool inside = false; /* a comment */
    const char *at = text->data, *end = text->data + text->len;
    for (qkv_line l; qkv_next_line(&at, end, &l);) {
        lines_strip(&l);
        bool opens = lines_begins(&l, "/*");
        lines_take(k, inside || opens ? COMMENT : CODE, inside || opens ? unmark(l) : l);
        inside = (inside || lines_has(&l, "/*")) && !lines_has(&l, "*/");
    }
}

static void take_documents(taker *k, const qkv_str *text)
{
    bool fenced = false;
    const char *at = text->data, *end = text->data + text->len;
    for (qkv_line l; qkv_next_line(&at, end, &l);) {
        bool fence = lines_begins(&l, "```");
        fenced = fenced != fence;
        if (!fence && !fenced && !lines_begins(&l, "    ") && !lines_begins(&l, "|") &&
            !lines_begins(&l, "#")) lines_take(k, PROSE, unmark(l)); /* a list's asterisk, too */
    }
}

/* Lines of one kind of file into both splits. */
static qkv_status lines_collect(tour_lines out[2], taker k[2], const tour *t,
                                const char *const *endings,
                                void (*take_all)(taker *k, const qkv_str *text))
{
    tour_text x = {0};
    qkv_status status = tour_text_collect(&x, t, endings, VALID_BYTES);
    if (!status && x.files) {
        take_all(&k[0], &x.train);
        take_all(&k[1], &x.valid);
        out[0].files += x.files - x.held_out;
        out[1].files += x.held_out;
    } else if (!status && !out[0].files) { /* the help, as it is */
        qkv_str_add(&out[0].text, x.train.data, x.train.len);
        qkv_str_add(&out[1].text, x.valid.data, x.valid.len);
    }
    tour_text_free(&x);
    return status;
}

qkv_status tour_lines_collect(tour_lines out[2], const tour *t)
{
    static const char *const c[] = {".c", ".h", NULL}, *const documents[] = {".md", NULL};
    qkv_context *ctx = t->page->c->ctx;
    taker k[2] = {{&out[0], {0}}, {&out[1], {0}}};
    for (int i = 0; i < 2; i++) {
        out[i] = (tour_lines){0};
        qkv_str_init(&out[i].text, ctx);
        qkv_str_init(&out[i].labelled, ctx);
    }
    qkv_status status = lines_collect(out, k, t, c, take_c);
    if (!status && out[0].files)
        status = lines_collect(out, k, t, documents, take_documents);
    for (int i = 0; i < 2 && !status; i++)
        if (out[i].text.failed || out[i].labelled.failed)
            status = QKV_E_MEMORY;
    return status;
}

void tour_lines_free(tour_lines *x)
{
    qkv_str_free(&x->text);
    qkv_str_free(&x->labelled);
}
