/* prompts.c - what a generation continues: a text, or each line of a file; and how. */
#include "pipeline/prompts.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "pipeline/pipeline.h"

/* name: of a file, or NULL. */
static qkv_status prompts_add(qkv__prompts *out, qkv_pipeline *p, const char *text, size_t len,
                              const char *name)
{
    if (!qkv__grow(p->ctx, &out->list, &out->room, out->count + 1, sizeof *out->list))
        return QKV_E_MEMORY;
    qkv_ids *ids = &out->list[out->count++];
    *ids = (qkv_ids){0};
    qkv_status status = qkv_tokenizer_encode(p->tokenizer, text, len, QKV_ENCODE_ADD_SPECIAL, ids);
    if (!status && !ids->count)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "the prompt has no tokens");
    if (status && name)
        qkv_fail_prefix(p->ctx, name);
    return status;
}

static qkv_status prompts_add_lines(qkv__prompts *out, qkv_pipeline *p, const char *path,
                                    const char *text, size_t len)
{
    qkv_line line;
    qkv_status status = QKV_OK;
    char where[4096];
    for (const char *at = text, *end = text + len; !status && qkv_next_line(&at, end, &line);) {
        snprintf(where, sizeof where, "%s: line %zu", path, out->count + 1);
        status = prompts_add(out, p, line.data, line.len, where);
    }
    if (!status && !out->count)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: no lines; a prompt on each line expected",
                          path);
    return status;
}

qkv_status qkv__prompts_read(qkv__prompts *out, qkv_pipeline *p,
                             const qkv_pipeline_generate_options *o)
{
    if (o->file && o->lines)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "file and lines are both set; one expected");
    const char *path = o->lines ? o->lines : o->file;
    if (!path)
        return prompts_add(out, p, o->prompt, strlen(o->prompt), NULL);
    char *text = NULL;
    size_t len = 0;
    qkv_status status = qkv_file_read(p->ctx, path, 0, &text, &len);
    if (!status)
        status = o->lines ? prompts_add_lines(out, p, path, text, len)
                          : prompts_add(out, p, text, len, path);
    qkv_free(p->ctx, text);
    return status;
}

void qkv__prompts_free(qkv__prompts *prompts, qkv_context *ctx)
{
    for (size_t i = 0; i < prompts->count; i++)
        qkv_ids_free(&prompts->list[i], ctx);
    qkv_free(ctx, prompts->list);
    *prompts = (qkv__prompts){0};
}

qkv_generate_options qkv__generate_settings(const qkv_pipeline *p,
                                            const qkv_pipeline_generate_options *options,
                                            int32_t ends[QKV_LM_EOS_IDS])
{
    qkv_generate_options o = {.tokens = options->tokens, .window = options->window,
                              .seed = options->seed, .sampling = options->sampling, .stop = ends};
    o.stops = qkv_lm_eos_ids(p->model, ends);
    if (!o.stops) {
        ends[0] = qkv_tokenizer_special(p->tokenizer, QKV_TOKEN_EOS);
        o.stops = ends[0] >= 0;
    }
    if (options->greedy)
        o.sampling.temperature = 0;
    return o;
}
