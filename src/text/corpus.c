/* corpus.c - texts as records. */
#include "qkv/corpus.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"

typedef struct {
    const char *data;
    size_t len;
} line;

/* The line at *at, without its end ("\n" or "\r\n"); false when there is none. */
static bool corpus_next_line(const qkv_text_span *part, size_t *at, line *out)
{
    if (*at >= part->len)
        return false;
    const char *begin = part->data + *at, *stop = memchr(begin, '\n', part->len - *at);
    size_t len = stop ? (size_t)(stop - begin) : part->len - *at;
    *at += len + (stop != NULL);
    if (len && begin[len - 1] == '\r')
        len--;
    *out = (line){begin, len};
    return true;
}

/* ---- lines ------------------------------------------------------------------------------- */

/* A record that is being filled: [CLS] at first, room for [SEP] at the end. */
typedef struct {
    qkv_records_writer *w;
    int32_t cls, sep; /* -1: none */
    int32_t *ids;     /* (length) */
    size_t count, length;
} filler;

static void begin_record(filler *f)
{
    f->count = 0;
    if (f->cls >= 0)
        f->ids[f->count++] = f->cls;
}

/* Ends the record unless it is empty. */
static qkv_status end_record(filler *f)
{
    if (f->count == (f->cls >= 0))
        return QKV_OK;
    if (f->sep >= 0)
        f->ids[f->count++] = f->sep;
    qkv_status status = qkv_records_add(f->w, f->ids, f->count);
    begin_record(f);
    return status;
}

static qkv_status corpus_fill(filler *f, const qkv_ids *ids)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < ids->count && !status; i++) {
        f->ids[f->count++] = ids->data[i];
        if (f->count + (f->sep >= 0) == f->length)
            status = end_record(f);
    }
    return status;
}

qkv_status qkv_corpus_add_lines(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                const qkv_text_span *part, size_t length, bool join)
{
    filler f = {.w = w, .cls = qkv_tokenizer_special(t, QKV_TOKEN_CLS),
                .sep = qkv_tokenizer_special(t, QKV_TOKEN_SEP), .length = length};
    if (length < 3)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "records of %zu ids: at least 3 expected", length);
    f.ids = qkv_malloc(ctx, length * sizeof *f.ids);
    if (!f.ids)
        return QKV_E_MEMORY;
    begin_record(&f);
    qkv_ids ids = {0};
    line l;
    size_t at = 0, number = part->before;
    qkv_status status = QKV_OK;
    while (!status && corpus_next_line(part, &at, &l)) {
        char prefix[48];
        number++;
        ids.count = 0;
        status = qkv_tokenizer_encode(t, l.data, l.len, QKV_ENCODE_PLAIN, &ids);
        if (status) {
            (void)snprintf(prefix, sizeof prefix, "line %zu", number);
            (void)qkv_fail_prefix(ctx, prefix);
        }
        if (!status)
            status = corpus_fill(&f, &ids);
        if (!status && !join)
            status = end_record(&f);
    }
    if (!status)
        status = end_record(&f);
    qkv_ids_free(&ids, ctx);
    qkv_free(ctx, f.ids);
    return status && part->name ? qkv_fail_prefix(ctx, part->name) : status;
}

/* ---- one text or two --------------------------------------------------------------------- */

/* The ids of a pair and where the second text's begin. */
static qkv_status corpus_encode(qkv_tokenizer *t, qkv_context *ctx, const qkv_text_pair *pair,
                                qkv_ids *out, size_t *second)
{
    qkv_ids types = {0};
    out->count = 0;
    qkv_status status =
        qkv_tokenizer_encode_pair(t, pair->text, pair->len, pair->second, pair->second_len,
                                  QKV_ENCODE_ADD_SPECIAL | QKV_ENCODE_PLAIN, out, &types);
    *second = 0;
    while (!status && *second < types.count && types.data[*second] == 0)
        ++*second;
    qkv_ids_free(&types, ctx);
    return status;
}

/* Takes the last n ids of the text out of a part, ids begin .. end-1; around (count) are the
 * special tokens that stand before and after a text there. */
