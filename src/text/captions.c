/* captions.c - captions of images, from a table or from a text file for each. */
#include "text/captions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "qkv/file.h"

enum { MOST_COLUMNS = 64 };
static const size_t MOST_BYTES = (size_t)1 << 32;

/* What columns are called. */
static const char *const file_names[] = {"file", "file_name", "filename", "image", "image_name",
                                         "image_file", "path", NULL};
static const char *const caption_names[] = {"caption", "text", "comment", "description",
                                            "sentence", "title", "name", NULL};

typedef struct {
    qkv__captions *c;
    const char *path;
    char *at, *end;
    char separator;
    size_t line;                 /* of the row at hand, from 1 */
    size_t next;                 /* line of the row behind it */
    char *fields[MOST_COLUMNS];  /* of the row at hand, each with a 0 byte behind it */
    size_t columns, file, caption;
} table;

void qkv__captions_close(qkv__captions *c)
{
    for (size_t i = 0; i < c->files; i++)
        qkv_free(c->ctx, c->data[i]);
    qkv_free(c->ctx, c->data);
    qkv_free(c->ctx, c->items);
    *c = (qkv__captions){0};
}

/* ---- contents ----------------------------------------------------------------------------- */

/* The file's bytes and a 0 byte, owned by c; without a byte order mark. */
static qkv_status open_text(qkv__captions *c, const char *path, char **text, size_t *size)
{
    size_t room = c->files;
    if (!qkv__grow(c->ctx, (void **)&c->data, &room, c->files + 1, sizeof *c->data))
        return QKV_E_MEMORY;
    qkv_status status = qkv_file_read(c->ctx, path, MOST_BYTES, &c->data[c->files], size);
    if (status)
        return status;
    *text = c->data[c->files++];
    size_t valid = qkv__utf8_valid(*text, *size), line = 1;
    for (size_t i = 0; i < valid; i++)
        line += (*text)[i] == '\n';
    if (valid < *size)
        return qkv_fail(c->ctx, QKV_E_FORMAT, "%s: line %zu: text in UTF-8 expected, found the "
                        "byte 0x%02x", path, line, (unsigned char)(*text)[valid]);
    size_t mark = *size >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *text += mark;
    *size -= mark;
    return QKV_OK;
}

/* Without blanks around it. */
static char *captions_trim(char *text)
{
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    text[n] = 0;
    return text;
}

static qkv_status captions_add(qkv__captions *c, const char *file, char *text, size_t line)
{
    text = captions_trim(text);
    if (!*text) {
        c->blank++;
        return QKV_OK;
    }
    if (!qkv__grow(c->ctx, (void **)&c->items, &c->room, c->count + 1, sizeof *c->items))
        return QKV_E_MEMORY;
    c->items[c->count++] = (qkv__caption){.file = file, .text = text, .line = line};
    return QKV_OK;
}

/* ---- tables ------------------------------------------------------------------------------- */

static qkv_status captions_fail(const table *t, const char *what)
{
    return qkv_fail(t->c->ctx, QKV_E_FORMAT, "%s: line %zu: %s", t->path, t->line, what);
}

/* Cuts the field in quotes at t->at, in place; t->at is then at what ends it. NULL: it is not one,
 * which the context says. */
static char *cut_quoted(table *t)
{
    char *from = t->at + 1, *field = from, *to = from;
    for (; from < t->end; *to++ = *from++) {
        t->next += *from == '\n';
        if (*from == '"' && from[1] != '"')
            break;
        from += *from == '"';
    }
    if (from >= t->end) {
        captions_fail(t, "the quotes are not closed");
        return NULL;
    }
    from++;
    from += *from == '\r';
    if (from < t->end && *from != '\n' && *from != t->separator) {
        captions_fail(t, "a separator or the end of the line expected behind the quotes");
        return NULL;
    }
    t->at = from;
    *to = 0;
    return field;
}

/* Cuts the next row into fields; false at the end of the table, or with *status. */
static bool cut_row(table *t, qkv_status *status)
{
    char ended = t->separator;
    t->line = t->next++;
    t->columns = 0;
    while (ended == t->separator && t->at <= t->end && !(t->at == t->end && !t->columns)) {
        char *field = t->at;
        if (t->columns == MOST_COLUMNS) {
            *status = captions_fail(t, "more than 64 columns");
            return false;
        }
        bool quoted = *field == '"' && t->separator != '\t';
        if (quoted && !(field = cut_quoted(t))) {
            *status = QKV_E_FORMAT;
            return false;
        }
        while (t->at < t->end && *t->at != t->separator && *t->at != '\n')
            t->at++;
        ended = *t->at;
        if (ended == '\n' && !quoted && t->at > field && t->at[-1] == '\r')
            t->at[-1] = 0;
        *t->at++ = 0;
        t->fields[t->columns++] = field;
    }
    return t->columns > 0;
}

/* The column that has one of the names; the table's columns: none has. */
static size_t captions_column(const table *t, const char *const *names)
{
    for (size_t n = 0; names[n]; n++)
        for (size_t i = 0; i < t->columns; i++)
            if (strcasecmp(captions_trim(t->fields[i]), names[n]) == 0)
                return i;
    return t->columns;
}

