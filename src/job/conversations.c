/* conversations.c - conversations as the data of a run. */
#include "job/conversations.h"

#include "qkv/gpt.h"
#include "text/chat.h"

enum { FIELDS = 2 };

#define FIELD(member) .offset = offsetof(qkv__conversations, member)
static const qkv_option rows[] = {
    {.flag = "conversations", .type = QKV_OPT_LIST, FIELD(files), .value = "FILE",
     .help = "instead of --data: a conversation in JSON on each line; answers are learnt"},
    {.flag = "chat-template", .type = QKV_OPT_STRING, FIELD(chat_template), .value = "FILE",
     .help = "of conversations: a file with a template, or chatml; else that of --init"},
};
const qkv_option_table qkv__conversations_table = {"Conversations", rows,
                                                   sizeof rows / sizeof *rows, 0};

qkv_status qkv__conversations_open(qkv__conversations *c, const qkv__run *r)
{
    if (c->chat_template)
        return qkv_chat_template_load(&c->template, r->ctx, c->chat_template, r->o.init);
    if (r->o.init)
        return qkv_hub_load_chat_template(&c->template, r->ctx, r->o.init);
    return qkv_fail(r->ctx, QKV_E_ARGUMENT, "--conversations: --chat-template or --init expected, "
                    "found none");
}

void qkv__conversations_close(qkv__conversations *c, qkv_context *ctx)
{
    qkv_chat_template_close(c->template);
    qkv_text_free(&c->train, ctx);
    qkv_text_free(&c->valid, ctx);
    c->template = NULL;
}

static qkv_status add_texts(const qkv_chat_template *t, const qkv_text_span *parts, size_t count,
                            qkv_text *text, qkv_text_span *out)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = qkv_chat_add_texts(t, &parts[i], text);
    *out = (qkv_text_span){.data = text->data ? text->data : "", .len = text->len,
                           .name = "the conversations"};
    return status;
}

qkv_status qkv__conversations_texts(qkv__conversations *c, const qkv__text_split *x,
                                    qkv_text_span out[2])
{
    qkv_status status = add_texts(c->template, x->data.spans, x->train_count, &c->train, &out[0]);
    return status ? status : add_texts(c->template, x->held, x->held_count, &c->valid, &out[1]);
}

static qkv_status write_records(const qkv__conversations *c, const qkv__run *r,
                                const qkv_text_span *parts, size_t count, const char *name,
                                size_t length, qkv_records **out)
{
    return qkv__chat_records(out, c->template, r->tokenizer, parts, count, length,
                             qkv__run_path(r, name).text);
}

qkv_status qkv__conversations_write(qkv__conversations *c, qkv__run *r, const qkv__text_split *x,
                                    size_t length)
{
    qkv_status status = write_records(c, r, x->data.spans, x->train_count, QKV__TRAIN_RECORDS,
                                      length, &r->train);
    if (!status && x->held_count)
        status = write_records(c, r, x->held, x->held_count, QKV__VALID_RECORDS, length, &r->valid);
    return status ? status : qkv_chat_template_save(c->template, r->o.out);
}

qkv_status qkv__conversations_reopen(qkv__run *r)
{
    const qkv_path train = qkv__run_path(r, QKV__TRAIN_RECORDS);
    const qkv_path valid = qkv__run_path(r, QKV__VALID_RECORDS);
    qkv_status status = qkv__records_open_of(&r->train, r->ctx, train.text, FIELDS, r->tokenizer);
    if (!status && qkv_file_exists(valid.text))
        status = qkv__records_open_of(&r->valid, r->ctx, valid.text, FIELDS, r->tokenizer);
    return status;
}

qkv_status qkv__conversations_task(qkv__run *r, size_t length)
{
    qkv_status status = qkv_task_chat(&r->task, r->model, r->train, r->valid, length, r->o.seed);
    if (status)
        return status;
    const qkv_gpt_config *config = qkv_model_config(r->model);
    qkv__run_rate(r, config->width, qkv_training_rate(config->width));
    qkv__note(r->ctx, "%s, %zu parameters; %zu conversations of %zu tokens to learn from, %zu held "
              "out", qkv_model_type_name(qkv_model_type_of(r->model)),
              qkv_params_elements(qkv_model_params(r->model)), qkv_records_count(r->train),
              qkv_records_ids(r->train, 0), r->valid ? qkv_records_count(r->valid) : 0);
    return QKV_OK;
}
