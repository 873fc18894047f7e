/* texts.h - text files that commands learn from: opened, and their ends held out. */
#ifndef QKV_CMD_TRAIN_TEXTS_H
#define QKV_CMD_TRAIN_TEXTS_H

#include "core/cli.h"
#include "io/file.h"
#include "qkv/tokens.h"

/* Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    qkv__map *maps;
    qkv_text_part *parts; /* (count) one for each file */
    size_t count;
} cli_texts;

/* An empty file is an error. On failure nothing is open. */
qkv_status cli_texts_open(cli_texts *x, qkv_context *ctx, const qkv_strings *paths);
qkv_status cli_texts_open_one(cli_texts *x, qkv_context *ctx, const char *path);
void cli_texts_close(cli_texts *x);

/* "N" or "N%" of `total` units ("bytes", "lines"): at least one must be left. */
qkv_status cli_held_out(cli *c, const char *text, size_t total, const char *unit, size_t *count);

/* The next line of the text between *at and end, without its end ("\n" or "\r\n"); false when
 * there is none. */
typedef struct {
    const char *data;
    size_t len;
} cli_line;
bool cli_next_line(const char **at, const char *end, cli_line *line);
size_t cli_count_lines(const qkv_text_part *part);

/* Moves the last `lines` lines of parts (*count), fewer than there are, to held, in order: whole
 * parts and the end of one. held has room for as many parts; returns how many it got. */
size_t cli_cut_lines(qkv_text_part *parts, size_t *count, size_t lines, qkv_text_part *held);

#endif
