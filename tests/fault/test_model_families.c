/* test_model_families.c - config.json of the families that are variations of others: fields that
 * are refused in one sentence, and those that transformers writes unasked, which are not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "model_directories.h"

/* A window in the last of two layers. */
#define QWEN2(more) "{\"model_type\": \"qwen2\", \"vocab_size\": 61, \"hidden_size\": 24, " \
                    "\"max_position_embeddings\": 24, \"num_hidden_layers\": 2, " \
                    "\"intermediate_size\": 40, \"num_attention_heads\": 4, " \
                    "\"num_key_value_heads\": 2, \"tie_word_embeddings\": true, " \
                    "\"use_sliding_window\": true, \"sliding_window\": 5, " \
                    "\"max_window_layers\": 1" more "}"
static const config_case qwen2_cases[] = {
    {QWEN2(""), NULL},
    {QWEN2(", \"layer_types\": [\"full_attention\", \"sliding_attention\"]"), NULL},
    {QWEN2(", \"layer_types\": [\"sliding_attention\", \"sliding_attention\"]"),
     "\"layer_types\": layer 0: by the other fields it is \"full_attention\", found \"sliding"},
    {QWEN2(", \"layer_types\": [\"full_attention\"]"),
     "\"layer_types\": 2 layers expected, 1 found"},
    {QWEN2(", \"layer_types\": [\"full_attention\", 1]"), "\"layer_types.1\": expected a string"},
    {QWEN2(", \"layer_types\": 1"), "\"layer_types\": expected an array"},
    {QWEN2(", \"max_window_layers\": -1"), "\"max_window_layers\""},
};

#define ROBERTA(more) "{\"model_type\": \"roberta\", \"vocab_size\": 61, \"hidden_size\": 24, " \
                      "\"num_attention_heads\": 3, \"num_hidden_layers\": 2, " \
                      "\"intermediate_size\": 40, \"max_position_embeddings\": 30, " \
                      "\"type_vocab_size\": 3, \"pad_token_id\": 3" more "}"
static const config_case roberta_cases[] = {
    {ROBERTA(", \"position_embedding_type\": \"absolute\", \"tie_word_embeddings\": true"), NULL},
    {ROBERTA(", \"position_embedding_type\": \"relative_key\""),
     "field \"position_embedding_type\": absolute expected, found \"relative_key\""},
    {ROBERTA(", \"position_embedding_type\": 3"), "\"position_embedding_type\": absolute expected"},
    {ROBERTA(", \"tie_word_embeddings\": false"),
     "field \"tie_word_embeddings\": true expected, found false"},
    {ROBERTA(", \"is_decoder\": true"), "field \"is_decoder\": true has no place in a roberta"},
    {"{\"model_type\": \"roberta\", \"vocab_size\": 61, \"hidden_size\": 24, "
     "\"num_attention_heads\": 3, \"num_hidden_layers\": 2, \"intermediate_size\": 40, "
     "\"max_position_embeddings\": 30, \"type_vocab_size\": 3, \"pad_token_id\": 29}",
     "positions follow the padding token's id: 0 to 28 expected, found 29"},
};

#define DINOV2(more) "{\"model_type\": \"dinov2\", \"architectures\": [\"Dinov2Model\"], " \
                     "\"hidden_size\": 24, \"num_hidden_layers\": 2, \"image_size\": 12, " \
                     "\"num_attention_heads\": 3, \"patch_size\": 4" more "}"
static const config_case dinov2_cases[] = {
    {DINOV2(", \"mlp_ratio\": 2"), NULL},
    {DINOV2(", \"mlp_ratio\": 2.0"), NULL},
    {DINOV2(", \"mlp_ratio\": 2.5"), "\"mlp_ratio\": expected an integer, found 2.5"},
    {DINOV2(", \"mlp_ratio\": 0"), "\"mlp_ratio\""},
    {DINOV2(", \"mlp_ratio\": 16777216"), "config.json: describes a model of"},
    {DINOV2(", \"mlp_ratio\": 1"), "encoder.layer.0.mlp.fc1.weight"},
    {DINOV2(", \"mlp_ratio\": 2, \"use_swiglu_ffn\": true"), "mlp.weights_in.weight"},
    {DINOV2(", \"mlp_ratio\": 2, \"use_swiglu_ffn\": 1"), "\"use_swiglu_ffn\""},
    {DINOV2(", \"mlp_ratio\": 2, \"use_mask_token\": false"), "mask_token has no place"},
    {DINOV2(", \"mlp_ratio\": 2, \"layerscale_value\": \"x\""), "\"layerscale_value\""},
    {DINOV2(", \"mlp_ratio\": 2, \"intermediate_size\": 48"),
     "\"intermediate_size\": 48 has no place in a dinov2 model here"},
    {DINOV2(", \"mlp_ratio\": 2, \"num_register_tokens\": 4"), "\"num_register_tokens\": 4 has no"},
    {DINOV2(", \"mlp_ratio\": 2, \"patch_size\": [4, 4]"), "duplicate"},
    {"{\"model_type\": \"dinov2_with_registers\", \"num_register_tokens\": 0}",
     "\"num_register_tokens\""},
    {"{\"model_type\": \"dinov2\", \"image_size\": [12, 12]}",
     "\"image_size\": expected an integer, found an array"},
    {"{\"model_type\": \"deit\", \"pooler_output_size\": -1}", "\"pooler_output_size\""},
};

