/* tokenizer_files.c - a tokenizer's folder: which files there are, reading and writing them. */
#include <string.h>

#include "data/tokenizer.h"
#include "io/file.h"

const char *const qkv__role_keys[QKV_TOKEN_ROLES] = {
#define ROLE_KEY(name, key) key,
    QKV_TOKEN_LIST(ROLE_KEY)
#undef ROLE_KEY
};

static const char end_of_text[] = "<|endoftext|>";

/* Byte-level BPE's two files, by age. */
static const struct {
    const char *vocab, *merges;
} bpe_names[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

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
    *path = qkv__path_join(ctx, dir, name);
    if (!*path)
        return QKV_E_MEMORY;
    qkv__json object;
    if (!qkv__file_exists(*path))
        return QKV_OK;
    qkv_status status = qkv__json_load(out, ctx, *path);
    if (!status)
        status = qkv__json_get_object(out, NULL, &object);
    if (status)
        qkv__json_free(out);
    return status;
}

/* Roles from tokenizer_config.json, else special_tokens_map.json, else GPT-2's. */
static qkv_status load_roles(qkv_tokenizer *t, const char *dir)
{
    char *path = NULL;
    bool any = false;
    qkv__json map = {0};
    qkv_status status = load_if_there(&t->config, t->ctx, dir, "tokenizer_config.json", &path);
    if (!status && t->config.value)
        status = read_roles(t, &t->config, &any);
    t->config.file = NULL; /* the path goes now */
    qkv__free(t->ctx, path);
    path = NULL;
    if (!status && !any) {
        status = load_if_there(&map, t->ctx, dir, "special_tokens_map.json", &path);
        if (!status && map.value)
            status = read_roles(t, &map, &any);
        qkv__json_free(&map);
        qkv__free(t->ctx, path);
    }
    int32_t id = qkv_tokenizer_id(t, end_of_text, sizeof end_of_text - 1);
    if (!status && !any)
        t->special[QKV_TOKEN_EOS] = t->special[QKV_TOKEN_BOS] = id;
    return status;
}

/* ---- what is made here --------------------------------------------------------------- */

static void put_byte_level(qkv__json_out *w, const char *key)
{
    qkv__json_begin_object(w, key);
    qkv__json_put_string(w, "type", "ByteLevel");
    qkv__json_put_bool(w, "add_prefix_space", false);
    qkv__json_put_bool(w, "trim_offsets", true);
    qkv__json_put_bool(w, "use_regex", true);
    qkv__json_end_object(w);
}

/* Every character a piece of its own. */
static void put_char_split(qkv__json_out *w)
{
    qkv__json_begin_object(w, "pre_tokenizer");
    qkv__json_put_string(w, "type", "Split");
    qkv__json_begin_object(w, "pattern");
    qkv__json_put_string(w, "Regex", "[\\s\\S]");
    qkv__json_end_object(w);
    qkv__json_put_string(w, "behavior", "Isolated");
    qkv__json_put_bool(w, "invert", false);
    qkv__json_end_object(w);
}

static void put_added(qkv__json_out *w, const char *text, int32_t id)
{
    qkv__json_begin_object(w, NULL);
    qkv__json_put_int(w, "id", id);
    qkv__json_put_string(w, "content", text);
    qkv__json_put_bool(w, "single_word", false);
    qkv__json_put_bool(w, "lstrip", false);
    qkv__json_put_bool(w, "rstrip", false);
    qkv__json_put_bool(w, "normalized", false);
    qkv__json_put_bool(w, "special", true);
    qkv__json_end_object(w);
}

void qkv__tokenizer_begin_spec(qkv__json_out *w, qkv_tokenizer_kind kind,
                               const char *const *special, const int32_t *ids, size_t count,
                               const char *unk)
{
    bool bpe = kind == QKV_TOKENIZER_BPE;
    qkv__json_begin_object(w, NULL);
    qkv__json_put_string(w, "version", "1.0");
    qkv__json_put_null(w, "truncation");
    qkv__json_put_null(w, "padding");
    qkv__json_begin_array(w, "added_tokens");
    for (size_t i = 0; i < count; i++)
        put_added(w, special[i], ids[i]);
    qkv__json_end_array(w);
    qkv__json_put_null(w, "normalizer");
    if (bpe) {
        put_byte_level(w, "pre_tokenizer");
        put_byte_level(w, "post_processor");
        put_byte_level(w, "decoder");
    } else {
        put_char_split(w);
        qkv__json_put_null(w, "post_processor");
        qkv__json_begin_object(w, "decoder");
        qkv__json_put_string(w, "type", "Fuse");
        qkv__json_end_object(w);
    }
    qkv__json_begin_object(w, "model");
    qkv__json_put_string(w, "type", bpe ? "BPE" : "WordLevel");
    if (!bpe) { /* the reference wants a name: one that is no token makes unknown text an error */
        qkv__json_put_string(w, "unk_token", unk ? unk : "<unk>");
        return;
    }
    qkv__json_put_null(w, "dropout");
    qkv__json_put_null(w, "unk_token");
    qkv__json_put_null(w, "continuing_subword_prefix");
    qkv__json_put_null(w, "end_of_word_suffix");
    qkv__json_put_bool(w, "fuse_unk", false);
    qkv__json_put_bool(w, "byte_fallback", false);
    qkv__json_put_bool(w, "ignore_merges", false);
}

