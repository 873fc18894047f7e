/* panel.c - curves in braille: a character cell is 2 x 4 dots. */
#include "train/panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, LEAST_ROWS = 16, LEAST_COLUMNS = 40, MOST_COLUMNS = 100, LABEL = 9 };
enum { DOWN = 4, ACROSS = 2 }; /* dots of a cell */
static const char TRAINED[] = "\033[36m", HELD_OUT[] = "\033[33m", PLAIN[] = "\033[0m";

/* ---- what happened ------------------------------------------------------------------------- */

/* Every second bin goes into the one before. */
static void merge_bins(panel *p)
{
    for (size_t i = 0; i < PANEL_BINS; i++) {
        bool kept = i < PANEL_BINS / 2;
        p->sum[i] = kept ? p->sum[2 * i] + p->sum[2 * i + 1] : 0;
        p->count[i] = kept ? p->count[2 * i] + p->count[2 * i + 1] : 0;
    }
    p->stride *= 2;
}

void panel_add(panel *p, uint64_t step, double loss)
{
    p->stride = p->stride ? p->stride : 1;
    while (step / p->stride >= PANEL_BINS)
        merge_bins(p);
    p->sum[step / p->stride] += loss;
    p->count[step / p->stride]++;
}

void panel_add_held_out(panel *p, uint64_t step, double loss)
{
    if (p->evaluations == PANEL_EVALUATIONS) {
        for (size_t i = 0; i < PANEL_EVALUATIONS / 2; i++) {
            p->held_step[i] = p->held_step[2 * i];
            p->held[i] = p->held[2 * i];
        }
        p->evaluations /= 2;
    }
    p->held_step[p->evaluations] = (double)step;
    p->held[p->evaluations++] = loss;
}

void panel_add_sample(panel *p, const cli *c, uint64_t step, const qkv_sample *sample)
{
    qkv_str text;
    if (!sample->text)
        return;
    qkv_str_init(&text, c->ctx);
    size_t most = sample->length < PANEL_SAMPLE ? sample->length : PANEL_SAMPLE;
    while (most < sample->length && most > 0 && ((unsigned char)sample->text[most] & 0xc0) == 0x80)
        most--; /* not within a character */
    qkv_str_visible(&text, sample->text, most, QKV_ESCAPE_NOTHING, false);
    (void)snprintf(p->sample, sizeof p->sample, "%s", text.data ? text.data : "");
    p->sample_step = step;
    qkv_str_free(&text);
}

void panel_read(panel *p, const cli *c, const char *dir)
{
    qkv_run_log *r;
    if (qkv_run_log_open(&r, c->ctx, dir))
        return; /* the curves begin here, then */
    const qkv_run_series *loss = qkv_run_log_find(r, "train/loss");
    const qkv_run_series *held = qkv_run_log_find(r, "eval/loss");
    for (size_t i = 0; loss && i < loss->count; i++)
        panel_add(p, (uint64_t)loss->steps[i], loss->values[i]);
    for (size_t i = 0; held && i < held->count; i++)
        panel_add_held_out(p, (uint64_t)held->steps[i], held->values[i]);
    qkv_run_log_close(r);
}

/* ---- the plot ------------------------------------------------------------------------------ */

typedef struct {
    unsigned char dots[ROWS][MOST_COLUMNS]; /* bits of a braille character */
    bool held_out[ROWS][MOST_COLUMNS];
    int columns;
    double from, to, last; /* values at the bottom and at the top; the last step */
} plot;

static void widen(plot *x, double value)
{
    if (!isfinite(value))
        return;
    x->from = value < x->from ? value : x->from;
    x->to = value > x->to ? value : x->to;
}

static double bin_mean(const panel *p, size_t i) { return p->sum[i] / (double)p->count[i]; }

static void put_dot(plot *x, double step, double value, bool held_out)
{
    static const unsigned char bits[DOWN][ACROSS] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int width = x->columns * ACROSS, height = ROWS * DOWN;
    if (!isfinite(value))
        return;
    int column = (int)(step / x->last * (width - 1) + 0.5);
    int row = (int)((x->to - value) / (x->to - x->from) * (height - 1) + 0.5);
    x->dots[row / DOWN][column / ACROSS] |= bits[row % DOWN][column % ACROSS];
    if (held_out)
        x->held_out[row / DOWN][column / ACROSS] = true;
}

