/* 23_chat.c - conversations to a model that answers: its template, what is learnt, a talk. */
#include <qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const settings[][2] = {
    {"conversations", "example-23/talks.jsonl"}, {"chat-template", "chatml"}, {"tokenizer", "char"},
    {"valid-last", "4"}, {"length", "128"}, {"batch", "4"}, {"steps", "200"}, {"lr", "0.008"},
    {"hidden_size", "48"}, {"num_hidden_layers", "1"}, {"num_attention_heads", "2"},
    {"intermediate_size", "64"}, {"out", "example-23/run"}};

/* Each line is a conversation. */
static int write_talks(const char *path)
{
    static const char *const pairs[][2] = {{"sky", "blue"}, {"grass", "green"}};
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 40; i++)
        fprintf(f, "{\"messages\": [{\"role\": \"user\", \"content\": \"The %s?\"}, {\"role\": "
                "\"assistant\", \"content\": \"It is %s.\"}]}\n", pairs[i % 2][0], pairs[i % 2][1]);
    return !f || fclose(f);
}

static bool on_piece(void *user, const qkv_chat_piece *piece)
{
    char *answer = (char *)user;
    if (piece->kind == QKV_CHAT_TEXT) {
        size_t len = strlen(answer), more = piece->len < 63 - len ? piece->len : 63 - len;
        memcpy(answer + len, piece->text, more), answer[len + more] = 0;
        return true;
    }
    return printf("%s (%zu of %zu tokens were known)\n", answer, piece->reused, piece->prompt) > 0;
}

int main(void)
{
    qkv_context *ctx;
    qkv_job *job = NULL;
    qkv_pipeline *p = NULL;
    qkv_chat *chat = NULL;
    qkv_chat_options o = qkv_chat_defaults();
    qkv_train_result result;
    char sky[64] = "", grass[64] = "";
    qkv_context_options c = qkv_context_defaults();
    c.threads = 1; /* so small a model has no work for more */
    if (system("rm -rf example-23") || qkv_context_create(&ctx, &c) ||
        qkv_dir_create(ctx, "example-23") || write_talks("example-23/talks.jsonl"))
        return 1;
    qkv_status status = qkv_job_create(&job, ctx, "lm");
    for (size_t i = 0; !status && i < sizeof settings / sizeof *settings; i++)
        status = qkv_job_set(job, settings[i][0], settings[i][1]);
    if (!status) status = qkv_job_run(job, NULL, NULL, &result);
    qkv_job_destroy(job);
    o.greedy = true, o.tokens = 40;
    if (!status) status = qkv_pipeline_open(&p, ctx, "example-23/run");
    if (!status) status = qkv_chat_open(&chat, p, &o);
    if (!status) status = qkv_chat_say(chat, "The sky?", on_piece, sky);
    if (!status) status = qkv_chat_reset(chat);
    if (!status) status = qkv_chat_say(chat, "The grass?", on_piece, grass);
    if (status) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    qkv_chat_close(chat);
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return status || strcmp(sky, "It is blue.") || strcmp(grass, "It is green.") ? 1 : 0;
}