/* ---- reading ------------------------------------------------------------------------- */

/* From t->spec, which is set; destroys t on failure. */
static qkv_status finish(qkv_tokenizer **out, qkv_tokenizer *t)
{
    qkv_status status = qkv__tokenizer_read_spec(t);
    t->spec.file = NULL; /* the caller's, and not needed any more */
    if (status)
        qkv_tokenizer_destroy(t);
    else
        *out = t;
    return status;
}

qkv_status qkv__tokenizer_parse(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                const char *text, size_t len)
{
    *out = NULL;
    qkv_tokenizer *t = qkv__tokenizer_new(ctx);
    if (!t)
        return QKV_E_MEMORY;
    qkv_status status = qkv__json_parse(&t->spec, ctx, name, text, len);
    if (status) {
        qkv_tokenizer_destroy(t);
        return status;
    }
    return finish(out, t);
}

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
    return finish(out, t);
}

/* Every byte must have its token: otherwise this is another kind of vocabulary. */
static qkv_status check_bytes(qkv_context *ctx, const qkv__json *vocab)
{
    for (int i = 0; i < 256; i++) {
        char c[5] = "";
        (void)qkv__utf8_put(c, qkv__byte_char((uint8_t)i));
        if (!json_object_get(vocab->value, c))
            return qkv__fail(ctx, QKV_E_UNSUPPORTED,
                             "%s: no byte-level vocabulary: token \"%s\" (byte 0x%02x) is missing",
                             vocab->file, c, (unsigned)i);
    }
    return QKV_OK;
}

static qkv_status build_bpe(qkv_tokenizer **out, qkv_context *ctx, const qkv__bpe_files *files)
{
    qkv__json_out w;
    const char *const special[] = {end_of_text};
    const json_t *id = json_object_get(files->vocab.value, end_of_text);
    bool has_end = json_is_integer(id) && json_integer_value(id) >= 0 &&
                   json_integer_value(id) < QKV_TOKENIZER_ID_LIMIT;
    const int32_t ids[] = {has_end ? (int32_t)json_integer_value(id) : 0};
    qkv__json_out_init(&w, ctx, 0);
    qkv__tokenizer_begin_spec(&w, QKV_TOKENIZER_BPE, special, ids, has_end ? 1 : 0, NULL);
    qkv__json_end_object(&w);
    qkv__json_end_object(&w);
    qkv_tokenizer *t = w.text.failed ? NULL : qkv__tokenizer_new(ctx);
    qkv_status status = t ? qkv__json_parse(&t->spec, ctx, files->vocab.file, w.text.data,
                                            w.text.len)
                          : QKV_E_MEMORY;
    qkv__json_out_free(&w);
    if (status) {
        qkv_tokenizer_destroy(t);
        return status;
    }
    t->files = files;
    status = finish(out, t);
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
        status = qkv__file_read(ctx, merges_file, (size_t)1 << 30, &files.merges,
                                &files.merges_len);
    if (!status)
        status = build_bpe(out, ctx, &files);
    qkv__json_free(&files.vocab);
    qkv__free(ctx, files.merges);
    return status;
}

static qkv_status load_pair(qkv_tokenizer **out, qkv_context *ctx, const char *dir, size_t which)
{
    char *vocab = qkv__path_join(ctx, dir, bpe_names[which].vocab);
    char *merges = qkv__path_join(ctx, dir, bpe_names[which].merges);
    qkv_status status = vocab && merges ? QKV_OK : QKV_E_MEMORY;
    if (!status && qkv__file_exists(vocab) && qkv__file_exists(merges))
        status = qkv_tokenizer_load_bpe(out, ctx, vocab, merges);
    qkv__free(ctx, vocab);
    qkv__free(ctx, merges);
    return status;
}

