/* model.h - what every model has: a type, a configuration, parameters, rows for files.
 * Layer: model */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include <qkv/nn.h>
#include <qkv/options.h>

QKV_BEGIN_DECLS

typedef struct qkv_model qkv_model;

/* A kind of model, as config.json's "model_type" names it. */
typedef struct qkv_model_type qkv_model_type;

/* The type of that name (and, where several share it, of that architecture; NULL or an unknown
 * one: the first of the name). NULL when no type has the name. */
const qkv_model_type *qkv_model_type_find(const char *name, const char *architecture);
/* The i-th type, or NULL past the last. */
const qkv_model_type *qkv_model_type_at(size_t i);
const char *qkv_model_type_name(const qkv_model_type *type);
const char *qkv_model_type_architecture(const qkv_model_type *type); /* "GPT2LMHeadModel" */
/* What some files leave out in front of tensors' names: both are read. "" for none. */
const char *qkv_model_type_prefix(const qkv_model_type *type);
/* Describes the type's configuration struct, with the keys of config.json, ranges and defaults. */
const qkv_option_table *qkv_model_type_config(const qkv_model_type *type);
size_t qkv_model_type_config_size(const qkv_model_type *type);

/* Makes the model with zeros for parameters (qkv_model_init or a file fills them) and copies
 * the configuration, a struct of the type's own (start from qkv_option_defaults). ctx must outlive
 * the model. On failure *out is NULL: QKV_E_ARGUMENT for a configuration that no model has,
 * QKV_E_MEMORY. */
qkv_status qkv_model_create(qkv_model **out, qkv_context *ctx, const qkv_model_type *type,
                            const void *config);
void qkv_model_destroy(qkv_model *m); /* its parameters with it; NULL is allowed */

const qkv_model_type *qkv_model_type_of(const qkv_model *m);
const void *qkv_model_config(const qkv_model *m); /* the type's struct, derived fields filled in */
qkv_params *qkv_model_params(qkv_model *m);       /* the model owns them */
qkv_context *qkv_model_context(const qkv_model *m);

/* Names of a classifier's classes (config.json's "id2label"); copied. On failure (QKV_E_MEMORY)
 * those that were set stay. */
qkv_status qkv_model_set_labels(qkv_model *m, const char *const *names, size_t count);
size_t qkv_model_label_count(const qkv_model *m);
const char *qkv_model_label(const qkv_model *m, size_t i); /* NULL past the last */

enum { QKV_LM_ENDS = 8 };
/* All tokens that end a text (config.json's "eos_token_id" as a list), in place of the
 * configuration's one; copied. At most QKV_LM_ENDS. */
void qkv_model_set_ends(qkv_model *m, const int32_t *ids, size_t count);
size_t qkv_model_end_count(const qkv_model *m); /* of those that were set */

/* How a model that reads pictures wants them: preprocessor_config.json. */
typedef struct {
    size_t height, width;
    size_t channels;        /* 1 or 3: so many of the numbers below */
    bool crop;              /* the largest part in the middle that has the shape, else all of it */
    int resample;           /* Pillow's number: 2 bilinear, 3 bicubic, 4 box */
    double mean[3], std[3]; /* a pixel in [0, 1] becomes (pixel - mean) / std */
} qkv_picture_format;
/* Copied; saved with the model from now on. */
void qkv_model_set_pictures(qkv_model *m, const qkv_picture_format *format);
/* NULL: nobody has said so. Lives as long as the model. */
const qkv_picture_format *qkv_model_pictures(const qkv_model *m);

/* Every tensor of the model's files, once, in a fixed order. Returns what fn returned last. */
qkv_status qkv_model_visit(qkv_model *m, qkv_row_fn *fn, void *user);

/* Fills every parameter as its row says; the same seed gives the same model. */
qkv_status qkv_model_init(qkv_model *m, uint64_t seed);

/* Copies the tensors that both models have, by name in the file and shape; the others stay. Tables
 * of positions may differ in whether there is a first token, and in their grid: they are
 * interpolated (bicubic). Returns how many. */
size_t qkv_model_copy(qkv_model *to, qkv_model *from);

/* ---- models that continue text --------------------------------------------------------- */

/* Decoding state: caches of all layers, for B sequences of up to `capacity` positions. */
typedef struct qkv_lm_cache qkv_lm_cache;

/* False for a model that does not predict the next token. */
bool qkv_model_is_lm(const qkv_model *m);
size_t qkv_lm_vocab(const qkv_model *m);
size_t qkv_lm_positions(const qkv_model *m);   /* the training length the config states */
/* The tokens that end a text: those that were set, or the configuration's. Returns how many. */
size_t qkv_lm_ends(const qkv_model *m, int32_t out[QKV_LM_ENDS]);
bool qkv_lm_has_horizon(const qkv_model *m);   /* positions past it do not exist (learned) */
/* Floating-point operations of a training step on `rows` tokens in sequences of `length`: 6 a row
 * and parameter that is multiplied with (the tied head counted, look-ups not), and for attention
 * 7 T^2 (heads x head width) a layer and sequence: half of 4 T^2 forward, 2.5 times that back. */
size_t qkv_lm_flops(const qkv_model *m, size_t rows, size_t length);

/* On failure *out is NULL. The model must outlive the cache. */
qkv_status qkv_lm_cache_create(qkv_lm_cache **out, qkv_model *m, size_t B, size_t capacity);
void qkv_lm_cache_destroy(qkv_lm_cache *c); /* NULL is allowed */
size_t qkv_lm_cache_length(const qkv_lm_cache *c); /* positions of each sequence */
void qkv_lm_cache_truncate(qkv_lm_cache *c, size_t length); /* forgets those from length on */
/* As qkv_kv_cache_select and qkv_kv_cache_reserve, of what was said so far; the memory that an
 * encoder-decoder reads stays as it is. After a failure the cache is of no use. */
bool qkv_lm_cache_select(qkv_tape *t, qkv_lm_cache *c, const size_t *rows, size_t n);
bool qkv_lm_cache_reserve(qkv_tape *t, qkv_lm_cache *c, size_t capacity);
void qkv_lm_cache_window(qkv_lm_cache *c, size_t positions); /* as qkv_kv_cache_window */

/* ids (B, T) i32 -> the stack's output (B, T, width). With a cache (or NULL) the ids come after
 * what it holds; on failure it holds what it did. offsets: packed sequences, as in
 * qkv_attention_options (B is 1 then), or NULL. NULL once anything on the tape has failed. */
qkv_tensor *qkv_lm_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                          const int32_t *offsets, qkv_lm_cache *cache);
/* hidden (.., width) -> logits (.., vocab) */
qkv_tensor *qkv_lm_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden);
/* Cross-entropy of hidden's predictions, targets i32 (..) -> (); the logits are never all in
 * memory. options may be NULL. */
qkv_tensor *qkv_lm_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                        const qkv_cross_entropy_options *options);

QKV_END_DECLS
#endif
