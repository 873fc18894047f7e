/* page.c - matrices on a page of 80 columns, or in one JSON object. It knows nothing of
 * what they mean. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain/page.h"

enum { PAGE_COLUMNS = 80, INDENT = 2, GAP = 3, MAX_ROWS = 12, MAX_PANELS = 8, CELL_BYTES = 32 };

#define BOLD "\033[1m"
#define FORMULA "\033[36m"
#define FAINT "\033[2m"
#define PLAIN "\033[0m"

/* How a panel is drawn. */
typedef struct {
    const panel *panel;
    const qkv_real *data;
    size_t rows, columns;             /* of the matrix */
    size_t rows_shown, columns_shown; /* the rest is dots */
    int decimals;
    size_t cell, label, width; /* terminal columns: one number, the row labels, everything */
} layout;

size_t page_width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void page_spaces(size_t n)
{
    printf("%*s", (int)n, "");
}

static void cell_text(char out[CELL_BYTES], double v, int decimals)
{
    if (isinf(v))
        (void)snprintf(out, CELL_BYTES, "%s", v < 0 ? "-∞" : "∞");
    else if (fabs(v) >= 1e6)
        (void)snprintf(out, CELL_BYTES, "%.3e", v);
    else
        (void)snprintf(out, CELL_BYTES, "%.*f", decimals, v + 0.0 == 0.0 ? 0.0 : v);
}

/* The fewest decimals, 0 to 4, that show all numbers to f32's precision; 4 when none do. */
static int decimals_of(const qkv_real *x, size_t n)
{
    double unit = 1.0;
    for (int d = 0; d < 4; d++, unit *= 10.0) {
        bool exact = true;
        for (size_t i = 0; i < n && exact; i++)
            exact = isinf(x[i]) || fabs((double)x[i] - round((double)x[i] * unit) / unit) <
                                       1e-6 * fmax(1.0, fabs((double)x[i]));
        if (exact)
            return d;
    }
    return 4;
}

static size_t label_width(const char *const *labels, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; labels && i < n; i++) {
        size_t w = page_width(labels[i]);
        width = w > width ? w : width;
    }
    return width;
}

static layout page_lay_out(qkv_tape *t, const panel *p)
{
    layout l = {.panel = p, .data = qkv_data(t, p->x)};
    l.columns = qkv_dim(p->x, -1);
    l.rows = qkv_ndim(p->x) > 1 ? qkv_dim(p->x, 0) : 1;
    size_t n = l.rows * l.columns;
    l.decimals = p->decimals ? p->decimals : decimals_of(l.data, n);
    l.cell = label_width(p->columns, l.columns);
    for (size_t i = 0; i < n; i++) {
        char text[CELL_BYTES];
        cell_text(text, (double)l.data[i], l.decimals);
        size_t width = page_width(text);
        l.cell = width > l.cell ? width : l.cell;
    }
    l.label = label_width(p->rows, l.rows);
    size_t frame = l.label + (l.label > 0) + 4; /* brackets */
    size_t room = (PAGE_COLUMNS - INDENT - frame) / (l.cell + 1);
    l.columns_shown = l.columns > room ? room - 1 : l.columns;
    l.rows_shown = l.rows > MAX_ROWS ? MAX_ROWS - 1 : l.rows;
    l.width = frame + l.columns_shown * (l.cell + 1) - 1;
    l.width += l.columns_shown < l.columns ? 2 : 0;
    size_t title = page_width(p->title);
    l.width = title > l.width ? title : l.width;
    return l;
}

/* Prints text padded to width: numbers to the right, labels to the left. */
static void padded(const char *text, size_t width, bool right)
{
    size_t w = page_width(text), pad = width > w ? width - w : 0;
    page_spaces(right ? pad : 0);
    fputs(text, stdout);
    page_spaces(right ? 0 : pad);
}

/* A panel that begins a line of its own has the first panel's row labels, if they are as many. */
static void label_rows(qkv_tape *t, layout *l, const layout *first, panel *room)
{
    if (l->panel->rows || !first->panel->rows || l->rows != first->rows)
        return;
    *room = *l->panel;
    room->rows = first->panel->rows;
    *l = page_lay_out(t, room);
}

