/* chapter.h - what the chapters of `qkv tour` share: the frame, the texts, a curve. A chapter is a
 * file NAME.c with a function tour_NAME, and a row in tour.c. */
#ifndef QKV_CMD_TOUR_CHAPTER_H
#define QKV_CMD_TOUR_CHAPTER_H

#include "explain/page.h"

/* One chapter's view of the tour. What it says goes to the page. */
typedef struct {
    page *page;
    qkv_page *index;    /* the page of all chapters, root/index.html */
    const char *root;   /* the tour's folder */
    const char *dir;    /* the chapter's own folder: there and empty; the reader may use it later */
    const char *source; /* the folder that texts are looked for in; NULL: none */
    const char *images; /* the set that they are taken from; NULL: drawn ones */
    double seconds;     /* what the chapter may take */
    double begun;       /* when it began: of qkv_now */
} tour;

/* Takes about t->seconds. On failure the context says why. */
typedef qkv_status tour_fn(tour *t);

tour_fn tour_attention, tour_bert, tour_classify, tour_colorize, tour_contrastive, tour_dates,
    tour_forecast, tour_gpt, tour_imagine, tour_numbers, tour_reconstruct, tour_segment;

/* ---- the page of all chapters: index.c ------------------------------------------------- */

/* A paragraph here and there. */
void tour_say(const tour *t, const char *fmt, ...) QKV_PRINTF(2, 3);
/* A link to a file of the chapter's folder, or of one in it (dir), if it is there. */
void tour_link(const tour *t, const char *dir, const char *file, const char *text);
/* A training curve of TOUR_CURVE_COLUMNS values at most. title: up to a colon. */
void tour_index_curve(const tour *t, const double *y, size_t count, const char *title);
/* Writes what the model in dir attends to while it reads `in` into the chapter's file of that name,
 * and links it below a drawing of one row. */
qkv_status tour_look(const tour *t, const char *dir, const qkv_look_input *in, const char *file,
                     const char *caption);

/* ---- texts: text.c --------------------------------------------------------------------- */

/* Text to learn from and text to evaluate by: no file is in both. */
typedef struct {
    qkv_str train, valid;
    size_t files;    /* 0: the text is this program's own help */
    size_t held_out; /* of the files */
} tour_text;

/* The files below the source folder with one of the endings (NULL at the end), every tenth one held
 * out, at most valid_bytes of those; without such files the help of every command. Freed with
 * tour_text_free even after a failure. */
qkv_status tour_text_collect(tour_text *x, const tour *t, const char *const *endings,
                             size_t valid_bytes);
void tour_text_free(tour_text *x);

/* The longest stretch of sample that stands in text, too, in characters that are no white space. */
size_t tour_longest_copy(const char *sample, size_t n, const char *text, size_t len);

/* ---- values that people write in many ways: dates.c, numbers.c -------------------- */

/* Texts of values and what each means. Every text has one value. */
typedef struct {
    const char *one, *introduction; /* what a value is; a paragraph */
    uint32_t values;                /* they are 0 .. values-1 */
    size_t forms;
    uint32_t (*draw)(qkv_rng *r); /* a value, as often as it is to be met */
    /* Adds value's text in one of the forms; what is left open is decided by chance. */
    void (*write)(qkv_str *out, uint32_t value, size_t form, qkv_rng *r);
    void (*answer)(qkv_str *out, uint32_t value); /* the one text to be read out of them all */
} tour_script;

extern const tour_script tour_dates_script, tour_numbers_script;

void tour_put_below_100(qkv_str *out, uint32_t n, char hyphen); /* "twenty-one" */

/* ---- honest baselines: counts.c -------------------------------------------------------- */

/* Mean -log p (nats) of tokens 2 .. n of valid: */
typedef struct {
    double uniform;   /* every token alike */
    double frequency; /* by its share of the training text */
    double pair;      /* by the token before */
    double triple;    /* by the two before; 0: the vocabulary is too large to count triples */
} tour_counts;

/* Interpolated counts (Witten and Bell 1991), estimated on train alone. */
qkv_status tour_count(tour_counts *out, qkv_context *ctx, const qkv_tokens *train,
                      const qkv_tokens *valid, size_t V);

/* ---- curves: curve.c ------------------------------------------------------------------- */

enum { TOUR_CURVE_COLUMNS = 60 }; /* at most CLI_PLOT_COLUMNS */

/* A value over a share of the time, averaged by column. Start from {0}. */
typedef struct {
    double sum[TOUR_CURVE_COLUMNS];
    size_t count[TOUR_CURVE_COLUMNS];
} tour_curve;

void tour_curve_add(tour_curve *c, double share, double value); /* share in [0, 1] */
void tour_curve_show(const tour_curve *c, const tour *t, const char *title);

/* ---- training: training.c --------------------------------------------------------------- */

typedef struct {
    tour_curve curve; /* the training loss over the time */
    qkv_train_result result;
} tour_training;

/* A model with random parameters. */
qkv_status tour_make(qkv_model **out, const tour *t, const qkv_model_type *type,
                     const void *config);

/* Trains for so many seconds, with a progress line; the best model is kept in dir (NULL: the last
 * one, in the task's model alone). result.stopped: the reader has had enough. */
qkv_status tour_train(tour_training *out, const tour *t, qkv_task *task, qkv_training *settings,
                      const char *dir, double seconds);
void tour_training_show(const tour_training *x, const tour *t, const char *title);

#endif
