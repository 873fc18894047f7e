/* progress.c - the progress line. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const double terminal_interval = 0.1, file_interval = 10; /* seconds */

/* 1234567 -> "1.23M"; three digits are what a rate is good for. */
static void short_number(double value, char *out, size_t size)
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;
    while (value >= 1000 && i + 1 < sizeof suffixes / sizeof *suffixes) {
        value /= 1000;
        i++;
    }
    (void)snprintf(out, size, "%.3g%s", value, suffixes[i]);
}

static void duration(double seconds, char *out, size_t size)
{
    long s = seconds < 359999 ? (long)(seconds + 0.5) : 359999; /* 99:59:59 */
    if (s >= 3600)
        (void)snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        (void)snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

void cli_progress_begin(cli_progress *p, const cli *c, const char *label, const char *unit,
                        size_t done_before)
{
    *p = (cli_progress){.label = label, .unit = unit, .begun = qkv__now(), .first = done_before,
                        .terminal = isatty(STDERR_FILENO) != 0, .silent = c->common.quiet};
    p->shown = p->terminal ? 0 : p->begun;
}

void cli_progress_show(cli_progress *p, size_t done, size_t total, const char *fmt, ...)
{
    char words[200] = "", rate_text[32], eta[32];
    double now = qkv__now(), spent = now - p->begun;
    bool last = total && done >= total;
    if (p->silent)
        return;
    if (!last && now - p->shown < (p->terminal ? terminal_interval : file_interval))
        return;
    p->shown = now;
    if (fmt) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(words, sizeof words, fmt, args);
        va_end(args);
    }
    double rate = spent > 0 && done > p->first ? (double)(done - p->first) / spent : 0;
    short_number(rate, rate_text, sizeof rate_text);
    fprintf(stderr, "%s%s  %zu", p->terminal ? "\r" : "", p->label, done);
    if (total)
        fprintf(stderr, "/%zu", total);
    fprintf(stderr, " %s  %s %s/s%s%s", p->unit, rate_text, p->unit, *words ? "  " : "", words);
    if (total && rate > 0 && !last) {
        duration((double)(total - done) / rate, eta, sizeof eta);
        fprintf(stderr, "  ETA %s", eta);
    }
    fputs(p->terminal ? "\033[K" : "\n", stderr);
    fflush(stderr);
    p->open = p->terminal;
}

void cli_progress_end(cli_progress *p)
{
    if (p->open)
        fputc('\n', stderr);
    p->open = false;
}
