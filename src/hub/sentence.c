/* sentence.c - the files that sentence-transformers keeps beside an encoder: modules.json, the
 * pooling and the longest text (Reimers and Gurevych 2019). A directory without them is pooled by
 * the mean, as there. What asks for another module than these is refused. */
#include <stdio.h>
#include <string.h>

#include "hub/parts.h"
#include "io/file.h"
#include "model/model.h"
#include "qkv/bert.h"

#define POOLING_FOLDER "1_Pooling"

static const struct {
    const char *name, *path, *type;
} modules[] = {{"0", "", "Transformer"}, {"1", POOLING_FOLDER, "Pooling"},
               {"2", "2_Normalize", "Normalize"}};
enum { MODULES = sizeof modules / sizeof *modules };

/* How each "pooling_mode_*" is done here; the others must be false. */
static const struct {
    const char *key;
    qkv_pooling pooling;
} modes[] = {{"pooling_mode_mean_tokens", QKV_POOL_MEAN},
             {"pooling_mode_cls_token", QKV_POOL_FIRST}};
static const char *const other_modes[] = {
    "pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"};

/* ---- reading ------------------------------------------------------------------------------- */

static qkv_status read_pooling_modes(const qkv__json *j, qkv_bert_config *c)
{
    int64_t width;
    size_t found = 0;
    qkv_status status = qkv__json_get_int(j, "word_embedding_dimension", 1, INT32_MAX, &width);
    if (!status && (size_t)width != c->width)
        status = qkv__json_fail(j, "word_embedding_dimension", "the model's width, %zu, expected, "
                                "found %lld", c->width, (long long)width);
    for (size_t i = 0; i < sizeof other_modes / sizeof *other_modes && !status; i++) {
        bool on = false;
        status = qkv__json_opt_bool(j, other_modes[i], &on);
        if (!status && on)
            status = qkv__json_fail(j, other_modes[i], "true is not supported");
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes && !status; i++) {
        bool on = false;
        status = qkv__json_opt_bool(j, modes[i].key, &on);
        if (status || !on)
            continue;
        c->pooling = modes[i].pooling;
        found++;
    }
    if (!status && found != 1)
        status = qkv__json_fail(j, modes[0].key, "this or %s expected to be true, and not both",
                                modes[1].key);
    return status;
}

static qkv_status read_pooling(qkv_context *ctx, const char *dir, qkv_bert_config *c)
{
    const qkv_path path = qkv_path_in(dir, POOLING_FOLDER "/config.json");
    qkv__json j = {0};
    qkv_status status = qkv__json_load(&j, ctx, path.text);
    if (!status)
        status = read_pooling_modes(&j, c);
    qkv__json_free(&j);
    return status;
}

/* Whether a module, by the last part of its type, is one of ours, and where it should be. */
static qkv_status check_module(const qkv__json *module)
{
    const char *type = NULL, *path = NULL;
    qkv_status status = qkv__json_get_string(module, "type", &type);
    if (!status)
        status = qkv__json_get_string(module, "path", &path);
    if (status)
        return status;
    const char *dot = strrchr(type, '.');
    for (size_t i = 0; i < MODULES; i++)
        if (strcmp(dot ? dot + 1 : type, modules[i].type) == 0)
            return i > 1 || strcmp(path, modules[i].path) == 0
                       ? QKV_OK
                       : qkv__json_fail(module, "path", "\"%s\" expected, found \"%.60s\"",
                                        modules[i].path, path);
    return qkv__json_fail(module, "type", "%s, %s or %s expected, found \"%.60s\"",
                          modules[0].type, modules[1].type, modules[2].type, type);
}

static qkv_status read_modules(qkv_context *ctx, const char *file)
{
    qkv__json j = {0}, list, module;
    qkv_status status = qkv__json_load(&j, ctx, file);
    if (!status)
        status = qkv__json_get_array(&j, NULL, &list);
    size_t count = status ? 0 : qkv__json_count(&list);
    for (size_t i = 0; i < count && !status; i++) {
        qkv__json_item(&list, i, &module);
        status = check_module(&module);
    }
    qkv__json_free(&j);
    return status;
}

