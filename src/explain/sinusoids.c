/* sinusoids.c - sinusoid positions drawn, and their properties measured rather than claimed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/encode.h"
#include "draw/page.h"
#include "explain/lesson.h"
#include "qkv/chart.h"
#include "qkv/ops.h"

enum { POSITIONS = 80, WIDTH = 16, SMALL = 4, CELL = 48, OFFSETS = 6 };
static const size_t offsets[OFFSETS] = {0, 1, 2, 5, 10, 20};

/* Vaswani et al. 2017, 3.5: the angle that pair i of d/2 turns by from one position to the next. */
static double frequency(size_t pair, size_t d)
{
    return pow(10000.0, -2.0 * (double)pair / (double)d);
}

static double sinusoid(size_t position, size_t column, size_t d)
{
    double angle = (double)position * frequency(column / 2, d);
    return column % 2 ? cos(angle) : sin(angle);
}

static double sinusoid_product(size_t p, size_t q, size_t d)
{
    double sum = 0.0;
    for (size_t c = 0; c < d; c++)
        sum += sinusoid(p, c, d) * sinusoid(q, c, d);
    return sum;
}

/* ---- drawings -------------------------------------------------------------------------------- */

/* False, and the page knows, where there is no drawing. */
static bool sinusoids_begin(qkv_page *p, qkv_context *ctx, qkv_drawing **d, double width,
                            double height)
{
    if (!qkv_page_status(p))
        qkv__page_fail(p, qkv_drawing_create(d, ctx, width, height));
    return qkv_page_status(p) == QKV_OK;
}

static void sinusoids_figure(qkv_page *p, qkv_drawing *d, const char *id, const char *name,
                             const char *caption)
{
    qkv_drawing_describe(d, name, caption);
    qkv_page_figure(p, d, id, caption);
    qkv_drawing_destroy(d);
}

static void sinusoids_waves(qkv_page *p, qkv_context *ctx)
{
    enum { CURVES = 5 };
    static const size_t pairs[CURVES] = {0, 1, 2, 3, 5};
    double y[CURVES][POSITIONS];
    char names[CURVES][CELL];
    qkv_curve curves[CURVES];
    qkv_drawing *d;
    for (size_t i = 0; i < CURVES; i++) {
        for (size_t k = 0; k < POSITIONS; k++)
            y[i][k] = sinusoid(k, 2 * pairs[i], WIDTH);
        (void)snprintf(names[i], CELL, "i = %zu", pairs[i]);
        curves[i] = (qkv_curve){.name = names[i], .y = y[i], .count = POSITIONS};
    }
    if (!sinusoids_begin(p, ctx, &d, 720.0, 300.0))
        return;
    qkv_draw_lines(d, NULL, &(qkv_line_chart){.title = "Waves: columns 2i of PE, d = 16",
                                              .x_label = "position", .curves = curves,
                                              .count = CURVES});
    sinusoids_figure(p, d, "waves", "Sinusoid waves",
                     "sin(pos / 10000^(2i/d)): each pair of columns is a wave, 3.2 times as "
                     "long as the pair before it at d = 16.");
}

static void sinusoids_heat(qkv_page *p, qkv_context *ctx)
{
    static const char *const names[WIDTH] = {"sin 0", "cos 0", "sin 1", "cos 1", "sin 2", "cos 2",
                                             "sin 3", "cos 3", "sin 4", "cos 4", "sin 5", "cos 5",
                                             "sin 6", "cos 6", "sin 7", "cos 7"};
    float values[WIDTH * POSITIONS];
    qkv_drawing *d;
    for (size_t i = 0; i < WIDTH * POSITIONS; i++)
        values[i] = (float)sinusoid(i % POSITIONS, i / POSITIONS, WIDTH);
    const qkv_heat_map map = {.title = "PE, d = 16: a column is a position", .values = values,
                              .rows = WIDTH, .columns = POSITIONS, .row_labels = names,
                              .diverging = true, .x_label = "position 0 to 79"};
    if (!sinusoids_begin(p, ctx, &d, 720.0, 310.0))
        return;
    qkv_draw_heat(d, NULL, &map);
    sinusoids_figure(p, d, "encoding", "The encoding of 80 positions",
                     "Upper rows change at every position, lower ones hardly over all 80.");
}

