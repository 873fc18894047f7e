/* progress.c - the progress line. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/cli.h"

static const double terminal_interval = 0.1, file_interval = 10; /* seconds */
enum { LINE = 240 };
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

/* The most characters that a terminal does not wrap, so that "\r" comes back to the first. */
static int progress_width(const cli_progress *p)
{
    struct winsize w;
    bool known = p->terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1;
    return known && w.ws_col < LINE ? w.ws_col - 1 : LINE - 1;
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
    fprintf(stderr, "%s%.*s%s", p->terminal ? "\r" : "", progress_width(p), line,
            p->terminal ? "\033[K" : "\n");
    fflush(stderr);
    p->open = p->terminal;
}

void cli_progress_hide(cli_progress *p)
{
    if (p->open)
        fputs("\r\033[K", stderr);
    p->open = false;
}

void cli_progress_end(cli_progress *p)
{
    if (p->open)
        fputc('\n', stderr);
    p->open = false;
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
