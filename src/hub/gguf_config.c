/* gguf_config.c - a model's configuration: fields of a GGUF file as config.json, and back. */
#include <stdio.h>
#include <string.h>

#include "hub/gguf_parts.h"
#include "model/model.h"
#include "qkv/bert.h"
#include "qkv/gpt.h"

enum { MOST = 16777216, ROBERTA_PAD = 1 };
static const double DISTILBERT_EPSILON = 1e-12;

/* ---- reading --------------------------------------------------------------------------------- */

/* Rows of the table of positions that a file does not count. */
static size_t left_out(const qkv__gguf_arch *a, const qkv__gguf_row *row, size_t rows)
{
    return a->positions == QKV__GGUF_AFTER_PAD && strcmp(row->suffix, "context_length") == 0 ? rows
                                                                                             : 0;
}

static qkv_status read_row(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a,
                           const qkv__gguf_row *row)
{
    const json_t *pad = json_object_get(config, "pad_token_id");
    char key[QKV__GGUF_KEY_BYTES];
    int64_t whole = -1;
    double real = 0;
    (void)qkv__gguf_key(key, a, row->suffix);
    if (!qkv__gguf_find(g, key))
        return QKV_OK;
    qkv_status status = row->real ? qkv__gguf_opt_real(g, key, &real)
                                  : qkv__gguf_opt_int(g, key, 0, MOST, &whole);
    if (status)
        return status;
    whole += (int64_t)left_out(a, row, (size_t)json_integer_value(pad) + 1);
    return qkv__gguf_set(config, g, row->key, row->real ? json_real(real) : json_integer(whole));
}

/* A file without them is no model; what else lacks has a default in config.json too. */
static qkv_status check_required(const qkv__gguf *g, const qkv__gguf_arch *a)
{
    static const char *const required[] = {"context_length", "embedding_length", "block_count",
                                           "feed_forward_length", "attention.head_count"};
    char key[QKV__GGUF_KEY_BYTES];
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!qkv__gguf_find(g, qkv__gguf_key(key, a, required[i])))
            return qkv__gguf_fail(g, key, "is missing");
    return QKV_OK;
}

/* Rows of a table of tokens. */
static qkv_status read_table_size(json_t *config, const qkv__gguf *g, const char *tensor,
                                  const char *key)
{
    const qkv__gguf_tensor *t = qkv__gguf_tensor_find(g, tensor);
    if (!t || t->ndim != 2)
        return qkv_fail(qkv__gguf_context(g), QKV_E_FORMAT, "%s: tensor \"%s\": expected 2 axes, "
                        "found %s", qkv__gguf_path(g), tensor,
                        t ? "another shape" : "no such tensor");
    return qkv__gguf_set(config, g, key, json_integer((json_int_t)t->shape[0]));
}

/* The tokenizer's tokens each have a row. */
static qkv_status read_vocab(json_t *config, const qkv__gguf *g)
{
    static const char key[] = "tokenizer.ggml.tokens";
    const qkv__gguf_field *tokens = qkv__gguf_find(g, key);
    qkv_status status = read_table_size(config, g, "token_embd.weight", "vocab_size");
    const int64_t rows = json_integer_value(json_object_get(config, "vocab_size"));
    if (!status && tokens && tokens->count > (size_t)rows)
        status = qkv__gguf_fail(g, key, "expected at most %lld tokens, the rows of "
                                "token_embd.weight, found %zu", (long long)rows, tokens->count);
    return status;
}

/* Ids of tokens, under the names that config.json and the files have for them. */
static const struct {
    const char *key, *field;
} ids[] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
           {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
/* Those that end a text. */
static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                   "tokenizer.ggml.eom_token_id"};
enum { ENDS = sizeof ends / sizeof *ends };

static qkv_status read_ends(json_t *config, const qkv__gguf *g)
{
    json_t *list = json_array();
    qkv_status status = list ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < ENDS && !status; i++) {
        int64_t id = -1;
        bool new = true;
        status = qkv__gguf_opt_int(g, ends[i], 0, MOST - 1, &id);
        for (size_t k = 0; k < json_array_size(list); k++)
            new = new && json_integer_value(json_array_get(list, k)) != id;
        if (!status && id >= 0 && new && json_array_append_new(list, json_integer(id)))
            status = QKV_E_MEMORY;
    }
    size_t count = json_array_size(list);
    if (!status && count)
        status = qkv__gguf_set(config, g, "eos_token_id",
                            count == 1 ? json_incref(json_array_get(list, 0)) : json_incref(list));
    json_decref(list);
    return status;
}

