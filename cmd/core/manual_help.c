/* manual_help.c - what --help and the man page say, made from manuals and option tables. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/manual.h"

enum { COLUMNS = 80, HELP_COLUMN = 26 };

static void manual_help_spaces(qkv_str *out, size_t n)
{
    while (n--)
        qkv_str_puts(out, " ");
}

/* Columns that UTF-8 text takes: one per character is right for the text of help. */
static size_t manual_help_width(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

void cli_wrap(qkv_str *out, const char *text, size_t indent, size_t column)
{
    bool line_empty = true;
    if (column < indent) {
        manual_help_spaces(out, indent - column);
        column = indent;
    }
    while (*text) {
        size_t bytes = strcspn(text, " \n"), word = manual_help_width(text, bytes);
        if (!line_empty && column + 1 + word > COLUMNS) {
            qkv_str_puts(out, "\n");
            manual_help_spaces(out, indent);
            column = indent;
            line_empty = true;
        }
        if (!line_empty)
            qkv_str_puts(out, " ");
        qkv_str_add(out, text, bytes);
        column += word + !line_empty;
        line_empty = false;
        text += bytes;
        if (text[0] == '\n') {
            qkv_str_puts(out, text[1] == '\n' ? "\n\n" : "\n");
            manual_help_spaces(out, indent);
            column = indent;
            line_empty = true;
        }
        text += strspn(text, " \n");
    }
    qkv_str_puts(out, "\n");
}

/* "--length N", "--data FILE...", "--json"; "key=N" for fields without a flag. */
static void row_name(const qkv_option *row, char *out, size_t size)
{
    char key[QKV_OPTION_TEXT] = "";
    const char *value = qkv_option_value_name(row);
    if (row->flag) {
        snprintf(out, size, "--%s%s%s", row->flag, *value ? " " : "", value);
        return;
    }
    qkv_option_key(row, 0, key);
    snprintf(out, size, "%s=%s", key, *value ? value : "BOOL");
}

/* The default as this command has it; NULL: none worth saying. */
static const char *default_text(const cli_manual *m, const qkv_option *row)
{
    const qkv_preset *p = qkv_preset_find(m->presets, row);
    if (p)
        return p->said ? p->said : p->value;
    if (row->initial && *row->initial)
        return row->initial;
    return row->type == QKV_OPT_ENUM ? row->names[0] : NULL;
}

/* "learning rate at the peak (above 0, default 0.001)" */
static void row_text(const cli_manual *m, const qkv_option *row, char *out, size_t size)
{
    char expects[QKV_OPTION_TEXT];
    const char *initial = default_text(m, row);
    qkv_option_expects(row, expects);
    const char *choices = row->type == QKV_OPT_ENUM ? expects : NULL;
    const char *sizes = row->flag && strcmp(row->flag, "model") == 0 ? m->sizes : NULL;
    if (sizes)
        choices = sizes;
    bool required = row->flags & QKV_OPT_REQUIRED;
    if (row->type == QKV_OPT_BOOL && initial && strcmp(initial, "false") == 0)
        initial = NULL;
    snprintf(out, size, "%s%s%s%s%s%s%s%s", row->help, choices ? ": " : "", choices ? choices : "",
             required || initial ? " (" : "", required ? "required" : "",
             !required && initial ? "default " : "", !required && initial ? initial : "",
             required || initial ? ")" : "");
}

static void help_row(qkv_str *out, const cli_manual *m, const qkv_option *row)
{
    char name[2 * QKV_OPTION_TEXT], text[4 * QKV_OPTION_TEXT];
    row_name(row, name, sizeof name);
    row_text(m, row, text, sizeof text);
    qkv_str_printf(out, "  %s", name);
    size_t column = 2 + manual_help_width(name, strlen(name));
    if (column + 2 > HELP_COLUMN) {
        qkv_str_puts(out, "\n");
        column = 0;
    }
    cli_wrap(out, text, HELP_COLUMN, column);
}

static bool manual_help_shown(const qkv_option *row, bool flags)
{
    return !(row->flags & QKV_OPT_HIDDEN) && (row->flag != NULL) == flags;
}

/* Table t's title, and what it is for unless that is the title: "Vocabulary (texts)". */
static void title_text(const cli_manual *m, size_t t, char *out, size_t size)
{
    const char *title = m->tables[t]->title, *about = m->about ? m->about[t] : NULL;
    if (about && strcasecmp(title, about) != 0)
        snprintf(out, size, "%s (%s)", title, about);
    else
        snprintf(out, size, "%s", title);
}

/* Has table t a title of its own? One that is as the table's before goes on below that. */
static bool titled(const cli_manual *m, size_t t)
{
    return !t || strcmp(m->tables[t]->title, m->tables[t - 1]->title) != 0;
}

static void help_table(qkv_str *out, const cli_manual *m, size_t t, bool flags)
{
    const qkv_option_table *table = m->tables[t];
    bool any = !titled(m, t);
    char title[QKV_OPTION_TEXT];
    title_text(m, t, title, sizeof title);
    for (size_t i = 0; i < table->count; i++) {
        if (!manual_help_shown(&table->rows[i], flags))
            continue;
        if (!any)
            qkv_str_printf(out, "\n%s%s:\n", title, flags ? "" : ", with --set key=value");
        any = true;
        help_row(out, m, &table->rows[i]);
    }
}

static bool has_keys(const cli_manual *m)
{
    for (size_t t = 0; m->tables && m->tables[t]; t++)
        for (size_t i = 0; i < m->tables[t]->count; i++)
            if (manual_help_shown(&m->tables[t]->rows[i], false))
                return true;
    return false;
}

/* --recipe's names; NULL where the command has none. */
static const char *const *recipe_names(const cli_manual *m)
{
    for (size_t t = 0; m->recipes && m->tables[t]; t++)
        for (size_t i = 0; i < m->tables[t]->count; i++)
            if (m->tables[t]->rows[i].flag && strcmp(m->tables[t]->rows[i].flag, "recipe") == 0)
                return m->tables[t]->rows[i].names;
    return NULL;
}

/* "--lr 1e-3, --legacy, --no-flip": what the recipe sets. */
static void recipe_text(const qkv_preset *p, qkv_str *out)
{
    for (bool first = true; p && p->flag; p++, first = false) {
        bool no = p->value && strcmp(p->value, "false") == 0;
        bool yes = p->value && strcmp(p->value, "true") == 0;
        qkv_str_printf(out, "%s--%s%s", first ? "" : ", ", no ? "no-" : "", p->flag);
        if (!no && !yes)
            qkv_str_printf(out, " %s", p->said ? p->said : p->value);
    }
}

/* Each recipe that says something through fn: its name and what it sets. */
static void each_recipe(const cli_manual *m, qkv_str *out,
                        void (*fn)(qkv_str *out, const char *name, const char *text))
{
    const char *const *names = recipe_names(m);
    for (size_t i = 0; names && names[i]; i++) {
        qkv_str text;
        qkv_str_init(&text, out->ctx);
        recipe_text(m->recipes[i], &text);
        if (text.data)
            fn(out, names[i], text.data);
        out->failed = out->failed || text.failed;
        qkv_str_free(&text);
    }
}

static void help_recipe(qkv_str *out, const char *name, const char *text)
{
    qkv_str_printf(out, "\nRecipe %s:\n", name);
    cli_wrap(out, text, 2, 0);
}

void cli_manual_help(qkv_str *out, const char *program, const cli_manual *m)
{
    qkv_str_printf(out, "Usage: %s %s", program, m->name);
    size_t column = 8 + strlen(program) + strlen(m->name);
    size_t indent = column + 1;
    cli_wrap(out, m->usage ? m->usage : "", indent < 30 ? indent : 11, column);
    qkv_str_puts(out, "\n");
    cli_wrap(out, m->text ? m->text : m->summary, 0, 0);
    for (size_t t = 0; m->tables && m->tables[t]; t++)
        help_table(out, m, t, true);
    if (has_keys(m))
        for (size_t t = 0; m->tables && m->tables[t]; t++)
            help_table(out, m, t, false);
    each_recipe(m, out, help_recipe);
    for (size_t i = 0; m->examples && m->examples[i]; i++)
        qkv_str_printf(out, "%s  %s\n", i ? "" : "\nExamples:\n", m->examples[i]);
}

/* ---- roff, for man(7) ---------------------------------- */

/* Backslashes and hyphens are escaped, and a line must not begin with '.' or '\''. */
static void roff(qkv_str *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if ((p == text || p[-1] == '\n') && (*p == '.' || *p == '\''))
            qkv_str_puts(out, "\\&");
        if (*p == '\\')
            qkv_str_puts(out, "\\e");
        else if (*p == '-')
            qkv_str_puts(out, "\\-");
        else if (*p == '\n' && p[1] == '\n')
            qkv_str_puts(out, "\n.PP"); /* the second newline ends the macro's line */
        else
            qkv_str_add(out, p, 1);
    }
}

