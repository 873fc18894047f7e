/* texts.h - memory-mapped text files, and their lines.
 * Layer: text */
#ifndef QKV_TEXTS_H
#define QKV_TEXTS_H

#include <qkv/options.h>
#include <qkv/tokens.h>

QKV_BEGIN_DECLS

/* Open text files. Zeroed: none. */
typedef struct {
    qkv_context *ctx;
    void *maps; /* private */
    qkv_text_span *spans; /* (count) one per file */
    size_t count;
} qkv_texts;

/* An empty file is an error. On failure no file is open. */
qkv_status qkv_texts_open(qkv_texts *x, qkv_context *ctx, const qkv_strings *paths);
qkv_status qkv_texts_open_one(qkv_texts *x, qkv_context *ctx, const char *path);
void qkv_texts_close(qkv_texts *x);

/* Sets *line to the next line of the text between *at and end, without "\n" or "\r\n", and advances
 * *at. Returns false at the end. */
typedef struct {
    const char *data;
    size_t len;
} qkv_line;
bool qkv_next_line(const char **at, const char *end, qkv_line *line);

QKV_END_DECLS
#endif
