/* files.c - a tokenizer's folder: which files there are, and reading them. */
#include <string.h>

#include "base/utf8.h"
#include "io/file.h"
#include "tokenizer/bytes.h"
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

static qkv_status load_if_there(qkv__json *out, qkv_context *ctx, const char *dir,
                                const char *name, char **path)
{
    *out = (qkv__json){0};
    *path = qkv_path_join(ctx, dir, name);
    if (!*path)
        return QKV_E_MEMORY;
    qkv__json object;
    if (!qkv_file_exists(*path))
        return QKV_OK;
    qkv_status status = qkv__json_load(out, ctx, *path);
    if (!status)
        status = qkv__json_get_object(out, NULL, &object);
    if (status)
        qkv__json_free(out);
    return status;
}

/* Roles from tokenizer_config.json, else special_tokens_map.json, else the usual ones. */
static qkv_status load_roles(qkv_tokenizer *t, const char *dir)
{
    char *path = NULL;
    bool any = false;
    qkv__json map = {0};
    qkv_status status = load_if_there(&t->config, t->ctx, dir, "tokenizer_config.json", &path);
    if (!status && t->config.value)
        status = read_roles(t, &t->config, &any);
    t->config.file = NULL; /* the path goes now */
    qkv_free(t->ctx, path);
    path = NULL;
    if (!status && !any) {
        status = load_if_there(&map, t->ctx, dir, "special_tokens_map.json", &path);
        if (!status && map.value)
            status = read_roles(t, &map, &any);
        qkv__json_free(&map);
        qkv_free(t->ctx, path);
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

static qkv_status load_json(qkv_tokenizer **out, qkv_context *ctx, const char *path)
{
    qkv_tokenizer *t = qkv__tokenizer_new(ctx);
    if (!t)
        return QKV_E_MEMORY;
    qkv_status status = qkv__json_load(&t->spec, ctx, path);
    if (status) {
        qkv_tokenizer_destroy(t);
        return status;
    }
    return qkv__tokenizer_from_spec(out, t);
}

/* Every byte must have its token: otherwise this is another kind of vocabulary. */
static qkv_status check_bytes(qkv_context *ctx, const qkv__json *vocab)
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
    qkv_json_writer w;
    const char *const special[] = {end_of_text};
    const json_t *id = json_object_get(files->vocab.value, end_of_text);
    bool has_end = json_is_integer(id) && json_integer_value(id) >= 0 &&
                   json_integer_value(id) < QKV_TOKENIZER_ID_LIMIT;
    const int32_t ids[] = {has_end ? (int32_t)json_integer_value(id) : 0};
    qkv_json_writer_init(&w, ctx, 0);
    qkv__tokenizer_begin_spec(&w, QKV_TOKENIZER_BPE, special, ids, has_end ? 1 : 0, NULL,
                              NULL, NULL);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    qkv_tokenizer *t = w.text.failed ? NULL : qkv__tokenizer_new(ctx);
    qkv_status status = t ? qkv__json_parse(&t->spec, ctx, files->vocab.file, w.text.data,
                                            w.text.len)
                          : QKV_E_MEMORY;
    qkv_json_writer_free(&w);
    if (status) {
        qkv_tokenizer_destroy(t);
        return status;
    }
    t->files = files;
    status = qkv__tokenizer_from_spec(out, t);
    if (!status) {
        t->files = NULL;
        t->special[QKV_TOKEN_EOS] = t->special[QKV_TOKEN_BOS] = has_end ? ids[0] : -1;
    }
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
        status = check_bytes(ctx, &files.vocab);
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
        char *vocab = qkv_path_join(ctx, dir, names[i][0]);
        char *merges = qkv_path_join(ctx, dir, names[i][1]);
        status = vocab && merges ? QKV_OK : QKV_E_MEMORY;
        if (!status && qkv_file_exists(vocab) && qkv_file_exists(merges))
            status = qkv_tokenizer_load_bpe(out, ctx, vocab, merges);
        qkv_free(ctx, vocab);
        qkv_free(ctx, merges);
    }
    return status;
}

static qkv_status load_single(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    char *path = qkv_path_join(ctx, dir, "tokenizer.json");
    qkv_status status = !path ? QKV_E_MEMORY
                        : qkv_file_exists(path) ? load_json(out, ctx, path) : QKV_OK;
    qkv_free(ctx, path);
    return status;
}

static qkv_status load_words(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    char *path = NULL, *vocab = qkv_path_join(ctx, dir, "vocab.txt");
    qkv__json config = {0};
    qkv_status status = vocab ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv_file_exists(vocab)) {
        status = load_if_there(&config, ctx, dir, "tokenizer_config.json", &path);
        if (!status)
            status = qkv__load_vocab_txt(out, ctx, vocab, config.value ? &config : NULL);
        qkv__json_free(&config);
        qkv_free(ctx, path);
    }
    qkv_free(ctx, vocab);
    return status;
}

/* The ways a folder may hold a tokenizer: each leaves *out alone where its files are not. */
static qkv_status (*const loaders[])(qkv_tokenizer **out, qkv_context *ctx, const char *dir) = {
    load_single, qkv__load_marian, load_pair, load_words, qkv__load_spm};

qkv_status qkv_tokenizer_load(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    qkv_status status = QKV_OK;
    *out = NULL;
    if (!qkv_dir_exists(dir))
        status = qkv_fail(ctx, QKV_E_IO, "%s: there is no such folder", dir);
    for (size_t i = 0; !status && !*out && i < sizeof loaders / sizeof *loaders; i++)
        status = loaders[i](out, ctx, dir);
    if (status)
        return status;
    if (!*out)
        return qkv_fail(ctx, QKV_E_IO,
                        "%s: no tokenizer: there is neither tokenizer.json, nor vocab.json with "
                        "merges.txt, nor encoder.json with vocab.bpe, nor vocab.txt, nor "
                        "source.spm, nor spiece.model", dir);
    status = load_roles(*out, dir);
    if (status) {
        qkv_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}
