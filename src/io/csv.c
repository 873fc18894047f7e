/* csv.c - matrices as text: numbers in rows. Within quotes nothing separates fields, and "" is one
 * quote (RFC 4180); but a row is a line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv_cells.h"
#include "io/file.h"
#include "qkv/csv.h"

static const size_t max_file = (size_t)1 << 33;

typedef struct {
    qkv_context *ctx;
    const char *path;
    qkv_array *array;
    char separator; /* ' ': any run of blanks and tabs */
    size_t line;    /* of the file, from 1 */
    size_t rows, columns, capacity; /* of the file; capacity in numbers */
    /* What is taken of a row: all columns when `taken` is 0. */
    const char *const *wanted; /* (taken) names or numbers from 1 */
    size_t *place;             /* (taken) the columns that they are, from 0 */
    size_t taken;
    bool finite; /* values must be */
    bool gaps;   /* or may be missing */
} reader;

/* Cuts the text at its next newline; NULL at its end. *text moves on. */
static char *csv_next_line(char **text, const char *end)
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

/* Without blanks and one pair of quotes around it. */
static char *trim(char *field)
{
    field += strspn(field, " \t");
    size_t length = strlen(field);
    while (length && (field[length - 1] == ' ' || field[length - 1] == '\t'))
        field[--length] = 0;
    if (length >= 2 && field[0] == '"' && field[length - 1] == '"') {
        field[length - 1] = 0;
        field++;
    }
    return field;
}

/* What a field in quotes says, cut off; *line moves on. NULL when it is not one: nothing but blanks
 * may follow the second quote. */
static char *quoted_field(char separator, char **line)
{
    bool blank = separator == ' ';
    const char *blanks = separator == '\t' ? " " : " \t";
    char *from = *line + strspn(*line, blanks), *end = from + 1;
    if (*from != '"')
        return NULL;
    while (*end && (*end != '"' || end[1] == '"'))
        end += *end == '"' ? 2 : 1;
    if (!*end)
        return NULL;
    size_t gap = strspn(end + 1, blanks);
    char *stop = end + 1 + (blank ? 0 : gap);
    if (*stop && (blank ? !gap : *stop != separator))
        return NULL;
    *line = *stop ? stop + 1 : NULL;
    char *to = from;
    for (char *p = from + 1; p < end; p += *p == '"' ? 2 : 1)
        *to++ = *p;
    *to = 0;
    return from;
}

/* Cuts the next field off the line; NULL when there is none. */
static char *next_field(const reader *r, char **line)
{
    if (!*line)
        return NULL;
    char *quoted = quoted_field(r->separator, line);
    if (quoted)
        return quoted;
    if (r->separator == ' ') {
        char *field = *line + strspn(*line, " \t");
        size_t length = strcspn(field, " \t");
        bool last = !field[length];
        field[length] = 0;
        *line = last ? NULL : field + length + 1;
        return *field ? trim(field) : NULL;
    }
    char *field = *line, *stop = strchr(field, r->separator);
    if (stop)
        *stop = 0;
    *line = stop ? stop + 1 : NULL;
    return trim(field);
}

static bool csv_is_number(const char *field, double *value)
{
    char *end;
    *value = strtod(field, &end);
    return end != field && !*end;
}

/* Of what is not in quotes, unless one of them has no second. */
static char find_separator(const char *line)
{
    size_t quotes = 0;
    for (const char *p = line; *p; p++)
        quotes += *p == '"';
    for (const char *s = ",;\t"; *s; s++) {
        bool inside = false;
        for (const char *p = line; *p; p++) {
            inside ^= *p == '"' && quotes % 2 == 0;
            if (*p == *s && !inside)
                return *s;
        }
    }
    return ' ';
}

bool qkv__csv_missing(const char *field)
{
    static const char *const marks[] = {"", "NA", "N/A", "NaN", "nan", "NAN", "null", "?", "-"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strcmp(field, marks[i]) == 0)
            return true;
    return false;
}

static bool has_words(const reader *r, const char *line, bool *failed)
{
    double ignored;
    bool words = false;
    char *copy = qkv_strdup(r->ctx, line), *rest = copy;
    *failed = !copy;
    for (char *field; copy && (field = next_field(r, &rest));)
        words = words || (*field && !csv_is_number(field, &ignored) &&
                          !(r->gaps && qkv__csv_missing(field)));
    if (copy)
        qkv_free(r->ctx, copy);
    return words;
}

