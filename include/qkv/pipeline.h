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
#include <qkv/tokenizer.h>

QKV_BEGIN_DECLS

/* A model directory, opened whole: the model, the tokenizer of a model of text, how pictures are
 * prepared, labels, generation settings, and of a prior the VQGANs that it needs. */
typedef struct qkv_pipeline qkv_pipeline;

/* ctx must outlive the pipeline. On failure *out is NULL and the context names the file. */
qkv_status qkv_pipeline_open(qkv_pipeline **out, qkv_context *ctx, const char *dir);
void qkv_pipeline_close(qkv_pipeline *p); /* NULL is allowed */

/* The pipeline owns them; each lives as long as it does. */
qkv_model *qkv_pipeline_model(const qkv_pipeline *p);
qkv_tokenizer *qkv_pipeline_tokenizer(const qkv_pipeline *p); /* NULL: the model reads no text */

QKV_END_DECLS
#endif
