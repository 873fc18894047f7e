/* test_model_directories.c - directories whose config.json or weights are missing, cut short, of
 * the wrong type or shape, or claim sizes that are not there: one sentence that names file and
 * field, nothing allocated that stays, nothing written. Tokenizer files: unit/test_tokenizer_files.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "model_directories.h"
#include "qkv/gpt.h"

#define GPT2(more) "{\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 24, " \
                   "\"n_embd\": 24, \"n_layer\": 2, \"n_head\": 3, \"n_inner\": 40" more "}"
#define LLAMA(more) "{\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24, " \
                    "\"max_position_embeddings\": 24, \"num_hidden_layers\": 2, " \
                    "\"intermediate_size\": 40, \"num_attention_heads\": 4" more "}"

/* ---- config.json ------------------------------------------------------ */

static const config_case gpt2_cases[] = {
    {"", "config.json: expected JSON, found an empty file"},
    {"[]", "config.json: expected an object, found an array"},
    {"{}", "config.json: field \"model_type\": expected a string, found nothing"},
    {"{\"model_type\": 3}", "\"model_type\": expected a string, found an integer"},
    {"{\"model_type\": \"magic\"}", "\"model_type\": one of gpt2, llama, "},
    {"{\"model_type\": \"gpt2\", \"model_type\": \"gpt2\"}", "config.json: not JSON: line 1"},
    {"{\"model_type\": \"gpt2\", \"n_head\": NaN}", "config.json: not JSON: line 1"},
    {GPT2(", \"vocab_size\": 61"), "duplicate"},
    {GPT2(", \"n_ctx\": \"24\""), NULL}, /* n_positions is there */
    {GPT2(", \"activation_function\": \"magic\""), "\"activation_function\""},
    {GPT2(", \"activation_function\": null"), NULL},
    {GPT2(", \"add_cross_attention\": true"),
     "field \"add_cross_attention\": true has no place in a gpt2 model here"},
    {GPT2(", \"add_cross_attention\": 1"), "\"add_cross_attention\": 1 has no place"},
    {GPT2(", \"magic\": \"x\""), "field \"magic\": \"x\" has no place in a gpt2 model here"},
    {GPT2(", \"magic\": [1]"), "field \"magic\": an array has no place"},
    {GPT2(", \"magic\": {\"of\": 1}"), "field \"magic\": an object has no place"},
    {GPT2(", \"magic\": -0.5"), "field \"magic\": -0.5 has no place"},
    /* As a file without them, or of no consequence here. */
    {GPT2(", \"a\": null, \"b\": false, \"c\": 0, \"d\": [], \"e\": {}, \"f\": \"\", "
          "\"g\": 0.0"), NULL},
    {GPT2(", \"_name_or_path\": \"x\", \"attn_implementation\": \"eager\", \"summary_x\": 3, "
          "\"task_specific_params\": {\"text-generation\": {\"do_sample\": true}}, "
          "\"use_cache\": true, \"torch_dtype\": \"float16\", \"n_ctx\": 9"), NULL},
    {GPT2(", \"problem_type\": \"single_label_classification\""), NULL},
    {GPT2(", \"problem_type\": \"regression\""),
     "\"problem_type\": single_label_classification expected, found \"regression\""},
    {GPT2(", \"resid_pdrop\": 1"), "\"resid_pdrop\""},
    {GPT2(", \"layer_norm_epsilon\": \"x\""), "\"layer_norm_epsilon\""},
    {GPT2(", \"layer_norm_epsilon\": -1"), "\"layer_norm_epsilon\""},
    {GPT2(", \"tie_word_embeddings\": \"yes\""), "\"tie_word_embeddings\""},
    {GPT2(", \"qkv_positions\": \"rotary\""), "config.json: the gpt2 layout has no rotary"},
    {GPT2(", \"eos_token_id\": [1, 5]"), NULL},
    {GPT2(", \"eos_token_id\": []"), "\"eos_token_id\": expected 1 to 8 ids, found 0"},
    {GPT2(", \"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]"), "expected 1 to 8 ids, found 9"},
    {GPT2(", \"eos_token_id\": [1, \"2\"]"), "\"eos_token_id.1\": expected an integer"},
    {GPT2(", \"eos_token_id\": [-1]"), "\"eos_token_id.0\": expected an integer from 0"},
    {GPT2(", \"bos_token_id\": [1]"), "\"bos_token_id\": expected an integer, found an array"},
    {GPT2(", \"eos_token_id\": 99999999999"), "\"eos_token_id\""},
    {GPT2(", \"eos_token_id\": 99999999999999999999"), "\"eos_token_id\""},
};

