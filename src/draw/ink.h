/* ink.h - the palette as style sheets. */
#ifndef QKV_SRC_DRAW_INK_H
#define QKV_SRC_DRAW_INK_H

#include "qkv/draw.h"

/* The class name of an ink ("text", "s0"), or NULL where its colour is written out. */
const char *qkv__ink_class(qkv_ink ink);

/* Rules for drawings: .qf-NAME fills and .qs-NAME outlines. alone: with colours, for a file of its
 * own; otherwise by the variables --NAME, which are defined too, for a page that may also have the
 * attribute data-theme="light" or "dark" on its root. */
void qkv__ink_css(qkv_str *out, bool alone);

#endif
