/* kinds.h - what the judges of `qkv eval` share. A judge is a function for some kinds of models, in
 * a file eval_NAME.c, and a row in cmd_eval.c. */
#ifndef QKV_CMD_EVAL_KINDS_H
#define QKV_CMD_EVAL_KINDS_H

#include "core/cli.h"
#include "qkv/pixels.h"
#include "qkv/task.h"

typedef struct {
    cli *c;
    const char *dir;
    const char *file, *source, *target, *images, *masks; /* data that was named; NULL: not */
    const char *lpips; /* a network that looks at decoded pictures; NULL: none */
    bool lines; /* each line of the file is a text */
    bool tokenized; /* BLEU of words between blanks */
    size_t beam;    /* 0: as the directory says */
    double mask;    /* share of the patches hidden; below 0: as in training */
    qkv_model *model;
    qkv_tokenizer *tokenizer; /* NULL for models without text */
    qkv_tape *tape;
} eval;

/* Fills the measures; scored counts what was judged, in the row's unit. */
typedef qkv_status eval_fn(eval *e, qkv_measures *out);
eval_fn eval_lm, eval_translate, eval_mlm, eval_classify, eval_forecast, eval_colorize;
eval_fn eval_reconstruct, eval_recognize, eval_segment, eval_codes, eval_grids;
eval_fn eval_looks;
bool eval_takes_mlm(const qkv_model *m);
bool eval_takes_classify(const qkv_model *m);
bool eval_takes_colorize(const qkv_model *m);
bool eval_takes_segment(const qkv_model *m);
bool eval_takes_reconstruct(const qkv_model *m);
bool eval_takes_codes(const qkv_model *m);
bool eval_takes_looks(const qkv_model *m);
bool eval_takes_grids(const qkv_model *m);

/* DIR/train/name, where training keeps what it held out, to be freed with qkv_free; an error when
 * there is no such file. */
qkv_status eval_held_out(const eval *e, const char *name, char **path);
qkv_status eval_kept_pictures(const eval *e, const char *name, qkv_pixels **out); /* opened */

#endif