static void sinusoids_products(qkv_page *p, qkv_context *ctx)
{
    float values[POSITIONS * POSITIONS];
    qkv_drawing *d;
    for (size_t i = 0; i < POSITIONS * POSITIONS; i++)
        values[i] = (float)sinusoid_product(i / POSITIONS, i % POSITIONS, WIDTH);
    const qkv_heat_map map = {.title = "PE PEᵀ, d = 16", .values = values, .rows = POSITIONS,
                              .columns = POSITIONS, .square = true, .x_label = "position",
                              .y_label = "position"};
    if (!sinusoids_begin(p, ctx, &d, 440.0, 420.0))
        return;
    qkv_draw_heat(d, NULL, &map);
    sinusoids_figure(p, d, "products", "Products of positions",
                     "Every diagonal has one colour: the product depends on the offset alone. On "
                     "the main one it is d / 2.");
}

/* ---- properties, in double ------------------------------------------------------------------- */

/* Smallest and largest |PE[p + 1] - PE[p]|. */
static void neighbour_distance(double out[2])
{
    out[0] = INFINITY;
    out[1] = 0.0;
    for (size_t p = 0; p + 1 < POSITIONS; p++) {
        double square = 0.0;
        for (size_t c = 0; c < WIDTH; c++)
            square += pow(sinusoid(p + 1, c, WIDTH) - sinusoid(p, c, WIDTH), 2.0);
        out[0] = fmin(out[0], sqrt(square));
        out[1] = fmax(out[1], sqrt(square));
    }
}

/* Smallest and largest PE[p] PE[p + k]; the sum of cos(k w_i); the largest |PE[p + k] - M_k PE[p]|,
 * where M_k turns every pair by k w_i. */
static void offset_measures(size_t k, double out[4])
{
    out[0] = INFINITY;
    out[1] = -INFINITY;
    out[2] = out[3] = 0.0;
    for (size_t i = 0; i < WIDTH / 2; i++)
        out[2] += cos((double)k * frequency(i, WIDTH));
    for (size_t p = 0; p + k < POSITIONS; p++) {
        double value = sinusoid_product(p, p + k, WIDTH);
        out[0] = fmin(out[0], value);
        out[1] = fmax(out[1], value);
        for (size_t c = 0; c < WIDTH; c += 2) {
            double turn = (double)k * frequency(c / 2, WIDTH);
            double s = sinusoid(p, c, WIDTH), w = sinusoid(p, c + 1, WIDTH);
            double sine = s * cos(turn) + w * sin(turn), cosine = w * cos(turn) - s * sin(turn);
            out[3] = fmax(out[3], fabs(sinusoid(p + k, c, WIDTH) - sine));
            out[3] = fmax(out[3], fabs(sinusoid(p + k, c + 1, WIDTH) - cosine));
        }
    }
}

/* Rank of the first `rows` positions of width d, by elimination with full pivoting: pivots above
 * 1e-10 of the first. */
static size_t sinusoids_rank(size_t rows, size_t d)
{
    double a[POSITIONS][WIDTH], first = 0.0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < d; j++)
            a[i][j] = sinusoid(i, j, d);
    for (size_t rank = 0;; rank++) {
        size_t row = 0, column = 0;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < d; j++)
                if (fabs(a[i][j]) > fabs(a[row][column])) {
                    row = i;
                    column = j;
                }
        double pivot = a[row][column];
        first = rank ? first : fabs(pivot);
        if (fabs(pivot) <= 1e-10 * first)
            return rank;
        for (size_t i = 0; i < rows; i++) {
            double factor = a[i][column] / pivot;
            for (size_t j = 0; j < d && i != row; j++)
                a[i][j] -= factor * a[row][j];
        }
        memset(a[row], 0, d * sizeof **a);
        for (size_t i = 0; i < rows; i++)
            a[i][column] = 0.0;
    }
}

/* ---- on the page ----------------------------------------------------------------------------- */

static void sinusoids_put(char out[CELL], qkv_page *p, double value, int decimals)
{
    qkv_str s;
    qkv_str_init(&s, p->ctx);
    if (value != 0.0 && fabs(value) < 1e-6)
        (void)snprintf(out, CELL, "%.0e", value);
    else {
        qkv__put_real(&s, value, decimals, false);
        (void)snprintf(out, CELL, "%s", s.failed ? "" : s.data);
    }
    if (s.failed)
        qkv__page_fail(p, QKV_E_MEMORY);
    qkv_str_free(&s);
}

