/* template.c - post-processors: the tokens put around a text or a pair of texts, and
 * which part of a pair each token belongs to. */
#include "tokenizer/template.h"

#include <string.h>

#include "qkv/tokenizer.h"
#include "tokenizer/parts.h"

static qkv_status template_add(qkv__template *x, qkv_context *ctx, int32_t id, int32_t type)
{
    if (!qkv__grow(ctx, &x->items, &x->capacity, x->count + 1, sizeof *x->items))
        return QKV_E_MEMORY;
    x->items[x->count++] = (struct qkv__template_item){id, type};
    return QKV_OK;
}

static void empty(qkv__template *x, qkv_context *ctx)
{
    qkv_free(ctx, x->items);
    *x = (qkv__template){0};
}

void qkv__templates_free(qkv__templates *x, qkv_context *ctx)
{
    empty(&x->single, ctx);
    empty(&x->pair, ctx);
}

typedef struct {
    qkv__templates *out;
    qkv_context *ctx;
    const qkv__vocab *const *tokens; /* (2) that templates may name */
} reader;

static bool is_token(const reader *t, int64_t id)
{
    size_t len;
    return qkv__vocab_text(t->tokens[0], (int32_t)id, &len) ||
           qkv__vocab_text(t->tokens[1], (int32_t)id, &len);
}

/* ---- TemplateProcessing -------------------------------------------------------------- */

/* The ids that a special token of a template stands for. */
static qkv_status read_token(const reader *t, qkv__template *x, const qkv__json *tokens,
                             const qkv__json *use, int32_t type)
{
    const char *name = NULL;
    qkv__json token, ids;
    qkv_status status = qkv__json_get_string(use, "id", &name);
    if (!status)
        status = qkv__json_get_object(tokens, name, &token);
    if (!status)
        status = qkv__json_get_array(&token, "ids", &ids);
    size_t count = status ? 0 : qkv__json_count(&ids);
    for (size_t i = 0; !status && i < count; i++) {
        qkv__json item;
        int64_t id = 0;
        qkv__json_item(&ids, i, &item);
        status = qkv__json_get_int(&item, NULL, 0, QKV_TOKENIZER_ID_LIMIT - 1, &id);
        if (!status && !is_token(t, id))
            status = qkv__json_fail(&item, NULL, "%d is the id of no token", (int)id);
        if (!status)
            status = template_add(x, t->ctx, (int32_t)id, type);
    }
    return status;
}

static qkv_status read_item(const reader *t, qkv__template *x, const qkv__json *tokens,
                            const qkv__json *item)
{
    bool text = qkv__json_has(item, "Sequence");
    const char *which = "A";
    qkv__json use;
    int64_t type = 0;
    qkv_status status = qkv__json_get_object(item, text ? "Sequence" : "SpecialToken", &use);
    if (!status)
        status = qkv__json_opt_int(&use, "type_id", 0, 255, &type);
    if (!status && !text)
        return read_token(t, x, tokens, &use, (int32_t)type);
    if (!status)
        status = qkv__json_opt_string(&use, "id", &which);
    if (!status && strcmp(which, "A") != 0 && strcmp(which, "B") != 0)
        status = qkv__json_fail(&use, "id", "expected \"A\" or \"B\", found \"%.40s\"", which);
    return status ? status
                  : template_add(x, t->ctx, *which == 'A' ? QKV__TEXT_A : QKV__TEXT_B,
                                 (int32_t)type);
}

/* texts: how many texts there must be, each once. */
static qkv_status template_read_list(const reader *t, qkv__template *x, const qkv__json *at,
                                     const qkv__json *list, int texts)
{
    qkv__json tokens;
    qkv_status status = qkv__json_get_object(at, "special_tokens", &tokens);
    size_t count = status ? 0 : qkv__json_count(list);
    empty(x, t->ctx);
    for (size_t i = 0; !status && i < count; i++) {
        qkv__json item;
        qkv__json_item(list, i, &item);
        status = read_item(t, x, &tokens, &item);
    }
    int found[2] = {0, 0};
    for (size_t i = 0; !status && i < x->count; i++)
        if (x->items[i].id < 0)
            found[x->items[i].id == QKV__TEXT_B]++;
    if (!status && (found[0] != 1 || found[1] != texts - 1))
        status = qkv__json_fail(list, NULL,
                                "each text stands in the template once; found A %d times, B %d",
                                found[0], found[1]);
    return status;
}

