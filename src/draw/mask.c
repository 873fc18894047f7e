/* mask.c - polygons, discs and lines as rows of samples. */
#include "draw/mask.h"

#include <math.h>
#include <string.h>

void qkv__mask_clear(qkv__mask *m)
{
    for (size_t row = m->first; row < m->last; row++)
        memset(m->set + row * m->width + m->left, 0, m->right - m->left);
    m->left = m->width;
    m->first = m->rows;
    m->right = m->last = 0;
}

/* Samples of a row whose centres lie from x0 to x1. */
static void mask_span(qkv__mask *m, size_t row, double x0, double x1)
{
    double from = ceil(x0 - 0.5), to = ceil(x1 - 0.5);
    if (!(to > 0.0 && from < (double)m->width && to > from))
        return;
    size_t a = from > 0.0 ? (size_t)from : 0;
    size_t b = to < (double)m->width ? (size_t)to : m->width;
    memset(m->set + row * m->width + a, 1, b - a);
    m->left = a < m->left ? a : m->left;
    m->right = b > m->right ? b : m->right;
    m->first = row < m->first ? row : m->first;
    m->last = row + 1 > m->last ? row + 1 : m->last;
}

/* Rows of the band whose centres lie from y0 to y1: *from .. to - 1. */
static size_t mask_rows(const qkv__mask *m, double y0, double y1, size_t *from)
{
    double a = ceil(y0 - 0.5) - (double)m->top, b = ceil(y1 - 0.5) - (double)m->top;
    *from = a <= 0.0 ? 0 : a >= (double)m->rows ? m->rows : (size_t)a;
    return b <= 0.0 ? 0 : b >= (double)m->rows ? m->rows : (size_t)b;
}

static void mask_sort(double *x, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        double v = x[i];
        size_t j = i;
        for (; j > 0 && x[j - 1] > v; j--)
            x[j] = x[j - 1];
        x[j] = v;
    }
}

void qkv__mask_polygon(qkv__mask *m, const qkv_point *points, size_t count)
{
    double top = INFINITY, bottom = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        top = fmin(top, points[i].y);
        bottom = fmax(bottom, points[i].y);
    }
    size_t row, end = mask_rows(m, top, bottom, &row);
    if (count < 3 || row >= end)
        return;
    if (!qkv__grow(m->ctx, &m->crossings, &m->capacity, count, sizeof *m->crossings)) {
        m->failed = true;
        return;
    }
    for (; row < end; row++) {
        double y = (double)(m->top + row) + 0.5;
        size_t n = 0;
        for (size_t i = 0, j = count - 1; i < count; j = i++) {
            const qkv_point *a = &points[j], *b = &points[i];
            if ((a->y <= y) != (b->y <= y))
                m->crossings[n++] = a->x + (y - a->y) / (b->y - a->y) * (b->x - a->x);
        }
        mask_sort(m->crossings, n);
        for (size_t i = 0; i + 1 < n; i += 2)
            mask_span(m, row, m->crossings[i], m->crossings[i + 1]);
    }
}

void qkv__mask_disc(qkv__mask *m, double x, double y, double radius)
{
    size_t row, end = mask_rows(m, y - radius, y + radius, &row);
    for (; row < end; row++) {
        double dy = (double)(m->top + row) + 0.5 - y, square = radius * radius - dy * dy;
        if (square > 0.0)
            mask_span(m, row, x - sqrt(square), x + sqrt(square));
    }
}

void qkv__mask_line(qkv__mask *m, qkv_point from, qkv_point to, double width)
{
    double dx = to.x - from.x, dy = to.y - from.y, length = hypot(dx, dy), half = 0.5 * width;
    if (length > 0.0) {
        double nx = -dy / length * half, ny = dx / length * half;
        const qkv_point quad[] = {{from.x + nx, from.y + ny}, {to.x + nx, to.y + ny},
                                  {to.x - nx, to.y - ny}, {from.x - nx, from.y - ny}};
        qkv__mask_polygon(m, quad, 4);
    }
    qkv__mask_disc(m, from.x, from.y, half);
    qkv__mask_disc(m, to.x, to.y, half);
}
