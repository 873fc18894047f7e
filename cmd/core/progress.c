/* progress.c - the progress line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/cli.h"

static const double terminal_interval = 0.1, file_interval = 10; /* seconds */
enum { LINE = 240, USUAL_COLUMNS = 80 }; /* of a line; of a terminal that does not tell */
static const double least_spent = 0.05; /* seconds that a rate has to rest on */

static const char *duration(double seconds, char out[CLI_NUMBER])
{
    long s = seconds < 359999 ? (long)(seconds + 0.5) : 359999; /* 99:59:59 */
    if (s >= 3600)
        (void)snprintf(out, CLI_NUMBER, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        (void)snprintf(out, CLI_NUMBER, "%ld:%02ld", s / 60, s % 60);
    return out;
}

static cli_progress *opened; /* the line that stands on the terminal; NULL: none */

/* A positive number of the environment; 0: there is none. */
static int environment(const char *name)
{
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : 0;
    return value > 0 && value < 100000 ? (int)value : 0;
}

/* The most characters that a terminal does not wrap, so that "\r" comes back to the first. */
int cli_progress_columns(const cli_progress *p)
{
    struct winsize w;
    bool known = p->terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1;
    int columns = p->terminal ? environment("COLUMNS") : 0;
    if (!columns && p->terminal)
        columns = known ? w.ws_col : USUAL_COLUMNS;
    return columns > 1 && columns < LINE ? columns - 1 : LINE - 1;
}

int cli_progress_rows(const cli_progress *p)
{
    const char *term = getenv("TERM");
    struct winsize w;
    if (!p->terminal || p->silent || !term || !*term || strcmp(term, "dumb") == 0)
        return 0;
    int rows = environment("LINES");
    return rows || ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 ? rows : w.ws_row;
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; text && *text; text++)
        n += *text == '\n';
    return n;
}

/* What goes to the terminal at once. */
typedef struct {
    char text[16384];
    size_t used;
} burst;

static void QKV_PRINTF(2, 3) burst_add(burst *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(b->text + b->used, sizeof b->text - b->used, fmt, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof b->text - b->used)
        b->used += (size_t)n;
    b->text[b->used] = 0; /* what does not fit is left out whole */
}

/* To the first column of the first row that is in use. */
static void go_to_top(const cli_progress *p, burst *b)
{
    burst_add(b, "\r");
    if (p->open && p->rows)
        burst_add(b, "\033[%dA", p->rows);
}

/* The rows above the line, each cleared behind its text: nothing is cleared before it is drawn
 * again, so nothing flickers. */
static void add_above(cli_progress *p, burst *b)
{
    int rows = p->above ? count_lines(p->above) : 0;
    go_to_top(p, b);
    if (p->open && rows != p->rows)
        burst_add(b, "\033[J");
    for (const char *at = p->above, *end; at && (end = strchr(at, '\n')) != NULL; at = end + 1)
        burst_add(b, "%.*s\033[K\n", (int)(end - at), at);
    p->rows = rows;
}

static void send_burst(const burst *b)
{
    (void)fwrite(b->text, 1, b->used, stderr);
    (void)fflush(stderr);
}

static double rate_of(const cli_progress *p, size_t done)
{
    double spent = qkv_now() - p->begun;
    if (p->rate != 0)
        return p->rate;
    return spent >= least_spent && done > p->first ? (double)(done - p->first) / spent : 0;
}

/* Adds to the line; what does not fit is cut. */
static void QKV_PRINTF(2, 3) add(char line[LINE], const char *fmt, ...)
{
    size_t used = strlen(line);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(line + used, LINE - used, fmt, args);
    va_end(args);
}

void cli_progress_begin(cli_progress *p, const cli *c, const char *label, const char *unit,
                        size_t done_before)
{
    *p = (cli_progress){.label = label, .unit = unit, .begun = qkv_now(), .first = done_before,
                        .terminal = isatty(STDERR_FILENO) != 0, .silent = c->common.quiet};
    p->shown = p->begun;
}

bool cli_progress_due(const cli_progress *p)
{
    return !p->silent &&
           qkv_now() - p->shown >= (p->terminal ? terminal_interval : file_interval);
}

void cli_progress_show(cli_progress *p, size_t done, size_t total, const char *fmt, ...)
{
    char line[LINE] = "", words[LINE] = "", text[CLI_NUMBER];
    bool last = total && done >= total;
    if (p->silent || (!last && !cli_progress_due(p)))
        return;
    p->shown = qkv_now();
    if (fmt) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(words, sizeof words, fmt, args);
        va_end(args);
    }
    double rate = rate_of(p, done), left = p->left;
    if (left <= 0 && total && rate > 0)
        left = (double)(total - done) / rate;
    add(line, "%s  %zu", p->label, done);
    if (total)
        add(line, "/%zu", total);
    add(line, " %s", p->unit);
    if (rate > 0)
        add(line, "  %s %s/s", cli_short_number(rate, text), p->unit);
    if (*words)
        add(line, "  %s", words);
    if (left > 0 && !last)
        add(line, "  ETA %s", duration(left, text));
    burst b = {.used = 0};
    if (p->terminal)
        add_above(p, &b);
    burst_add(&b, "%.*s%s", cli_progress_columns(p), line, p->terminal ? "\033[K" : "\n");
    send_burst(&b);
    p->open = p->terminal;
    opened = p->open ? p : NULL;
}

void cli_progress_hide(cli_progress *p)
{
    burst b = {.used = 0};
    if (p->open) {
        go_to_top(p, &b);
        burst_add(&b, "\033[J");
        send_burst(&b);
    }
    p->open = false;
    p->rows = 0;
    opened = opened == p ? NULL : opened;
}

void cli_progress_hide_open(void)
{
    if (opened)
        cli_progress_hide(opened);
}

void cli_progress_end(cli_progress *p)
{
    if (p->open)
        fputc('\n', stderr);
    p->open = false;
    p->rows = 0;
    opened = opened == p ? NULL : opened;
}

const char *cli_short_number(double value, char out[CLI_NUMBER])
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;
    while (value >= 1000 && i + 1 < sizeof suffixes / sizeof *suffixes) {
        value /= 1000;
        i++;
    }
    (void)snprintf(out, CLI_NUMBER, value < 999.5 ? "%.3g%s" : "%.0f%s", value, suffixes[i]);
    return out;
}
