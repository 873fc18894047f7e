/* page.h - `qkv explain` in parts: the page that matrices are printed on, the attention that
 * fills it, the sections it is made of. Everything shown is a tensor that the library computed. */
#ifndef QKV_CMD_EXPLAIN_PAGE_H
#define QKV_CMD_EXPLAIN_PAGE_H

#include "core/cli.h"

/* ---- the page, page.c --------------------------------------------------------------- */

/* Where a run of the command puts its matrices: 80 columns of text, or one JSON object. */
typedef struct {
    cli *c;
    qkv_tape *t;
    qkv_json_writer *json; /* NULL: text */
    bool colour;
    bool failed; /* beside the tape: a file could not be read; the context says why */
} page;

/* A matrix on the page. */
typedef struct {
    const char *key;   /* its name in JSON, unique in the section */
    const char *title; /* the formula over it */
    qkv_tensor *x;     /* (rows, columns), or (columns) */
    const char *const *rows, *const *columns; /* labels; NULL: none */
    int decimals;      /* 0: as few as show every number exactly, at most 4 */
} panel;

/* Opens the page of a command, which is freed by page_close: JSON where that was asked for. json:
 * room for it. CLI_DONE, or an exit code after a message. */
int page_open(page *p, cli *c, qkv_json_writer *json);
/* Answers unless something has failed; an exit code. */
int page_close(page *p, bool failed);

void page_begin(page *p, const char *key, const char *title); /* a section */
void page_end(page *p);
void page_heading(const page *p, const char *fmt, ...) QKV_PRINTF(2, 3);
/* A paragraph, broken to 80 columns. */
void page_text(const page *p, const char *fmt, ...) QKV_PRINTF(2, 3);
/* A line as it is, indented like the paragraphs. */
void page_line(const page *p, const char *fmt, ...) QKV_PRINTF(2, 3);
void page_space(const page *p); /* an empty line */
/* The panels side by side, as many on a line as fit. */
void page_show(const page *p, int n, const panel *panels);
/* The rows of weights as distributions: a share and a bar in every cell. */
void page_distributions(const page *p, const panel *weights);
void page_number(const page *p, const char *key, double value); /* JSON alone */

bool page_failed(const page *p); /* the context says why */

/* Columns that UTF-8 text takes on a terminal; no wide or combining characters. */
size_t page_width(const char *text);

/* ---- attention, step by step and fused, attention.c -------------------------------- */

typedef struct {
    qkv_tensor *q, *k, *v;        /* (T, D), (S, D), (S, Dv) */
    qkv_tensor *scores, *scaled;  /* (T, S): q k^T; and times the scale, hidden keys -inf */
    qkv_tensor *weights, *output; /* (T, S), (T, Dv): of qkv_attention and its probe */
    double scale;
    double difference; /* largest between the fused op's output and softmax(scaled) v */
} attention;

/* scale 0: 1/sqrt(D). Tensors are NULL once the tape has failed. */
attention explain_attention(page *p, qkv_tensor *q, qkv_tensor *k, qkv_tensor *v, double scale,
                            bool causal);

/* A (rows, columns) tensor of given numbers. */
qkv_tensor *explain_matrix(page *p, size_t rows, size_t columns, const double *values);
/* Largest absolute difference of two tensors of one shape. */
double explain_difference(page *p, const qkv_tensor *a, const qkv_tensor *b);

/* ---- the worked example: example.c --------------------------------------------------- */

enum { EXAMPLE_WORDS = 6, EXAMPLE_WIDTH = 4 };
extern const char *const explain_words[EXAMPLE_WORDS]; /* The cat sat on the mat */
/* X (6, 4) and its W_Q, W_K, W_V (4, 4). */
typedef struct {
    qkv_tensor *x, *wq, *wk, *wv, *q, *k, *v;
} example;
example explain_example(page *p);

/* ---- the user's matrices: own.c ------------------------------------------------------ */

/* Files, .npy or CSV: q, k, v; or x, with projections (NULL: none). All NULL: the example's. */
typedef struct {
    const char *q, *k, *v, *x, *wq, *wk, *wv;
    size_t heads;
    bool causal;
    double scale; /* 0: 1/sqrt(width of a head) */
    /* Of the page that --out writes. */
    const char *wo, *words;
    bool biases, positions;
} explain_own;

void explain_own_matrices(page *p, const explain_own *own);

/* ---- sections: each prints itself ----------------------------------------------------------- */

void explain_one_head(page *p);
void explain_two_heads(page *p);
void explain_positions(page *p);
void explain_select(page *p);
void explain_plain(page *p);
void explain_cosine(page *p);
void explain_order(page *p);
void explain_optimizers(page *p);

#endif
