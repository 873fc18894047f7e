/* views.c - pictures as training sees them. */
#include "task/views.h"

#include <string.h>

#include "qkv/tokens.h"

qkv__view qkv__view_of(size_t n, uint64_t seed, uint64_t sample, size_t shift, bool mirror)
{
    qkv__rng r;
    qkv__rng_init(&r, seed, qkv__hash64("epoch", 5) + sample / n);
    uint64_t order = (uint64_t)qkv__rng_u32(&r) << 32;
    order |= qkv__rng_u32(&r);
    qkv__view v = {.picture = (size_t)qkv_shuffled(sample % n, n, order), .shift = shift};
    qkv__rng_init(&r, seed, qkv__hash64("view", 4) + sample);
    v.right = qkv__rng_below(&r, (uint32_t)(2 * shift + 1));
    v.down = qkv__rng_below(&r, (uint32_t)(2 * shift + 1));
    v.mirrored = mirror && qkv__rng_below(&r, 2);
    return v;
}

/* Where the view's pixel i comes from, on an axis of n. */
static size_t source(size_t i, size_t moved, size_t shift, size_t n)
{
    size_t at = i + moved;
    at = at < shift ? 0 : at - shift;
    return at < n ? at : n - 1;
}

void qkv__view_take(uint8_t *out, const qkv_pixels *p, const qkv__view *v)
{
    size_t H = qkv_pixels_height(p), W = qkv_pixels_width(p), C = qkv_pixels_channels(p);
    const uint8_t *in = qkv_pixels_data(p, v->picture);
    for (size_t y = 0; y < H; y++) {
        const uint8_t *row = in + source(y, v->down, v->shift, H) * W * C;
        for (size_t x = 0; x < W; x++) {
            size_t at = source(v->mirrored ? W - 1 - x : x, v->right, v->shift, W);
            memcpy(out + (y * W + x) * C, row + at * C, C);
        }
    }
}