qkv_status qkv_tokenizer_load(qkv_tokenizer **out, qkv_context *ctx, const char *dir)
{
    qkv_status status = QKV_OK;
    *out = NULL;
    char *path = qkv__path_join(ctx, dir, "tokenizer.json");
    if (!path)
        return QKV_E_MEMORY;
    if (!qkv__dir_exists(dir))
        status = qkv__fail(ctx, QKV_E_IO, "%s: there is no such folder", dir);
    else if (qkv__file_exists(path))
        status = load_json(out, ctx, path);
    qkv__free(ctx, path);
    for (size_t i = 0; !status && !*out && i < sizeof bpe_names / sizeof *bpe_names; i++)
        status = load_pair(out, ctx, dir, i);
    if (status)
        return status;
    if (!*out)
        return qkv__fail(ctx, QKV_E_IO,
                         "%s: no tokenizer: there is neither tokenizer.json, nor vocab.json with "
                         "merges.txt, nor encoder.json with vocab.bpe", dir);
    status = load_roles(*out, dir);
    if (status) {
        qkv_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- writing ------------------------------------------------------------------------- */

static void put_vocab(const qkv_tokenizer *t, qkv__json_out *w, const char *key)
{
    qkv__json_begin_object(w, key);
    for (size_t id = 0; id < t->vocab.count; id++) {
        size_t len;
        const char *text = qkv__vocab_text(&t->vocab, (int32_t)id, &len);
        if (text)
            qkv__json_put_int(w, text, (int64_t)id);
    }
    qkv__json_end_object(w);
}

static void put_model(const qkv_tokenizer *t, qkv__json_out *w, const json_t *model)
{
    const char *key;
    json_t *value;
    qkv__json_begin_object(w, "model");
    json_object_foreach((json_t *)(uintptr_t)model, key, value)
        qkv__json_put_value(w, key, value);
    put_vocab(t, w, "vocab");
    if (t->kind->write)
        t->kind->write(t, w);
    qkv__json_end_object(w);
}

static void put_spec(const qkv_tokenizer *t, qkv__json_out *w)
{
    const char *key;
    json_t *value;
    qkv__json_begin_object(w, NULL);
    json_object_foreach(t->spec.value, key, value) {
        if (strcmp(key, "model") == 0)
            put_model(t, w, value);
        else
            qkv__json_put_value(w, key, value);
    }
    qkv__json_end_object(w);
}

static void put_roles(const qkv_tokenizer *t, qkv__json_out *w)
{
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        const char *text = qkv_tokenizer_token(t, t->special[i], NULL);
        if (text)
            qkv__json_put_string(w, qkv__role_keys[i], text);
    }
}

static void put_config(const qkv_tokenizer *t, qkv__json_out *w)
{
    if (t->config.value) {
        qkv__json_put_value(w, NULL, t->config.value);
        return;
    }
    qkv__json_begin_object(w, NULL);
    qkv__json_put_bool(w, "clean_up_tokenization_spaces", false);
    put_roles(t, w);
    qkv__json_put_string(w, "tokenizer_class", "PreTrainedTokenizerFast");
    qkv__json_end_object(w);
}

static void put_map(const qkv_tokenizer *t, qkv__json_out *w)
{
    qkv__json_begin_object(w, NULL);
    put_roles(t, w);
    qkv__json_end_object(w);
}

static void put_vocab_file(const qkv_tokenizer *t, qkv__json_out *w)
{
    put_vocab(t, w, NULL);
}

static qkv_status save_merges(const qkv_tokenizer *t, const char *path)
{
    qkv__str text;
    qkv__str_init(&text, t->ctx);
    qkv__str_puts(&text, "#version: 0.2\n");
    const qkv__merges *m = qkv__bpe_merges(t);
    for (size_t i = 0; i < m->count; i++) {
        for (int side = 0; side < 2; side++) {
            size_t len;
            const char *token = qkv__vocab_text(&t->vocab, m->pairs[i][side], &len);
            qkv__str_add(&text, token, len);
            qkv__str_puts(&text, side ? "\n" : " ");
        }
    }
    qkv_status status = text.failed ? QKV_E_MEMORY
                                    : qkv__file_write(t->ctx, path, text.data, text.len);
    qkv__str_free(&text);
    return status;
}

/* Whether vocab.json and merges.txt alone say everything. */
static bool is_gpt2(const qkv_tokenizer *t)
{
    return t->kind == &qkv__model_bpe && t->splitter.byte_level && !t->normalize &&
           qkv__splitter_scan(&t->splitter) == qkv__scan_gpt2 &&
           !json_is_true(json_object_get(json_object_get(t->spec.value, "model"),
                                         "ignore_merges"));
}

static const struct {
    const char *name;
    bool gpt2_only;
    int indent;
    void (*put)(const qkv_tokenizer *t, qkv__json_out *w); /* NULL: the merges */
} files_written[] = {
    {"tokenizer.json", false, 2, put_spec},         {"tokenizer_config.json", false, 2, put_config},
    {"special_tokens_map.json", false, 2, put_map}, {"vocab.json", true, 0, put_vocab_file},
    {"merges.txt", true, 0, NULL},
};

qkv_status qkv_tokenizer_save(const qkv_tokenizer *t, const char *dir)
{
    qkv_status status = qkv__dir_create(t->ctx, dir);
    for (size_t i = 0; !status && i < sizeof files_written / sizeof *files_written; i++) {
        if (files_written[i].gpt2_only && !is_gpt2(t))
            continue;
        char *path = qkv__path_join(t->ctx, dir, files_written[i].name);
        if (!path)
            return QKV_E_MEMORY;
        if (files_written[i].put) {
            qkv__json_out w;
            qkv__json_out_init(&w, t->ctx, files_written[i].indent);
            files_written[i].put(t, &w);
            status = qkv__json_out_save(&w, path);
        } else {
            status = save_merges(t, path);
        }
        qkv__free(t->ctx, path);
    }
    return status;
}
