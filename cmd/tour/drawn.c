/* drawn.c - images for a machine that has none: shapes, turned, moved and lit, each in a
 * colour that goes with its kind. */
#include <math.h>
#include <stdio.h>

#include "tour/drawn.h"

enum { EACH = 120, STREAM_DRAWN = 0xa0, FINE = 4 /* samples along a side of a pixel */ };
static const double CIRCLE = 6.283185307179586;

/* Is the point inside? The shape fills about [-1, 1] each way; y points down. */
typedef bool inside_fn(double x, double y);

static bool disc(double x, double y) { return x * x + y * y < 1; }
static bool ring(double x, double y) { return disc(x, y) && x * x + y * y > 0.3; }
static bool square(double x, double y) { return fabs(x) < 0.85 && fabs(y) < 0.85; }
static bool drawn_cross(double x, double y) { return disc(x, y) && fmin(fabs(x), fabs(y)) < 0.3; }
static bool moon(double x, double y) { return disc(x, y) && !disc(x - 0.5, y); }

static bool drawn_triangle(double x, double y)
{
    return y < 0.7 && fabs(x) < 0.55 * (y + 1) && y > -1;
}

static bool star(double x, double y)
{
    double around = fabs(fmod(5 * (atan2(y, x) / CIRCLE + 1), 1) - 0.5); /* 0.5 at the points */
    return hypot(x, y) < 0.4 + 1.2 * around;
}

static bool flower(double x, double y)
{
    return hypot(x, y) < 0.7 + 0.3 * cos(6 * atan2(y, x)) && hypot(x, y) > 0.2;
}

static bool heart(double x, double y)
{
    double u = 1.2 * x, v = 0.2 - 1.2 * y, w = u * u + v * v - 1;
    return w * w * w < u * u * v * v * v;
}

static const struct {
    const char *name; /* sorted */
    inside_fn *inside;
    double hue; /* in turns: red 0, yellow 1/6, green 1/3, blue 2/3 */
} kinds[] = {{"cross", drawn_cross, 0.55},  {"disc", disc, 0.08},     {"flower", flower, 0.88},
             {"heart", heart, 0},     {"moon", moon, 0.15},     {"ring", ring, 0.45},
             {"square", square, 0.65}, {"star", star, 0.17},    {"triangle", drawn_triangle, 0.33}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What is drawn, in units of the image's side. */
typedef struct {
    inside_fn *inside;
    double x, y, radius, angle;
    double rgb[3];
} shape;

static shape make_shape(size_t kind, size_t number)
{
    qkv_rng r;
    qkv_rng_init(&r, number, STREAM_DRAWN + kind);
    shape s = {.inside = kinds[kind].inside};
    s.radius = 0.25 + 0.2 * qkv_rng_uniform(&r);
    s.x = 0.5 + (0.96 - 2 * s.radius) * (qkv_rng_uniform(&r) - 0.5);
    s.y = 0.5 + (0.96 - 2 * s.radius) * (qkv_rng_uniform(&r) - 0.5);
    s.angle = CIRCLE / 8 * (qkv_rng_uniform(&r) - 0.5);
    double hue = kinds[kind].hue + 0.06 * qkv_rng_normal(&r);
    double pale = 0.3 * qkv_rng_uniform(&r);
    for (int k = 0; k < 3; k++) {
        double part = 0.5 + cos(CIRCLE * (hue - k / 3.0)); /* red, green, blue lie a third apart */
        s.rgb[k] = pale + (1 - pale) * fmin(1, fmax(0, part));
    }
    return s;
}

/* Coverage by FINE x FINE points of each pixel; light falls from above. */
static void drawn_draw(const shape *s, uint8_t *rgb, size_t side, uint8_t background)
{
    double c = cos(s->angle) / s->radius, d = sin(s->angle) / s->radius;
    for (size_t i = 0; i < side * side; i++) {
        int covered = 0;
        double light = 1.1 - 0.5 * (double)(i / side) / (double)side;
        for (size_t k = 0; k < FINE * FINE; k++) {
            double x = (double)(i % side) + ((double)(k % FINE) + 0.5) / FINE;
            double y = (double)(i / side) + ((double)(k / FINE) + 0.5) / FINE;
            x = x / (double)side - s->x;
            y = y / (double)side - s->y;
            covered += s->inside(c * x + d * y, c * y - d * x);
        }
        double share = covered / (double)(FINE * FINE);
        for (size_t k = 0; k < 3; k++) {
            double lit = 255 * fmin(1, light * s->rgb[k]);
            rgb[3 * i + k] = (uint8_t)(share * lit + (1 - share) * background + 0.5);
        }
    }
}

qkv_status tour_drawn_create(qkv_pixels **out, qkv_context *ctx, size_t side, uint8_t background)
{
    qkv_pixels_writer *w;
    *out = NULL;
    uint8_t *rgb = qkv_calloc(ctx, side * side, 3);
    qkv_status status = rgb ? qkv_pixels_create(&w, ctx, NULL, side, side, 3) : QKV_E_MEMORY;
    bool open = !status;
    for (size_t k = 0; k < KINDS && !status; k++)
        status = qkv_pixels_add_class(w, kinds[k].name);
    for (size_t i = 0; i < KINDS * EACH && !status; i++) {
        char name[40];
        shape s = make_shape(i / EACH, i % EACH);
        drawn_draw(&s, rgb, side, background);
        (void)snprintf(name, sizeof name, "%s%zu", kinds[i / EACH].name, i % EACH);
        status = qkv_pixels_add(w, rgb, (int32_t)(i / EACH), name);
    }
    if (status && open)
        qkv_pixels_abandon(w);
    else if (!status)
        status = qkv_pixels_finish(w, out);
    qkv_free(ctx, rgb);
    return status;
}