static void offset_table(qkv_page *p)
{
    static const char *const columns[] = {"offset k", "smallest product", "largest product",
                                          "Σ cos(k ω_i)", "largest |PE[p+k] − M_k PE[p]|"};
    char text[OFFSETS][5][CELL];
    const char *names[OFFSETS], *cells[OFFSETS * 4];
    for (size_t i = 0; i < OFFSETS; i++) {
        double values[4];
        offset_measures(offsets[i], values);
        (void)snprintf(text[i][4], CELL, "%zu", offsets[i]);
        names[i] = text[i][4];
        for (size_t j = 0; j < 4; j++) {
            sinusoids_put(text[i][j], p, values[j], 6);
            cells[4 * i + j] = text[i][j];
        }
    }
    qkv_page_table(p, &(qkv_page_table_options){
        .id = "offsets", .caption = "All pairs of 80 positions at the same offset, d = 16",
        .columns = columns, .rows = names, .cells = cells, .row_count = OFFSETS,
        .column_count = 4, .numbers = true});
}

static void shift_table(qkv_page *p)
{
    static const char *const columns[] = {"", "sin 0", "cos 0", "sin 1", "cos 1"};
    char text[SMALL * SMALL][CELL];
    const char *cells[SMALL * SMALL];
    for (size_t i = 0; i < SMALL * SMALL; i++) {
        size_t row = i / SMALL, column = i % SMALL;
        double turn = frequency(row / 2, SMALL), value = 0.0;
        if (row / 2 == column / 2)
            value = row == column ? cos(turn) : row < column ? sin(turn) : -sin(turn);
        sinusoids_put(text[i], p, value, 5);
        cells[i] = text[i];
    }
    qkv_page_table(p, &(qkv_page_table_options){
        .id = "shift", .caption = "M₁ for d = 4: PE[p + 1] = M₁ PE[p] for every p",
        .columns = columns, .rows = columns + 1, .cells = cells, .row_count = SMALL,
        .column_count = SMALL, .numbers = true});
}

static void rank_table(qkv_page *p)
{
    static const char *const columns[] = {"positions × width", "rank"};
    static const size_t sizes[][2] = {{4, 4}, {6, 4}, {80, 4}, {80, 8}, {80, 16}};
    enum { SIZES = 5 };
    char text[SIZES][2][CELL];
    const char *names[SIZES], *cells[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        (void)snprintf(text[i][0], CELL, "%zu × %zu", sizes[i][0], sizes[i][1]);
        (void)snprintf(text[i][1], CELL, "%zu", sinusoids_rank(sizes[i][0], sizes[i][1]));
        names[i] = text[i][0];
        cells[i] = text[i][1];
    }
    qkv_page_table(p, &(qkv_page_table_options){
        .id = "ranks", .caption = "Rank of PE (pivots above 1e-10 of the largest)",
        .columns = columns, .rows = names, .cells = cells, .row_count = SIZES, .column_count = 1,
        .numbers = true});
}

void qkv__lesson_sinusoids(qkv_page *p, qkv_context *ctx)
{
    double distance[2];
    qkv_page_heading(p, 2, "positions", "Sinusoid positions");
    qkv_page_text(p, "Attention sees a set of rows, not their order. The order is added to X as "
                     "waves of different lengths: PE(pos, 2i) = sin(pos ω_i), PE(pos, 2i+1) = "
                     "cos(pos ω_i), ω_i = 10000^(−2i/d), i from 0 to d/2 − 1 (Vaswani et al. "
                     "2017, 3.5).");
    sinusoids_waves(p, ctx);
    sinusoids_heat(p, ctx);
    sinusoids_products(p, ctx);
    qkv_page_heading(p, 3, NULL, "Neighbours are equally far apart");
    neighbour_distance(distance);
    qkv_page_printf(p, "|PE[p + 1] − PE[p]| for p = 0 to 78, d = 16: smallest %.12f, largest "
                       "%.12f.", distance[0], distance[1]);
    qkv_page_heading(p, 3, NULL, "A product depends on the offset alone");
    qkv_page_text(p, "sin a sin b + cos a cos b = cos(a − b), pair by pair, so PE[p] · PE[p + k] "
                     "is the sum of cos(k ω_i), wherever p is.");
    offset_table(p);
    qkv_page_heading(p, 3, NULL, "A shift is a linear map");
    qkv_page_text(p, "Turning pair i by k ω_i takes every position to the one k further on: "
                     "PE[p + k] = M_k PE[p], one matrix of rotations for all p. The last column "
                     "above is how far that is from true, over all p.");
    shift_table(p);
    qkv_page_heading(p, 3, NULL, "The rank is at most d");
    qkv_page_text(p, "PE has d columns, so more than d encodings are never linearly independent: "
                     "the fifth position of width 4 is a combination of the first four. Of 80 "
                     "positions and d = 16 double precision finds fewer than 16: the slowest "
                     "waves hardly bend over 80 positions.");
    rank_table(p);
}
