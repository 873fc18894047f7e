/* generation.c - generation_config.json: how a model is searched for its answer. What a table can
 * say is in the table; lists of ids, and a field that is a truth or a word, are read by hand. */
#include <string.h>

#include "hub/parts.h"
#include "io/file.h"
#include "io/json_options.h"
#include "model/model.h"
#include "qkv/marian.h"

#define FIELD(member) .offset = offsetof(qkv_generation, member)
static const qkv_option rows[] = {
    {.key = "num_beams", .type = QKV_OPT_SIZE, .min = 1, .max = QKV_BEAMS, FIELD(beams),
     .initial = "4", .help = "hypotheses kept of each sentence"},
    {.key = "length_penalty", .type = QKV_OPT_REAL, .min = -100, .max = 100, FIELD(length_penalty),
     .initial = "1", .help = "scores are divided by the length to this power"},
    {.key = "max_length", .type = QKV_OPT_SIZE, .flags = QKV_OPT_NULL, .max = 16777216,
     FIELD(max_length), .help = "most tokens, the first input counted"},
    {.key = "max_new_tokens", .type = QKV_OPT_SIZE, .flags = QKV_OPT_NULL, .max = 16777216,
     FIELD(max_new_tokens), .help = "most tokens, the first input not counted"},
    {.key = "renormalize_logits", .type = QKV_OPT_BOOL, FIELD(renormalize),
     .help = "banned tokens have no probability"},
    {.key = "decoder_start_token_id", .type = QKV_OPT_INT, .max = 16777215, FIELD(start),
     .help = "the decoder's first input"},
};
static const qkv_option_table table = {"Searching", rows, sizeof rows / sizeof *rows, 0};

/* Fields that ask for another search, unless they have the one value that does not. */
static const struct {
    const char *key;
    double harmless;
} others[] = {{"no_repeat_ngram_size", 0}, {"repetition_penalty", 1}, {"num_beam_groups", 1},
              {"diversity_penalty", 0},    {"min_length", 0},         {"min_new_tokens", 0},
              {"penalty_alpha", 0},        {"encoder_no_repeat_ngram_size", 0},
              {"encoder_repetition_penalty", 1}};

/* The same of fields that ask for it by being there, and not false. */
static const char *const absent[] = {
    "do_sample", "forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens",
    "sequence_bias", "exponential_decay_length_penalty", "constraints", "force_words_ids"};

/* ---- defaults ------------------------------------------------------------------------------ */

void qkv_generation_defaults(qkv_generation *g, const qkv_model *m)
{
    *g = (qkv_generation){.early_stopping = QKV_STOP_UNLIKELY};
    qkv_option_defaults(&table, g);
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE))
        return;
    const qkv_marian_config *c = qkv_model_config(m);
    g->start = c->start;
    g->max_length = c->positions;
    g->forced_eos = c->eos;
    g->eos_count = c->eos >= 0;
    g->eos_ids[0] = c->eos;
    if (m->eos_count) {
        g->eos_count = m->eos_count;
        memcpy(g->eos_ids, m->eos_ids, sizeof m->eos_ids);
    }
    g->ban_count = c->pad >= 0 && c->pad != c->eos;
    g->banned[0] = c->pad;
}

/* ---- writing -------------------------------------------------------------------------------- */

void qkv__hub_write_generation(qkv_json_writer *w, const qkv_model *m)
{
    qkv_generation g;
    qkv_generation_defaults(&g, m);
    qkv__json_put_options(w, &table, &g);
    if (g.forced_eos >= 0)
        qkv_json_put_int(w, "forced_eos_token_id", g.forced_eos);
    if (!g.ban_count)
        return;
    qkv_json_begin_array(w, "bad_words_ids");
    for (size_t i = 0; i < g.ban_count; i++)
        qkv_json_put_ids(w, NULL, &g.banned[i], 1);
    qkv_json_end_array(w);
}

/* ---- reading -------------------------------------------------------------------------------- */

static qkv_status get_id(const qkv__json *at, const char *key, int32_t *out)
{
    int64_t id;
    qkv_status status = qkv__json_get_int(at, key, 0, 16777215, &id);
    if (!status)
        *out = (int32_t)id;
    return status;
}

/* An id or a list of ids; nested: a list of lists of one id each. Nothing when it is absent. */
static qkv_status get_ids(const qkv__json *j, const char *key, bool nested,
                          int32_t ids[QKV_GENERATION_IDS], size_t *count)
{
    qkv__json list, item;
    if (!qkv__json_has(j, key))
        return QKV_OK;
    *count = 1;
    if (!nested && !json_is_array(json_object_get(j->value, key)))
        return get_id(j, key, &ids[0]);
    qkv_status status = qkv__json_get_array(j, key, &list);
    size_t n = status ? 0 : qkv__json_count(&list);
    if (n > QKV_GENERATION_IDS)
        return qkv__json_fail(j, key, "at most %d expected, %zu found", QKV_GENERATION_IDS, n);
    for (size_t i = 0; i < n && !status; i++) {
        qkv__json_item(&list, i, &item);
        if (nested) {
            qkv__json word;
            status = qkv__json_get_array(&item, NULL, &word);
            if (!status && qkv__json_count(&word) != 1)
                status = qkv__json_fail(&item, NULL, "only words of one token can be banned, one "
                                        "of %zu found", qkv__json_count(&word));
            if (!status)
                qkv__json_item(&word, 0, &item);
        }
        if (!status)
            status = get_id(&item, NULL, &ids[i]);
    }
    *count = n;
    return status;
}