/* One field of the good file changed. */
static const struct {
    const char *from, *to, *words;
} gpt2_changes[] = {
    {"\"vocab_size\": 61", "\"vocab_size\": \"61\"", "\"vocab_size\": expected an integer"},
    {"\"n_embd\": 24", "\"n_embd\": 0", "\"n_embd\""},
    {"\"n_embd\": 24", "\"n_embd\": -1", "\"n_embd\""},
    {"\"n_embd\": 24", "\"n_embd\": 2.5", "\"n_embd\": expected an integer, found 2.5"},
    {"\"n_embd\": 24", "\"n_embd\": 1e30", "\"n_embd\""},
    {"\"n_embd\": 24", "\"n_embd\": 12", "transformer.wte.weight"},
    {"\"n_embd\": 24", "\"n_embd\": 16777216", "config.json: describes a model of"},
    {"\"n_layer\": 2", "\"n_layer\": 16777216", "config.json: describes a model of"},
    {"\"vocab_size\": 61", "\"vocab_size\": 16777216", "config.json: describes a model of"},
    {"\"vocab_size\": 61", "\"vocab_size\": 60", "transformer.wte.weight"},
    {"\"n_head\": 3", "\"n_head\": 5", "config.json: 5 heads do not divide the width 24"},
    {"\"n_layer\": 2", "\"n_layer\": 1", "transformer.h.1.attn.c_attn.bias has no place"},
    {"\"n_inner\": 40", "\"n_inner\": 39", "transformer.h.0.mlp.c_fc.weight"},
    {"\"n_positions\": 24", "\"n_positions\": 23", "transformer.wpe.weight"},
};

static const config_case llama_cases[] = {
    {LLAMA(", \"num_key_value_heads\": 3"), "cannot share 3 key/value heads"},
    {LLAMA(", \"head_dim\": 3"), "an even number of channels of a head, not 3 of 3"},
    {LLAMA(", \"rope_theta\": \"x\""), "\"rope_theta\""},
    {LLAMA(", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}"), "\"rope_scaling.type\""},
    {LLAMA(", \"rope_scaling\": {\"rope_type\": \"longrope\"}"), "\"rope_scaling.rope_type\""},
    {LLAMA(", \"rope_scaling\": {\"type\": \"linear\"}"), "extended by the factor 0"},
    {LLAMA(", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, "
           "\"low_freq_factor\": 4, \"high_freq_factor\": 1}"), "0 < low < high expected"},
    {LLAMA(", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": false}"),
     "\"rope_parameters.truncate\": true expected, found false"},
    {LLAMA(", \"rope_parameters\": {\"rope_type\": \"default\", \"mrope_section\": [1, 2]}"),
     "\"rope_parameters.mrope_section\": an array has no place in a llama model here"},
    {LLAMA(", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}"),
     "\"rope_parameters.partial_rotary_factor\": 1 expected, found 0.5"},
    {LLAMA(", \"attn_logit_softcapping\": 50.0"), "\"attn_logit_softcapping\": 50 has no place"},
    {LLAMA(", \"rope_parameters\": {\"rope_type\": 1}"), "rope_type"},
    {LLAMA(", \"rope_parameters\": 3"), "\"rope_parameters\": expected an object"},
    {LLAMA(", \"head_dim\": 16777216"), "config.json: describes a model of"},
    {LLAMA(""), "model.layers.0.self_attn.q_proj.weight"},
};

static void test_config(void **state)
{
    (void)state;
    const char *good = GPT2("");
    copy_golden("gpt2", "model.safetensors");
    refuse("config.json: cannot be opened");
    put_text("config.json", good);
    accept();
    run_cases(gpt2_cases, sizeof gpt2_cases / sizeof *gpt2_cases);
    for (size_t i = 0; i < sizeof gpt2_changes / sizeof *gpt2_changes; i++) {
        char text[1000];
        const char *at = strstr(good, gpt2_changes[i].from);
        assert_non_null(at);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, gpt2_changes[i].to,
                       at + strlen(gpt2_changes[i].from));
        put_text("config.json", text);
        refuse(gpt2_changes[i].words);
    }
    for (size_t cut = 1; cut < strlen(good); cut++) {
        put_file(in(folder, "config.json"), good, cut);
        refuse("config.json: not JSON");
    }
    copy_golden("llama", "model.safetensors");
    run_cases(llama_cases, sizeof llama_cases / sizeof *llama_cases);
}