static qkv_status template_read_template(const reader *t, const qkv__json *at)
{
    qkv__json list;
    qkv_status status = qkv__json_get_array(at, "single", &list);
    if (!status)
        status = template_read_list(t, &t->out->single, at, &list, 1);
    if (status || !qkv__json_has(at, "pair"))
        return status;
    status = qkv__json_get_array(at, "pair", &list);
    return status ? status : template_read_list(t, &t->out->pair, at, &list, 2);
}

/* ---- the fixed ones ------------------------------------------------------------------ */

/* ["[SEP]", 102] */
static qkv_status read_fixed(const reader *t, const qkv__json *at, const char *key, int32_t *id)
{
    qkv__json pair, item;
    int64_t value = 0;
    qkv_status status = qkv__json_get_array(at, key, &pair);
    if (status)
        return status;
    if (qkv__json_count(&pair) != 2)
        return qkv__json_fail(at, key, "expected a token and its id");
    qkv__json_item(&pair, 1, &item);
    status = qkv__json_get_int(&item, NULL, 0, QKV_TOKENIZER_ID_LIMIT - 1, &value);
    *id = (int32_t)value;
    if (!status && !is_token(t, *id))
        status = qkv__json_fail(at, key, "%d is the id of no token", (int)*id);
    return status;
}

/* CLS A SEP, and CLS A SEP [SEP] B SEP: twice is for two SEP between the texts; second: the type
 * of the second text. */
static qkv_status put_fixed(const reader *t, const qkv__json *at, bool twice, int32_t second)
{
    int32_t cls = 0, sep = 0;
    qkv_status status = read_fixed(t, at, "cls", &cls);
    if (!status)
        status = read_fixed(t, at, "sep", &sep);
    const struct qkv__template_item items[] = {{cls, 0},    {QKV__TEXT_A, 0},      {sep, 0},
                                               {sep, 0},    {QKV__TEXT_B, second}, {sep, second}};
    qkv__templates_free(t->out, t->ctx);
    for (size_t i = 0; i < 3 && !status; i++)
        status = template_add(&t->out->single, t->ctx, items[i].id, items[i].type);
    for (size_t i = 0; i < 6 && !status; i++)
        if (i != 3 || twice)
            status = template_add(&t->out->pair, t->ctx, items[i].id, items[i].type);
    return status;
}

static qkv_status template_read_bert(const reader *t, const qkv__json *at)
{
    return put_fixed(t, at, false, 1);
}

static qkv_status read_roberta(const reader *t, const qkv__json *at)
{
    return put_fixed(t, at, true, 0);
}

/* ByteLevel only moves offsets, which qkv does not give. */
static qkv_status read_nothing(const reader *t, const qkv__json *at)
{
    (void)t;
    (void)at;
    return QKV_OK;
}

static const struct {
    const char *name;
    qkv_status (*read)(const reader *t, const qkv__json *at);
} kinds[] = {
    {"TemplateProcessing", template_read_template},
    {"BertProcessing", template_read_bert},
    {"RobertaProcessing", read_roberta},
    {"ByteLevel", read_nothing},
};

static qkv_status template_read_one(void *t, const qkv__json *at, const char *type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].name) == 0)
            return kinds[i].read(t, at);
    return qkv__json_fail(at, "type", "\"%.40s\" is no post-processor that qkv knows", type);
}

qkv_status qkv__templates_read(qkv__templates *x, qkv_context *ctx,
                               const qkv__vocab *const tokens[2], const qkv__json *at)
{
    reader r = {x, ctx, tokens};
    return qkv__parts_read(&r, at, "processors", 1, template_read_one);
}

qkv_status qkv__templates_default(qkv__templates *x, qkv_context *ctx)
{
    qkv_status status = QKV_OK;
    if (!x->single.count)
        status = template_add(&x->single, ctx, QKV__TEXT_A, 0);
    if (!status && !x->pair.count)
        status = template_add(&x->pair, ctx, QKV__TEXT_A, 0);
    if (!status && x->pair.count == 1)
        status = template_add(&x->pair, ctx, QKV__TEXT_B, 1);
    return status;
}

qkv_status qkv__templates_suffix(qkv__templates *x, qkv_context *ctx, int32_t id)
{
    qkv_status status = template_add(&x->single, ctx, QKV__TEXT_A, 0);
    if (!status)
        status = template_add(&x->single, ctx, id, 0);
    if (!status)
        status = template_add(&x->pair, ctx, QKV__TEXT_A, 0);
    if (!status)
        status = template_add(&x->pair, ctx, QKV__TEXT_B, 0);
    return status ? status : template_add(&x->pair, ctx, id, 0);
}