static qkv_status read_ids(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a)
{
    qkv_status status = QKV_OK;
    if (a->positions == QKV__GGUF_AFTER_PAD)
        status = qkv__gguf_set(config, g, "pad_token_id", json_integer(ROBERTA_PAD));
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !status; i++) {
        int64_t id = -1;
        status = qkv__gguf_opt_int(g, ids[i].field, 0, MOST - 1, &id);
        if (!status && id >= 0)
            status = qkv__gguf_set(config, g, ids[i].key, json_integer(id));
    }
    return status;
}

static qkv_status read_labels(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a)
{
    char key[QKV__GGUF_KEY_BYTES];
    const qkv__gguf_field *labels;
    qkv_status status = qkv__gguf_opt_strings(g, qkv__gguf_key(key, a, "classifier.output_labels"),
                                              &labels);
    json_t *names = status || !labels ? NULL : json_object();
    if (!names)
        return status;
    for (size_t i = 0; i < labels->count && !status; i++) {
        char number[24];
        size_t len;
        const char *text = qkv__gguf_text(labels, i, &len);
        (void)snprintf(number, sizeof number, "%zu", i);
        if (json_object_set_new(names, number, json_stringn(text, len)))
            status = qkv__gguf_fail(g, key, "text %zu: expected UTF-8", i);
    }
    if (!status)
        return qkv__gguf_set(config, g, "id2label", names);
    json_decref(names);
    return status;
}

static qkv_status read_bert(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a)
{
    char key[QKV__GGUF_KEY_BYTES];
    double epsilon = DISTILBERT_EPSILON;
    qkv_status status = QKV_OK;
    if (!(a->marks & QKV__GGUF_NO_SEGMENTS)) {
        status = read_table_size(config, g, "token_types.weight", "type_vocab_size");
        return status ? status : read_labels(config, g, a);
    }
    status = qkv__gguf_opt_real(g, qkv__gguf_key(key, a, "attention.layer_norm_epsilon"), &epsilon);
    if (!status && epsilon != DISTILBERT_EPSILON)
        status = qkv__gguf_fail(g, key, "expected %g, found %g: DistilBERT has no other",
                                DISTILBERT_EPSILON, epsilon);
    return status;
}

static qkv_status read_rotary(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a)
{
    char key[QKV__GGUF_KEY_BYTES];
    const int64_t width = json_integer_value(json_object_get(config, "hidden_size"));
    const int64_t heads = json_integer_value(json_object_get(config, "num_attention_heads"));
    int64_t head = heads > 0 ? width / heads : 0, value;
    qkv_status status = qkv__gguf_opt_int(g, qkv__gguf_key(key, a, "attention.key_length"), 1,
                                          MOST, &head);
    value = head;
    if (!status)
        status = qkv__gguf_opt_int(g, qkv__gguf_key(key, a, "attention.value_length"), 1, MOST,
                                   &value);
    if (!status && value != head)
        return qkv__gguf_fail(g, key, "expected %lld, the length of keys, found %lld",
                              (long long)head, (long long)value);
    return status ? status : qkv__gguf_read_rope(config, g, a, (size_t)head);
}

/* What would be another network, or a part of one. */
static qkv_status refuse_fields(const qkv__gguf *g, const qkv__gguf_arch *a)
{
    static const char *const counts[] = {"expert_count", "expert_used_count"};
    char key[QKV__GGUF_KEY_BYTES];
    int64_t parts = 1;
    qkv_status found = qkv__gguf_opt_int(g, "split.count", 0, UINT16_MAX, &parts);
    if (!found && parts > 1)
        found = qkv__gguf_fail(g, "split.count", "expected 1, found %lld: a model in several files "
                               "is not supported", (long long)parts);
    if (found)
        return found;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t n = 0;
        qkv_status status = qkv__gguf_opt_int(g, qkv__gguf_key(key, a, counts[i]), 0, MOST, &n);
        if (!status && n)
            status = qkv__gguf_fail(g, key, "expected 0, found %lld: a mixture of experts is not "
                                    "supported", (long long)n);
        if (status)
            return status;
    }
    return QKV_OK;
}

static qkv_status read_members(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a)
{
    const qkv_model_type *type = a->type();
    json_t *architectures = json_pack("[s]", qkv_model_type_architecture(type));
    qkv_status status = qkv__gguf_set(config, g, "architectures", architectures);
    if (!status)
        status = qkv__gguf_set(config, g, "model_type", json_string(qkv_model_type_name(type)));
    if (!status)
        status = check_required(g, a);
    if (!status)
        status = refuse_fields(g, a);
    if (!status)
        status = read_ids(config, g, a);
    for (const qkv__gguf_row *row = a->rows; row->key && !status; row++)
        status = read_row(config, g, a, row);
    for (const qkv__gguf_fixed *x = a->fixed; x->key && !status; x++)
        status = qkv__gguf_set(config, g, x->key, json_loads(x->value, JSON_DECODE_ANY, NULL));
    for (const qkv__gguf_told *x = a->told; x->key && !status; x++)
        status = qkv__gguf_set(config, g, x->key,
                            json_boolean((qkv__gguf_tensor_find(g, x->tensor) != NULL) !=
                                         x->absent));
    return status ? status : read_vocab(config, g);
}