#define T5(more) "{\"model_type\": \"t5\", \"vocab_size\": 61, \"d_model\": 24, \"d_ff\": 40, " \
                 "\"num_layers\": 2, \"num_decoder_layers\": 3, \"num_heads\": 3" more "}"
#define T5_BUCKETS "\"d_kv\": 5, \"relative_attention_num_buckets\": 8"
static const config_case t5_cases[] = {
    {T5(", " T5_BUCKETS), NULL},
    {T5(", " T5_BUCKETS ", \"is_encoder_decoder\": true, \"is_decoder\": false, "
        "\"dense_act_fn\": \"relu\", \"decoder_start_token_id\": null"), NULL},
    {T5(", \"d_kv\": 5"), "relative_attention_bias.weight\": expected shape (32, 3), found (8, 3)"},
    {T5(""), "config.json: describes a model of"},
    {T5(", " T5_BUCKETS ", \"relative_attention_max_distance\": 4"),
     "config.json: t5: relative positions up to 4 in 8 buckets: more positions than half"},
    {T5(", \"d_kv\": 5, \"relative_attention_num_buckets\": 3"), "\"relative_attention_num_b"},
    {T5(", " T5_BUCKETS ", \"feed_forward_proj\": \"gated-tanh\""), "\"feed_forward_proj\""},
    {T5(", " T5_BUCKETS ", \"feed_forward_proj\": \"gated-gelu\""),
     "encoder.block.0.layer.1.DenseReluDense.wi_0.weight"},
    {T5(", " T5_BUCKETS ", \"dense_act_fn\": \"gelu\""),
     "feed_forward_proj \"relu\" means dense_act_fn \"relu\", found \"gelu\""},
    {T5(", " T5_BUCKETS ", \"is_gated_act\": true"), "means dense_act_fn \"relu\", found"},
    {T5(", " T5_BUCKETS ", \"tie_word_embeddings\": false"), "lm_head.weight"},
    {T5(", " T5_BUCKETS ", \"scale_decoder_outputs\": false"), "lm_head.weight"},
    {T5(", " T5_BUCKETS ", \"is_encoder_decoder\": false"), "true expected, found false"},
    {T5(", " T5_BUCKETS ", \"is_decoder\": true"), "\"is_decoder\": true has no place in a t5"},
    {T5(", " T5_BUCKETS ", \"sliding_window\": 5"), "\"sliding_window\": 5 has no place in a t5"},
    {T5(", " T5_BUCKETS ", \"pad_token_id\": 61"), "pad_token_id 61 is not below"},
};

static void test_families(void **state)
{
    (void)state;
    copy_golden("qwen2", "model.safetensors");
    run_cases(qwen2_cases, sizeof qwen2_cases / sizeof *qwen2_cases);
    copy_golden("roberta", "model.safetensors");
    run_cases(roberta_cases, sizeof roberta_cases / sizeof *roberta_cases);
    copy_golden("dinov2-encoder", "model.safetensors");
    run_cases(dinov2_cases, sizeof dinov2_cases / sizeof *dinov2_cases);
    copy_golden("t5", "model.safetensors");
    run_cases(t5_cases, sizeof t5_cases / sizeof *t5_cases);
}

/* Every field that transformers writes of a family has a place, or is of no consequence, when it
 * has its default. */
static void test_defaults(void **state)
{
    (void)state;
    static const char *const types[] = {
        "bert", "clip", "deit", "dinov2", "dinov2_with_registers", "distilbert", "gpt2", "llama",
        "marian", "mistral", "phi3", "qwen2", "qwen3", "roberta", "t5", "vit",
        "vit_mae"};
    const qkv_context_options o = {.threads = 1, .isa = QKV_ISA_ALL, .meta = true};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
        char path[PATH_BYTES];
        size_t size;
        qkv_context *meta;
        qkv_model *m;
        (void)snprintf(path, sizeof path, QKV_SOURCE_DIR "/tests/golden/configs/%d-%s.json",
                       i % 2 ? 5 : 4, types[i / 2]);
        char *text = take_file(path, &size);
        put_file(in(folder, "config.json"), text, size);
        free(text);
        assert_int_equal(qkv_context_create(&meta, &o), QKV_OK);
        if (qkv_hub_load_config(&m, meta, folder))
            fail_msg("%s: %s", path, qkv_context_message(meta));
        qkv_model_destroy(m);
        qkv_context_destroy(meta);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_families, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
