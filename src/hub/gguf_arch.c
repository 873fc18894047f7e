/* gguf_arch.c - the architectures of GGUF files that have a model type here: tables of fields and
 * of names. */
#include <stdio.h>
#include <string.h>

#include "hub/gguf_parts.h"
#include "qkv/bert.h"
#include "qkv/gpt.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const qkv__gguf_name gpt2_outside[] = {
    {"transformer.wte.", "token_embd.", QKV__GGUF_PLAIN},
    {"transformer.wpe.", "position_embd.", QKV__GGUF_PLAIN},
    {"transformer.ln_f.", "output_norm.", QKV__GGUF_PLAIN},
    {"lm_head.", "output.", QKV__GGUF_PLAIN},
    {0}};
static const qkv__gguf_name gpt2_inside[] = {
    {"ln_1.", "attn_norm.", QKV__GGUF_PLAIN},
    {"attn.c_attn.", "attn_qkv.", QKV__GGUF_PLAIN},
    {"attn.c_proj.", "attn_output.", QKV__GGUF_PLAIN},
    {"ln_2.", "ffn_norm.", QKV__GGUF_PLAIN},
    {"mlp.c_fc.", "ffn_up.", QKV__GGUF_PLAIN},
    {"mlp.c_proj.", "ffn_down.", QKV__GGUF_PLAIN},
    {0}};
static const qkv__gguf_name llama_outside[] = {
    {"model.embed_tokens.", "token_embd.", QKV__GGUF_PLAIN},
    {"model.norm.", "output_norm.", QKV__GGUF_PLAIN},
    {"lm_head.", "output.", QKV__GGUF_PLAIN},
    {0}};
static const qkv__gguf_name llama_inside[] = {
    {"input_layernorm.", "attn_norm.", QKV__GGUF_PLAIN},
    {"self_attn.q_proj.", "attn_q.", QKV__GGUF_QUERY},
    {"self_attn.k_proj.", "attn_k.", QKV__GGUF_KEY},
    {"self_attn.v_proj.", "attn_v.", QKV__GGUF_PLAIN},
    {"self_attn.qkv_proj.", "attn_qkv.", QKV__GGUF_PLAIN},
    {"self_attn.o_proj.", "attn_output.", QKV__GGUF_PLAIN},
    {"self_attn.q_norm.", "attn_q_norm.", QKV__GGUF_PLAIN},
    {"self_attn.k_norm.", "attn_k_norm.", QKV__GGUF_PLAIN},
    {"post_attention_layernorm.", "ffn_norm.", QKV__GGUF_PLAIN},
    {"mlp.gate_proj.", "ffn_gate.", QKV__GGUF_PLAIN},
    {"mlp.up_proj.", "ffn_up.", QKV__GGUF_PLAIN},
    {"mlp.gate_up_proj.", "ffn_up.", QKV__GGUF_PLAIN},
    {"mlp.down_proj.", "ffn_down.", QKV__GGUF_PLAIN},
    {0}};

/* A BertModel's; those of a classifier stand beneath "bert.". */
#define BERT_OUTSIDE(under)                                                                    \
    {under "embeddings.word_embeddings.", "token_embd.", QKV__GGUF_PLAIN},                     \
    {under "embeddings.position_embeddings.", "position_embd.", QKV__GGUF_PLAIN},              \
    {under "embeddings.token_type_embeddings.", "token_types.", QKV__GGUF_PLAIN},              \
    {under "embeddings.LayerNorm.", "token_embd_norm.", QKV__GGUF_PLAIN},                      \
    {under "pooler.dense.", "cls.", QKV__GGUF_PLAIN}
static const qkv__gguf_name bert_outside[] = {BERT_OUTSIDE(""), {0}};
static const qkv__gguf_name bert_classifier_outside[] = {
    BERT_OUTSIDE("bert."), {"classifier.", "cls.output.", QKV__GGUF_PLAIN}, {0}};
static const qkv__gguf_name bert_inside[] = {
    {"attention.self.query.", "attn_q.", QKV__GGUF_PLAIN},
    {"attention.self.key.", "attn_k.", QKV__GGUF_PLAIN},
    {"attention.self.value.", "attn_v.", QKV__GGUF_PLAIN},
    {"attention.output.dense.", "attn_output.", QKV__GGUF_PLAIN},
    {"attention.output.LayerNorm.", "attn_output_norm.", QKV__GGUF_PLAIN},
    {"intermediate.dense.", "ffn_up.", QKV__GGUF_PLAIN},
    {"output.dense.", "ffn_down.", QKV__GGUF_PLAIN},
    {"output.LayerNorm.", "layer_output_norm.", QKV__GGUF_PLAIN},
    {0}};

/* ---- fields ---------------------------------------------------------------------------------- */

static const qkv__gguf_row gpt2_rows[] = {
    {"context_length", "n_positions", false},
    {"embedding_length", "n_embd", false},
    {"block_count", "n_layer", false},
    {"feed_forward_length", "n_inner", false},
    {"attention.head_count", "n_head", false},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", true},
    {0}};
