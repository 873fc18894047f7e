/* gguf_read.c - a tokenizer out of the fields of a GGUF file: made a tokenizer.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/gguf.h"
#include "tokenizer/json.h"
#include "tokenizer/spec.h"
#include "tokenizer/spm.h"
#include "tokenizer/words_file.h"

#define FIELD(name) "tokenizer.ggml." name

/* The fields, and what is made of them. */
typedef struct {
    const qkv__gguf *g;
    qkv_context *ctx;
    const qkv__gguf_field *tokens, *types, *scores, *merges;
    qkv__vocab vocab;
    qkv_ids pairs; /* of merges: left, right, .. */
    int32_t roles[QKV_TOKEN_ROLES]; /* -1: none */
    bool add_bos, add_eos;
} fields;

static const char *const role_fields[QKV_TOKEN_ROLES] = {
    [QKV_TOKEN_EOS] = FIELD("eos_token_id"),      [QKV_TOKEN_BOS] = FIELD("bos_token_id"),
    [QKV_TOKEN_PAD] = FIELD("padding_token_id"),  [QKV_TOKEN_UNK] = FIELD("unknown_token_id"),
    [QKV_TOKEN_CLS] = FIELD("cls_token_id"),      [QKV_TOKEN_SEP] = FIELD("seperator_token_id"),
    [QKV_TOKEN_MASK] = FIELD("mask_token_id")};

static int64_t kind_of_token(const fields *f, size_t id)
{
    return f->types ? qkv__gguf_int(f->types, id) : QKV__GGUF_NORMAL;
}

static bool is_filler(const fields *f, size_t id, const char *text, size_t len)
{
    char filler[QKV__GGUF_FILLER];
    return kind_of_token(f, id) == QKV__GGUF_UNUSED && qkv__gguf_filler(filler, id) == len &&
           memcmp(filler, text, len) == 0;
}

/* ---- reading the fields ---------------------------------------------------------------------- */

static qkv_status check_length(const fields *f, const qkv__gguf_field *list, const char *key)
{
    if (list && list->count < f->tokens->count)
        return qkv__gguf_fail(f->g, key, "expected %zu values, one for each token, found %zu",
                              f->tokens->count, list->count);
    return QKV_OK;
}

static qkv_status read_lists(fields *f)
{
    qkv_status status = qkv__gguf_opt_strings(f->g, FIELD("tokens"), &f->tokens);
    if (!status && !f->tokens)
        return qkv__gguf_fail(f->g, FIELD("tokens"), "is missing");
    if (!status)
        status = qkv__gguf_opt_numbers(f->g, FIELD("token_type"), &f->types);
    if (!status)
        status = check_length(f, f->types, FIELD("token_type"));
    if (!status)
        status = qkv__gguf_opt_numbers(f->g, FIELD("scores"), &f->scores);
    if (!status)
        status = check_length(f, f->scores, FIELD("scores"));
    if (!status)
        status = qkv__gguf_opt_strings(f->g, FIELD("merges"), &f->merges);
    if (!status && f->tokens->count > QKV_TOKENIZER_ID_LIMIT)
        return qkv__gguf_fail(f->g, FIELD("tokens"), "expected at most %d, found %zu",
                              QKV_TOKENIZER_ID_LIMIT, f->tokens->count);
    return status;
}

static qkv_status read_ids_of_roles(fields *f)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        int64_t id = -1;
        status = qkv__gguf_opt_int(f->g, role_fields[i], 0, (int64_t)f->tokens->count - 1, &id);
        f->roles[i] = (int32_t)id;
    }
    if (!status)
        status = qkv__gguf_opt_bool(f->g, FIELD("add_bos_token"), &f->add_bos);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, FIELD("add_eos_token"), &f->add_eos);
    return status;
}

static qkv_status add_token(fields *f, size_t id, const char *text, size_t len)
{
    const int32_t old = qkv__vocab_find(&f->vocab, text, len);
    if (qkv__utf8_valid(text, len) < len || memchr(text, 0, len))
        return qkv__gguf_fail(f->g, FIELD("tokens"), "token %zu is not text in UTF-8", id);
    if (old >= 0)
        return qkv__gguf_fail(f->g, FIELD("tokens"), "tokens %d and %zu are both \"%.*s\"", old, id,
                              len < 60 ? (int)len : 60, text);
    return qkv__vocab_add(&f->vocab, text, len, (int32_t)id);
}