static qkv_status read_lengths(qkv_context *ctx, const char *file, const qkv_model *m,
                               qkv_bert_config *c)
{
    qkv__json j = {0};
    int64_t length = 0;
    bool lower = false;
    qkv_status status = qkv__json_load(&j, ctx, file);
    if (!status)
        status = qkv__json_opt_int(&j, "max_seq_length", 1, INT32_MAX, &length);
    if (!status)
        status = qkv__json_opt_bool(&j, "do_lower_case", &lower);
    if (!status && lower)
        status = qkv__json_fail(&j, "do_lower_case", "true is not supported: the tokenizer "
                                "decides");
    if (!status)
        c->max_length = (size_t)length < qkv_bert_longest(m) ? (size_t)length : 0;
    qkv__json_free(&j);
    return status;
}

qkv_status qkv__hub_read_sentence(qkv_model *m, const char *dir)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_path path = qkv_path_in(dir, "modules.json");
    const qkv_path lengths = qkv_path_in(dir, "sentence_bert_config.json");
    if (!qkv_model_can(m, QKV_CAN_EMBED_TEXT) || !qkv_file_exists(path.text))
        return QKV_OK;
    qkv_status status = read_modules(ctx, path.text);
    if (!status)
        status = read_pooling(ctx, dir, m->config);
    if (!status && qkv_file_exists(lengths.text))
        status = read_lengths(ctx, lengths.text, m, m->config);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static qkv_status write_modules(qkv_context *ctx, const char *dir)
{
    qkv_json_writer w;
    char type[64];
    qkv_json_writer_init(&w, ctx, 2);
    qkv_json_begin_array(&w, NULL);
    for (int i = 0; i < MODULES; i++) {
        (void)snprintf(type, sizeof type, "sentence_transformers.models.%s", modules[i].type);
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_int(&w, "idx", i);
        qkv_json_put_string(&w, "name", modules[i].name);
        qkv_json_put_string(&w, "path", modules[i].path);
        qkv_json_put_string(&w, "type", type);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    return qkv_json_writer_save(&w, qkv_path_in(dir, "modules.json").text);
}

static qkv_status write_pooling(qkv_context *ctx, const char *dir, const qkv_bert_config *c)
{
    qkv_json_writer w;
    qkv_status status = qkv_dir_create(ctx, qkv_path_in(dir, POOLING_FOLDER).text);
    if (status)
        return status;
    qkv_json_writer_init(&w, ctx, 2);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "word_embedding_dimension", (int64_t)c->width);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        qkv_json_put_bool(&w, modes[i].key, modes[i].pooling == c->pooling);
    for (size_t i = 0; i < sizeof other_modes / sizeof *other_modes; i++)
        qkv_json_put_bool(&w, other_modes[i], false);
    qkv_json_end_object(&w);
    return qkv_json_writer_save(&w, qkv_path_in(dir, POOLING_FOLDER "/config.json").text);
}

qkv_status qkv__hub_write_sentence(qkv_model *m, const char *dir)
{
    qkv_context *ctx = qkv_model_context(m);
    if (!qkv_model_can(m, QKV_CAN_EMBED_TEXT))
        return QKV_OK;
    const qkv_bert_config *c = qkv_model_config(m);
    qkv_json_writer w;
    qkv_json_writer_init(&w, ctx, 2);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_int(&w, "max_seq_length",
                     (int64_t)(c->max_length ? c->max_length : qkv_bert_longest(m)));
    qkv_json_put_bool(&w, "do_lower_case", false);
    qkv_json_end_object(&w);
    const qkv_path path = qkv_path_in(dir, "sentence_bert_config.json");
    qkv_status status = qkv_json_writer_save(&w, path.text);
    if (!status)
        status = write_pooling(ctx, dir, c);
    return status ? status : write_modules(ctx, dir);
}