qkv_status qkv__gguf_read_config(json_t **out, const qkv__gguf *g, const qkv__gguf_arch *a)
{
    json_t *config = json_object();
    const bool bert = strcmp(a->name, "bert") == 0;
    *out = NULL;
    if (!config)
        return QKV_E_MEMORY;
    qkv_status status = read_members(config, g, a);
    if (!status && qkv__gguf_rotary(a))
        status = read_rotary(config, g, a);
    if (!status)
        status = bert ? read_bert(config, g, a) : read_ends(config, g);
    if (status)
        json_decref(config);
    else
        *out = config;
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* What the file has no field for must be what it is taken to be. */
static qkv_status check_fixed(const qkv__gguf_arch *a, const qkv__json *config)
{
    for (const qkv__gguf_fixed *x = a->fixed; x->key; x++) {
        json_t *value = json_loads(x->value, JSON_DECODE_ANY, NULL);
        const json_t *found = json_object_get(config->value, x->key);
        const bool same = value && (!found || json_equal(value, found));
        json_decref(value);
        if (!same)
            return qkv__json_fail(config, x->key, "expected %s: a GGUF file of a %s has no other",
                                  x->value, a->name);
    }
    return QKV_OK;
}

static void write_row(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv__gguf_row *row,
                      const qkv_model *m, const qkv__json *config)
{
    char key[QKV__GGUF_KEY_BYTES];
    const json_t *value = json_object_get(config->value, row->key);
    (void)qkv__gguf_key(key, a, row->suffix);
    if (!value || json_is_null(value))
        return;
    if (row->real)
        qkv__gguf_put_f32(f, key, (float)json_number_value(value));
    else
        qkv__gguf_put_u32(f, key, (uint32_t)json_integer_value(value) -
                                      (uint32_t)left_out(a, row, qkv__gguf_rows_left_out(a, m)));
}

static void write_labels(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m)
{
    char key[QKV__GGUF_KEY_BYTES], name[32];
    const qkv_bert_config *c = qkv_model_config(m);
    qkv__gguf_put_array(f, qkv__gguf_key(key, a, "classifier.output_labels"), QKV__GGUF_STRING,
                        c->classes);
    for (size_t i = 0; i < c->classes; i++) {
        const char *label = i < m->label_count ? m->labels[i] : name;
        (void)snprintf(name, sizeof name, "LABEL_%zu", i);
        qkv__gguf_item_string(f, label, strlen(label));
    }
}

/* Of llama.cpp's kinds: 1 the mean, 2 the first token, 4 a classifier's. */
enum { POOLED_MEAN = 1, POOLED_FIRST = 2, POOLED_RANK = 4 };

static void write_bert(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m)
{
    char key[QKV__GGUF_KEY_BYTES];
    const qkv_bert_config *c = qkv_model_config(m);
    const bool classifier = a->marks & QKV__GGUF_LABELS;
    const bool segments = !(a->marks & QKV__GGUF_NO_SEGMENTS);
    qkv__gguf_put_bool(f, qkv__gguf_key(key, a, "attention.causal"), false);
    qkv__gguf_put_u32(f, qkv__gguf_key(key, a, "pooling_type"),
                      classifier                    ? POOLED_RANK
                      : c->pooling == QKV_POOL_MEAN ? POOLED_MEAN
                                                    : POOLED_FIRST);
    qkv__gguf_put_u32(f, "tokenizer.ggml.token_type_count", segments ? (uint32_t)c->segments : 1);
    if (!segments)
        qkv__gguf_put_f32(f, qkv__gguf_key(key, a, "attention.layer_norm_epsilon"),
                          (float)DISTILBERT_EPSILON);
    if (classifier)
        write_labels(f, a, m);
}

qkv_status qkv__gguf_read_pooling(qkv_model *m, const qkv__gguf *g)
{
    qkv_bert_config *c = m->config;
    int64_t kind = POOLED_MEAN;
    if (!qkv_model_can(m, QKV_CAN_EMBED_TEXT))
        return QKV_OK;
    qkv_status status = qkv__gguf_opt_int(g, "bert.pooling_type", POOLED_MEAN, POOLED_FIRST, &kind);
    c->pooling = kind == POOLED_FIRST ? QKV_POOL_FIRST : QKV_POOL_MEAN;
    return status;
}

static void write_id(qkv__gguf_fields *f, const char *field, int32_t id)
{
    if (id >= 0)
        qkv__gguf_put_u32(f, field, (uint32_t)id);
}

static int32_t role_of(const qkv_tokenizer *t, qkv_token_role role)
{
    return t ? qkv_tokenizer_special(t, role) : -1;
}

/* The tokenizer's end first, then the model's; the field of the first is the tokenizer's. */
static qkv_status write_ends(qkv__gguf_fields *f, const qkv_tokenizer *t, const qkv__json *config)
{
    const json_t *eos = json_object_get(config->value, "eos_token_id");
    const size_t given = json_is_array(eos) ? json_array_size(eos) : json_is_integer(eos);
    int32_t list[QKV_LM_EOS_IDS + 1] = {role_of(t, QKV_TOKEN_EOS)};
    size_t count = list[0] >= 0;
    for (size_t i = 0; i < given && i < QKV_LM_EOS_IDS; i++) {
        const json_t *item = json_is_array(eos) ? json_array_get(eos, i) : eos;
        int32_t id = (int32_t)json_integer_value(item);
        bool new = id >= 0;
        for (size_t k = 0; k < count; k++)
            new = new && list[k] != id;
        if (new)
            list[count++] = id;
    }
    if (count > ENDS)
        return qkv__json_fail(config, "eos_token_id", "a GGUF file has room for %d ids, found %zu",
                              (int)ENDS, count);
    for (size_t i = 0; i < count; i++)
        write_id(f, ends[i], list[i]);
    return QKV_OK;
}

qkv_status qkv__gguf_write_ids(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_tokenizer *t,
                               const qkv__json *config)
{
    static const struct {
        qkv_token_role role;
        const char *field;
    } roles[] = {{QKV_TOKEN_UNK, "tokenizer.ggml.unknown_token_id"},
                 {QKV_TOKEN_SEP, "tokenizer.ggml.seperator_token_id"},
                 {QKV_TOKEN_CLS, "tokenizer.ggml.cls_token_id"},
                 {QKV_TOKEN_MASK, "tokenizer.ggml.mask_token_id"}};
    static const qkv_token_role model_roles[] = {QKV_TOKEN_BOS, QKV_TOKEN_PAD};
    qkv_status status = write_ends(f, t, config);
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !status; i++) {
        const json_t *id = json_object_get(config->value, ids[i].key);
        int32_t own = role_of(t, model_roles[i]);
        if (own < 0 && model_roles[i] == QKV_TOKEN_BOS)
            own = role_of(t, QKV_TOKEN_CLS); /* what llama.cpp puts before a text */
        const int32_t given = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
        if (a->positions == QKV__GGUF_AFTER_PAD && model_roles[i] == QKV_TOKEN_PAD && own >= 0 &&
            own != given)
            status = qkv__json_fail(config, ids[i].key, "expected %d, the tokenizer's, found %d: "
                                    "positions follow it", own, given);
        write_id(f, ids[i].field, own < 0 ? given : own);
    }
    for (size_t i = 0; i < sizeof roles / sizeof *roles && !status; i++)
        write_id(f, roles[i].field, role_of(t, roles[i].role));
    return status;
}