/* As the file has them; ids without a token have a filler there. */
static qkv_status add_tokens(fields *f)
{
    qkv_status status = QKV_OK;
    for (size_t id = 0; id < f->tokens->count && !status; id++) {
        size_t len;
        const char *text = qkv__gguf_text(f->tokens, id, &len);
        if (len && !is_filler(f, id, text, len))
            status = add_token(f, id, text, len);
    }
    return status;
}

/* ---- parts of tokenizer.json ----------------------------------------------------------------- */

/* Control tokens are special; those of the user are found in the text as they are, too. */
static json_t *gguf_added_tokens(const fields *f)
{
    json_t *list = json_array();
    bool fine = list != NULL;
    for (size_t id = 0; id < f->tokens->count && fine; id++) {
        const int64_t type = kind_of_token(f, id);
        size_t len;
        const char *text = qkv__vocab_text(&f->vocab, (int32_t)id, &len);
        if (!text || type < QKV__GGUF_UNKNOWN || type > QKV__GGUF_USER)
            continue;
        json_t *token = qkv__spec_added(text, (int32_t)id);
        if (type == QKV__GGUF_USER && json_object_set_new(token, "special", json_false()))
            fine = false;
        fine = json_array_append_new(list, token) == 0 && fine;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *special_item(const fields *f, qkv_token_role role, int type)
{
    return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id",
                     qkv__vocab_text(&f->vocab, f->roles[role], &(size_t){0}), "type_id", type);
}

/* bos A eos, of which either may lack. */
static json_t *processor(const fields *f)
{
    static const qkv_token_role roles[] = {QKV_TOKEN_BOS, QKV_TOKEN_EOS};
    const bool on[] = {f->add_bos && f->roles[QKV_TOKEN_BOS] >= 0,
                       f->add_eos && f->roles[QKV_TOKEN_EOS] >= 0};
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    bool fine = single && pair && tokens;
    for (int text = 0; text < 2 && fine; text++)
        for (int at = 0; at < 3 && fine; at++) {
            json_t *item = at == 1 ? json_pack("{s:{s:s, s:i}}", "Sequence", "id",
                                               text ? "B" : "A", "type_id", text)
                           : on[at / 2] ? special_item(f, roles[at / 2], text)
                                        : NULL;
            if (at != 1 && !on[at / 2])
                continue;
            fine = item && (text || json_array_append(single, item) == 0) &&
                   json_array_append(pair, item) == 0;
            json_decref(item);
        }
    for (int i = 0; i < 2 && fine; i++) {
        size_t len;
        const char *text = on[i] ? qkv__vocab_text(&f->vocab, f->roles[roles[i]], &len) : NULL;
        if (text)
            fine = json_object_set_new(tokens, text,
                                       json_pack("{s:s, s:[i], s:[s]}", "id", text, "ids",
                                                 (int)f->roles[roles[i]], "tokens", text)) == 0;
    }
    json_t *whole = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single",
                              single, "pair", pair, "special_tokens", tokens);
    if (fine)
        return whole;
    json_decref(whole);
    return NULL;
}

static json_t *byte_level(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", false,
                     "trim_offsets", true, "use_regex", true);
}

static json_t *bpe_model(const char *unk, bool fallback, bool ignore_merges)
{
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout",
                     "unk_token", unk ? json_string(unk) : json_null(),
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", fallback,
                     "byte_fallback", fallback, "ignore_merges", ignore_merges);
}

/* ---- byte-level BPE -------------------------------------------------------------------------- */

