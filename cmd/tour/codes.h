/* codes.h - the half of the tour's chapter on imagining in which pictures become codes. */
#ifndef QKV_CMD_TOUR_CODES_H
#define QKV_CMD_TOUR_CODES_H

#include "tour/pictures.h"

/* Trains a VQGAN in t->dir and judges it beside cut-outs that clustering finds. The pictures stay
 * the caller's. *stopped: the reader has had enough. */
qkv_status tour_codes_learn(tour *t, const tour_pictures *pictures, bool *stopped);

#endif
