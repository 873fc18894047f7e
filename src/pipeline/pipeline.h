/* pipeline.h - what the files of this folder share. */
#ifndef QKV_SRC_PIPELINE_PIPELINE_H
#define QKV_SRC_PIPELINE_PIPELINE_H

#include "base/base.h"
#include "pipeline/prior.h"
#include "qkv/pipeline.h"
#include "qkv/shortlist.h"

struct qkv_pipeline {
    qkv_context *ctx;
    char *dir;
    qkv_model *model;
    qkv_tokenizer *tokenizer;  /* NULL: the model reads no text, or .. */
    char *no_tokenizer;        /* .. why there is none, and the status of that */
    qkv_status no_tokenizer_status;
    char label[32];            /* the last name that was made up */
    qkv_generation generation; /* of translators */
    qkv_shortlist *shortlist;  /* the last that was asked for, and its file; or NULL */
    char *shortlist_file;
    qkv_pipeline_options o;    /* that it was opened with */
    qkv_pipeline **ensemble;   /* (ensemble_count) the last translators that were asked for */
    size_t ensemble_count;
    qkv_pipeline *reverse;     /* the last translator of the other direction, or NULL */
    qkv_tape *tape;            /* never records */
    qkv__prior codecs;         /* of a prior, once a call has asked for them */
};

/* Opens the VQGANs of a prior's directory, unless they are open. */
qkv_status qkv__pipeline_codecs(qkv_pipeline *p);

/* QKV_OK where there is a tokenizer, else why not. Of models that read text. */
qkv_status qkv__pipeline_text(const qkv_pipeline *p);

/* The shortlist in the file, which p keeps. NULL: it cannot be read, and the context says why. */
const qkv_shortlist *qkv__pipeline_shortlist(qkv_pipeline *p, const char *file);

/* Opens the translators of these directories, unless p keeps them, as p->ensemble. */
qkv_status qkv__pipeline_ensemble(qkv_pipeline *p, const qkv_strings *dirs);
void qkv__pipeline_close_ensemble(qkv_pipeline *p);
/* Opens the translator of this directory, unless p keeps it, as p->reverse. */
qkv_status qkv__pipeline_reverse(qkv_pipeline *p, const char *dir);

/* Records that the model of p does not do that ("continue text") and returns QKV_E_UNSUPPORTED. */
qkv_status qkv__pipeline_refuse(const qkv_pipeline *p, const char *what);
/* The same with the architecture in the sentence: where models of one kind differ by heads. */
qkv_status qkv__pipeline_refuse_head(const qkv_pipeline *p, const char *what);

#endif
