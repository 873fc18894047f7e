/* bert_config.c - fields of BERT and its kin, under the names that Hugging Face gives them. */
#include "model/tables.h"
#include "qkv/bert.h"

#define CONFIG qkv_bert_config
#include "model/config_rows.h"

#define BERT_ROWS(vocab_, positions_, segments_, eps_, pad_)                                   \
    SIZE_ROW("vocab_size", vocab, 1, vocab_, "tokens in the vocabulary"),                      \
    SIZE_ROW("max_position_embeddings", positions, 1, positions_, "longest input in tokens"),  \
    SIZE_ROW("type_vocab_size", segments, 1, segments_, "kinds of segment"),                   \
    SIZE_ROW("hidden_size", width, 1, "768", "width of the residual stream"),                  \
    SIZE_ROW("num_hidden_layers", layers, 1, "12", "transformer blocks"),                      \
    SIZE_ROW("num_attention_heads", heads, 1, "12", "attention heads"),                        \
    SIZE_ROW("intermediate_size", ff_width, 0, "0",                                            \
             "feed-forward width; 0: 4 times hidden_size"),                                    \
    CLASSES_ROW,                                                                               \
    ENUM_ROW("hidden_act", act, qkv__activation_names, "gelu",                                 \
             "activation of the feed-forward layer"),                                          \
    RATE_ROW("hidden_dropout_prob", dropout, "0.1", "dropout of each sublayer's output"),      \
    RATE_ROW("attention_probs_dropout_prob", attention_dropout, "0.1",                         \
             "dropout of attention weights"),                                                  \
    {.key = "classifier_dropout", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW | QKV_OPT_NULL, \
     .min = -1, .max = 1, FIELD(classifier_dropout), .initial = "-1",                          \
     .help = "dropout before the classes; below 0: as elsewhere"},                             \
    REAL_ROW("layer_norm_eps", norm_eps, 1, eps_, "added to the variance in LayerNorm"),       \
    INIT_ROW("initializer_range", init_range, "1 / sqrt(width)"),                              \
    TOKEN_ROW("pad_token_id", pad, pad_, "id of the padding token; -1: none")
#define CLASSES_ROW SIZE_ROW("num_labels", classes, 1, "2", "classes of a classifier")

static const qkv_option bert_rows[] = {BERT_ROWS("30522", "512", "2", "1e-12", "0")};
static const qkv_option roberta_rows[] = {BERT_ROWS("50265", "514", "1", "1e-5", "1")};
static const qkv_option distilbert_rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "30522", "tokens in the vocabulary"),
    SIZE_ROW("max_position_embeddings", positions, 1, "512", "longest input in tokens"),
    SIZE_ROW("dim|hidden_size", width, 1, "768", "width of the residual stream"),
    SIZE_ROW("n_layers|num_hidden_layers", layers, 1, "6", "transformer blocks"),
    SIZE_ROW("n_heads|num_attention_heads", heads, 1, "12", "attention heads"),
    SIZE_ROW("hidden_dim", ff_width, 0, "0", "feed-forward width; 0: 4 times dim"),
    CLASSES_ROW,
    ENUM_ROW("activation", act, qkv__activation_names, "gelu",
             "activation of the feed-forward layer"),
    RATE_ROW("dropout", dropout, "0.1", "dropout of each sublayer's output"),
    RATE_ROW("attention_dropout", attention_dropout, "0.1", "dropout of attention weights"),
    RATE_ROW("seq_classif_dropout", classifier_dropout, "0.2", "dropout before the classes"),
    INIT_ROW("initializer_range", init_range, "1 / sqrt(width)"),
    TOKEN_ROW("pad_token_id", pad, "0", "id of the padding token; -1: none"),
};
#define TABLE(title, rows_) {title, rows_, sizeof rows_ / sizeof *rows_, sizeof(CONFIG)}
const qkv_option_table qkv__bert_config = TABLE("BERT model", bert_rows);
const qkv_option_table qkv__roberta_config = TABLE("RoBERTa model", roberta_rows);
const qkv_option_table qkv__distilbert_config = TABLE("DistilBERT model", distilbert_rows);

/* From "tiny" on the sizes of Turc et al. 2019. */
static const qkv__named_size presets[] = {
    {"nano", "2 layers of 64: a smoke test", 64, 2, 2},
    {"tiny", "2 layers of 128: minutes on two cores", 128, 2, 2},
    {"mini", "4 layers of 256: an hour", 256, 4, 4},
    {"small", "4 layers of 512", 512, 4, 8},
    {"medium", "8 layers of 512", 512, 8, 8},
    {"base", "12 layers of 768: BERT-base's 110M", 768, 12, 12},
    {"large", "24 layers of 1024: BERT-large's 335M", 1024, 24, 16},
    {NULL, NULL, 0, 0, 0},
};

const char *qkv__bert_preset(const qkv_model_type *type, size_t i, const char **summary,
                             void *config)
{
    qkv_bert_config unused, *c = config ? config : &unused;
    (void)type;
    return qkv__size_take(presets, i, summary, &c->width, &c->layers, &c->heads);
}
