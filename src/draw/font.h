/* font.h - letters as strokes, for drawings in pixels. */
#ifndef QKV_SRC_DRAW_FONT_H
#define QKV_SRC_DRAW_FONT_H

#include "base/base.h"

/* A character: its width, and its strokes as pairs of digits, x to the right and y upward (0 is the
 * lowest, 2 the baseline, 6 the height of x, 8 of capitals), with a space between strokes. An empty
 * one has none; one that the font lacks is a box. The units are 1/8 of the font's size to the right
 * and 0.12 of it upward. */
typedef struct {
    double width;
    const char *strokes;
} qkv__glyph;

qkv__glyph qkv__glyph_of(int32_t cp);
#define QKV__GLYPH_GAP 1.4 /* between two characters */
#define QKV__GLYPH_X 0.125
#define QKV__GLYPH_Y 0.12

#endif