static void roff_table(qkv_str *out, const cli_manual *m, size_t t)
{
    const qkv_option_table *table = m->tables[t];
    char text[4 * QKV_OPTION_TEXT];
    if (titled(m, t)) {
        qkv_str_puts(out, ".P\n.I ");
        title_text(m, t, text, sizeof text);
        roff(out, text);
        qkv_str_puts(out, "\n");
    }
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *row = &table->rows[i];
        if (row->flags & QKV_OPT_HIDDEN)
            continue;
        row_name(row, text, sizeof text);
        qkv_str_puts(out, ".TP\n.B ");
        roff(out, text);
        qkv_str_puts(out, "\n");
        row_text(m, row, text, sizeof text);
        roff(out, text);
        qkv_str_puts(out, "\n");
    }
}

static void roff_recipe(qkv_str *out, const char *name, const char *text)
{
    qkv_str_puts(out, ".P\nRecipe ");
    roff(out, name);
    qkv_str_puts(out, ":\n");
    roff(out, text);
    qkv_str_puts(out, "\n");
}

static void roff_command(qkv_str *out, const char *program, const cli_manual *m,
                         const qkv_option_table *common)
{
    qkv_str_puts(out, ".SS ");
    roff(out, program);
    qkv_str_puts(out, " ");
    roff(out, m->name);
    qkv_str_puts(out, " ");
    roff(out, m->usage ? m->usage : "");
    qkv_str_puts(out, "\n");
    roff(out, m->text ? m->text : m->summary);
    qkv_str_puts(out, "\n");
    for (size_t t = 0; m->tables && m->tables[t]; t++)
        if (m->tables[t] != common)
            roff_table(out, m, t);
    each_recipe(m, out, roff_recipe);
    for (size_t i = 0; m->examples && m->examples[i]; i++) {
        qkv_str_puts(out, i ? ".br\n" : ".PP\nExamples:\n.PP\n.RS\n");
        roff(out, m->examples[i]);
        qkv_str_puts(out, m->examples[i + 1] ? "\n" : "\n.RE\n");
    }
}

void cli_manual_roff(qkv_str *out, const cli_manual *program, const cli_manual *const *all,
                     size_t count, const char *version)
{
    const qkv_option_table *common = program->tables ? program->tables[0] : NULL;
    qkv_str_printf(out, ".TH %s 1 \"\" \"%s %s\"\n.SH NAME\n%s \\- ", program->name,
                   program->name, version, program->name);
    roff(out, program->summary);
    qkv_str_printf(out, "\n.SH SYNOPSIS\n.B %s\n", program->name);
    roff(out, program->usage);
    qkv_str_puts(out, "\n.SH DESCRIPTION\n");
    roff(out, program->text ? program->text : program->summary);
    if (common) {
        qkv_str_puts(out, "\n.SH OPTIONS OF EVERY COMMAND\n");
        roff_table(out, program, 0);
    }
    qkv_str_puts(out, ".SH COMMANDS\n");
    for (size_t i = 0; i < count; i++)
        roff_command(out, program->name, all[i], common);
    qkv_str_puts(out, ".SH EXIT STATUS\n0 on success, 1 when the work failed (one sentence on the "
                       "standard error says why), 2 when the command was used wrongly.\n");
}