/* "left right": the space is not the first character. */
static qkv_status add_gguf_merge(fields *f, size_t i)
{
    size_t len;
    const char *text = qkv__gguf_text(f->merges, i, &len);
    const char *space = len > 1 ? memchr(text + 1, ' ', len - 1) : NULL;
    if (space) {
        const size_t left = (size_t)(space - text);
        const int32_t a = qkv__vocab_find(&f->vocab, text, left);
        const int32_t b = qkv__vocab_find(&f->vocab, space + 1, len - left - 1);
        if (a >= 0 && b >= 0)
            return qkv__ids_push(f->ctx, &f->pairs, a) && qkv__ids_push(f->ctx, &f->pairs, b)
                       ? QKV_OK
                       : QKV_E_MEMORY;
    }
    return qkv__gguf_fail(f->g, FIELD("merges"), "merge %zu: expected two tokens with a space "
                          "between, found \"%.*s\"", i, len < 60 ? (int)len : 60, text);
}

static qkv_status read_gpt2(qkv_tokenizer **out, fields *f)
{
    const char *name = "default";
    qkv_status status = qkv__gguf_opt_string(f->g, FIELD("pre"), &name);
    const qkv__gguf_pre *pre = status ? NULL : qkv__gguf_pre_named(name);
    if (!status && !pre)
        return qkv__gguf_fail(f->g, FIELD("pre"), "\"%.60s\" is no pre-tokenizer that qkv knows",
                              name);
    if (!status && !f->merges)
        return qkv__gguf_fail(f->g, FIELD("merges"), "is missing");
    if (status)
        return status;
    f->add_bos = pre->add_bos;
    status = read_ids_of_roles(f);
    if (!status)
        status = add_tokens(f);
    for (size_t i = 0; i < f->merges->count && !status; i++)
        status = add_gguf_merge(f, i);
    if (status)
        return status;
    json_t *post = byte_level();
    if (f->add_bos || f->add_eos)
        post = json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", post, processor(f));
    json_t *spec = qkv__spec(gguf_added_tokens(f), qkv__gguf_pre_normalizer(pre),
                             qkv__gguf_pre_splitter(pre), post, byte_level(),
                             bpe_model(NULL, false, pre->ignore_merges));
    return qkv__tokenizer_build(out, qkv__gguf_path(f->g), spec, &f->vocab, &f->pairs);
}

/* ---- SentencePiece's BPE: merges are all pairs that are a token, by its score ---------------- */

typedef struct {
    float score;
    int32_t token, left, right;
    uint32_t bytes; /* of the left part */
} scored;

/* The highest score first; of one token the longest left part. */
static int by_score_and_token(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->token != y->token)
        return x->token < y->token ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static qkv_status add_splits(fields *f, size_t id, scored **list, size_t *count, size_t *capacity)
{
    size_t len;
    int32_t cp;
    const char *text = qkv__vocab_text(&f->vocab, (int32_t)id, &len);
    if (!text || kind_of_token(f, id) != QKV__GGUF_NORMAL)
        return QKV_OK;
    for (size_t at = qkv__utf8_next(text, len, &cp); at < len;
         at += qkv__utf8_next(text + at, len - at, &cp)) {
        const int32_t left = qkv__vocab_find(&f->vocab, text, at);
        const int32_t right = qkv__vocab_find(&f->vocab, text + at, len - at);
        if (left < 0 || right < 0 || kind_of_token(f, (size_t)left) != QKV__GGUF_NORMAL ||
            kind_of_token(f, (size_t)right) != QKV__GGUF_NORMAL)
            continue;
        if (!qkv__grow(f->ctx, list, capacity, *count + 1, sizeof **list))
            return QKV_E_MEMORY;
        (*list)[(*count)++] = (scored){(float)qkv__gguf_real(f->scores, id), (int32_t)id, left,
                                       right, (uint32_t)at};
    }
    return QKV_OK;
}

static qkv_status make_merges(fields *f)
{
    scored *list = NULL;
    size_t count = 0, capacity = 0;
    qkv_status status = QKV_OK;
    for (size_t id = 0; id < f->tokens->count && !status; id++) {
        if (!isfinite(qkv__gguf_real(f->scores, id)))
            status = qkv__gguf_fail(f->g, FIELD("scores"), "score %zu is not finite", id);
        if (!status)
            status = add_splits(f, id, &list, &count, &capacity);
    }
    if (count)
        qsort(list, count, sizeof *list, by_score_and_token);
    for (size_t i = 0; i < count && !status; i++)
        if (!qkv__ids_push(f->ctx, &f->pairs, list[i].left) ||
            !qkv__ids_push(f->ctx, &f->pairs, list[i].right))
            status = QKV_E_MEMORY;
    qkv_free(f->ctx, list);
    return status;
}