static void take_out(qkv_ids *ids, size_t begin, size_t end, size_t n, const int32_t *around,
                     size_t count)
{
    size_t before = 0;
    while (before < count && ids->data[begin + before] == around[before])
        before++;
    size_t stop = end - (count - before);
    memmove(ids->data + stop - n, ids->data + stop, (ids->count - stop) * sizeof *ids->data);
    ids->count -= n;
}

qkv_text_pair qkv_text_pair_of(const char *text, size_t len)
{
    const char *tab = len ? memchr(text, '\t', len) : NULL;
    size_t first = tab ? (size_t)(tab - text) : len;
    return (qkv_text_pair){text, first, tab ? tab + 1 : NULL, tab ? len - first - 1 : 0};
}

qkv_status qkv_corpus_encode(qkv_tokenizer *t, qkv_context *ctx, const qkv_text_pair *pair,
                             size_t length, qkv_ids *out, size_t *second, bool *cut)
{
    qkv_status status = corpus_encode(t, ctx, pair, out, second);
    *cut = !status && out->count > length;
    if (!*cut)
        return status;
    const qkv_text_pair none = {"", 0, pair->second ? "" : NULL, 0};
    qkv_ids around = {0};
    size_t middle = 0;
    status = corpus_encode(t, ctx, &none, &around, &middle);
    if (!status && around.count > length)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%zu tokens are not enough for a text", length);
    if (!status) {
        size_t a = *second - middle, b = out->count - *second - (around.count - middle);
        size_t room = length - around.count, shorter = a < b ? a : b;
        shorter = shorter < room / 2 ? shorter : room / 2; /* the odd one is the longer text's */
        size_t from_a = a - (a > b ? room - shorter : shorter);
        size_t from_b = b - (a > b ? shorter : room - shorter);
        take_out(out, *second, out->count, from_b, around.data + middle, around.count - middle);
        take_out(out, 0, *second, from_a, around.data, middle);
        *second -= from_a;
    }
    qkv_ids_free(&around, ctx);
    return status;
}

/* ---- labelled texts ---------------------------------------------------------------------- */

void qkv_labelled_begin(qkv_labelled_reader *r, qkv_context *ctx, const qkv_text_span *part)
{
    *r = (qkv_labelled_reader){.ctx = ctx, .part = part, .line = part->before};
}

static qkv_status fail_at(const qkv_labelled_reader *r, const char *expected, size_t found)
{
    const char *name = r->part->name ? r->part->name : "text";
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: line %zu: %s expected, found %zu", name, r->line,
                    expected, found);
}

static qkv_status check_utf8(const qkv_labelled_reader *r, const line *l)
{
    size_t valid = qkv__utf8_valid(l->data, l->len);
    if (valid == l->len)
        return QKV_OK;
    return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: line %zu: text in UTF-8 expected, found the byte "
                    "0x%02x in place %zu", r->part->name ? r->part->name : "text", r->line,
                    (unsigned)(unsigned char)l->data[valid], valid + 1);
}

enum { COLUMNS = 3 };

qkv_status qkv_labelled_next(qkv_labelled_reader *r, qkv_labelled_text *out)
{
    line l, field[COLUMNS] = {{0}};
    *out = (qkv_labelled_text){0};
    do {
        if (!corpus_next_line(r->part, &r->at, &l))
            return QKV_OK;
        r->line++;
    } while (l.len == 0);
    size_t columns = 0;
    const char *at = l.data, *end = l.data + l.len;
    for (const char *tab = at; tab; at = tab ? tab + 1 : at) {
        tab = memchr(at, '\t', (size_t)(end - at));
        if (columns < COLUMNS)
            field[columns] = (line){at, (size_t)((tab ? tab : end) - at)};
        columns++;
    }
    if (columns < 2 || columns > COLUMNS)
        return fail_at(r, "2 or 3 columns (label, text, second text) with tabs between", columns);
    if (r->columns && columns != r->columns)
        return fail_at(r, r->columns == 2 ? "2 columns as before" : "3 columns as before",
                       columns);
    if (!field[0].len)
        return fail_at(r, "a label before the first tab, characters", 0);
    if (check_utf8(r, &l))
        return QKV_E_FORMAT;
    r->columns = columns;
    *out = (qkv_labelled_text){field[0].data, field[0].len,
                               {field[1].data, field[1].len, columns > 2 ? field[2].data : NULL,
                                field[2].len}, r->line};
    return QKV_OK;
}