/* A list of ids that end a text: all are the model's, and written as they were read. */
static void test_ends(void **state)
{
    (void)state;
    static const int32_t expected[] = {7, 0, 33};
    qkv_model *m;
    int32_t ends[QKV_LM_EOS_IDS];
    copy_golden("gpt2", "model.safetensors");
    put_text("config.json", GPT2(", \"eos_token_id\": [7, 0, 33]"));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(qkv_hub_load(&m, ctx, round ? in(folder, "again") : folder), QKV_OK);
        assert_int_equal(((const qkv_gpt_config *)qkv_model_config(m))->eos, expected[0]);
        assert_int_equal(qkv_model_eos_count(m), 3);
        assert_int_equal(qkv_lm_eos_ids(m, ends), 3);
        assert_memory_equal(ends, expected, sizeof expected);
        if (!round)
            assert_int_equal(qkv_hub_save(m, in(folder, "again"), NULL), QKV_OK);
        qkv_model_destroy(m);
    }
    put_text("config.json", GPT2(", \"eos_token_id\": 5")); /* one is no list */
    assert_int_equal(qkv_hub_load(&m, ctx, folder), QKV_OK);
    assert_int_equal(qkv_model_eos_count(m), 0);
    assert_int_equal(qkv_lm_eos_ids(m, ends), 1);
    assert_int_equal(ends[0], 5);
    qkv_model_destroy(m);
    put_text("config.json", GPT2(", \"eos_token_id\": null"));
    assert_int_equal(qkv_hub_load(&m, ctx, folder), QKV_OK);
    assert_int_equal(qkv_lm_eos_ids(m, ends), 0);
    qkv_model_destroy(m);
}

/* ---- weights ------------------------------------------------------ */

enum { MOST_TENSORS = 64 };

/* The golden weights again, with entry `which` (in order of names) changed by `change`. */
typedef void change_fn(qkv_safetensors_entry *e);

static void write_changed(const char *which, change_fn *change)
{
    qkv_safetensors *s;
    qkv_safetensors_entry entries[MOST_TENSORS];
    assert_int_equal(qkv_safetensors_open(&s, ctx, GOLDEN "gpt2"), QKV_OK);
    size_t count = qkv_safetensors_count(s);
    assert_true(count < MOST_TENSORS);
    for (size_t i = 0; i < count; i++) {
        const qkv_safetensor *t = qkv_safetensors_at(s, i);
        entries[i] = (qkv_safetensors_entry){.name = t->name, .ndim = t->ndim, .shape = t->shape,
                                             .store = t->store, .raw = t->data};
        if (strcmp(t->name, which) == 0)
            change(&entries[i]);
    }
    unlink(in(folder, "model.safetensors"));
    assert_int_equal(qkv_safetensors_save(ctx, in(folder, "model.safetensors"), entries, count,
                                          NULL), QKV_OK);
    qkv_safetensors_close(s);
}

static const size_t swapped[] = {72, 24};
static void turn(qkv_safetensors_entry *e) { e->shape = swapped; }
static void flatten(qkv_safetensors_entry *e)
{
    static size_t all;
    all = e->shape[0] * e->shape[1];
    e->ndim = 1;
    e->shape = &all;
}
static void make_integers(qkv_safetensors_entry *e) { e->store = QKV_STORE_I32; }
static void rename_it(qkv_safetensors_entry *e) { e->name = "transformer.nonsense"; }

