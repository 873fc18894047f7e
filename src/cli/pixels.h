/* pixels.h - what the commands that train on pictures share: options that say which pictures, and
 * their way from files to OUT/train. */
#ifndef QKV_CLI_PIXELS_H
#define QKV_CLI_PIXELS_H

#include "cli/job.h"
#include "qkv/pixels.h"
#include "qkv/vit.h"

typedef struct {
    const char *images, *valid, *valid_last, *model;
    int split; /* a qkv_held_out_by */
    size_t size;
} cli_pixels_options;
/* --images, --valid, --valid-last, --split, --size, --model */
extern const qkv_option_table cli_pixels_table;

#define CLI_PIXELS_TRAIN "train/train.pixels"
#define CLI_PIXELS_VALID "train/valid.pixels"

/* The progress of reading pictures: cli_reading_show is called with one. */
typedef struct {
    cli *c;
    cli_progress line;
    size_t skipped, count;
} cli_reading;
void cli_reading_begin(cli_reading *r, cli *c);
bool cli_reading_show(void *user, const qkv_pixels_event *event);
void cli_reading_end(cli_reading *r, const char *path); /* says how many were left out */

/* Decodes what path holds, into memory, as pictures of side x side; those that cannot be read are
 * named and left out. On failure *out is NULL. */
qkv_status cli_pixels_read(qkv_pixels **out, cli *c, const char *path, size_t side,
                           size_t channels);

/* The side that pictures get: --size, or that of the first picture that can be read, at most 64, a
 * multiple of 8. */
qkv_status cli_pixels_side(size_t *side, cli *c, const cli_pixels_options *o);

/* Which of the pictures are held out, as the options say; nothing with --valid. */
qkv_status cli_pixels_split(qkv_held_out *out, cli *c, const cli_pixels_options *o,
                            const qkv_pixels *all);

/* The pictures of those numbers (NULL: the first count) as a file OUT/name, and opens it. */
qkv_status cli_pixels_write(qkv_pixels **out, const cli_job *j, const char *name,
                            const qkv_pixels *from, const size_t *numbers, size_t count);

/* OUT/name; *out stays NULL when there is no such file and it is not required. */
qkv_status cli_pixels_open(qkv_pixels **out, const cli_job *j, const char *name, bool required);

/* Fills a trunk's fields that --set has not given: width, layers and heads of the preset --model,
 * the side, and the smallest patches that cut it into 8 x 8 at most. */
qkv_status cli_pixels_trunk(cli *c, const cli_pixels_options *o, size_t side,
                            qkv_patches_config *trunk);

#endif
