/* fields.c - keys of config.json that no row of a model type's table has. Those that change
 * nothing in what the model computes here are passed over; any other is refused, unless its value
 * is that of a file without it. */
#include <stdio.h>
#include <string.h>

#include "hub/parts.h"

/* Whatever their value is. A star: every key that begins so. */
static const char *const any_value[] = {
    /* what the file is, and how other programs run it */
    "_*", "architectures", "model_type", "transformers_version", "transformers.js_config",
    "torch_dtype", "dtype", "auto_map", "attn_implementation", "use_cache", "use_bfloat16",
    "torchscript", "return_dict", "output_attentions", "output_hidden_states", "output_past",
    "gradient_checkpointing", "chunk_size_feed_forward", "reorder_and_upcast_attn",
    "pretraining_tp", "finetuning_task", "tf_legacy_loss", "is_llama_config",
    /* read elsewhere */
    "id2label", "label2id", "num_labels", "layer_types", "quantization_config",
    /* how texts are written, which the caller says here */
    "task_specific_params", "max_length", "min_length", "max_new_tokens", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "num_return_sequences", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "suppress_tokens",
    "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id",
    "force_bos_token_to_be_generated", "exponential_decay_length_penalty",
    "remove_invalid_values", "output_scores", "return_dict_in_generate",
    /* the tokenizer's */
    "tokenizer_class", "prefix", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
    "cls_token_id", "mask_token_id", "unk_token_id", "decoder_start_token_id", "directionality",
    /* sizes that other fields say, and those of a training before */
    "n_ctx", "num_hidden_layers", "decoder_vocab_size", "original_max_position_embeddings",
    "max_sequence_length", "extra_pos_embeddings", "projection_dim",
    /* heads that are not here, and first values */
    "summary_*", "pooler_*", "qa_dropout", "classif_dropout", "classifier_dropout",
    "tie_word_embeddings", "tie_weights_", "initializer_range", "initializer_factor", "init_std",
    "sinusoidal_pos_embds", "encoder_layerdrop", "decoder_layerdrop",
    /* parts of backbones */
    "stage_names", "out_features", "out_indices", "apply_layernorm", "reshape_hidden_states",
    NULL,
};

/* Those that must have this value; type NULL: of any. These come first. */
static const struct {
    const char *type, *key, *value;
} one_value[] = {
    {"bert", "tie_word_embeddings", "true"},
    {"roberta", "tie_word_embeddings", "true"},
    {"distilbert", "tie_word_embeddings", "true"},
    {"marian", "tie_word_embeddings", "true"},
    {"marian", "is_encoder_decoder", "true"},
    {"marian", "static_position_embeddings", "true"},
    {"t5", "is_encoder_decoder", "true"},
    {NULL, "position_embedding_type", "absolute"},
    {NULL, "problem_type", "single_label_classification"},
    {NULL, "partial_rotary_factor", "1"},
    {NULL, "truncate", "true"}, /* YaRN's ends of the ramp, which are rounded here */
};

/* The table has the key at that path, or one below it; *below: the latter alone. */
static bool fields_in_table(const qkv_option_table *table, const char *path, bool *below)
{
    size_t n = strlen(path);
    *below = false;
    for (size_t i = 0; i < table->count; i++)
        for (const char *key = table->rows[i].key; key && *key;) {
            size_t length = strcspn(key, "|");
            if (length == n && strncmp(key, path, n) == 0) {
                *below = false;
                return true;
            }
            *below = *below || (length > n && strncmp(key, path, n) == 0 && key[n] == '.');
            key += length + (key[length] == '|');
        }
    return *below;
}

static bool fields_is_any(const char *key)
{
    for (size_t i = 0; any_value[i]; i++) {
        size_t n = strlen(any_value[i]);
        bool star = any_value[i][n - 1] == '*';
        if (star ? strncmp(key, any_value[i], n - 1) == 0 : strcmp(key, any_value[i]) == 0)
            return true;
    }
    return false;
}

/* What a file without the field says: null, false, 0, or nothing in it. */
static bool fields_is_absent(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) == 0;
    if (json_is_number(value))
        return json_number_value(value) == 0;
    return json_is_null(value) || json_is_false(value) ||
           (!json_is_true(value) && json_array_size(value) + json_object_size(value) == 0);
}

static void fields_describe(char *out, size_t size, const json_t *value)
{
    if (json_is_string(value))
        (void)snprintf(out, size, "\"%.60s\"", json_string_value(value));
    else if (json_is_number(value))
        (void)snprintf(out, size, "%g", json_number_value(value));
    else
        (void)snprintf(out, size, "%s", json_is_object(value)  ? "an object"
                                        : json_is_array(value) ? "an array"
                                        : json_is_true(value)  ? "true"
                                        : json_is_null(value)  ? "null"
                                                               : "false");
}

/* Numbers as %g has them, true and false as words, strings without their quotes. */
static bool fields_equal(const json_t *value, const char *text)
{
    char words[80];
    fields_describe(words, sizeof words, value);
    return strcmp(json_is_string(value) ? json_string_value(value) : words, text) == 0;
}

static qkv_status fields_check_unknown(const qkv__json *j, const char *type, const char *key,
                                       const json_t *value)
{
    char found[80];
    fields_describe(found, sizeof found, value);
    for (size_t i = 0; i < sizeof one_value / sizeof *one_value; i++) {
        if (strcmp(one_value[i].key, key) != 0 ||
            (one_value[i].type && strcmp(one_value[i].type, type) != 0))
            continue;
        return json_is_null(value) || fields_equal(value, one_value[i].value)
                   ? QKV_OK
                   : qkv__json_fail(j, key, "%s expected, found %s", one_value[i].value, found);
    }
    return fields_is_any(key) || fields_is_absent(value)
               ? QKV_OK
               : qkv__json_fail(j, key, "%s has no place in a %s model here", found, type);
}

qkv_status qkv__hub_check_fields(const qkv__json *j, const qkv_model_type *type)
{
    const char *key, *name = qkv_model_type_name(type);
    json_t *value;
    qkv_status status = QKV_OK;
    json_object_foreach(j->value, key, value) {
        char path[sizeof j->path + 80];
        bool below;
        qkv__json inner;
        (void)snprintf(path, sizeof path, "%s%s%s", j->path, *j->path ? "." : "", key);
        if (!fields_in_table(qkv_model_type_config(type), path, &below))
            status = fields_check_unknown(j, name, key, value);
        else if (below && !json_is_null(value))
            status = qkv__json_get_object(j, key, &inner);
        if (!status && below && !json_is_null(value))
            status = qkv__hub_check_fields(&inner, type);
        if (status)
            return status;
    }
    return status;
}
