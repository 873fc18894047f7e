/* files.c - a tokenizer's folder: which files there are, and reading them. */
#include <string.h>

#include "base/utf8.h"
#include "io/file.h"
#include "tokenizer/bytes.h"
#include "tokenizer/gguf.h"
#include "tokenizer/json.h"
#include "tokenizer/models.h"
#include "tokenizer/spec.h"
#include "tokenizer/spm_files.h"
#include "tokenizer/words_file.h"

static const char end_of_text[] = "<|endoftext|>";

/* ---- roles --------------------------------------------------------------------------- */

/* "eos_token": "text", or {"content": "text", ...}, or null. *any: some role was given. */
static qkv_status read_roles(qkv_tokenizer *t, const qkv__json *at, bool *any)
{
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        const char *key = qkv__role_keys[i], *text = NULL;
        qkv__json object;
        qkv_status status = QKV_OK;
        if (!qkv__json_has(at, key))
            continue;
        if (json_is_object(json_object_get(at->value, key))) {
            status = qkv__json_get_object(at, key, &object);
            if (!status)
                status = qkv__json_get_string(&object, "content", &text);
        } else {
            status = qkv__json_get_string(at, key, &text);
        }
        if (status)
            return status;
        t->special[i] = qkv_tokenizer_id(t, text, strlen(text));
        *any = true;
    }
    return QKV_OK;
}

/* An object; path is to live as long. No file: out->value is NULL. */
static qkv_status load_if_there(qkv__json *out, qkv_context *ctx, const char *path)
{
    qkv__json object;
    *out = (qkv__json){0};
    if (!qkv_file_exists(path))
        return QKV_OK;
    qkv_status status = qkv__json_load(out, ctx, path);
    if (!status)
        status = qkv__json_get_object(out, NULL, &object);
    if (status)
        qkv__json_free(out);
    return status;
}

/* Roles from tokenizer_config.json, else special_tokens_map.json, else the usual ones. */
static qkv_status load_roles(qkv_tokenizer *t, const char *dir)
{
    const qkv_path config = qkv_path_in(dir, "tokenizer_config.json");
    const qkv_path roles = qkv_path_in(dir, "special_tokens_map.json");
    bool any = false;
    qkv__json map = {0};
    qkv_status status = load_if_there(&t->config, t->ctx, config.text);
    if (!status && t->config.value)
        status = read_roles(t, &t->config, &any);
    t->config.file = NULL; /* the path goes now */
    if (!status && !any) {
        status = load_if_there(&map, t->ctx, roles.text);
        if (!status && map.value)
            status = read_roles(t, &map, &any);
        qkv__json_free(&map);
    }
    if (status || any || t->spm)
        return status;
    t->special[QKV_TOKEN_EOS] = t->special[QKV_TOKEN_BOS] =
        qkv_tokenizer_id(t, end_of_text, sizeof end_of_text - 1);
    for (size_t i = 0; t->kind == &qkv__model_wordpiece && i < QKV_TOKEN_ROLES; i++)
        t->special[i] = qkv__bert_role(t, (qkv_token_role)i);
    return QKV_OK;
}

/* ---- reading ------------------------------------------------------------------------- */

/* Every byte must have its token: otherwise this is another kind of vocabulary. */
static qkv_status files_check_bytes(qkv_context *ctx, const qkv__json *vocab)
{
    for (int i = 0; i < 256; i++) {
        char c[5] = "";
        (void)qkv__utf8_put(c, qkv__byte_char((uint8_t)i));
        if (!json_object_get(vocab->value, c))
            return qkv_fail(ctx, QKV_E_UNSUPPORTED,
                            "%s: no byte-level vocabulary: token \"%s\" (byte 0x%02x) is missing",
                            vocab->file, c, (unsigned)i);
    }
    return QKV_OK;
}

static qkv_status build_bpe(qkv_tokenizer **out, qkv_context *ctx, const qkv__bpe_files *files)
{
    const char *const special[] = {end_of_text};
    const json_t *id = json_object_get(files->vocab.value, end_of_text);
    bool has_end = json_is_integer(id) && json_integer_value(id) >= 0 &&
                   json_integer_value(id) < QKV_TOKENIZER_ID_LIMIT;
    const int32_t ids[] = {has_end ? (int32_t)json_integer_value(id) : 0};
    json_t *spec = qkv__spec_plain(QKV_TOKENIZER_BPE, special, ids, has_end, NULL, NULL, NULL);
    qkv_status status = qkv__tokenizer_from_spec(out, ctx, files->vocab.file, spec, files);
    if (!status)
        (*out)->special[QKV_TOKEN_EOS] = (*out)->special[QKV_TOKEN_BOS] =
            (*out)->special[QKV_TOKEN_UNK] = has_end ? ids[0] : -1;
    return status;
}