static json_t *mark_replaced(const char *from, const char *to)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from, "content",
                     to);
}

static json_t *spm_spec(const fields *f, bool prefix)
{
    json_t *normalizer = mark_replaced(" ", QKV__SPACE_MARK);
    json_t *decoders = json_pack("[o, {s:s}, {s:s}]", mark_replaced(QKV__SPACE_MARK, " "), "type",
                                 "ByteFallback", "type", "Fuse");
    if (prefix) {
        normalizer = json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers",
                               "type", "Prepend", "prepend", QKV__SPACE_MARK, normalizer);
        if (json_array_append_new(decoders, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                                      "content", " ", "start", 1, "stop", 0)))
            normalizer = NULL;
    }
    const char *unk = f->roles[QKV_TOKEN_UNK] < 0
                          ? NULL
                          : qkv__vocab_text(&f->vocab, f->roles[QKV_TOKEN_UNK], &(size_t){0});
    return qkv__spec(gguf_added_tokens(f), normalizer, json_null(),
                     f->add_bos || f->add_eos ? processor(f) : json_null(),
                     json_pack("{s:s, s:o}", "type", "Sequence", "decoders", decoders),
                     bpe_model(unk, true, false));
}

static qkv_status read_llama(qkv_tokenizer **out, fields *f)
{
    static const struct {
        qkv_token_role role;
        int32_t id;
    } usual[] = {{QKV_TOKEN_UNK, 0}, {QKV_TOKEN_BOS, 1}, {QKV_TOKEN_EOS, 2}};
    bool prefix = true, trim = false;
    f->add_bos = true;
    qkv_status status = read_ids_of_roles(f);
    if (!status && !f->scores)
        return qkv__gguf_fail(f->g, FIELD("scores"), "is missing");
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (f->roles[usual[i].role] < 0 && (size_t)usual[i].id < f->tokens->count)
            f->roles[usual[i].role] = usual[i].id;
    if (!status)
        status = qkv__gguf_opt_bool(f->g, FIELD("add_space_prefix"), &prefix);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, FIELD("remove_extra_whitespaces"), &trim);
    if (!status && trim)
        return qkv__gguf_fail(f->g, FIELD("remove_extra_whitespaces"), "true is not supported");
    if (!status)
        status = add_tokens(f);
    if (!status)
        status = make_merges(f);
    return status ? status : qkv__tokenizer_build(out, qkv__gguf_path(f->g), spm_spec(f, prefix),
                                                  &f->vocab, &f->pairs);
}

/* ---- WordPiece: a mark begins a word there, "##" continues one here -------------------------- */

static qkv_status add_words(fields *f)
{
    static const char mark[] = QKV__SPACE_MARK;
    const size_t n = sizeof mark - 1;
    qkv_status status = QKV_OK;
    qkv_str word;
    qkv_str_init(&word, f->ctx);
    for (size_t id = 0; id < f->tokens->count && !status; id++) {
        size_t len;
        const char *text = qkv__gguf_text(f->tokens, id, &len);
        const int64_t type = kind_of_token(f, id);
        const bool begins = len > n && memcmp(text, mark, n) == 0;
        const bool whole = type == QKV__GGUF_CONTROL || type == QKV__GGUF_UNKNOWN ||
                           (len > 1 && text[0] == '[' && text[len - 1] == ']');
        if (!len || is_filler(f, id, text, len))
            continue;
        qkv_str_clear(&word);
        if (!begins && !whole)
            qkv_str_puts(&word, "##");
        qkv_str_add(&word, text + (begins ? n : 0), len - (begins ? n : 0));
        status = word.failed ? QKV_E_MEMORY : add_token(f, id, word.data, word.len);
    }
    qkv_str_free(&word);
    return status;
}