/* The names' places are counted in columns; shape[1] says how many are valid. */
static qkv_status csv_read_names(reader *r, char *line)
{
    size_t most = strlen(line) + 1;
    r->array->names = qkv_calloc(r->ctx, most, sizeof *r->array->names);
    if (!r->array->names)
        return QKV_E_MEMORY;
    for (char *field; (field = next_field(r, &line));) {
        char *name = qkv_strdup(r->ctx, field);
        if (!name)
            return QKV_E_MEMORY;
        r->array->names[r->array->shape[1]++] = name;
    }
    r->columns = r->array->shape[1];
    return QKV_OK;
}

/* ---- columns that were asked for ------------------------------------------------------------- */

/* The column of that name, else of that number; SIZE_MAX: none. Without names in the file, those of
 * all columns are taken to be in its order. */
static size_t find_column(const reader *r, size_t nth)
{
    const char *wanted = r->wanted[nth];
    char *end;
    for (size_t i = 0; r->array->names && i < r->columns; i++)
        if (strcmp(r->array->names[i], wanted) == 0)
            return i;
    unsigned long number = strtoul(wanted, &end, 10);
    bool digits = *wanted >= '0' && *wanted <= '9' && !*end;
    if (!digits)
        return !r->array->names && r->taken == r->columns ? nth : SIZE_MAX;
    return number >= 1 && number <= r->columns ? number - 1 : SIZE_MAX;
}

static qkv_status no_column(const reader *r, const char *wanted)
{
    qkv_str names;
    qkv_str_init(&names, r->ctx);
    for (size_t i = 0; r->array->names && i < r->columns && i < 20; i++)
        qkv_str_printf(&names, "%s%s", i ? ", " : ": ", r->array->names[i]);
    qkv_status status = qkv_fail(r->ctx, QKV_E_FORMAT, "%s: no column \"%.40s\", there are %zu%s",
                                 r->path, wanted, r->columns,
                                 names.data ? names.data : " without names");
    qkv_str_free(&names);
    return status;
}

/* Once the columns are known. */
static qkv_status find_columns(reader *r)
{
    if (!r->taken || r->place)
        return QKV_OK;
    r->place = qkv_malloc(r->ctx, r->taken * sizeof *r->place);
    if (!r->place)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < r->taken; i++) {
        r->place[i] = find_column(r, i);
        if (r->place[i] == SIZE_MAX)
            return no_column(r, r->wanted[i]);
        for (size_t k = 0; k < i; k++)
            if (r->place[k] == r->place[i])
                return qkv_fail(r->ctx, QKV_E_ARGUMENT, "%s: column \"%.40s\" is named twice",
                                r->path, r->wanted[i]);
    }
    return QKV_OK;
}

/* Keeps the names of the columns taken, in their order. */
static qkv_status take_names(reader *r)
{
    char **names = r->array->names;
    if (!names || !r->taken)
        return QKV_OK;
    r->array->names = qkv_calloc(r->ctx, r->taken, sizeof *names);
    for (size_t i = 0; r->array->names && i < r->taken; i++) {
        r->array->names[i] = names[r->place[i]];
        names[r->place[i]] = NULL;
    }
    for (size_t i = 0; i < r->columns; i++)
        if (names[i])
            qkv_free(r->ctx, names[i]);
    qkv_free(r->ctx, names);
    return r->array->names ? QKV_OK : QKV_E_MEMORY;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static qkv_status csv_append(reader *r, size_t column, const char *field)
{
    double value;
    const char *name = r->array->names && column < r->columns ? r->array->names[column] : NULL;
    bool missing = r->gaps && qkv__csv_missing(field);
    bool number = missing || csv_is_number(field, &value);
    if (missing)
        value = (double)NAN;
    if (!number || (r->finite && !missing && !isfinite(value)))
        return qkv_fail(r->ctx, QKV_E_FORMAT,
                        "%s: line %zu, column %zu%s%.40s%s: expected a %snumber, found \"%.40s\"",
                        r->path, r->line, column + 1, name ? " (" : "", name ? name : "",
                        name ? ")" : "", number ? "finite " : "", field);
    qkv_array *a = r->array;
    if (!qkv__grow(r->ctx, &a->data, &r->capacity, a->count + 1, sizeof *a->data))
        return QKV_E_MEMORY;
    a->data[a->count++] = (qkv_real)value;
    return QKV_OK;
}

/* Cuts the line into fields, at most `most` of them kept. */
static size_t csv_cut(const reader *r, char *line, char **fields, size_t most)
{
    size_t n = 0;
    for (char *field; (field = next_field(r, &line)); n++)
        if (n < most)
            fields[n] = field;
    return n;
}

static size_t count_fields(const reader *r, const char *line)
{
    char *copy = qkv_strdup(r->ctx, line);
    size_t n = copy ? csv_cut(r, copy, NULL, 0) : 0;
    qkv_free(r->ctx, copy);
    return n;
}

static qkv_status csv_read_row(reader *r, char *line)
{
    if (!r->columns)
        r->columns = count_fields(r, line);
    qkv_status status = r->columns ? find_columns(r) : QKV_E_MEMORY;
    char **fields = status ? NULL : qkv_malloc(r->ctx, r->columns * sizeof *fields);
    if (!fields)
        return status ? status : QKV_E_MEMORY;
    size_t found = csv_cut(r, line, fields, r->columns), n = r->taken ? r->taken : r->columns;
    if (found != r->columns)
        status = qkv_fail(r->ctx, QKV_E_FORMAT, "%s: line %zu: expected %zu columns, found %zu",
                          r->path, r->line, r->columns, found);
    for (size_t i = 0; i < n && !status; i++) {
        size_t column = r->taken ? r->place[i] : i;
        status = csv_append(r, column, fields[column]);
    }
    qkv_free(r->ctx, fields);
    r->rows += !status;
    return status;
}

/* Rows of a file of one column, which an empty line leaves out. */
static qkv_status add_missing(reader *r, size_t count)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = csv_append(r, 0, "");
        r->rows += !status;
    }
    return status;
}

