/* lines.h - lines of source and documents, with what each is, and what counting makes of
 * them: for the chapter about BERT. */
#ifndef QKV_CMD_TOUR_LINES_H
#define QKV_CMD_TOUR_LINES_H

#include "tour/chapter.h"

enum { TOUR_KINDS = 3 };
extern const char *const tour_kinds[TOUR_KINDS]; /* code, comment, prose */

typedef struct {
    qkv_str text;       /* a line each, without indentation and comment marks */
    qkv_str labelled;   /* kind, tab, line: no more code than comments */
    size_t count, files; /* lines of text; files 0: the text is the help, and nothing is labelled */
} tour_lines;

/* Lines to learn from, out[0], and of other files to evaluate by, out[1]. Freed even after a
 * failure. */
qkv_status tour_lines_collect(tour_lines out[2], const tour *t);
void tour_lines_free(tour_lines *x);

/* ---- baselines: lines_counts.c ---------------------------------------------------------- */

/* Shares of all words of evaluate that are guessed right: */
typedef struct {
    double commonest; /* by the commonest word of learn */
    double after;     /* by what most often follows the word before in learn */
} tour_guesses;

/* Records of 1 field: a line between its two special tokens; ids below V. */
qkv_status tour_count_guesses(tour_guesses *out, qkv_context *ctx, const qkv_records *learn,
                              const qkv_records *valid, size_t V);

/* Records of 3 fields, as qkv_task_classify has them: the share of evaluate whose class multinomial
 * naive Bayes, with one added to each count, finds from learn. */
qkv_status tour_naive_bayes(double *right, qkv_context *ctx, const qkv_records *learn,
                            const qkv_records *valid, size_t V, size_t classes);

#endif
