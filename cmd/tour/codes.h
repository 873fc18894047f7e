/* codes.h - the half of the tour's chapter on imagining in which images become codes. */
#ifndef QKV_CMD_TOUR_CODES_H
#define QKV_CMD_TOUR_CODES_H

#include "tour/images.h"

/* Trains a VQGAN in t->dir and evaluates it beside cut-outs that clustering finds. The images stay
 * the caller's. *stopped: the reader has had enough. */
qkv_status tour_codes_learn(tour *t, const tour_images *images, bool *stopped);

#endif