static void test_weights(void **state)
{
    (void)state;
    static const struct {
        const char *tensor;
        change_fn *change;
        const char *words;
    } cases[] = {
        {"transformer.h.0.attn.c_attn.weight", turn, "expected shape (24, 72), found (72, 24)"},
        {"transformer.wpe.weight", flatten, "expected shape (24, 24), found (576)"},
        {"transformer.ln_f.bias", make_integers, "\"transformer.ln_f.bias\": expected F32"},
        {"transformer.ln_f.bias", rename_it, "transformer.ln_f.bias"},
    };
    copy_golden("gpt2", "config.json");
    refuse("model.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_changed(cases[i].tensor, cases[i].change);
        refuse(cases[i].words);
    }
    size_t size;
    char *bytes = take_file(GOLDEN "gpt2/model.safetensors", &size);
    for (size_t cut = 0; cut < size; cut += cut < 40 ? 1 : 997) {
        put_file(in(folder, "model.safetensors"), bytes, cut);
        refuse("model.safetensors");
    }
    static const uint64_t lengths[] = {0, 3, 100000001, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(bytes, &lengths[i], sizeof lengths[i]);
        put_file(in(folder, "model.safetensors"), bytes, size);
        refuse("model.safetensors");
    }
    free(bytes);
    copy_golden("gpt2", "model.safetensors");
    accept();
}

static void test_shards(void **state)
{
    (void)state;
    qkv_model *m;
    qkv_hub_save_options o = {.store = QKV_STORE_F32, .shard_bytes = 20000};
    assert_int_equal(qkv_hub_load(&m, ctx, GOLDEN "gpt2"), QKV_OK);
    assert_int_equal(qkv_hub_save(m, folder, &o), QKV_OK);
    qkv_model_destroy(m);
    accept();
    size_t size;
    char *index = take_file(in(folder, "model.safetensors.index.json"), &size);
    for (size_t cut = 0; cut < size - 2; cut += 101) {
        put_file(in(folder, "model.safetensors.index.json"), index, cut);
        refuse("model.safetensors.index.json");
    }
    char *name = strstr(index, "00001-of");
    assert_non_null(name);
    name[4] = '7'; /* a shard that is not there */
    put_file(in(folder, "model.safetensors.index.json"), index, size);
    refuse("model-00007-of");
    name[4] = '1';
    put_file(in(folder, "model.safetensors.index.json"), index, size);
    accept();
    char shard[40];
    (void)snprintf(shard, sizeof shard, "model-%.14s.safetensors", name);
    size_t bytes;
    char *data = take_file(in(folder, shard), &bytes);
    put_file(in(folder, shard), data, bytes - 1);
    refuse(shard);
    unlink(in(folder, shard));
    refuse(shard);
    free(data);
    free(index);
}

/* ---- no memory, no place ------------------------------------------------------ */

static void test_memory_runs_out(void **state)
{
    (void)state;
    qkv_status status = QKV_E_MEMORY;
    for (size_t n = 0; status; n++) {
        qkv_model *m = NULL;
        memory.left = n;
        status = qkv_hub_load(&m, ctx, GOLDEN "llama");
        memory.left = SIZE_MAX;
        if (status)
            assert_int_equal(status, QKV_E_MEMORY);
        assert_true(!status == !!m);
        qkv_model_destroy(m);
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    }
    qkv_model *m;
    assert_int_equal(qkv_hub_load(&m, ctx, GOLDEN "llama"), QKV_OK);
    size_t held = qkv_context_memory(ctx).live_bytes;
    status = QKV_E_MEMORY;
    for (size_t n = 0; status; n += 3) {
        memory.left = n;
        status = qkv_hub_save(m, folder, NULL);
        memory.left = SIZE_MAX;
        assert_int_equal(qkv_context_memory(ctx).live_bytes, held);
    }
    qkv_model_destroy(m);
    accept();
}

static void test_saving_where_nothing_can_be(void **state)
{
    (void)state;
    qkv_model *m;
    assert_int_equal(qkv_hub_load(&m, ctx, GOLDEN "gpt2"), QKV_OK);
    put_text("file", "mine");
    assert_int_equal(qkv_hub_save(m, in(folder, "file"), NULL), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), in(folder, "file")));
    qkv_hub_save_options o = {.store = QKV_STORE_I32};
    assert_int_equal(qkv_hub_save(m, in(folder, "new"), &o), QKV_E_ARGUMENT);
    assert_int_equal(files_in(folder), 1);
    qkv_model_destroy(m);
    assert_int_equal(qkv_hub_load(&m, ctx, in(folder, "nowhere")), QKV_E_IO);
    assert_non_null(strstr(qkv_context_message(ctx), "nowhere/config.json: cannot be opened"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_config, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shards, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_runs_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_saving_where_nothing_can_be, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