qkv_status qkv_tokenizer_load_bpe(qkv_tokenizer **out, qkv_context *ctx, const char *vocab_file,
                                  const char *merges_file)
{
    qkv__bpe_files files = {.merges_file = merges_file};
    qkv__json object;
    *out = NULL;
    qkv_status status = qkv__json_load(&files.vocab, ctx, vocab_file);
    if (!status)
        status = qkv__json_get_object(&files.vocab, NULL, &object);
    if (!status)
        status = files_check_bytes(ctx, &files.vocab);
    if (!status)
        status = qkv_file_read(ctx, merges_file, (size_t)1 << 30, &files.merges,
                               &files.merges_len);
    if (!status)
        status = build_bpe(out, ctx, &files);
    qkv__json_free(&files.vocab);
    qkv_free(ctx, files.merges);
    return status;
}

/* Byte-level BPE's two files, by age. */
static qkv_status load_pair(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    static const char *const names[][2] = {{"vocab.json", "merges.txt"},
                                           {"encoder.json", "vocab.bpe"}};
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < 2 && !status && !*out; i++) {
        const qkv_path vocab = qkv_path_in(dir, names[i][0]);
        const qkv_path merges = qkv_path_in(dir, names[i][1]);
        if (qkv_file_exists(vocab.text) && qkv_file_exists(merges.text))
            status = qkv_tokenizer_load_bpe(out, ctx, vocab.text, merges.text);
    }
    return status;
}

static qkv_status load_single(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    const qkv_path path = qkv_path_in(dir, "tokenizer.json");
    qkv__json document;
    if (!qkv_file_exists(path.text))
        return QKV_OK;
    qkv_status status = qkv__json_load(&document, ctx, path.text);
    return status ? status : qkv__tokenizer_from_spec(out, ctx, path.text, document.value, NULL);
}

static qkv_status load_words(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    const qkv_path vocab = qkv_path_in(dir, "vocab.txt");
    const qkv_path path = qkv_path_in(dir, "tokenizer_config.json");
    qkv__json config;
    if (!qkv_file_exists(vocab.text))
        return QKV_OK;
    qkv_status status = load_if_there(&config, ctx, path.text);
    if (!status)
        status = qkv__load_vocab_txt(out, ctx, vocab.text, config.value ? &config : NULL);
    qkv__json_free(&config);
    return status;
}

/* A file in a folder's place. */
static qkv_status load_gguf(qkv_tokenizer **out, qkv_context *ctx, const char *file)
{
    qkv_gguf *g = NULL;
    qkv_status status = qkv_gguf_open(&g, ctx, file);
    if (!status)
        status = qkv__tokenizer_from_gguf(out, g);
    if (!status && !*out)
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: the file has no tokenizer", file);
    qkv_gguf_close(g);
    return status;
}

/* The ways a folder may hold a tokenizer: each leaves *out alone where its files are not. */
static qkv_status (*const loaders[])(qkv_tokenizer **out, qkv_context *ctx, const char *dir) = {
    load_single, qkv__load_marian, load_pair, load_words, qkv__load_spm};

qkv_status qkv__tokenizer_load_any(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    qkv_status status = QKV_OK;
    *out = NULL;
    for (size_t i = 0; !status && !*out && i < sizeof loaders / sizeof *loaders; i++)
        status = loaders[i](out, ctx, dir);
    if (!status && *out)
        status = load_roles(*out, dir);
    if (status) {
        qkv_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}

qkv_status qkv_tokenizer_load(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    *out = NULL;
    if (qkv_gguf_is(dir))
        return load_gguf(out, ctx, dir);
    if (!qkv_dir_exists(dir))
        return qkv_fail(ctx, QKV_E_IO, "%s: there is no such folder", dir);
    qkv_status status = qkv__tokenizer_load_any(out, ctx, dir);
    if (!status && !*out)
        return qkv_fail(ctx, QKV_E_IO,
                        "%s: no tokenizer: there is neither tokenizer.json, nor vocab.json with "
                        "merges.txt, nor encoder.json with vocab.bpe, nor vocab.txt, nor "
                        "source.spm, nor spiece.model", dir);
    return status;
}
