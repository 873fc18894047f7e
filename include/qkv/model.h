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

/* The library's functions that take a model of the type, one bit for each group of them. */
enum {
    QKV_CAN_GENERATE = 1 << 0,        /* predict the next token: qkv_lm_*, qkv_generate */
    QKV_CAN_SAMPLE_CODES = 1 << 1,    /* an image's codes: qkv_sample_codes */
    QKV_CAN_FILL_MASK = 1 << 2,       /* qkv_bert_word_logits, qkv_fill */
    QKV_CAN_CLASSIFY_TEXT = 1 << 3,   /* qkv_bert_class_logits, qkv_classify */
    QKV_CAN_TRANSLATE = 1 << 4,       /* qkv_marian_*, qkv_beam_search_create */
    QKV_CAN_FORECAST = 1 << 5,        /* qkv_forecast */
    QKV_CAN_CLASSIFY_IMAGES = 1 << 6, /* qkv_vit_*, qkv_classify_images */
    QKV_CAN_SEGMENT = 1 << 7,         /* qkv_pixelwise_forward, qkv_segment */
    QKV_CAN_COLORIZE = 1 << 8,        /* qkv_pixelwise_forward, qkv_colorize */
    QKV_CAN_RECONSTRUCT = 1 << 9,     /* qkv_mae_*, qkv_reconstruct */
    QKV_CAN_ENCODE_IMAGES = 1 << 10,  /* qkv_vqgan_*, qkv_images_encode */
    QKV_CAN_COMPARE_IMAGES = 1 << 11  /* qkv_perceptual_* */
};

/* Which passes qkv_model_flops counts. */
typedef enum {
    QKV_PASS_TRAIN,  /* forward, and back to every parameter */
    QKV_PASS_INPUT,  /* forward, and back to the input: the parameters are frozen */
    QKV_PASS_FORWARD /* forward alone */
} qkv_pass;

/* Which part of the model. All but a VQGAN have one part. */
typedef enum {
    QKV_PART_WHOLE,        /* of a VQGAN: encoder, codes and decoder */
    QKV_PART_DECODER,      /* a VQGAN's, from codes */
    QKV_PART_DISCRIMINATOR /* a VQGAN's */
} qkv_model_part;

/* What a model is to do. Zero-initialise; set what applies. */
typedef struct {
    qkv_pass pass;
    qkv_model_part part;
    double samples;       /* sequences, sentence pairs, windows or images; a mean too */
    double length;        /* tokens of a sequence, or of a pair's source */
    double target_length; /* tokens of a pair's target */
    double predictions;   /* BERT: rows that the head reads, in all samples together */
    size_t height, width; /* of an image, or of the decoder's grid of codes; 0: the model's own */
} qkv_workload;

/* What the library's functions need of the library's own types: what these can do, and how. */
typedef struct qkv_builtin_type qkv_builtin_type;

/* A type is this struct; it must outlive its models. A program may bring its own. REQUIRED: name
 * and make. The rest is OPTIONAL: zeroed, it has the default that its comment gives. */
struct qkv_model_type {
    const char *name;         /* "gpt2"; "my_network" */
    const char *architecture; /* of config.json                                           name */
    const char *prefix;       /* what some files leave out in front of tensors' names       "" */
    const qkv_option_table *config; /* the fields of the configuration struct             none */
    size_t config_size;       /* of that struct, bytes                                       0 */
    size_t self_size;         /* of the type's own struct (qkv_model_self), bytes            0 */
    /* How many numbers the parameters hold at least, so that a file which claims more than its
     * weights have is refused before memory is taken. Default: nothing is refused. */
    double (*parameter_count)(const qkv_model_type *type, const void *config);
    /* Creates the parameters (on qkv_model_params) and keeps them in qkv_model_self, which is
     * zeroed. The configuration has passed the ranges of its table; derived fields may be filled
     * in. A parameter that cannot be made fails the model: no need to check for NULL unless its
     * memory is written. */
    qkv_status (*make)(qkv_model *m);
    /* Calls fn for every tensor of the model's files. Default: for every parameter, by its own
     * name, as it lies in memory. Matrices and larger begin normal, with standard deviation 1 /
     * sqrt(inputs) (numbers / first dimension); vectors and frozen parameters keep what make gave
     * them. */
    qkv_status (*visit)(qkv_model *m, qkv_state_entry_fn *fn, void *user);
    /* Floating-point operations. Default: not counted. */
    double (*flops)(const qkv_model *m, const qkv_workload *w);
    /* Name of the i-th preset, smallest first, NULL past the last; *summary, unless NULL, is set
     * to its size in words, and the fields of config, unless NULL, that it is about. Default: there
     * are none. */
    const char *(*preset)(const qkv_model_type *type, size_t i, const char **summary,
                          void *config);
    const qkv_builtin_type *builtin; /* NULL: a program's own type, which has no QKV_CAN_* */
};

/* A type with what is required, and the defaults of the rest. */
qkv_model_type qkv_model_type_defaults(const char *name, qkv_status (*make)(qkv_model *m),
                                       size_t self_size);

/* The type of that name (and, where several share it, of that architecture; NULL or an unknown
 * one: the first of the name), among the library's and those registered on ctx (may be NULL). NULL
 * when no type has the name. */
const qkv_model_type *qkv_model_type_find(const qkv_context *ctx, const char *name,
                                          const char *architecture);
/* The i-th type, the library's first, then those registered on ctx (may be NULL); NULL past the
 * last. */
