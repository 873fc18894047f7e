/* imagining.h - what `qkv imagine` draws, and the pictures that it makes of that. */
#ifndef QKV_CMD_USE_IMAGINING_H
#define QKV_CMD_USE_IMAGINING_H

#include "core/cli.h"
#include "pipeline/prior.h"
#include "qkv/run.h"

enum { IMAGINING_NEXT = 64 }; /* most codes that --show-next shows */

typedef struct {
    const char *out, *class_, *complete, *condition, *at;
    double keep;
    size_t count, height, width, show_next;
    qkv_sampling sampling;
} imagining_options;

typedef struct {
    cli *c;
    imagining_options s;
    qkv__prior p;
    size_t rows, columns, height, width; /* of a picture: codes, pixels */
    size_t given_rows;                   /* of codes that --complete gives */
    int32_t *given;                      /* (rows, columns) or NULL */
    uint8_t *kept;                       /* (height, width, colors): those codes' picture */
    int32_t *conditions;                 /* (count, tokens of each) */
    size_t tokens;
    int32_t *codes;                      /* (count, rows, columns) */
    uint8_t *pictures;                   /* (count, height, width, colors) */
    size_t place;                        /* that --show-next shows */
    qkv_real *chances;                   /* (count, vocabulary) there; NULL without */
    cli_progress line;
    size_t first;                        /* picture of the part that is being drawn */
} imagining;

size_t imagining_vocab(const imagining *j);
size_t imagining_bytes(const imagining *j); /* of a picture */

/* All of them, in a square or nearly so. */
qkv_status imagining_write(const imagining *j);
/* For each what there is of it at the place, and what patches the likeliest codes make there. */
qkv_status imagining_write_next(const imagining *j);
/* These codes, best first; returns how many there are, at most show_next. */
size_t imagining_likeliest(const imagining *j, size_t i, int32_t out[IMAGINING_NEXT]);

#endif
