/* pictures.h - what the commands that read pictures share: telling them from texts, and their way
 * from files into sets. */
#ifndef QKV_CMD_USE_PICTURES_H
#define QKV_CMD_USE_PICTURES_H

#include "core/cli.h"
#include "qkv/model.h"
#include "qkv/pixels.h"

/* Is there a folder, an archive, an idx file or a picture at the path, by its content? */
bool cli_is_pictures(const char *path);
/* A picture is to be written there: 0, or an exit code after a message if the name says JPEG. */
int cli_png_only(const cli *c, const char *out);

/* Pictures, and the class of each of their pixels or NULL. */
typedef struct {
    qkv_pixels *images, *classes;
} cli_picture_set;
void cli_picture_set_close(cli_picture_set *s); /* an empty one is allowed */

/* The progress of reading pictures: cli_reading_show is called with one. */
typedef struct {
    cli *c;
    cli_progress line;
    size_t skipped, count;
} cli_reading;
void cli_reading_begin(cli_reading *r, cli *c);
bool cli_reading_show(void *user, const qkv_pixels_event *event);
/* Says how many of the path were left out; NULL: says nothing. */
void cli_reading_end(cli_reading *r, const char *path);

/* The part in the middle of a picture, side x side. Pixels stay what they are: mean 0, deviation
 * 1. */
qkv_picture_format cli_pictures_square(size_t side, size_t channels);

/* The channels of the first picture at the path that can be read; both sides are its shorter one,
 * at most `most` pixels; cropped unless it is a square. */
qkv_status cli_pictures_format(qkv_picture_format *out, cli *c, const char *path, size_t most);

/* Decodes all pictures at the path into memory, as the format says. Those that cannot be read are
 * named and left out. On failure *out is NULL. */
qkv_status cli_pictures_read(qkv_pixels **out, cli *c, const char *path,
                             const qkv_picture_format *format);

/* The pictures of those numbers (NULL: the first count) in a file at path (NULL: in memory), with
 * the classes that the model's labels of the same name have (m NULL: without classes). where: the
 * data, for the sentence when a picture has no class, or one that the model does not know. */
qkv_status cli_pictures_copy(qkv_pixels **out, cli *c, const char *path, const qkv_pixels *from,
                             const size_t *numbers, size_t count, const qkv_model *m,
                             const char *where);

#endif
