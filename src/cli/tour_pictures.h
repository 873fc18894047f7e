/* tour_pictures.h - what the tour's chapters on pictures share: pictures, and sheets of them. */
#ifndef QKV_CLI_TOUR_PICTURES_H
#define QKV_CLI_TOUR_PICTURES_H

#include "cli/tour.h"
#include "qkv/model.h"
#include "qkv/pixels.h"

enum { TOUR_SIDE = 32 };

/* ---- the pictures: tour_pictures.c, tour_drawn.c --------------------------------------------- */

/* The emoji font of this machine, where there is one that can be read; else NULL. */
const char *tour_pictures_find(qkv_context *ctx);

/* Colour pictures with classes, of one size; no picture is in both. Zeroed: none. */
typedef struct {
    qkv_pixels *train, *valid;
} tour_pictures;

/* Those of t->pictures, or drawn ones, side x side, over a grey of that level; the same pictures in
 * the same order whatever the two are. On failure *out is empty. */
qkv_status tour_pictures_read(tour_pictures *out, const tour *t, size_t side, uint8_t background);
void tour_pictures_close(tour_pictures *p); /* an empty one is allowed */

/* Seconds that training may take after that: most of what is left of the chapter's. */
double tour_pictures_time(const tour *t);

/* The chapter's seconds, as many as two Zen 4 cores would need for the same work. */
double tour_pictures_effort(const tour *t);

/* How pictures of the size are wanted, normalised by those learnt from. */
void tour_pictures_format(const tour_pictures *p, qkv_model *m);

/* Says what they are, how many, and of what size. */
void tour_pictures_tell(const tour_pictures *p, const tour *t);

/* Pictures that this program draws: shapes in colours that go with them. Picture i is the same
 * each time but for its size and background. */
qkv_status tour_drawn_create(qkv_pixels **out, qkv_context *ctx, size_t side, uint8_t background);

/* ---- sheets: tour_sheet.c -------------------------------------------------------------------- */

/* Pictures side by side. Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    qkv_image image;
    size_t side; /* of the pictures in it */
} tour_sheet;

qkv_status tour_sheet_create(tour_sheet *s, qkv_context *ctx, size_t rows, size_t columns,
                             size_t side);
/* rgb (side, side, 3), several pixels a side for each. frame: a colour around it, or NULL. */
void tour_sheet_put(tour_sheet *s, size_t row, size_t column, const uint8_t *rgb,
                    const uint8_t *frame);
/* Writes the chapter's file of that name, says where it is and what one sees, and frees the sheet.
 * A build that writes no pictures says so. */
qkv_status tour_sheet_write(tour_sheet *s, const tour *t, const char *name, const char *caption);
void tour_sheet_free(tour_sheet *s);

/* One picture (side, side, 3) as the chapter's file of that name: for the reader to try. */
qkv_status tour_picture_write(const tour *t, const char *name, const uint8_t *rgb, size_t side);

#endif
