/* captions.h - captions of images: a table of files and captions, or a text file for each image. */
#ifndef QKV_SRC_TEXT_CAPTIONS_H
#define QKV_SRC_TEXT_CAPTIONS_H

#include "base/base.h"

typedef struct {
    const char *file, *text; /* the image as the table names it */
    size_t line;             /* of the table, from 1 */
    bool used;               /* an image has it */
} qkv__caption;

/* Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    char **data;         /* (files) the files' contents, which the captions point into */
    qkv__caption *items; /* (count) by file, then by line */
    size_t files, count, room;
    size_t blank;        /* captions that are left out: nothing but blanks */
} qkv__captions;

/* Reads a table with a comma, semicolon or tab between columns, as its first line has. That line
 * names the columns, of which one is the file ("file", "file_name", "image", ..) and one the
 * caption ("caption", "text", ..); or there are two columns, file and caption, without names. A
 * field in quotes may hold separators, line ends and, doubled, quotes (RFC 4180), but not with
 * tabs. QKV_E_FORMAT names file and line. Close c after a failure too. */
qkv_status qkv__captions_read(qkv__captions *c, qkv_context *ctx, const char *path);

/* Reads dir/NAME.txt for each image (count): names without what they end in; each line is a
 * caption. Images without such a file have none. */
qkv_status qkv__captions_beside(qkv__captions *c, qkv_context *ctx, const char *dir,
                                const char *const *names, size_t count);
void qkv__captions_close(qkv__captions *c);

/* The captions [*from, *to) of an image, whose name ends in the file that the table has: all of it,
 * or what follows a '/'. None: *from is *to. QKV_E_FORMAT: another image was given them. */
qkv_status qkv__captions_of(qkv__captions *c, const char *image, size_t *from, size_t *to);

#endif
