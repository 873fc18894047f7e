/* reading_show.h - evaluating what an encoder-decoder reads. */
#ifndef QKV_CMD_TOUR_READING_SHOW_H
#define QKV_CMD_TOUR_READING_SHOW_H

#include "tour/reading.h"

/* Has the model read held-out texts, and shows how many were right, some of both kinds, and where
 * it looked. */
qkv_status tour_reading_show(const tour_reader *reader);

#endif