/* Where the label stands among names, or would stand: *found says which. */
static size_t corpus_place_of(const char *const *names, size_t count, const qkv_labelled_text *x,
                              bool sorted, bool *found)
{
    *found = false;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]), both = len < x->label_len ? len : x->label_len;
        int order = memcmp(names[i], x->label, both);
        if (order == 0 && len == x->label_len) {
            *found = true;
            return i;
        }
        if (sorted && (order > 0 || (order == 0 && len > x->label_len)))
            return i;
    }
    return count;
}

static qkv_status corpus_insert(qkv_labels *l, size_t place, const qkv_labelled_text *x)
{
    if (!qkv__grow(l->ctx, &l->names, &l->capacity, l->count + 1, sizeof *l->names))
        return QKV_E_MEMORY;
    char *name = qkv_malloc(l->ctx, x->label_len + 1);
    if (!name)
        return QKV_E_MEMORY;
    memcpy(name, x->label, x->label_len);
    name[x->label_len] = 0;
    memmove(l->names + place + 1, l->names + place, (l->count - place) * sizeof *l->names);
    l->names[place] = name;
    l->count++;
    return QKV_OK;
}

qkv_status qkv_labels_collect(qkv_labels *l, const qkv_text_span *part)
{
    qkv_labelled_reader r;
    qkv_labelled_text x;
    qkv_labelled_begin(&r, l->ctx, part);
    qkv_status status = qkv_labelled_next(&r, &x);
    while (!status && x.label) {
        bool found;
        size_t place = corpus_place_of((const char *const *)l->names, l->count, &x, true, &found);
        if (memchr(x.label, 0, x.label_len))
            status = qkv_fail(l->ctx, QKV_E_FORMAT, "%s: line %zu: the label has a zero byte",
                              part->name ? part->name : "text", x.line);
        if (!status && !found)
            status = corpus_insert(l, place, &x);
        if (!status)
            status = qkv_labelled_next(&r, &x);
    }
    return status;
}

void qkv_labels_free(qkv_labels *l)
{
    for (size_t i = 0; i < l->count; i++)
        qkv_free(l->ctx, l->names[i]);
    qkv_free(l->ctx, l->names);
    *l = (qkv_labels){.ctx = l->ctx};
}

static qkv_status corpus_add_record(qkv_records_writer *w, const qkv_ids *ids, size_t second,
                                    int32_t label)
{
    qkv_status status = qkv_records_add(w, ids->data, second);
    if (!status)
        status = qkv_records_add(w, ids->data + second, ids->count - second);
    return status ? status : qkv_records_add(w, &label, 1);
}

qkv_status qkv_corpus_add_labelled(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                                   const qkv_text_span *part, const char *const *names,
                                   size_t count, size_t length, size_t *cut)
{
    qkv_labelled_reader r;
    qkv_labelled_text x;
    qkv_ids ids = {0};
    qkv_labelled_begin(&r, ctx, part);
    qkv_status status = qkv_labelled_next(&r, &x);
    while (!status && x.label) {
        bool found, shorter = false;
        size_t second = 0, label = corpus_place_of(names, count, &x, false, &found);
        if (!found)
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: line %zu: the label \"%.*s\" is none of the "
                              "model's %zu", part->name ? part->name : "text", x.line,
                              (int)(x.label_len < 80 ? x.label_len : 80), x.label, count);
        if (!status)
            status = qkv_corpus_encode(t, ctx, &x.pair, length, &ids, &second, &shorter);
        *cut += shorter;
        if (!status)
            status = corpus_add_record(w, &ids, second, (int32_t)label);
        if (!status)
            status = qkv_labelled_next(&r, &x);
    }
    qkv_ids_free(&ids, ctx);
    return status;
}