static void print_title(const page *p, const layout *l)
{
    if (p->colour)
        fputs(FORMULA, stdout);
    padded(l->panel->title, l->width, false);
    if (p->colour)
        fputs(PLAIN, stdout);
}

static void print_column_labels(const layout *l)
{
    size_t used = l->label + (l->label > 0) + 2;
    page_spaces(used);
    for (size_t j = 0; l->panel->columns && j < l->columns_shown; j++) {
        page_spaces(j > 0);
        padded(l->panel->columns[j], l->cell, true);
        used += l->cell + (j > 0);
    }
    page_spaces(l->width - used);
}

static const char *bracket(const layout *l, size_t row, bool left)
{
    static const char *const marks[2][4] = {{"⎤", "⎥", "⎦", "]"}, {"⎡", "⎢", "⎣", "["}};
    size_t last = l->rows_shown < l->rows ? l->rows_shown : l->rows - 1;
    if (last == 0)
        return marks[left][3];
    return marks[left][row == 0 ? 0 : row == last ? 2 : 1];
}

/* Row `row` of the panel; the one after the last shown is dots. */
static void print_row(const layout *l, size_t row)
{
    bool dots = row >= l->rows_shown, beyond = dots && l->rows_shown == l->rows;
    size_t used = l->label + (l->label > 0);
    if (beyond) {
        page_spaces(l->width);
        return;
    }
    if (l->label) {
        padded(dots ? "" : l->panel->rows[row], l->label, false);
        page_spaces(1);
    }
    printf("%s ", bracket(l, row, true));
    for (size_t j = 0; j < l->columns_shown; j++) {
        char text[CELL_BYTES] = "…";
        if (!dots)
            cell_text(text, (double)l->data[row * l->columns + j], l->decimals);
        page_spaces(j > 0);
        padded(text, l->cell, true);
        used += l->cell + (j > 0);
    }
    if (l->columns_shown < l->columns) {
        fputs(" …", stdout);
        used += 2;
    }
    printf(" %s", bracket(l, row, false));
    page_spaces(l->width - used - 4);
}

static void print_line_of_panels(const page *p, const layout *l, int n)
{
    size_t height = 0;
    bool labelled = false;
    for (int i = 0; i < n; i++) {
        size_t h = l[i].rows_shown + (l[i].rows_shown < l[i].rows);
        height = h > height ? h : height;
        labelled = labelled || l[i].panel->columns;
    }
    putchar('\n');
    for (size_t line = 0; line < height + 2; line++) {
        if (line == 1 && !labelled)
            continue;
        page_spaces(INDENT);
        for (int i = 0; i < n; i++) {
            page_spaces(i ? GAP : 0);
            if (line == 0)
                print_title(p, &l[i]);
            else if (line == 1)
                print_column_labels(&l[i]);
            else
                print_row(&l[i], line - 2);
        }
        putchar('\n');
    }
}

static void page_put_json(const page *p, const panel *m)
{
    const qkv_real *x = qkv_data(p->t, m->x);
    size_t columns = qkv_dim(m->x, -1), rows = qkv_count(m->x) / columns;
    bool nested = qkv_ndim(m->x) > 1;
    qkv_json_begin_array(p->json, m->key);
    for (size_t i = 0; i < rows; i++) {
        if (nested)
            qkv_json_begin_array(p->json, NULL);
        for (size_t j = 0; j < columns; j++) {
            double v = (double)x[i * columns + j];
            if (isfinite(v))
                qkv_json_put_float(p->json, NULL, (float)v);
            else
                qkv_json_put_null(p->json, NULL); /* -inf: a hidden key */
        }
        if (nested)
            qkv_json_end_array(p->json);
    }
    qkv_json_end_array(p->json);
}

