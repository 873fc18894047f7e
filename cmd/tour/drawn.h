/* drawn.h - images that the tour draws itself. */
#ifndef QKV_CMD_TOUR_DRAWN_H
#define QKV_CMD_TOUR_DRAWN_H

#include <qkv.h>

/* Images that this program draws: shapes in colours that go with them. Image i is the same
 * each time but for its size and background. */
qkv_status tour_drawn_create(qkv_pixels **out, qkv_context *ctx, size_t side, uint8_t background);

#endif