/* Dots between two points, so that the curve has no gaps. */
static void put_line(plot *x, double step1, double value1, double step2, double value2,
                     bool held_out)
{
    int n = x->columns * ACROSS;
    for (int i = 0; i <= n; i++) {
        double t = (double)i / n;
        put_dot(x, step1 + t * (step2 - step1), value1 + t * (value2 - value1), held_out);
    }
}

static bool make_plot(plot *x, const panel *p, int columns)
{
    size_t points = 0, before = 0;
    *x = (plot){.columns = columns, .from = INFINITY, .to = -INFINITY};
    for (size_t i = 0; i < PANEL_BINS; i++)
        if (p->count[i]) {
            widen(x, bin_mean(p, i));
            x->last = (double)i * (double)p->stride;
            points++;
        }
    for (size_t i = 0; i < p->evaluations; i++) {
        widen(x, p->held[i]);
        x->last = p->held_step[i] > x->last ? p->held_step[i] : x->last;
    }
    if (points < 2 || !(x->to > x->from) || x->last <= 0)
        return false;
    bool begun = false;
    for (size_t i = 0; i < PANEL_BINS; i++) {
        if (!p->count[i])
            continue;
        if (begun)
            put_line(x, (double)before * (double)p->stride, bin_mean(p, before),
                     (double)i * (double)p->stride, bin_mean(p, i), false);
        before = i;
        begun = true;
    }
    for (size_t i = 1; i < p->evaluations; i++)
        put_line(x, p->held_step[i - 1], p->held[i - 1], p->held_step[i], p->held[i], true);
    return true;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void panel_put(panel *p, const char *fmt, ...) QKV_PRINTF(2, 3);
static void panel_put(panel *p, const char *fmt, ...)
{
    size_t used = strlen(p->text);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(p->text + used, sizeof p->text - used, fmt, args);
    va_end(args);
}

static bool speaks_utf8(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "utf-8");
    }
    return false;
}

static void put_cell(panel *p, unsigned char dots, bool held_out, bool utf8)
{
    if (!dots)
        panel_put(p, " ");
    else if (utf8)
        panel_put(p, "\xe2%c%c", 0xa0 + (dots >> 6), 0x80 + (dots & 63)); /* U+2800 + dots */
    else
        panel_put(p, "%c", held_out ? 'o' : '*');
}

static void put_row(panel *p, const plot *x, int row, bool color)
{
    bool utf8 = speaks_utf8();
    const char *ink = NULL;
    double value = x->to - (x->to - x->from) * row / (ROWS - 1);
    panel_put(p, "%*.4g ", LABEL - 1, value);
    for (int c = 0; c < x->columns; c++) {
        const char *wanted = x->held_out[row][c] ? HELD_OUT : TRAINED;
        if (color && x->dots[row][c] && ink != wanted)
            panel_put(p, "%s", wanted);
        ink = x->dots[row][c] ? wanted : ink;
        put_cell(p, x->dots[row][c], x->held_out[row][c], utf8);
    }
    panel_put(p, "%s\n", color && ink ? PLAIN : "");
}

/* As much of the sample as fits into so many columns; wide characters take two. */
static void put_sample_row(panel *p, int columns)
{
    char head[40];
    int room = columns - snprintf(head, sizeof head, "step %llu: ",
                                  (unsigned long long)p->sample_step);
    size_t n = 0;
    while (p->sample[n]) {
        unsigned char first = (unsigned char)p->sample[n];
        size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        room -= len > 2 ? 2 : 1; /* from U+0800 on some are wide */
        if (room < 0 || (!speaks_utf8() && len > 1))
            break;
        n += len;
    }
    panel_put(p, "%s%.*s\n", head, (int)n, p->sample);
}

const char *panel_show(panel *p, int columns, int rows)
{
    plot x;
    bool color = !getenv("NO_COLOR");
    int width = columns - LABEL < MOST_COLUMNS ? columns - LABEL : MOST_COLUMNS;
    p->text[0] = 0;
    if (rows < LEAST_ROWS || columns < LEAST_COLUMNS || !make_plot(&x, p, width))
        return NULL;
    for (int row = 0; row < ROWS; row++)
        put_row(p, &x, row, color);
    if (p->evaluations > 1)
        panel_put(p, color ? "%*s%straining%s  %sheld out%s\n"
                           : "%*s%straining %s  %sheld out %s\n", LABEL, "",
                  color ? TRAINED : "", color ? PLAIN : "*", color ? HELD_OUT : "",
                  color ? PLAIN : "o");
    if (p->sample[0])
        put_sample_row(p, columns);
    return p->text;
}