/* "a.jpg#0", of Flickr8k's list of tokens, is a.jpg. */
static char *plain_file(char *file)
{
    file = captions_trim(file);
    file += strncmp(file, "./", 2) == 0 ? 2 : 0;
    char *hash = strrchr(file, '#');
    if (hash && hash[1] && !hash[1 + strspn(hash + 1, "0123456789")])
        *hash = 0;
    return file;
}

static qkv_status add_row(table *t, size_t columns)
{
    char text[160];
    if (t->columns == 1 && !*captions_trim(t->fields[0]))
        return QKV_OK;
    if (t->columns == columns)
        return captions_add(t->c, plain_file(t->fields[t->file]), t->fields[t->caption], t->line);
    snprintf(text, sizeof text, "%zu columns expected, found %zu%s", columns, t->columns,
             t->columns > columns && t->separator != '\t'
                 ? ": a caption that holds the separator stands in quotes" : "");
    return captions_fail(t, text);
}

/* Finds the columns in the first row, which is a caption too where it names none. */
static qkv_status read_head(table *t)
{
    t->file = captions_column(t, file_names);
    t->caption = captions_column(t, caption_names);
    if (t->file < t->columns && t->caption < t->columns)
        return QKV_OK;
    if (t->columns != 2 || t->file < t->columns)
        return captions_fail(t, "a column \"file\" and a column \"caption\" expected, or a file "
                             "and its caption alone, with a tab, comma or semicolon between");
    t->file = 0;
    t->caption = 1;
    return add_row(t, 2);
}

static int by_file(const void *a, const void *b)
{
    const qkv__caption *x = a, *y = b;
    int order = strcmp(x->file, y->file);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static void captions_sort(qkv__captions *c)
{
    if (c->count)
        qsort(c->items, c->count, sizeof *c->items, by_file);
}

qkv_status qkv__captions_read(qkv__captions *c, qkv_context *ctx, const char *path)
{
    size_t size = 0;
    *c = (qkv__captions){.ctx = ctx};
    table t = {.c = c, .path = path, .next = 1};
    qkv_status status = open_text(c, path, &t.at, &size);
    if (status)
        return status;
    t.end = t.at + size;
    size_t first = strcspn(t.at, "\n");
    t.separator = memchr(t.at, '\t', first)   ? '\t'
                  : memchr(t.at, ',', first) ? ','
                                             : ';';
    if (!cut_row(&t, &status))
        return status ? status : qkv_fail(ctx, QKV_E_FORMAT, "%s is empty", path);
    size_t columns = t.columns;
    status = read_head(&t);
    while (!status && cut_row(&t, &status))
        status = add_row(&t, columns);
    captions_sort(c);
    return status;
}

/* ---- a file for each image ---------------------------------------------------------------- */

static qkv_status read_beside(qkv__captions *c, const char *path, const char *image)
{
    char *text;
    size_t size, line = 1;
    qkv_status status = open_text(c, path, &text, &size);
    for (char *end = text ? text + size : NULL; !status && text < end; line++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        *stop = 0;
        if (*captions_trim(text))
            status = captions_add(c, image, text, line);
        text = stop + 1;
    }
    return status;
}

qkv_status qkv__captions_beside(qkv__captions *c, qkv_context *ctx, const char *dir,
                                const char *const *names, size_t count)
{
    qkv_status status = QKV_OK;
    *c = (qkv__captions){.ctx = ctx};
    for (size_t i = 0; i < count && !status; i++) {
        char *path = qkv_path_join(ctx, dir, names[i]);
        if (!path)
            return QKV_E_MEMORY;
        char *end = strrchr(path, '.');
        bool image = end && !strchr(end, '/') && strlen(end) >= strlen(".txt");
        if (image)
            memcpy(end, ".txt", sizeof ".txt");
        if (image && qkv_file_exists(path))
            status = read_beside(c, path, names[i]);
        qkv_free(ctx, path);
    }
    captions_sort(c);
    return status;
}

/* ---- captions of an image ----------------------------------------------------------------- */

/* The first caption whose file is not below. */
static size_t first_of(const qkv__captions *c, const char *file)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(c->items[middle].file, file) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

qkv_status qkv__captions_of(qkv__captions *c, const char *image, size_t *from, size_t *to)
{
    for (const char *name = image, *slash; name; name = slash ? slash + 1 : NULL) {
        slash = strchr(name, '/');
        size_t i = *from = first_of(c, name);
        for (; i < c->count && strcmp(c->items[i].file, name) == 0; i++) {
            if (c->items[i].used)
                return qkv_fail(c->ctx, QKV_E_FORMAT, "line %zu: \"%s\" is what several images "
                                "are called, %s among them: more of the path expected",
                                c->items[i].line, name, image);
            c->items[i].used = true;
        }
        *to = i;
        if (i > *from)
            return QKV_OK;
    }
    *to = *from;
    return QKV_OK;
}
