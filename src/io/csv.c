/* csv.c - matrices as text: numbers in rows. No quoting but around column names. */
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "qkv/npy.h"

static const size_t max_file = (size_t)1 << 33;

typedef struct {
    qkv_context *ctx;
    const char *path;
    qkv_array *array;
    char separator; /* ' ': any run of blanks and tabs */
    size_t line;    /* of the file, from 1 */
    size_t rows, columns, capacity; /* capacity in numbers */
} reader;

/* Cuts the text at its next newline; NULL at its end. *text moves on. */
static char *next_line(char **text, const char *end)
{
    char *line = *text;
    if (line >= end)
        return NULL;
    char *stop = memchr(line, '\n', (size_t)(end - line));
    *text = stop ? stop + 1 : line + (end - line);
    if (!stop)
        stop = *text;
    *stop = 0;
    if (stop > line && stop[-1] == '\r')
        stop[-1] = 0;
    return line;
}

static char *trim(char *field)
{
    field += strspn(field, " \t");
    size_t length = strlen(field);
    while (length && (field[length - 1] == ' ' || field[length - 1] == '\t'))
        field[--length] = 0;
    return field;
}

/* Cuts the next field off the line; NULL when there is none. */
static char *next_field(const reader *r, char **line)
{
    if (!*line)
        return NULL;
    if (r->separator == ' ') {
        char *field = *line + strspn(*line, " \t");
        size_t length = strcspn(field, " \t");
        bool last = !field[length];
        field[length] = 0;
        *line = last ? NULL : field + length + 1;
        return *field ? field : NULL;
    }
    char *field = *line, *stop = strchr(field, r->separator);
    if (stop)
        *stop = 0;
    *line = stop ? stop + 1 : NULL;
    return trim(field);
}

static bool is_number(const char *field, double *value)
{
    char *end;
    *value = strtod(field, &end);
    return end != field && !*end;
}

static char find_separator(const char *line)
{
    for (const char *s = ",;\t"; *s; s++)
        if (strchr(line, *s))
            return *s;
    return ' ';
}

static bool has_words(const reader *r, const char *line, bool *failed)
{
    double ignored;
    bool words = false;
    char *copy = qkv__strdup(r->ctx, line), *rest = copy;
    *failed = !copy;
    for (char *field; copy && (field = next_field(r, &rest));)
        words = words || (*field && !is_number(field, &ignored));
    if (copy)
        qkv__free(r->ctx, copy);
    return words;
}

/* The names' places are counted in columns; shape[1] says how many are valid. */
static qkv_status read_names(reader *r, char *line)
{
    size_t most = strlen(line) + 1;
    r->array->names = qkv__calloc(r->ctx, most, sizeof *r->array->names);
    if (!r->array->names)
        return QKV_E_MEMORY;
    for (char *field; (field = next_field(r, &line));) {
        size_t length = strlen(field);
        if (length >= 2 && field[0] == '"' && field[length - 1] == '"') {
            field[length - 1] = 0;
            field++;
        }
        char *name = qkv__strdup(r->ctx, field);
        if (!name)
            return QKV_E_MEMORY;
        r->array->names[r->array->shape[1]++] = name;
    }
    r->columns = r->array->shape[1];
    return QKV_OK;
}

static qkv_status append(reader *r, double value)
{
    qkv_array *a = r->array;
    if (a->count == r->capacity) {
        size_t capacity = r->capacity * 2 + 64;
        qkv_real *data = qkv__realloc(r->ctx, a->data, a->count * sizeof *data,
                                      capacity * sizeof *data);
        if (!data)
            return QKV_E_MEMORY;
        a->data = data;
        r->capacity = capacity;
    }
    a->data[a->count++] = (qkv_real)value;
    return QKV_OK;
}

static qkv_status read_row(reader *r, char *line)
{
    double value;
    size_t columns = 0;
    for (char *field; (field = next_field(r, &line));) {
        columns++;
        if (!is_number(field, &value))
            return qkv__fail(r->ctx, QKV_E_FORMAT,
                             "%s: line %zu, column %zu: expected a number, found \"%.40s\"",
                             r->path, r->line, columns, field);
        qkv_status status = append(r, value);
        if (status)
            return status;
    }
    if (r->columns && columns != r->columns)
        return qkv__fail(r->ctx, QKV_E_FORMAT, "%s: line %zu: expected %zu columns, found %zu",
                         r->path, r->line, r->columns, columns);
    r->columns = columns;
    r->rows++;
    return QKV_OK;
}

static qkv_status read_text(reader *r, char *text, size_t size)
{
    const char *end = text + size;
    qkv_status status = QKV_OK;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (char *line; !status && (line = next_line(&text, end));) {
        r->line++;
        const char *first = line + strspn(line, " \t");
        if (!*first || *first == '#')
            continue;
        bool failed = false, header = false;
        if (!r->separator) {
            r->separator = find_separator(line);
            header = has_words(r, line, &failed);
        }
        status = failed ? QKV_E_MEMORY : header ? read_names(r, line) : read_row(r, line);
    }
    if (!status && !r->rows)
        status = qkv__fail(r->ctx, QKV_E_FORMAT, "%s: expected rows of numbers, found none",
                           r->path);
    return status;
}

qkv_status qkv_csv_load(qkv_array *out, qkv_context *ctx, const char *path)
{
    char *text;
    size_t size;
    reader r = {.ctx = ctx, .path = path, .array = out};
    *out = (qkv_array){.ctx = ctx, .ndim = 2};
    qkv_status status = qkv__file_read(ctx, path, max_file, &text, &size);
    if (!status && memchr(text, 0, size))
        status = qkv__fail(ctx, QKV_E_FORMAT, "%s: expected text, found a byte 0", path);
    if (!status)
        status = read_text(&r, text, size);
    if (text)
        qkv__free(ctx, text);
    if (status) {
        qkv_array_free(out);
        return status;
    }
    out->shape[0] = r.rows;
    out->shape[1] = r.columns;
    return QKV_OK;
}
