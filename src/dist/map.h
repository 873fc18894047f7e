/* map.h - work that falls into equal parts, divided over the ranks: evaluations.
 *
 * A part's numbers depend on the part alone, never on the rank that does it, and every rank has all
 * of them afterwards; who adds them up in their order gets the same bits on any number of ranks. */
#ifndef QKV_SRC_DIST_MAP_H
#define QKV_SRC_DIST_MAP_H

#include "dist/dist.h"

/* Does a part: fills out (width numbers, zeroed). */
typedef qkv_status qkv__dist_part_fn(void *user, size_t part, double *out);

/* Has parts 0 .. parts - 1 done, part i by rank i % size, and fills all (parts, width). Every rank
 * calls it; all fail if one does. */
qkv_status qkv__dist_map(qkv_context *ctx, size_t parts, size_t width, qkv__dist_part_fn *part,
                         void *user, double *all);

/* The same for the sums over all parts, added in their order: sum (width). */
qkv_status qkv__dist_map_sum(qkv_context *ctx, size_t parts, size_t width,
                             qkv__dist_part_fn *part, void *user, double *sum);

#endif
