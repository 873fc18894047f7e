/* series_set.c - series of a class each, in files. */
#include "pipeline/series_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv_cells.h"
#include "io/file.h"
#include "qkv/npy.h"

static const size_t MOST_BYTES = (size_t)1 << 33;

void qkv__series_file_free(qkv__series_file *f)
{
    for (size_t i = 0; i < f->classes; i++)
        qkv_free(f->ctx, f->names[i]);
    if (f->ctx) {
        qkv_free(f->ctx, f->names);
        qkv_free(f->ctx, f->data);
        qkv_free(f->ctx, f->start);
        qkv_free(f->ctx, f->labels);
    }
    *f = (qkv__series_file){0};
}

static bool add_series_value(qkv__series_file *f, qkv_real value)
{
    if (!qkv__grow(f->ctx, &f->data, &f->value_room, f->values + 1, sizeof *f->data))
        return false;
    f->data[f->values++] = value;
    return true;
}

/* Ends the series whose values were added. */
static bool end_series(qkv__series_file *f, int32_t label)
{
    size_t n = f->set.count;
    if (!qkv__grow(f->ctx, &f->start, &f->start_room, n + 2, sizeof *f->start) ||
        !qkv__grow(f->ctx, &f->labels, &f->label_room, n + 1, sizeof *f->labels))
        return false;
    f->start[0] = 0;
    f->start[n + 1] = f->values / f->set.columns;
    f->labels[n] = label;
    f->set.count++;
    return true;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct {
    qkv__series_file *f;
    const char *path;
    size_t line, most;
    bool labelled;
    char separator;
    const char *const *names;
    size_t class_count;
} reader;

/* The number of a class; -1: out of memory or, of names that are given, unknown. */
static int32_t class_of(const reader *r, const char *label)
{
    qkv__series_file *f = r->f;
    for (size_t i = 0; i < r->class_count; i++)
        if (strcmp(r->names[i], label) == 0)
            return (int32_t)i;
    for (size_t i = 0; i < f->classes && !r->class_count; i++)
        if (strcmp(f->names[i], label) == 0)
            return (int32_t)i;
    if (r->class_count ||
        !qkv__grow(f->ctx, &f->names, &f->name_room, f->classes + 1, sizeof *f->names) ||
        !(f->names[f->classes] = qkv_strdup(f->ctx, label)))
        return -1;
    return (int32_t)f->classes++;
}

/* The cells of a line, cut apart; the empty ones at its end are left out. */
static qkv_status read_values(reader *r, char *line)
{
    qkv__series_file *f = r->f;
    size_t from = f->values, known = 0, most = r->most * f->set.columns;
    for (size_t cell = 0; line; cell++) {
        char *stop = strchr(line, r->separator), *end;
        if (stop)
            *stop = 0;
        double value = qkv__csv_missing(line) ? (double)NAN : strtod(line, &end);
        if (!qkv__csv_missing(line) && (end == line || end[strspn(end, " \t\r")] ||
                                        !isfinite(value)))
            return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: line %zu, value %zu: expected a finite "
                            "number, found \"%.40s\"", r->path, r->line, cell + 1, line);
        if (cell < most && !add_series_value(f, (qkv_real)value))
            return QKV_E_MEMORY;
        if (*line)
            known = cell + 1;
        line = stop ? stop + 1 : NULL;
    }
    f->values = from + (known < most ? known : most);
    if (!known || known % f->set.columns)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: line %zu: expected values of steps of %zu "
                        "each%s, found %zu values", r->path, r->line, f->set.columns,
                        r->labelled ? "" : " without a label", known);
    return QKV_OK;
}