int page_open(page *p, cli *c, qkv_json_writer *json)
{
    *p = (page){.c = c, .json = c->common.json ? json : NULL,
                .colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR")};
    if (qkv_tape_create(&p->t, c->ctx))
        return cli_error(c);
    qkv_tape_mode(p->t, false, false);
    if (p->json)
        *json = cli_object(c);
    return CLI_DONE;
}

int page_close(page *p, bool failed)
{
    qkv_tape_destroy(p->t);
    if (failed && p->json)
        qkv_json_writer_free(p->json);
    if (failed)
        return cli_error(p->c);
    return p->json ? cli_answer(p->c, p->json) : CLI_DONE;
}

bool page_failed(const page *p) { return p->failed || qkv_tape_status(p->t) != QKV_OK; }

void page_begin(page *p, const char *key, const char *title)
{
    if (p->json) {
        qkv_json_begin_object(p->json, key);
        return;
    }
    printf("\n%s%s%s\n", p->colour ? BOLD : "", title, p->colour ? PLAIN : "");
    for (size_t i = page_width(title); i > 0; i--)
        fputs("─", stdout);
    putchar('\n');
}

void page_end(page *p)
{
    if (p->json)
        qkv_json_end_object(p->json);
}

/* Prints fmt's text: as it is, or as a paragraph. */
static void print_text(const page *p, bool paragraph, const char *before, const char *fmt,
                       va_list args)
{
    qkv_str wrapped;
    if (p->json)
        return;
    char buffer[2048];
    (void)vsnprintf(buffer, sizeof buffer, fmt, args);
    qkv_str_init(&wrapped, p->c->ctx);
    if (paragraph)
        cli_wrap(&wrapped, buffer, INDENT, 0);
    else
        qkv_str_printf(&wrapped, "%*s%s\n", INDENT, "", buffer);
    printf("%s%s%s", before, wrapped.failed ? "" : wrapped.data, *before && p->colour ? PLAIN : "");
    qkv_str_free(&wrapped);
}

void page_heading(const page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_text(p, false, p->colour ? "\n" BOLD : "\n", fmt, args);
    va_end(args);
}

void page_text(const page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_text(p, true, "\n", fmt, args);
    va_end(args);
}

void page_line(const page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_text(p, false, "", fmt, args);
    va_end(args);
}

void page_space(const page *p)
{
    if (!p->json)
        putchar('\n');
}

void page_show(const page *p, int n, const panel *panels)
{
    layout l[MAX_PANELS];
    panel labelled[MAX_PANELS];
    if (page_failed(p))
        return;
    for (int i = 0; i < n; i++) {
        if (p->json)
            page_put_json(p, &panels[i]);
        else
            l[i] = page_lay_out(p->t, &panels[i]);
    }
    for (int from = 0; !p->json && from < n;) {
        label_rows(p->t, &l[from], &l[0], &labelled[from]);
        size_t width = INDENT + l[from].width;
        int to = from + 1;
        for (; to < n && width + GAP + l[to].width <= PAGE_COLUMNS; to++)
            width += GAP + l[to].width;
        print_line_of_panels(p, l + from, to - from);
        from = to;
    }
}

void page_distributions(const page *p, const panel *weights)
{
    static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    if (page_failed(p) || p->json)
        return;
    layout l = page_lay_out(p->t, weights);
    size_t columns = l.columns > 8 ? 8 : l.columns;
    printf("\n%*s%s\n", INDENT, "", weights->title);
    page_spaces(INDENT + l.label + 1);
    for (size_t j = 0; l.panel->columns && j < columns; j++)
        padded(l.panel->columns[j], 8, true);
    putchar('\n');
    for (size_t i = 0; i < l.rows_shown; i++) {
        page_spaces(INDENT);
        padded(l.label ? l.panel->rows[i] : "", l.label, false);
        page_spaces(1);
        for (size_t j = 0; j < columns; j++) {
            double w = (double)l.data[i * l.columns + j];
            int level = w >= 1.0 ? 8 : (int)(w * 8.0 + 0.5);
            printf(" %5.1f%%%s", 100.0 * w, bars[level]);
        }
        puts(l.columns > columns ? " …" : "");
    }
}

void page_number(const page *p, const char *key, double value)
{
    if (p->json)
        qkv_json_put_real(p->json, key, value);
}
