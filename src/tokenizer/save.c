/* save.c - a tokenizer's folder: writing its files. */
#include <string.h>

#include "io/file.h"
#include "tokenizer/models.h"
#include "tokenizer/words_file.h"

static void put_vocab(const qkv_tokenizer *t, qkv_json_writer *w, const char *key)
{
    qkv_json_begin_object(w, key);
    for (size_t id = 0; id < t->vocab.count; id++) {
        size_t len;
        const char *text = qkv__vocab_text(&t->vocab, (int32_t)id, &len);
        if (text)
            qkv_json_put_int(w, text, (int64_t)id);
    }
    qkv_json_end_object(w);
}

static void put_model(const qkv_tokenizer *t, qkv_json_writer *w, const json_t *model)
{
    const char *key;
    json_t *value;
    qkv_json_begin_object(w, "model");
    json_object_foreach((json_t *)(uintptr_t)model, key, value)
        qkv__json_put_value(w, key, value);
    if (!t->kind->writes_vocab)
        put_vocab(t, w, "vocab");
    if (t->kind->write)
        t->kind->write(t, w);
    qkv_json_end_object(w);
}

static void put_spec(const qkv_tokenizer *t, qkv_json_writer *w)
{
    const char *key;
    json_t *value;
    qkv_json_begin_object(w, NULL);
    json_object_foreach(t->spec.value, key, value) {
        if (strcmp(key, "model") == 0)
            put_model(t, w, value);
        else
            qkv__json_put_value(w, key, value);
    }
    qkv_json_end_object(w);
}

static void put_roles(const qkv_tokenizer *t, qkv_json_writer *w)
{
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        const char *text = qkv_tokenizer_token(t, t->special[i], NULL);
        if (text)
            qkv_json_put_string(w, qkv__role_keys[i], text);
    }
}

/* Only BERT has a use for the types of a pair's tokens; GPT-2 would take them for words. */
static void put_fast_class(const qkv_tokenizer *t, qkv_json_writer *w)
{
    qkv_json_put_string(w, "tokenizer_class", "PreTrainedTokenizerFast");
    qkv_json_begin_array(w, "model_input_names");
    qkv_json_put_string(w, NULL, "input_ids");
    if (t->special[QKV_TOKEN_CLS] >= 0)
        qkv_json_put_string(w, NULL, "token_type_ids");
    qkv_json_put_string(w, NULL, "attention_mask");
    qkv_json_end_array(w);
}

void qkv__tokenizer_put_config(const qkv_tokenizer *t, qkv_json_writer *w)
{
    if (t->config.value) {
        qkv__json_put_value(w, NULL, t->config.value);
        return;
    }
    qkv_json_begin_object(w, NULL);
    qkv_json_put_bool(w, "clean_up_tokenization_spaces", false);
    put_roles(t, w);
    if (t->kind == &qkv__model_wordpiece && t->special[QKV_TOKEN_CLS] >= 0)
        qkv__put_bert_config(t, w);
    else if (t->marian)
        qkv_json_put_string(w, "tokenizer_class", "MarianTokenizer");
    else if (!t->spm)
        put_fast_class(t, w);
    qkv_json_end_object(w);
}

static void put_map(const qkv_tokenizer *t, qkv_json_writer *w)
{
    qkv_json_begin_object(w, NULL);
    put_roles(t, w);
    qkv_json_end_object(w);
}

static void put_vocab_file(const qkv_tokenizer *t, qkv_json_writer *w)
{
    put_vocab(t, w, NULL);
}

static void put_merges(const qkv_tokenizer *t, qkv_str *text)
{
    qkv_str_puts(text, "#version: 0.2\n");
    const qkv__merges *m = qkv__bpe_merges(t);
    for (size_t i = 0; i < m->count; i++) {
        for (int side = 0; side < 2; side++) {
            size_t len;
            const char *token = qkv__vocab_text(&t->vocab, m->pairs[i][side], &len);
            qkv_str_add(text, token, len);
            qkv_str_puts(text, side ? "\n" : " ");
        }
    }
}

