/* pipeline.h - inference and evaluation with a model directory.
 * Layer: pipeline
 *
 *     qkv_pipeline *p;
 *     if (qkv_pipeline_open(&p, ctx, "runs/novel"))
 *         return fail(qkv_context_message(ctx));
 *     qkv_pipeline_generate(p, &options, on_text, NULL);
 *     qkv_pipeline_close(p);
 *
 * Long calls report events (qkv_context_on_event); an event function that returns false cancels
 * them with QKV_E_CANCELLED. QKV_E_UNSUPPORTED if the directory's model cannot perform a task; the
 * message names the directory and the model's kind. */
#ifndef QKV_PIPELINE_H
#define QKV_PIPELINE_H

#include <qkv/hub.h>
#include <qkv/options.h>
#include <qkv/task.h>
#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

/* An open model directory: the model, the tokenizer of a text model, image format, labels,
 * generation settings, and for a prior the VQGANs that it needs. */
typedef struct qkv_pipeline qkv_pipeline;

/* How a directory is opened. */
typedef struct {
    qkv_weights weights; /* how matrices are kept in memory (qkv_params_store); AUTO: as they are in
                            the directory, f32 unless it is quantised                     AUTO */
    qkv_strings adapters; /* directories of adapters to put on the model, "DIR" or "DIR=WEIGHT",
                             which add up (qkv_hub_add_adapter)                           none */
    bool pack; /* qkv_params_pack: for many short inputs, a few at a time                  false */
} qkv_pipeline_options;
const qkv_option_table *qkv_pipeline_table(void);
qkv_pipeline_options qkv_pipeline_defaults(void);

/* ctx must outlive the pipeline. On failure *out is NULL and the message names the file. */
qkv_status qkv_pipeline_open(qkv_pipeline **out, qkv_context *ctx, const char *dir);
/* options may be NULL. */
qkv_status qkv_pipeline_open_with(qkv_pipeline **out, qkv_context *ctx, const char *dir,
                                  const qkv_pipeline_options *options);
void qkv_pipeline_close(qkv_pipeline *p); /* NULL is allowed */

/* The pipeline owns these objects, which are valid until it is closed. */
qkv_model *qkv_pipeline_model(const qkv_pipeline *p);
/* NULL if the model does not read text or the directory has no tokenizer. */
qkv_tokenizer *qkv_pipeline_tokenizer(const qkv_pipeline *p);

/* The name of class i; "LABEL_2" if the model has no labels, as in Hugging Face. Valid until the
 * next call. */
const char *qkv_pipeline_label(qkv_pipeline *p, size_t i);

/* ---- evaluation ---------------------------------------------------------------------------- */

/* Evaluation data, which must suit the model. If none is given, the held-out data that training
 * stored in the directory are used. */
typedef struct {
    const char *file;            /* text, labelled lines, CSV or images; of a language model,
                                    FILE.jsonl: conversations                            NULL */
    const char *source, *target; /* translator, text encoder: files with one text per line NULL */
    const char *images, *masks;  /* segmenter: folders                                     NULL */
    const char *captions; /* CLIP: a table or folder of captions of the images of `file`  NULL */
    const char *lpips; /* VQGAN: directory of a perceptual network that compares decoded
                          images with the originals                                        NULL */
    size_t beam;       /* translator: number of beams; 0: as in the directory                 0 */
    bool tokenized;    /* BLEU: words are separated by blanks                             false */
    bool lines;        /* masked language model: each line of the file is a text
                                                                                          false */
    double mask;       /* masked autoencoder: share of patches masked, or, if >= 1, per cent;
                          < 0: as in training                                                -1 */
} qkv_pipeline_evaluate_options;
const qkv_option_table *qkv_pipeline_evaluate_table(void);
qkv_pipeline_evaluate_options qkv_pipeline_evaluate_defaults(void);

/* Evaluates the model. *out receives the metrics of its kind, with their unit. options may be NULL.
 * QKV_E_ARGUMENT: the data suit another kind of model. QKV_E_IO: no data was given and the
 * directory has none. */
qkv_status qkv_pipeline_evaluate(qkv_pipeline *p, const qkv_pipeline_evaluate_options *options,
                                 qkv_metrics *out);

QKV_END_DECLS
#endif