const qkv_model_type *qkv_model_type_at(const qkv_context *ctx, size_t i);
/* Lets directories be opened on ctx (qkv_hub_load) whose config.json names the type, which must
 * outlive ctx. QKV_E_ARGUMENT: a REQUIRED slot is NULL, another type has the name and architecture,
 * or it is the 33rd. */
qkv_status qkv_model_type_register(qkv_context *ctx, const qkv_model_type *type);

const char *qkv_model_type_name(const qkv_model_type *type);
const char *qkv_model_type_architecture(const qkv_model_type *type); /* "GPT2LMHeadModel" */
/* What some files leave out in front of tensors' names: both are read. "" for none. */
const char *qkv_model_type_prefix(const qkv_model_type *type);
/* Describes the type's configuration struct, with the keys of config.json, ranges and defaults. */
const qkv_option_table *qkv_model_type_config(const qkv_model_type *type);
size_t qkv_model_type_config_size(const qkv_model_type *type);
/* Name of the i-th preset, smallest first, or NULL past the last; *summary, unless NULL, says its
 * size. */
const char *qkv_model_type_preset_name(const qkv_model_type *type, size_t i,
                                       const char **summary);
/* Sets the sizes of the named preset; the other fields stay. False, and nothing is set, when there
 * is none of that name. */
bool qkv_model_type_preset(const qkv_model_type *type, const char *name, void *config);

/* Makes the model with zeros for parameters (qkv_model_init or a file fills them) and copies
 * the configuration, a struct of the type's own (start from qkv_option_defaults; NULL: the
 * defaults). ctx must outlive the model. On failure *out is NULL: QKV_E_ARGUMENT for a
 * configuration that no model has, QKV_E_MEMORY. */
qkv_status qkv_model_create(qkv_model **out, qkv_context *ctx, const qkv_model_type *type,
                            const void *config);
void qkv_model_destroy(qkv_model *m); /* its parameters with it; NULL is allowed */

const qkv_model_type *qkv_model_type_of(const qkv_model *m);
const void *qkv_model_config(const qkv_model *m); /* the type's struct, derived fields filled in */
void *qkv_model_self(const qkv_model *m); /* the type's own struct, of self_size bytes */
qkv_params *qkv_model_params(qkv_model *m);       /* the model owns them */
qkv_context *qkv_model_context(const qkv_model *m);
/* Has its type any of these QKV_CAN_* bits? */
bool qkv_model_can(const qkv_model *m, unsigned capabilities);
/* Floating-point operations of the workload: 2 for a product and sum, of parameters and of
 * attention (half of it where it is causal); look-ups, norms and activations are left out. Each
 * gradient that is wanted takes as many again (of attention 2.5 times). 0, and the context says
 * why, of a type that does not count them or does not have the part. */
double qkv_model_flops(const qkv_model *m, const qkv_workload *w);

/* Names of a classifier's classes (config.json's "id2label"); copied. On failure (QKV_E_MEMORY)
 * those that were set stay. */
qkv_status qkv_model_set_labels(qkv_model *m, const char *const *names, size_t count);
size_t qkv_model_label_count(const qkv_model *m);
const char *qkv_model_label(const qkv_model *m, size_t i); /* NULL past the last */

enum { QKV_LM_EOS_IDS = 8 };
/* All tokens that end a text (config.json's "eos_token_id" as a list), in place of the
 * configuration's one; copied. At most QKV_LM_EOS_IDS. */
void qkv_model_set_eos_ids(qkv_model *m, const int32_t *ids, size_t count);
size_t qkv_model_eos_count(const qkv_model *m); /* of those that were set */

/* How a model that reads images wants them: preprocessor_config.json. */
typedef struct {
    size_t height, width;
    size_t channels;        /* 1 or 3: so many of the numbers below */
    bool crop;              /* the largest part in the middle that has the shape, else all of it */
    int resample;           /* Pillow's number: 2 bilinear, 3 bicubic, 4 box */
    double mean[3], std[3]; /* a pixel in [0, 1] becomes (pixel - mean) / std */
} qkv_image_format;
/* Copied; saved with the model from now on. */
void qkv_model_set_image_format(qkv_model *m, const qkv_image_format *format);
/* NULL: nobody has said so. Lives as long as the model. */
const qkv_image_format *qkv_model_image_format(const qkv_model *m);

/* Every tensor of the model's files, once, in a fixed order. Returns what fn returned last. */
qkv_status qkv_model_visit(qkv_model *m, qkv_state_entry_fn *fn, void *user);

/* Fills every parameter as its row says; the same seed gives the same model. */
qkv_status qkv_model_init(qkv_model *m, uint64_t seed);

/* Copies the tensors that both models have, by name in the file and shape; the others stay. Tables
 * of positions may differ in whether there is a first token, and in their grid: they are
 * interpolated (bicubic). Returns how many. */
size_t qkv_model_copy(qkv_model *to, qkv_model *from);

/* ---- models that continue text --------------------------------------------------------- */

/* Decoding state: caches of all layers, for B sequences of up to `capacity` positions. */
typedef struct qkv_lm_cache qkv_lm_cache;

/* What follows takes models with QKV_CAN_GENERATE. Of any other it fails with QKV_E_ARGUMENT and a
 * sentence: what returns a number gives 0 or false, the sentence is the context's. */
size_t qkv_lm_vocab(const qkv_model *m);
size_t qkv_lm_positions(const qkv_model *m);   /* the training length the config states */
/* The tokens that end a text: those that were set, or the configuration's. Returns how many. */
size_t qkv_lm_eos_ids(const qkv_model *m, int32_t out[QKV_LM_EOS_IDS]);
bool qkv_lm_has_max_positions(const qkv_model *m); /* positions past it do not exist (learned) */

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