static qkv_status write_rotary(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m)
{
    char key[QKV__GGUF_KEY_BYTES];
    const qkv_gpt_config *c = qkv_model_config(m);
    qkv__gguf_put_u32(f, qkv__gguf_key(key, a, "attention.value_length"),
                      (uint32_t)c->head_width);
    if (c->use_window && c->window && c->window < c->positions)
        qkv__note(qkv_model_context(m), "llama.cpp does not apply the window of %zu keys: from "
                  "there on its logits differ", c->window);
    return qkv__gguf_write_rope(f, a, m);
}

qkv_status qkv__gguf_write_config(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m,
                                  const qkv__json *config)
{
    char key[QKV__GGUF_KEY_BYTES];
    int64_t vocab = 0;
    const bool bert = strcmp(a->name, "bert") == 0;
    qkv_status status = check_fixed(a, config);
    for (const qkv__gguf_row *row = a->rows; row->key && !status; row++)
        write_row(f, a, row, m, config);
    if (!status)
        status = qkv__json_get_int(config, "vocab_size", 1, MOST, &vocab);
    if (!status)
        qkv__gguf_put_u32(f, qkv__gguf_key(key, a, "vocab_size"), (uint32_t)vocab);
    if (!status && qkv__gguf_rotary(a))
        status = write_rotary(f, a, m);
    if (!status && bert)
        write_bert(f, a, m);
    return status;
}
