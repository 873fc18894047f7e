/* prompts.h - what a generation continues: a text, or each line of a file. */
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

/* All continuations of all prompts, some at once; fn hears of them in order. */
qkv_status qkv__generate_together(qkv_pipeline *p, const qkv__prompts *prompts,
                                  const qkv_pipeline_generate_options *o, qkv_generated_fn *fn,
                                  void *user);

#endif
