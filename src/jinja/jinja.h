/* jinja.h - a template of Jinja, read and rendered.
 *
 * The subset that chat templates use, as jinja2 renders it with trim_blocks and lstrip_blocks. What
 * is not understood is refused by its name and line. A rendering takes bounded time and memory. */
#ifndef QKV_SRC_JINJA_H
#define QKV_SRC_JINJA_H

#include <jansson.h>

#include "jinja/spans.h"

typedef struct qkv__jinja qkv__jinja;

/* Reads a template. name stands for the file in messages. On failure *out is
 * NULL: QKV_E_FORMAT, QKV_E_MEMORY. */
qkv_status qkv__jinja_open(qkv__jinja **out, qkv_context *ctx, const char *name,
                           const char *source, size_t length);
void qkv__jinja_close(qkv__jinja *t); /* NULL is allowed */
bool qkv__jinja_marks(const qkv__jinja *t); /* has it {% generation %}? */

/* Appends the rendering with the variables, an object, to out. now: seconds since 1970, for
 * strftime_now. spans: NULL, or receives the marked ones; the caller frees its ends. */
qkv_status qkv__jinja_render(const qkv__jinja *t, const json_t *variables, int64_t now,
                             qkv_text *out, qkv__jinja_spans *spans);

#endif