static const qkv__gguf_row llama_rows[] = {
    {"context_length", "max_position_embeddings", false},
    {"embedding_length", "hidden_size", false},
    {"block_count", "num_hidden_layers", false},
    {"feed_forward_length", "intermediate_size", false},
    {"attention.head_count", "num_attention_heads", false},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.sliding_window", "sliding_window", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {0}};
static const qkv__gguf_row bert_rows[] = {
    {"context_length", "max_position_embeddings", false},
    {"embedding_length", "hidden_size", false},
    {"block_count", "num_hidden_layers", false},
    {"feed_forward_length", "intermediate_size", false},
    {"attention.head_count", "num_attention_heads", false},
    {"attention.layer_norm_epsilon", "layer_norm_eps", true},
    {0}};

static const qkv__gguf_fixed gpt2_fixed[] = {
    {"activation_function", "\"gelu_new\""}, {"scale_attn_weights", "true"},
    {"scale_attn_by_inverse_layer_idx", "false"}, {0}};
static const qkv__gguf_fixed llama_fixed[] = {{"hidden_act", "\"silu\""}, {0}};
static const qkv__gguf_fixed qwen2_fixed[] = {
    {"hidden_act", "\"silu\""}, {"use_sliding_window", "false"}, {0}};
static const qkv__gguf_fixed qwen3_fixed[] = {
    {"hidden_act", "\"silu\""}, {"use_sliding_window", "false"}, {"attention_bias", "false"}, {0}};
static const qkv__gguf_fixed bert_fixed[] = {{"hidden_act", "\"gelu\""}, {0}};

#define TIED {"tie_word_embeddings", "output.weight", true}
static const qkv__gguf_told llama_told[] = {
    TIED, {"attention_bias", "blk.0.attn_q.bias", false}, {"mlp_bias", "blk.0.ffn_up.bias", false},
    {0}};
static const qkv__gguf_told tied_told[] = {TIED, {0}};
static const qkv__gguf_told bert_told[] = {{0}};

/* ---- all ------------------------------------------------------------------------------------- */

static const char WINDOW[] = "attention.sliding_window";

/* Of one name, those with a marker come last. */
static const qkv__gguf_arch archs[] = {
    {"gpt2", NULL, qkv_gpt2_type, false, false, "transformer.h.", gpt2_outside, gpt2_inside,
     gpt2_rows, gpt2_fixed, tied_told},
    {"llama", NULL, qkv_llama_type, true, true, "model.layers.", llama_outside, llama_inside,
     llama_rows, llama_fixed, llama_told},
    {"llama", WINDOW, qkv_mistral_type, true, true, "model.layers.", llama_outside, llama_inside,
     llama_rows, llama_fixed, tied_told},
    {"qwen2", NULL, qkv_qwen2_type, true, false, "model.layers.", llama_outside, llama_inside,
     llama_rows, qwen2_fixed, tied_told},
    {"qwen3", NULL, qkv_qwen3_type, true, false, "model.layers.", llama_outside, llama_inside,
     llama_rows, qwen3_fixed, tied_told},
    {"phi3", NULL, qkv_phi3_type, true, false, "model.layers.", llama_outside, llama_inside,
     llama_rows, llama_fixed, tied_told},
    {"bert", NULL, qkv_bert_encoder_type, false, false, "encoder.layer.", bert_outside, bert_inside,
     bert_rows, bert_fixed, bert_told},
    {"bert", "classifier.output_labels", qkv_bert_classifier_type, false, false,
     "bert.encoder.layer.", bert_classifier_outside, bert_inside, bert_rows, bert_fixed,
     bert_told},
};
enum { ARCHS = sizeof archs / sizeof *archs };

const char *qkv__gguf_key(char out[QKV__GGUF_KEY_BYTES], const qkv__gguf_arch *a,
                          const char *suffix)
{
    (void)snprintf(out, QKV__GGUF_KEY_BYTES, "%s.%s", a->name, suffix);
    return out;
}

const qkv__gguf_arch *qkv__gguf_arch_of_file(const qkv__gguf *g, qkv_context *ctx)
{
    const char *name = NULL;
    const qkv__gguf_arch *found = NULL;
    char key[QKV__GGUF_KEY_BYTES];
    qkv_str known;
    if (qkv__gguf_get_string(g, "general.architecture", &name))
        return NULL;
    qkv_str_init(&known, ctx);
    for (size_t i = 0; i < ARCHS; i++) {
        const qkv__gguf_arch *a = &archs[i];
        if (!a->marker)
            qkv_str_printf(&known, "%s%s", i ? ", " : "", a->name);
        if (strcmp(a->name, name) == 0 &&
            (!a->marker || qkv__gguf_find(g, qkv__gguf_key(key, a, a->marker))))
            found = a;
    }
    if (!found)
        (void)qkv__gguf_fail(g, "general.architecture", "expected %s, found \"%.60s\"",
                             known.data ? known.data : "?", name);
    qkv_str_free(&known);
    return found;
}

const qkv__gguf_arch *qkv__gguf_arch_of_model(const qkv_model *m)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    for (size_t i = 0; i < ARCHS; i++)
        if (archs[i].type() == type)
            return &archs[i];
    (void)qkv_fail(qkv_model_context(m), QKV_E_UNSUPPORTED,
                   "a GGUF file has no place for a %s (%s)", qkv_model_type_name(type),
                   qkv_model_type_architecture(type));
    return NULL;
}

static const qkv__gguf_name *gguf_names_find(const qkv__gguf_name *list, const char *name)
{
    for (; list->ours; list++)
        if (strncmp(name, list->ours, strlen(list->ours)) == 0)
            return list;
    return NULL;
}

bool qkv__gguf_rename(const qkv__gguf_arch *a, const char *name, char *out, size_t room,
                      const qkv__gguf_name **part)
{
    const char *rest = name;
    size_t stem = strlen(a->layer), number = 0;
    bool inside = strncmp(name, a->layer, stem) == 0;
    if (inside) {
        rest = name + stem;
        number = strspn(rest, "0123456789") + 1;
        *part = gguf_names_find(a->inside, rest + number);
    } else {
        *part = gguf_names_find(a->outside, name);
    }
    if (!*part)
        return false;
    int n = snprintf(out, room, "%s%.*s%s%s", inside ? "blk." : "", (int)number, rest,
                     (*part)->theirs, rest + number + strlen((*part)->ours));
    return n > 0 && (size_t)n < room;
}
