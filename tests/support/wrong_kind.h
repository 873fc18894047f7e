/* wrong_kind.h - functions that take a model get every kind that is not theirs, and say so; over
 * fixture.h's set_up.
 *
 * A test has a list of functions, the QKV_CAN_* bits of the kinds that each takes, and arguments,
 * in which m is the model and t a tape:
 *     #define ROWS(T, P, Z, S, V) S(qkv_task_lm, QKV_CAN_GENERATE, (&task, m, NULL, NULL, 4, 1))
 *     REFUSALS(ROWS)
 * and calls refuse_others. */
#ifndef QKV_TESTS_WRONG_KIND_H
#define QKV_TESTS_WRONG_KIND_H

#include <stdlib.h>

#include "fixture.h"
#include "qkv/model.h"
#include "qkv/vqgan.h"
#include "qkv/pixelwise.h"

static qkv_tape *t;

/* What qkv_hub_export takes, whose sentence says which types those are. */
enum {
    EXPORTED = QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_RECONSTRUCT | QKV_CAN_ENCODE_IMAGES |
               QKV_CAN_SAMPLE_CODES
};

/* What a function gives: T a tensor, P a pointer, Z a number, S a status, V nothing. */
#define NULL_IS_GIVEN(f, takes, args)                                                              \
    static bool call_##f(qkv_model *m) { return f args == NULL; }
#define ZERO_IS_GIVEN(f, takes, args)                                                              \
    static bool call_##f(qkv_model *m) { return f args == 0; }
#define STATUS_IS_GIVEN(f, takes, args)                                                            \
    static bool call_##f(qkv_model *m) { return f args != QKV_OK; }
#define NOTHING_IS_GIVEN(f, takes, args)                                                           \
    static bool call_##f(qkv_model *m) { return f args, true; }

typedef struct {
    const char *name;
    unsigned takes;
    bool on_tape;
    bool (*refuses)(qkv_model *m);
} refusal;
#define ON_TAPE(f, takes, args) {#f, takes, true, call_##f},
#define ON_CONTEXT(f, takes, args) {#f, takes, false, call_##f},
#define REFUSALS(ROWS)                                                                             \
    ROWS(NULL_IS_GIVEN, NULL_IS_GIVEN, ZERO_IS_GIVEN, STATUS_IS_GIVEN, NOTHING_IS_GIVEN)           \
    static const refusal refusals[] = {                                                            \
        ROWS(ON_TAPE, ON_CONTEXT, ON_CONTEXT, ON_CONTEXT, ON_CONTEXT)};

/* Sizes by the names that types give them: a model of a few thousand numbers. */
static const char *const small[][2] = {
    {"vocab_size", "11"}, {"n_positions", "8"}, {"max_position_embeddings", "8"},
    {"block_size", "8"}, {"n_embd", "8"}, {"n_layer", "1"}, {"n_head", "2"}, {"hidden_size", "8"},
    {"num_hidden_layers", "1"}, {"num_attention_heads", "2"}, {"d_model", "8"},
    {"encoder_layers", "1"}, {"decoder_layers", "1"}, {"encoder_attention_heads", "2"},
    {"decoder_attention_heads", "2"}, {"pad_token_id", "0"}, {"decoder_start_token_id", "0"},
    {"context_length", "8"}, {"prediction_length", "4"}, {"patch_length", "4"},
    {"image_size", "8"}, {"patch_size", "4"}, {"decoder_hidden_size", "8"},
    {"decoder_num_hidden_layers", "1"}, {"decoder_num_attention_heads", "2"}, {"ch", "32"},
    {"ch_mult", "1,1"}, {"num_res_blocks", "1"}, {"attn_resolutions", ""}, {"resolution", "8"},
    {"projection_dim", "4"}, {"z_channels", "4"}, {"embed_dim", "4"}, {"n_embed", "8"},
    {"disc_ndf", "4"},
    {"disc_num_layers", "1"}, {"channels", "4,4"}, {"convolutions", "1,1"},
};

/* The row's key, without the object that it is in. */
static inline bool is_named(const qkv_option *row, const char *name)
{
    const char *dot = strchr(row->key, '.'), *bar = strchr(row->key, '|');
    const char *key = dot && (!bar || dot < bar) ? dot + 1 : row->key;
    size_t n = strlen(name);
    return strncmp(key, name, n) == 0 && strchr("|", key[n]);
}

/* Sets the fields of that name; of a VQGAN n_embd is a list's. */
static inline void set_small(qkv_options *o, const qkv_model_type *type, const char *name,
                             const char *value)
{
    const qkv_option_table *table = qkv_model_type_config(type);
    char key[QKV_OPTION_TEXT];
    for (size_t i = 0; i < table->count; i++)
        if (is_named(&table->rows[i], name) &&
            !(type == qkv_vqgan_type() && strcmp(name, "n_embd") == 0)) {
            assert_true(qkv_option_key(&table->rows[i], 0, key));
            assert_int_equal(qkv_options_set(o, key, value), QKV_OK);
        }
}

static inline qkv_model *made(const qkv_model_type *type)
{
    const qkv_option_table *table = qkv_model_type_config(type);
    void *config = calloc(1, qkv_model_type_config_size(type));
    qkv_options *o;
    qkv_model *m;
    assert_int_equal(qkv_options_create(&o, ctx), QKV_OK);
    assert_int_equal(qkv_options_bind(o, table, config), QKV_OK);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        set_small(o, type, small[i][0], small[i][1]);
    if (type == qkv_colorizer_type())
        assert_int_equal(qkv_options_set(o, "num_channels", "4"), QKV_OK);
    if (qkv_model_create(&m, ctx, type, config))
        fail_msg("%s", qkv_context_message(ctx));
    qkv_options_destroy(o);
    free(config);
    return m;
}

/* A refusal, with a sentence that names the function, the kinds that it takes and this one. */
static inline void check_refusal(const refusal *r, qkv_model *m)
{
    const char *name = qkv_model_type_architecture(qkv_model_type_of(m));
    qkv_tape_reset(t);
    qkv_fail(ctx, QKV_E_IO, "nothing was said");
    if (!r->refuses(m) || (r->on_tape && qkv_tape_status(t) != QKV_E_ARGUMENT))
        fail_msg("%s does not refuse a %s", r->name, name);
    const char *message = qkv_context_message(ctx);
    bool status = qkv_context_status(ctx) == QKV_E_ARGUMENT ||
                  (r->takes == EXPORTED && qkv_context_status(ctx) == QKV_E_UNSUPPORTED);
    if (!status || (r->takes != EXPORTED && (strncmp(message, r->name, strlen(r->name)) != 0 ||
                                             !strstr(message, name))))
        fail_msg("%s of a %s says: %s", r->name, name, message);
}

/* Every function with every model of the library that it does not take: that has none of its bits,
 * and is not of the type `own` (NULL: none is). Returns how many calls that were. */
static inline size_t refuse_others(const refusal *r, size_t count, const qkv_model_type *own)
{
    const qkv_model_type *type;
    size_t calls = 0;
    for (size_t k = 0; (type = qkv_model_type_at(NULL, k)); k++) {
        qkv_model *m = made(type);
        for (size_t i = 0; i < count && type != own; i++)
            if (!qkv_model_can(m, r[i].takes)) {
                check_refusal(&r[i], m);
                calls++;
            }
        qkv_model_destroy(m);
    }
    return calls;
}

#endif