static qkv_status get_early_stopping(const qkv__json *j, qkv_early_stopping *out)
{
    static const char key[] = "early_stopping";
    const json_t *value = json_object_get(j->value, key);
    if (!value || json_is_null(value))
        return QKV_OK;
    if (json_is_boolean(value))
        *out = json_is_true(value) ? QKV_STOP_FULL : QKV_STOP_UNLIKELY;
    else if (json_is_string(value) && strcmp(json_string_value(value), "never") == 0)
        *out = QKV_STOP_NEVER;
    else
        return qkv__json_fail(j, key, "expected true, false or \"never\"");
    return QKV_OK;
}

static qkv_status refuse_others(const qkv__json *j)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        double value = others[i].harmless;
        qkv_status status = qkv__json_opt_real(j, others[i].key, -1e30, 1e30, &value);
        if (status)
            return status;
        if (value < others[i].harmless || value > others[i].harmless)
            return qkv__json_fail(j, others[i].key, "%g is not supported, only %g", value,
                                  others[i].harmless);
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (qkv__json_has(j, absent[i]) && !json_is_false(json_object_get(j->value, absent[i])))
            return qkv__json_fail(j, absent[i], "not supported, only null or false");
    return QKV_OK;
}

/* Bans are tested from the lowest; a token that ends a text is never banned. */
static void tidy_bans(qkv_generation *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->ban_count; i++) {
        int32_t id = g->banned[i];
        bool drop = false;
        for (size_t k = 0; k < g->eos_count; k++)
            drop = drop || g->eos_ids[k] == id;
        size_t at = kept;
        while (at > 0 && g->banned[at - 1] >= id)
            at--;
        drop = drop || (at < kept && g->banned[at] == id);
        if (drop)
            continue;
        memmove(g->banned + at + 1, g->banned + at, (kept - at) * sizeof id);
        g->banned[at] = id;
        kept++;
    }
    g->ban_count = kept;
}

static qkv_status read_table(qkv_generation *g, const qkv__json *j)
{
    qkv_options *o;
    qkv_generation before = *g;
    qkv_status status = qkv_options_create(&o, j->ctx);
    if (!status)
        status = qkv_options_bind(o, &table, g);
    *g = before; /* binding had set the table's defaults */
    if (!status)
        status = qkv__json_get_options(j, o, &table);
    qkv_options_destroy(o);
    return status;
}

static qkv_status check_id(const qkv__json *j, const char *key, int64_t id, int64_t vocab)
{
    if (id < vocab)
        return QKV_OK;
    return qkv__json_fail(j, key, "a token below the vocabulary's %lld expected, found %lld",
                          (long long)vocab, (long long)id);
}

static qkv_status generation_check_tokens(const qkv_generation *g, const qkv__json *j,
                                          int64_t vocab)
{
    qkv_status status = check_id(j, "decoder_start_token_id", g->start, vocab);
    if (!status)
        status = check_id(j, "forced_eos_token_id", g->forced_eos, vocab);
    for (size_t i = 0; i < g->eos_count && !status; i++)
        status = check_id(j, "eos_token_id", g->eos_ids[i], vocab);
    for (size_t i = 0; i < g->ban_count && !status; i++)
        status = check_id(j, "bad_words_ids", g->banned[i], vocab);
    return status;
}

static qkv_status generation_read_all(qkv_generation *g, const qkv__json *j, int64_t vocab)
{
    int32_t forced[QKV_GENERATION_IDS];
    size_t forced_count = 0;
    g->forced_eos = -1; /* a file that does not speak of these has none */
    g->ban_count = 0;
    qkv_status status = refuse_others(j);
    if (!status)
        status = read_table(g, j);
    if (!status)
        status = get_early_stopping(j, &g->early_stopping);
    if (!status)
        status = get_ids(j, "eos_token_id", false, g->eos_ids, &g->eos_count);
    if (!status)
        status = get_ids(j, "bad_words_ids", true, g->banned, &g->ban_count);
    if (!status)
        status = get_ids(j, "forced_eos_token_id", false, forced, &forced_count);
    if (!status && forced_count > 1)
        status = qkv__json_fail(j, "forced_eos_token_id", "one id expected, %zu found",
                                forced_count);
    if (!status && forced_count)
        g->forced_eos = forced[0];
    tidy_bans(g);
    return status ? status : generation_check_tokens(g, j, vocab);
}

qkv_status qkv_hub_load_generation(qkv_generation *g, const qkv_model *m, const char *dir)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    qkv_generation_defaults(g, m);
    qkv_path path = qkv_path_in(dir, "generation_config.json");
    if (!qkv_file_exists(path.text))
        path = qkv_path_in(dir, "config.json");
    qkv__json j;
    qkv_status status = qkv__json_load(&j, ctx, path.text);
    if (!status && !json_is_object(j.value))
        status = qkv__json_fail(&j, NULL, "expected an object");
    if (!status)
        status = generation_read_all(g, &j, (int64_t)((const qkv_marian_config *)
                                                      qkv_model_config(m))->vocab);
    qkv__json_free(&j);
    return status;
}
