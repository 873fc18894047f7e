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

/* BERT's kin; names of a type with a head stand beneath its prefix. */
#define BERT_OUTSIDE(under)                                                                    \
    {under "embeddings.word_embeddings.", "token_embd.", QKV__GGUF_PLAIN},                     \
    {under "embeddings.position_embeddings.", "position_embd.", QKV__GGUF_POSITIONS},          \
    {under "embeddings.token_type_embeddings.", "token_types.", QKV__GGUF_PLAIN},              \
    {under "embeddings.LayerNorm.", "token_embd_norm.", QKV__GGUF_PLAIN}
static const qkv__gguf_name bert_outside[] = {
    BERT_OUTSIDE(""), {"pooler.dense.", "cls.", QKV__GGUF_PLAIN}, {0}};
static const qkv__gguf_name bert_classifier_outside[] = {
    BERT_OUTSIDE("bert."), {"bert.pooler.dense.", "cls.", QKV__GGUF_PLAIN},
    {"classifier.", "cls.output.", QKV__GGUF_PLAIN}, {0}};
static const qkv__gguf_name roberta_classifier_outside[] = {
    BERT_OUTSIDE("roberta."), {"classifier.dense.", "cls.", QKV__GGUF_PLAIN},
    {"classifier.out_proj.", "cls.output.", QKV__GGUF_PLAIN}, {0}};
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
static const qkv__gguf_name distilbert_inside[] = {
    {"attention.q_lin.", "attn_q.", QKV__GGUF_PLAIN},
    {"attention.k_lin.", "attn_k.", QKV__GGUF_PLAIN},
    {"attention.v_lin.", "attn_v.", QKV__GGUF_PLAIN},
    {"attention.out_lin.", "attn_output.", QKV__GGUF_PLAIN},
    {"sa_layer_norm.", "attn_output_norm.", QKV__GGUF_PLAIN},
    {"ffn.lin1.", "ffn_up.", QKV__GGUF_PLAIN},
    {"ffn.lin2.", "ffn_down.", QKV__GGUF_PLAIN},
    {"output_layer_norm.", "layer_output_norm.", QKV__GGUF_PLAIN},
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
#define SIZES                                                                                  \
    {"context_length", "max_position_embeddings", false},                                      \
    {"embedding_length", "hidden_size", false},                                                \
    {"block_count", "num_hidden_layers", false},                                               \
    {"feed_forward_length", "intermediate_size", false},                                       \
    {"attention.head_count", "num_attention_heads", false}
static const qkv__gguf_row llama_rows[] = {
    SIZES,
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.sliding_window", "sliding_window", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {0}};
static const qkv__gguf_row bert_rows[] = {
    SIZES,
    {"attention.layer_norm_epsilon", "layer_norm_eps", true},
    {0}};
static const qkv__gguf_row distilbert_rows[] = {
    {"context_length", "max_position_embeddings", false},
    {"embedding_length", "dim", false},
    {"block_count", "n_layers", false},
    {"feed_forward_length", "hidden_dim", false},
    {"attention.head_count", "n_heads", false},
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
static const qkv__gguf_fixed distilbert_fixed[] = {{"activation", "\"gelu\""}, {0}};

#define TIED {"tie_word_embeddings", "output.weight", true}
static const qkv__gguf_told llama_told[] = {
    TIED, {"attention_bias", "blk.0.attn_q.bias", false}, {"mlp_bias", "blk.0.ffn_up.bias", false},
    {0}};
static const qkv__gguf_told tied_told[] = {TIED, {0}};
static const qkv__gguf_told none_told[] = {{0}};

/* ---- all ------------------------------------------------------------------------------------- */

/* The types of one name differ in what else a file has; the one that has nothing comes first. */
static const qkv__gguf_arch archs[] = {
    {"gpt2", 0, qkv_gpt2_type, QKV__GGUF_LEARNED, "transformer.h.", gpt2_outside, gpt2_inside,
     gpt2_rows, gpt2_fixed, tied_told},
    {"llama", 0, qkv_llama_type, QKV__GGUF_ROTARY_PAIRS, "model.layers.", llama_outside,
     llama_inside, llama_rows, llama_fixed, llama_told},
    {"llama", QKV__GGUF_WINDOW, qkv_mistral_type, QKV__GGUF_ROTARY_PAIRS, "model.layers.",
     llama_outside, llama_inside, llama_rows, llama_fixed, tied_told},
    {"qwen2", 0, qkv_qwen2_type, QKV__GGUF_ROTARY, "model.layers.", llama_outside, llama_inside,
     llama_rows, qwen2_fixed, tied_told},
    {"qwen3", 0, qkv_qwen3_type, QKV__GGUF_ROTARY, "model.layers.", llama_outside, llama_inside,
     llama_rows, qwen3_fixed, tied_told},
    {"phi3", 0, qkv_phi3_type, QKV__GGUF_ROTARY, "model.layers.", llama_outside, llama_inside,
     llama_rows, llama_fixed, tied_told},
    {"bert", 0, qkv_bert_encoder_type, QKV__GGUF_LEARNED, "encoder.layer.", bert_outside,
     bert_inside, bert_rows, bert_fixed, none_told},
    {"bert", QKV__GGUF_LABELS, qkv_bert_classifier_type, QKV__GGUF_LEARNED, "bert.encoder.layer.",
     bert_classifier_outside, bert_inside, bert_rows, bert_fixed, none_told},
    {"bert", QKV__GGUF_SUBWORDS, qkv_roberta_encoder_type, QKV__GGUF_AFTER_PAD, "encoder.layer.",
     bert_outside, bert_inside, bert_rows, bert_fixed, none_told},
    {"bert", QKV__GGUF_SUBWORDS | QKV__GGUF_LABELS, qkv_roberta_classifier_type,
     QKV__GGUF_AFTER_PAD, "roberta.encoder.layer.", roberta_classifier_outside, bert_inside,
     bert_rows, bert_fixed, none_told},
    {"bert", QKV__GGUF_NO_SEGMENTS, qkv_distilbert_encoder_type, QKV__GGUF_LEARNED,
     "transformer.layer.", bert_outside, distilbert_inside, distilbert_rows, distilbert_fixed,
     none_told},
};
enum { ARCHS = sizeof archs / sizeof *archs };

bool qkv__gguf_rotary(const qkv__gguf_arch *a)
{
    return a->positions == QKV__GGUF_ROTARY || a->positions == QKV__GGUF_ROTARY_PAIRS;
}

size_t qkv__gguf_rows_left_out(const qkv__gguf_arch *a, const qkv_model *m)
{
    const qkv_bert_config *c = qkv_model_config(m);
    return a->positions == QKV__GGUF_AFTER_PAD ? (size_t)c->pad + 1 : 0;
}

qkv_status qkv__gguf_set(json_t *object, const qkv__gguf *g, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0
               ? QKV_OK
               : qkv_fail(qkv__gguf_context(g), QKV_E_MEMORY, "%s: out of memory",
                          qkv__gguf_path(g));
}

const char *qkv__gguf_key(char out[QKV__GGUF_KEY_BYTES], const qkv__gguf_arch *a,
                          const char *suffix)
{
    (void)snprintf(out, QKV__GGUF_KEY_BYTES, "%s.%s", a->name, suffix);
    return out;
}

/* ---- which one a file has -------------------------------------------------------------------- */

static bool has_window(const qkv__gguf *g)
{
    return qkv__gguf_find(g, "llama.attention.sliding_window") != NULL;
}

static bool has_labels(const qkv__gguf *g)
{
    return qkv__gguf_find(g, "bert.classifier.output_labels") != NULL;
}

/* BERT's own words have another model of tokenizers than RoBERTa's. */
static bool has_subwords(const qkv__gguf *g)
{
    return qkv__gguf_find(g, "tokenizer.ggml.merges") || qkv__gguf_find(g, "tokenizer.ggml.scores");
}

static bool lacks_segments(const qkv__gguf *g)
{
    return !qkv__gguf_tensor_find(g, "token_types.weight");
}

static const struct {
    unsigned mark;
    const char *text;
    bool (*is)(const qkv__gguf *g);
} marks[] = {{QKV__GGUF_WINDOW, "a sliding window", has_window},
             {QKV__GGUF_LABELS, "labels of classes", has_labels},
             {QKV__GGUF_SUBWORDS, "a tokenizer of merges or scores", has_subwords},
             {QKV__GGUF_NO_SEGMENTS, "no tensor token_types.weight", lacks_segments}};
enum { MARKS = sizeof marks / sizeof *marks };

/* The name has types, none of which is this. */
static void fail_marks(const qkv__gguf *g, const char *name, unsigned found)
{
    qkv_str text;
    qkv_str_init(&text, qkv__gguf_context(g));
    for (size_t i = 0; i < MARKS; i++)
        if (found & marks[i].mark)
            qkv_str_printf(&text, "%s%s", text.len ? " and " : "", marks[i].text);
    (void)qkv_fail(qkv__gguf_context(g), QKV_E_UNSUPPORTED, "%s: there is no model type for a %s "
                   "with %s", qkv__gguf_path(g), name, text.data ? text.data : "?");
    qkv_str_free(&text);
}

static void fail_name(const qkv__gguf *g, const char *name)
{
    qkv_str known;
    qkv_str_init(&known, qkv__gguf_context(g));
    for (size_t i = 0; i < ARCHS; i++)
        if (!archs[i].marks)
            qkv_str_printf(&known, "%s%s", i ? ", " : "", archs[i].name);
    (void)qkv__gguf_fail(g, "general.architecture", "expected %s, found \"%.60s\"",
                         known.data ? known.data : "?", name);
    qkv_str_free(&known);
}

const qkv__gguf_arch *qkv__gguf_arch_of_file(const qkv__gguf *g)
{
    const char *name = NULL;
    unsigned asked = 0, found = 0;
    bool known = false;
    if (qkv__gguf_get_string(g, "general.architecture", &name))
        return NULL;
    for (size_t i = 0; i < ARCHS; i++)
        if (strcmp(archs[i].name, name) == 0) {
            known = true;
            asked |= archs[i].marks;
        }
    for (size_t i = 0; i < MARKS; i++)
        if (asked & marks[i].mark && marks[i].is(g))
            found |= marks[i].mark;
    for (size_t i = 0; i < ARCHS; i++)
        if (strcmp(archs[i].name, name) == 0 && archs[i].marks == found)
            return &archs[i];
    if (known)
        fail_marks(g, name, found);
    else
        fail_name(g, name);
    return NULL;
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
