/* pictures.h - what the commands that read labelled pictures share: telling them from texts, and
 * their way from files into sets with a model's classes. */
#ifndef QKV_CLI_PICTURES_H
#define QKV_CLI_PICTURES_H

#include "cli/cli.h"
#include "qkv/model.h"
#include "qkv/pixels.h"

/* Is there a folder, an archive, an idx file or a picture at the path, by its content? */
bool cli_is_pictures(const char *path);

/* The channels of the first picture at the path that can be read; both sides are its shorter one,
 * at most `most` pixels. Pixels stay what they are: mean 0, deviation 1. */
qkv_status cli_pictures_format(qkv_picture_format *out, cli *c, const char *path, size_t most);

/* Decodes all pictures at the path into memory, as the format says. Those that cannot be read are
 * named and left out. On failure *out is NULL. */
qkv_status cli_pictures_read(qkv_pixels **out, cli *c, const char *path,
                             const qkv_picture_format *format);

/* The pictures of those numbers (NULL: the first count) with the classes that the model's labels
 * of the same name have, in a file at path (NULL: in memory). where: the data, for the sentence
 * when a picture has no class, or one that the model does not know. */
qkv_status cli_pictures_copy(qkv_pixels **out, cli *c, const char *path, const qkv_pixels *from,
                             const size_t *numbers, size_t count, const qkv_model *m,
                             const char *where);

#endif