static qkv_status read_words(qkv_tokenizer **out, fields *f)
{
    qkv__bert_options o = {.lowercase = true, .ideographs = true, .accents = -1};
    const char *special[QKV_TOKEN_ROLES] = {NULL};
    bool accents = false;
    qkv_status status = read_ids_of_roles(f);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, FIELD("normalizer.lowercase"), &o.lowercase);
    if (!status)
        status = qkv__gguf_opt_bool(f->g, FIELD("normalizer.strip_accents"), &accents);
    if (!status && qkv__gguf_find(f->g, FIELD("normalizer.strip_accents")))
        o.accents = accents;
    if (!status)
        status = add_words(f);
    if (status)
        return status;
    if (f->roles[QKV_TOKEN_CLS] < 0)
        f->roles[QKV_TOKEN_CLS] = f->roles[QKV_TOKEN_BOS];
    f->roles[QKV_TOKEN_BOS] = f->roles[QKV_TOKEN_EOS] = -1;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        const char *usual = qkv__bert_names[i];
        if (f->roles[i] < 0 && usual)
            f->roles[i] = qkv__vocab_find(&f->vocab, usual, strlen(usual));
        special[i] = f->roles[i] < 0 ? NULL
                                     : qkv__vocab_text(&f->vocab, f->roles[i], &(size_t){0});
    }
    return qkv__tokenizer_build(out, qkv__gguf_path(f->g),
                                qkv__bert_spec(&o, false, special, f->roles), &f->vocab, NULL);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* tokenizer_config.json as it would be written, with the template that the file may have. */
static qkv_status set_config(qkv_tokenizer *t, const qkv__gguf *g)
{
    json_t *template = NULL;
    qkv_json_writer w;
    qkv_status status = qkv__gguf_read_template(&template, g);
    if (status)
        return status;
    qkv_json_writer_init(&w, t->ctx, -1);
    qkv__tokenizer_put_config(t, &w);
    const char *text = qkv_json_writer_text(&w);
    status = text ? qkv__json_parse(&t->config, t->ctx, qkv__gguf_path(g), text, strlen(text))
                  : QKV_E_MEMORY;
    qkv_json_writer_free(&w);
    t->config.file = NULL; /* the file goes */
    if (status)
        json_decref(template);
    else if (template && json_object_set_new(t->config.value, "chat_template", template))
        status = QKV_E_MEMORY;
    return status;
}

static const struct {
    const char *name; /* tokenizer.ggml.model */
    qkv_status (*read)(qkv_tokenizer **out, fields *f);
} kinds[] = {{"gpt2", read_gpt2}, {"llama", read_llama}, {"bert", read_words}};

static qkv_status read_kind(qkv_tokenizer **out, const qkv__gguf *g, const char *kind)
{
    fields f = {.g = g, .ctx = qkv__gguf_context(g)};
    qkv_status status = QKV_E_FORMAT;
    size_t i = 0;
    while (i < sizeof kinds / sizeof *kinds && strcmp(kinds[i].name, kind) != 0)
        i++;
    if (i == sizeof kinds / sizeof *kinds)
        return qkv__gguf_fail(g, FIELD("model"), "expected \"gpt2\", \"llama\" or \"bert\", found "
                              "\"%.60s\"", kind);
    qkv__vocab_init(&f.vocab, f.ctx);
    status = read_lists(&f);
    if (!status)
        status = kinds[i].read(out, &f);
    for (size_t role = 0; role < QKV_TOKEN_ROLES && !status; role++)
        (*out)->special[role] = f.roles[role];
    qkv__vocab_free(&f.vocab);
    qkv_ids_free(&f.pairs, f.ctx);
    return status ? status : set_config(*out, g);
}

qkv_status qkv__tokenizer_from_gguf(qkv_tokenizer **out, const qkv__gguf *g)
{
    const char *kind = "none";
    *out = NULL;
    qkv_status status = qkv__gguf_opt_string(g, FIELD("model"), &kind);
    if (status || strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0)
        return status;
    status = read_kind(out, g, kind);
    if (status) {
        qkv_tokenizer_destroy(*out);
        *out = NULL;
    }
    return status;
}
