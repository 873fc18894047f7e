/* html.h - what `qkv explain` shows by the library's lesson: the page, the errata. */
#ifndef QKV_CMD_EXPLAIN_HTML_H
#define QKV_CMD_EXPLAIN_HTML_H

#include "explain/page.h"

/* Writes the page; an exit code. */
int explain_lesson(cli *c, const explain_own *own, const char *file);

void explain_errata(page *p); /* a section */

#endif
