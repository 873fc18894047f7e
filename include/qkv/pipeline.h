/* pipeline.h - from a model directory to answers on a user's own data.
 * Layer: pipeline
 *
 *     qkv_pipeline *p;
 *     if (qkv_pipeline_open(&p, ctx, "runs/novel"))
 *         return fail(qkv_context_message(ctx));
 *     qkv_pipeline_generate(p, &options, on_text, NULL);
 *     qkv_pipeline_close(p);
 *
 * Long calls tell the context's listener how far they are, and end with QKV_E_CANCELLED when it
 * says so (qkv_context_on_event). A task that the directory's model cannot do is
 * QKV_E_UNSUPPORTED, with a sentence that names the directory and the model's kind. */
#ifndef QKV_PIPELINE_H
#define QKV_PIPELINE_H

#include <qkv/hub.h>
#include <qkv/options.h>
#include <qkv/task.h>
#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

/* A model directory, opened whole: the model, the tokenizer of a model of text, how images are
 * prepared, labels, generation settings, and of a prior the VQGANs that it needs. */
typedef struct qkv_pipeline qkv_pipeline;

/* ctx must outlive the pipeline. On failure *out is NULL and the context names the file. */
qkv_status qkv_pipeline_open(qkv_pipeline **out, qkv_context *ctx, const char *dir);
void qkv_pipeline_close(qkv_pipeline *p); /* NULL is allowed */

/* The pipeline owns them; each lives as long as it does. */
qkv_model *qkv_pipeline_model(const qkv_pipeline *p);
/* NULL: the model reads no text, or its directory holds no tokenizer. */
qkv_tokenizer *qkv_pipeline_tokenizer(const qkv_pipeline *p);

/* The name of a class: "LABEL_2" where the model has none, as Hugging Face calls it. Valid until
 * the next call. */
const char *qkv_pipeline_label(qkv_pipeline *p, size_t i);

/* ---- evaluation ---------------------------------------------------------------------------- */

/* The data that a model is evaluated on, which must be of its kind; where none is named, what
 * training held out and kept in the directory. */
typedef struct {
    const char *file;            /* text, labelled lines, CSV or images                  NULL */
    const char *source, *target; /* of translators: sentences, a line each                 NULL */
    const char *images, *masks;  /* of models of pixels' classes                           NULL */
    const char *lpips; /* of models that code images: the directory of a network that compares
                          what comes back                                                  NULL */
    size_t beam;       /* hypotheses kept in translating; 0: as the directory says            0 */
    bool tokenized;    /* BLEU counts words between blanks                                false */
    bool lines;        /* of models that guess hidden words: each line of the file is a text
                                                                                          false */
    double mask;       /* of models that fill in images: share of the patches hidden, from 1 on
                          in per cent; below 0: as in training                               -1 */
} qkv_pipeline_evaluate_options;
const qkv_option_table *qkv_pipeline_evaluate_table(void);
qkv_pipeline_evaluate_options qkv_pipeline_evaluate_defaults(void);

/* What the model is evaluated by: each kind has its own metrics, in out with their unit. options
 * may be NULL. QKV_E_ARGUMENT: data of another kind of model. QKV_E_IO: no data was named and the
 * directory holds none. */
qkv_status qkv_pipeline_evaluate(qkv_pipeline *p, const qkv_pipeline_evaluate_options *options,
                                 qkv_metrics *out);

QKV_END_DECLS
#endif