/* A token a line. */
static void save_put_words(const qkv_tokenizer *t, qkv_str *text)
{
    for (size_t id = 0; id < t->vocab.count; id++) {
        size_t len;
        const char *token = qkv__vocab_text(&t->vocab, (int32_t)id, &len);
        qkv_str_add(text, token, len);
        qkv_str_puts(text, "\n");
    }
}

/* A SentencePiece model, as it came. */
static void put_model_file(const qkv_tokenizer *t, qkv_str *text)
{
    qkv_str_add(text, t->spm->file.data, t->spm->file.len);
}

static void put_target_file(const qkv_tokenizer *t, qkv_str *text)
{
    put_model_file(t->target, text);
}

static bool always(const qkv_tokenizer *t)
{
    (void)t;
    return true;
}

static bool has_spec(const qkv_tokenizer *t)
{
    return !t->spm;
}

static bool is_marian(const qkv_tokenizer *t)
{
    return t->marian;
}

static bool is_one_model(const qkv_tokenizer *t)
{
    return t->spm && !t->marian;
}

/* Whether vocab.json and merges.txt alone say everything. */
static bool is_gpt2(const qkv_tokenizer *t)
{
    return t->kind == &qkv__model_bpe && t->splitter.byte_level && !t->word_end &&
           !t->normalizer.count &&
           t->templates.single.count == 1 &&
           qkv__splitter_scan(&t->splitter) == qkv__scan_gpt2 &&
           !json_is_true(json_object_get(json_object_get(t->spec.value, "model"),
                                         "ignore_merges"));
}

/* Whether vocab.txt can hold the tokens: an id for every line, no line within a token. */
static bool has_lines(const qkv_tokenizer *t)
{
    bool ok = t->kind == &qkv__model_wordpiece && t->vocab.used == t->vocab.count;
    for (size_t id = 0; id < t->vocab.count && ok; id++) {
        size_t len;
        const char *token = qkv__vocab_text(&t->vocab, (int32_t)id, &len);
        ok = !memchr(token, '\n', len) && !memchr(token, '\r', len);
    }
    return ok;
}

static const struct {
    const char *name;
    bool (*wanted)(const qkv_tokenizer *t);
    int indent;
    void (*put)(const qkv_tokenizer *t, qkv_json_writer *w); /* or */
    void (*put_text)(const qkv_tokenizer *t, qkv_str *text);
} files_written[] = {
    {"tokenizer.json", has_spec, 2, put_spec, NULL},
    {"tokenizer_config.json", always, 2, qkv__tokenizer_put_config, NULL},
    {"special_tokens_map.json", always, 2, put_map, NULL},
    {"vocab.json", is_gpt2, 0, put_vocab_file, NULL},
    {"merges.txt", is_gpt2, 0, NULL, put_merges},
    {"vocab.txt", has_lines, 0, NULL, save_put_words},
    {"vocab.json", is_marian, 2, put_vocab_file, NULL},
    {"source.spm", is_marian, 0, NULL, put_model_file},
    {"target.spm", is_marian, 0, NULL, put_target_file},
    {"spiece.model", is_one_model, 0, NULL, put_model_file},
};

static qkv_status save_text(const qkv_tokenizer *t, const char *path,
                            void (*put)(const qkv_tokenizer *t, qkv_str *text))
{
    qkv_str text;
    qkv_str_init(&text, t->ctx);
    put(t, &text);
    qkv_status status = text.failed ? QKV_E_MEMORY
                                    : qkv_file_write(t->ctx, path, text.data ? text.data : "",
                                                     text.len);
    qkv_str_free(&text);
    return status;
}

qkv_status qkv_tokenizer_save(const qkv_tokenizer *t, const char *dir)
{
    qkv_status status = qkv_dir_create(t->ctx, dir);
    for (size_t i = 0; !status && i < sizeof files_written / sizeof *files_written; i++) {
        if (!files_written[i].wanted(t))
            continue;
        const qkv_path path = qkv_path_in(dir, files_written[i].name);
        if (files_written[i].put) {
            qkv_json_writer w;
            qkv_json_writer_init(&w, t->ctx, files_written[i].indent);
            files_written[i].put(t, &w);
            status = qkv_json_writer_save(&w, path.text);
        } else {
            status = save_text(t, path.text, files_written[i].put_text);
        }
    }
    return status;
}