static qkv_status csv_read_text(reader *r, char *text, size_t size)
{
    const char *end = text + size;
    qkv_status status = QKV_OK;
    size_t empty = 0; /* lines, before one that is not */
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (char *line; !status && (line = csv_next_line(&text, end));) {
        r->line++;
        const char *first = line + strspn(line, " \t");
        empty += !*first && r->gaps && r->columns == 1;
        if (!*first || *first == '#')
            continue;
        bool failed = false, header = false;
        if (!r->separator) {
            r->separator = find_separator(line);
            header = has_words(r, line, &failed);
        }
        status = failed ? QKV_E_MEMORY : add_missing(r, empty);
        empty = 0;
        if (!status)
            status = header ? csv_read_names(r, line) : csv_read_row(r, line);
    }
    if (!status && !r->rows)
        status = qkv_fail(r->ctx, QKV_E_FORMAT, "%s: expected rows of numbers, found none",
                          r->path);
    return status;
}

static qkv_status csv_load(reader *r)
{
    char *text;
    size_t size;
    qkv_array *out = r->array;
    *out = (qkv_array){.ctx = r->ctx, .ndim = 2};
    qkv_status status = qkv_file_read(r->ctx, r->path, max_file, &text, &size);
    if (!status && memchr(text, 0, size))
        status = qkv_fail(r->ctx, QKV_E_FORMAT, "%s: expected text, found a byte 0", r->path);
    if (!status)
        status = csv_read_text(r, text, size);
    if (text)
        qkv_free(r->ctx, text);
    if (!status) {
        status = take_names(r);
        out->shape[1] = r->taken ? r->taken : r->columns;
    }
    qkv_free(r->ctx, r->place);
    if (status) {
        qkv_array_free(out);
        return status;
    }
    out->shape[0] = r->rows;
    return QKV_OK;
}

qkv_status qkv_csv_load(qkv_array *out, qkv_context *ctx, const char *path)
{
    return csv_load(&(reader){.ctx = ctx, .path = path, .array = out});
}

qkv_status qkv_csv_load_columns(qkv_array *out, qkv_context *ctx, const char *path,
                                const char *const *columns, size_t count)
{
    return csv_load(&(reader){.ctx = ctx, .path = path, .array = out, .wanted = columns,
                              .taken = count, .finite = true});
}

qkv_status qkv_csv_load_gaps(qkv_array *out, qkv_context *ctx, const char *path,
                             const char *const *columns, size_t count)
{
    return csv_load(&(reader){.ctx = ctx, .path = path, .array = out, .wanted = columns,
                              .taken = count, .finite = true, .gaps = true});
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A name as a field: in quotes if something in it separates, or would be read as more. */
static void put_csv_name(qkv_str *out, const char *name)
{
    bool quoted = strpbrk(name, ",;\t \"") || *name == '#' || !*name;
    if (quoted)
        qkv_str_puts(out, "\"");
    for (const char *p = name; *p; p++)
        qkv_str_add(out, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    if (quoted)
        qkv_str_puts(out, "\"");
}

void qkv_csv_text(qkv_str *out, const qkv_array *rows)
{
    size_t columns = rows->shape[1];
    for (size_t j = 0; j < columns && rows->names; j++) {
        put_csv_name(out, rows->names[j]);
        qkv_str_puts(out, j + 1 < columns ? "," : "\n");
    }
    for (size_t i = 0; i < rows->count; i++)
        qkv_str_printf(out, "%.7g%s", (double)rows->data[i], (i + 1) % columns ? "," : "\n");
}