static qkv_status read_series(reader *r, char *line)
{
    int32_t label = -1;
    qkv_context *ctx = r->f->ctx;
    if (!r->separator)
        r->separator = strchr(line, ',') ? ',' : strchr(line, ';') ? ';' : '\t';
    char *cut = r->labelled ? strchr(line, r->separator) : NULL;
    if (r->labelled && !cut)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: line %zu: expected a label and values", r->path,
                        r->line);
    if (cut) {
        *cut = 0;
        label = class_of(r, line);
        if (label < 0)
            return !r->class_count ? QKV_E_MEMORY
                                   : qkv_fail(ctx, QKV_E_FORMAT, "%s: line %zu: the model has no "
                                              "class \"%.40s\"", r->path, r->line, line);
    }
    qkv_status status = read_values(r, cut ? cut + 1 : line);
    return status || end_series(r->f, label) ? status : QKV_E_MEMORY;
}

qkv_status qkv__series_file_load(qkv__series_file *out, qkv_context *ctx, const char *path,
                                 bool labelled, size_t columns, size_t most,
                                 const char *const *names, size_t class_count)
{
    char *text;
    size_t size;
    *out = (qkv__series_file){.ctx = ctx, .set.columns = columns};
    reader r = {.f = out, .path = path, .most = most, .labelled = labelled, .names = names,
                .class_count = class_count};
    qkv_status status = qkv_file_read(ctx, path, MOST_BYTES, &text, &size);
    if (!status && memchr(text, 0, size))
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: expected text, found a byte 0", path);
    for (char *line = text, *next; line && *line && !status; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r')
            line[length - 1] = 0;
        r.line++;
        if (*line && *line != '#')
            status = read_series(&r, line);
    }
    if (text)
        qkv_free(ctx, text);
    if (!status && !out->set.count)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: expected a series a line, found none", path);
    out->set.data = out->data;
    out->set.start = out->start;
    out->set.labels = out->labels;
    return status;
}

/* ---- what training keeps --------------------------------------------------------------------- */

qkv_status qkv__series_set_save(qkv_context *ctx, const char *path, const qkv_series_set *s,
                                size_t from, size_t count)
{
    size_t C = s->columns, first = s->start[from], n = s->start[from + count] - first;
    qkv_real *rows = qkv_calloc(ctx, n, (1 + C) * sizeof *rows);
    if (!rows)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        memcpy(rows + i * (1 + C) + 1, s->data + (first + i) * C, C * sizeof *rows);
    for (size_t i = from; i < from + count; i++)
        rows[(s->start[i] - first) * (1 + C)] = (qkv_real)(s->labels[i] + 1);
    qkv_status status = qkv_npy_save(ctx, path, 2, (size_t[]){n, 1 + C}, rows, QKV_STORE_F32);
    qkv_free(ctx, rows);
    return status;
}

qkv_status qkv__series_set_open(qkv__series_file *out, qkv_context *ctx, const char *path,
                                size_t columns, size_t classes)
{
    qkv_array a;
    *out = (qkv__series_file){.ctx = ctx, .set.columns = columns};
    qkv_status status = qkv_npy_load(&a, ctx, path);
    if (status)
        return status;
    bool fits = a.ndim == 2 && a.shape[1] == 1 + columns && a.shape[0];
    int32_t label = -1;
    for (size_t i = 0; fits && !status && i < a.shape[0]; i++) {
        double mark = (double)a.data[i * (1 + columns)];
        fits = mark >= 0 && mark <= (double)classes && (i || mark > 0);
        if (mark > 0 && i && !end_series(out, label))
            status = QKV_E_MEMORY;
        label = mark > 0 ? (int32_t)mark - 1 : label;
        for (size_t j = 0; j < columns && !status; j++)
            if (!add_series_value(out, a.data[i * (1 + columns) + 1 + j]))
                status = QKV_E_MEMORY;
    }
    if (!status && !fits)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: rows of a class and %zu numbers expected", path,
                          columns);
    if (!status && !end_series(out, label))
        status = QKV_E_MEMORY;
    qkv_array_free(&a);
    out->set.data = out->data;
    out->set.start = out->start;
    out->set.labels = out->labels;
    return status;
}
