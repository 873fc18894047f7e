/* options.h - what is made from option tables for people: help, man page, shell completion;
 * and the parts of tables that these share. */
#ifndef QKV_SRC_BASE_OPTIONS_H
#define QKV_SRC_BASE_OPTIONS_H

#include "base/base.h"
#include "qkv/options.h"

/* ---- rows ------------------------------------------------------------------------------------ */

/* The value of one field as text: what --set would take. "" for none. Lists are joined by
 * spaces; longer text is cut. */
enum { QKV_OPTION_TEXT = 256 };
void qkv_option_text(const qkv_option *row, const void *target, char out[QKV_OPTION_TEXT]);

/* "an integer from 1 to 8", "one of char, bpe": what the row takes. */
void qkv_option_expects(const qkv_option *row, char out[QKV_OPTION_TEXT]);

/* The numbers that the row takes, type and range together. */
void qkv_option_range(const qkv_option *row, double *min, double *max);

/* Sets a field other than a list from text. false when it does not fit. Strings are kept as
 * pointers: the caller has copied them. */
bool qkv_option_assign(const qkv_option *row, void *target, const char *text);

const char *qkv_option_value_name(const qkv_option *row); /* "N", "DIR"; "" for a bool */

/* The first n'th alternative of "a|b": copies it to out, false when there is none. */
bool qkv_option_key(const qkv_option *row, size_t n, char out[QKV_OPTION_TEXT]);

/* What the table is bound to; NULL: it is not. */
const void *qkv_options_target(const qkv_options *o, const qkv_option_table *table);

/* QKV_E_ARGUMENT, with a sentence, while a required field was not given. */
qkv_status qkv__options_complete(qkv_options *o);

/* Whether qkv_options_set finds the field. */
bool qkv_options_know(const qkv_options *o, const char *name);

/* Insertions, deletions, changes and swaps of neighbours between two words (both at most 63
 * bytes; longer ones count as far). */
size_t qkv__edit_distance(const char *a, const char *b);

/* Whether candidate is near enough to word to be suggested, and nearer than *best; keeps
 * *best. Start with *best = SIZE_MAX. */
bool qkv_option_nearer(const char *word, const char *candidate, size_t *best);

/* ---- manuals --------------------------------------------------------------------------------- */

/* The one for the row, or NULL; presets may be NULL. */
const qkv_preset *qkv_preset_find(const qkv_preset *presets, const qkv_option *row);
/* Sets the fields that the table has; other presets are passed over. */
void qkv_preset_apply(const qkv_preset *presets, const qkv_option_table *table, void *target);

/* recipes: lists of such, one for each name that the option --recipe has, in its order; NULL for a
 * name that says nothing. Sets the fields that the chosen one has a value for and that nothing has
 * set yet. */
qkv_status qkv_recipe_apply(qkv_options *o, const qkv_preset *const *recipes);

/* All that is said about one command. */
typedef struct {
    const char *name;    /* "train lm" */
    const char *summary; /* one line, no full stop */
    const char *usage;   /* "--data FILE... --out DIR [options]" */
    const char *text;    /* paragraphs with \n\n between; may be NULL */
    const char *const *examples; /* whole lines, NULL at the end; may be NULL */
    const qkv_option_table *const *tables; /* NULL at the end; may be NULL */
    const qkv_preset *presets; /* flag NULL at the end; may be NULL */
    const qkv_preset *const *recipes; /* of a command with --recipe */
} qkv__manual;

void qkv__manual_help(qkv_str *out, const char *program, const qkv__manual *m);

/* roff for man(7): everything about the program and its commands. */
void qkv__manual_roff(qkv_str *out, const qkv__manual *program, const qkv__manual *const *all,
                      size_t count, const char *version);

void qkv__manual_bash(qkv_str *out, const char *program, const qkv__manual *const *all,
                      size_t count);
void qkv__manual_zsh(qkv_str *out, const char *program, const qkv__manual *const *all,
                     size_t count);

/* Appends text broken at spaces to lines of at most 80 columns, each after `indent` spaces;
 * `column` is where the first line stands already. Ends with a newline. */
void qkv__wrap(qkv_str *out, const char *text, size_t indent, size_t column);

#endif
