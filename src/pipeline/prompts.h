/* prompts.h - what a generation continues, a text or each line of a file, and how its caller hears
 * of the continuations. */
#ifndef QKV_SRC_PIPELINE_PROMPTS_H
#define QKV_SRC_PIPELINE_PROMPTS_H

#include "qkv/pipeline_text.h"

typedef struct {
    qkv_ids *list; /* (count) their tokens */
    size_t count, room;
} qkv__prompts;

/* QKV_E_ARGUMENT: file and lines are both set; a file of no lines; a prompt without tokens. On
 * failure out is still to be freed. */
qkv_status qkv__prompts_read(qkv__prompts *out, qkv_pipeline *p,
                             const qkv_pipeline_generate_options *o);
void qkv__prompts_free(qkv__prompts *prompts, qkv_context *ctx);

/* Settings of a sequence, all but its index; ends has room for the ids that end a text. */
qkv_generate_options qkv__generate_settings(const qkv_pipeline *p,
                                            const qkv_pipeline_generate_options *o,
                                            int32_t ends[QKV_LM_EOS_IDS]);

/* Who hears of continuations, and the text of what comes next. Before the first call stream is NULL
 * and piece zeroed. */
typedef struct {
    qkv_pipeline *p;
    qkv_generated_fn *fn;
    void *user;
    qkv_tokenizer_stream *stream;
    qkv_text piece;
    bool stopped; /* by fn */
} qkv__telling;

/* The prompt of continuation `index`, then each of its tokens, then what was made as a whole.
 * After a failure, too, qkv__telling_free is due. */
qkv_status qkv__tell_prompt(qkv__telling *t, size_t index, const qkv_ids *prompt);
/* The text that the token completes, which may be none; token.kind, index and text are set here. */
void qkv__tell_token(qkv__telling *t, size_t index, qkv_generated token);
qkv_status qkv__tell_end(qkv__telling *t, size_t index, const qkv_ids *made);
void qkv__telling_free(qkv__telling *t);

/* All continuations of all prompts, some at once; fn hears of them in order. */
qkv_status qkv__generate_together(qkv_pipeline *p, const qkv__prompts *prompts,
                                  const qkv_pipeline_generate_options *o, qkv_generated_fn *fn,
                                  void *user);

#endif
