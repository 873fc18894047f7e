/* model.h - models: type, configuration, parameters, state entries; language-model decoding.
 * Layer: model */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include <qkv/nn.h>
#include <qkv/options.h>

QKV_BEGIN_DECLS

typedef struct qkv_model qkv_model;

/* A kind of model, named by "model_type" in config.json. */
typedef struct qkv_model_type qkv_model_type;
/* Returns a type of the library: qkv_gpt2_type, qkv_vit_type .. */
typedef const qkv_model_type *qkv_model_type_fn(void);

/* What models of a type can do: one bit for each group of the library's functions. */
enum {
    QKV_CAN_GENERATE = 1 << 0,        /* qkv_lm_*, qkv_generate */
    QKV_CAN_SAMPLE_CODES = 1 << 1,    /* qkv_sample_codes */
    QKV_CAN_FILL_MASK = 1 << 2,       /* qkv_bert_word_logits, qkv_fill */
    QKV_CAN_CLASSIFY_TEXT = 1 << 3,   /* qkv_bert_class_logits, qkv_classify */
    QKV_CAN_TRANSLATE = 1 << 4,       /* qkv_marian_*, qkv_beam_search_create */
    QKV_CAN_FORECAST = 1 << 5,        /* qkv_forecast */
    QKV_CAN_CLASSIFY_IMAGES = 1 << 6, /* qkv_vit_*, qkv_classify_images */
    QKV_CAN_SEGMENT = 1 << 7,         /* qkv_pixelwise_forward, qkv_segment */
    QKV_CAN_COLORIZE = 1 << 8,        /* qkv_pixelwise_forward, qkv_colorize */
    QKV_CAN_RECONSTRUCT = 1 << 9,     /* qkv_mae_*, qkv_reconstruct */
    QKV_CAN_ENCODE_IMAGES = 1 << 10,  /* qkv_vqgan_*, qkv_images_encode */
    QKV_CAN_COMPARE_IMAGES = 1 << 11, /* qkv_perceptual_* */
    QKV_CAN_EMBED_TEXT = 1 << 12,     /* qkv_bert_vectors, qkv_embed_texts */
    QKV_CAN_EMBED_IMAGES = 1 << 13,   /* qkv_vit_vectors, qkv_embed_images */
    QKV_CAN_FILL_SERIES = 1 << 14,    /* qkv_series_fill, qkv_fill_series */
    QKV_CAN_CLASSIFY_SERIES = 1 << 15,/* qkv_series_class_logits, qkv_classify_series */
    QKV_CAN_EMBED_BOTH = 1 << 16      /* qkv_clip_*, qkv_embed_texts, qkv_embed_images */
};

/* The passes that qkv_model_flops counts. */
typedef enum {
    QKV_PASS_TRAIN,  /* forward, and backward to every parameter */
    QKV_PASS_INPUT,  /* forward, and backward to the input with frozen parameters */
    QKV_PASS_FORWARD /* forward only */
} qkv_pass;

/* A part of the model. Only a VQGAN has more than one. */
typedef enum {
    QKV_PART_WHOLE,        /* VQGAN: encoder, codes and decoder */
    QKV_PART_DECODER,      /* VQGAN: from codes to pixels */
    QKV_PART_DISCRIMINATOR /* VQGAN */
} qkv_model_part;

/* The work that qkv_model_flops counts. Zero-initialise; set what applies. */
typedef struct {
    qkv_pass pass;
    qkv_model_part part;
    double samples;       /* number of sequences, sentence pairs, windows or images; or a mean */
    double length;        /* tokens in a sequence, or in a pair's source */
    double target_length; /* tokens in a pair's target */
    double predictions;   /* BERT: total number of rows that the head reads */
    size_t height, width; /* of an image, or of the decoder's code grid; 0: the model's own */
} qkv_workload;

/* Functions that only the library's own types have. */
typedef struct qkv_builtin_type qkv_builtin_type;

/* A model type; it must outlive its models. A program can define its own. name and make are
 * REQUIRED. The other fields are OPTIONAL: zeroed, they have the default given here. */
struct qkv_model_type {
    const char *name;         /* "gpt2"; "my_network" */
    const char *architecture; /* in config.json                                           name */
    const char *prefix;       /* some files omit it from the names of tensors               "" */
    const qkv_option_table *config; /* describes the configuration struct                 none */
    size_t config_size;       /* bytes of the configuration struct                           0 */
    size_t self_size;         /* bytes of the type's own struct (qkv_model_self)             0 */
    /* A lower bound of the number of parameter elements. A configuration that claims more than its
     * weights have is rejected before memory is allocated. Default: no check. */
    double (*parameter_count)(const qkv_model_type *type, const void *config);
    /* Creates the parameters (on qkv_model_params) and stores them in qkv_model_self, which is
     * zeroed. The configuration is within the ranges of its table; make may fill in derived fields.
     * A failed qkv_param_create fails the model, so only code that writes to the parameter's memory
     * must check for NULL. */
    qkv_status (*make)(qkv_model *m);
    /* Calls fn for the state entry of every tensor in the model's files. Default: every parameter
     * with its name and layout. Its initialisation: 2-D and larger normal with std 1 /
     * sqrt(elements / first dimension); 1-D and frozen parameters keep the values from make. */
    qkv_status (*visit)(qkv_model *m, qkv_state_entry_fn *fn, void *user);
    /* Floating-point operations. Default: not counted. */
    double (*flops)(const qkv_model *m, const qkv_workload *w);
    /* Returns the name of preset i, smallest first, or NULL past the last. Sets *summary to a
     * description of its size, and the fields of config that it defines; both may be NULL. Default:
     * no presets. */
    const char *(*preset)(const qkv_model_type *type, size_t i, const char **summary,
                          void *config);
    const qkv_builtin_type *builtin; /* NULL in a program's own type, which has no QKV_CAN_* */
};

/* A type with the required fields and defaults for the others. */
qkv_model_type qkv_model_type_defaults(const char *name, qkv_status (*make)(qkv_model *m),
                                       size_t self_size);

/* Finds a type by name among the library's types and those registered on ctx (may be NULL).
 * architecture selects among types that share the name; NULL or unknown: the first of them. NULL if
 * no type has the name. */
const qkv_model_type *qkv_model_type_find(const qkv_context *ctx, const char *name,
                                          const char *architecture);
/* Type i: the library's types, then those registered on ctx (may be NULL). NULL past the last. */
const qkv_model_type *qkv_model_type_at(const qkv_context *ctx, size_t i);
/* Registers a type, so that qkv_hub_load on ctx opens directories whose config.json names it. type
 * must outlive ctx. QKV_E_ARGUMENT: a REQUIRED field is NULL, the name and architecture are taken,
 * or ctx has 32 types. */
qkv_status qkv_model_type_register(qkv_context *ctx, const qkv_model_type *type);

const char *qkv_model_type_name(const qkv_model_type *type);
const char *qkv_model_type_architecture(const qkv_model_type *type); /* "GPT2LMHeadModel" */
/* A prefix that some files omit from tensor names; both forms are read. "": none. */
const char *qkv_model_type_prefix(const qkv_model_type *type);
/* The option table of the type's configuration struct: keys of config.json, ranges, defaults. */
const qkv_option_table *qkv_model_type_config(const qkv_model_type *type);
size_t qkv_model_type_config_size(const qkv_model_type *type);
/* Name of preset i, smallest first; NULL past the last. Sets *summary, unless NULL, to its size in
 * words. */
const char *qkv_model_type_preset_name(const qkv_model_type *type, size_t i,
                                       const char **summary);
/* Sets the sizes of the named preset in config and leaves other fields. false, with config
 * unchanged, if there is no such preset. */
bool qkv_model_type_preset(const qkv_model_type *type, const char *name, void *config);

/* Creates a model whose parameters are zeros; qkv_model_init or a file fills them. Copies config,
 * the type's configuration struct (start from qkv_option_defaults; NULL: the defaults). ctx must
 * outlive the model. On failure *out is NULL: QKV_E_ARGUMENT for an invalid configuration,
 * QKV_E_MEMORY. */
qkv_status qkv_model_create(qkv_model **out, qkv_context *ctx, const qkv_model_type *type,
                            const void *config);
void qkv_model_destroy(qkv_model *m); /* and its parameters; NULL is allowed */

const qkv_model_type *qkv_model_type_of(const qkv_model *m);
const void *qkv_model_config(const qkv_model *m); /* with derived fields filled in */
void *qkv_model_self(const qkv_model *m); /* the type's own struct, self_size bytes */
qkv_params *qkv_model_params(qkv_model *m);       /* owned by the model */
qkv_context *qkv_model_context(const qkv_model *m);
/* True if the type has any of these QKV_CAN_* bits. */
bool qkv_model_can(const qkv_model *m, unsigned capabilities);
/* Floating-point operations of the workload: 2 per multiply-add of parameters and of attention
 * (half for causal attention). Look-ups, norms and activations are not counted. Each gradient that
 * is computed adds the forward count again (attention: 2.5 times). 0, with a message in the
 * context, if the type does not count them or has no such part. */
double qkv_model_flops(const qkv_model *m, const qkv_workload *w);

/* Sets the class names of a classifier ("id2label" in config.json), copied. On failure
 * (QKV_E_MEMORY) the old names stay. */
qkv_status qkv_model_set_labels(qkv_model *m, const char *const *names, size_t count);
size_t qkv_model_label_count(const qkv_model *m);
const char *qkv_model_label(const qkv_model *m, size_t i); /* NULL past the last */
const char *const *qkv_model_labels(const qkv_model *m);   /* all; until they are set again */

enum { QKV_LM_EOS_IDS = 8 };
/* Sets all eos ids ("eos_token_id" in config.json as a list), copied, in place of the
 * configuration's single id. At most QKV_LM_EOS_IDS. */
void qkv_model_set_eos_ids(qkv_model *m, const int32_t *ids, size_t count);
size_t qkv_model_eos_count(const qkv_model *m); /* of the ids set */

/* The input format of an image model: preprocessor_config.json. */
typedef struct {
    size_t height, width;
    size_t channels;        /* 1 or 3: entries of mean and std in use */
    bool crop;              /* the largest centred part of this aspect ratio; else all of it */
    int resample;           /* Pillow's constant: 2 bilinear, 3 bicubic, 4 box */
    double mean[3], std[3]; /* normalisation: (pixel - mean) / std, pixel in [0, 1] */
    size_t resize;          /* as in qkv_pixels_options; 0: what is kept fills the size */
} qkv_image_format;
/* Copies the format; qkv_hub_save saves it. */
void qkv_model_set_image_format(qkv_model *m, const qkv_image_format *format);
/* NULL if none was set. Valid as long as the model. */
const qkv_image_format *qkv_model_image_format(const qkv_model *m);

/* Calls fn for every state entry once, in a fixed order. Returns the last result of fn. */
qkv_status qkv_model_visit(qkv_model *m, qkv_state_entry_fn *fn, void *user);

/* Initialises every parameter as its state entry defines. The same seed gives the same model. */
qkv_status qkv_model_init(qkv_model *m, uint64_t seed);

/* Copies the tensors that both models have with equal name (in the file) and shape, and returns
 * their number. Position embeddings may differ in the grid, to which they are interpolated
 * (bicubic), and in whether there is a class token. */
size_t qkv_model_copy(qkv_model *to, qkv_model *from);

/* ---- language models ------------------------------------------------------------------- */

/* KV caches of all layers, for B sequences of up to `capacity` positions. */
typedef struct qkv_lm_cache qkv_lm_cache;

/* The functions below require QKV_CAN_GENERATE. Otherwise they fail with QKV_E_ARGUMENT and a
 * message; functions that return a number return 0 or false. */
size_t qkv_lm_vocab(const qkv_model *m);
size_t qkv_lm_positions(const qkv_model *m);   /* max positions of the configuration */
/* The eos ids: those that were set, or the configuration's. Returns their number. */
size_t qkv_lm_eos_ids(const qkv_model *m, int32_t out[QKV_LM_EOS_IDS]);
bool qkv_lm_has_max_positions(const qkv_model *m); /* learned positions: no more exist */

/* On failure *out is NULL. The model must outlive the cache. */
qkv_status qkv_lm_cache_create(qkv_lm_cache **out, qkv_model *m, size_t B, size_t capacity);
/* The same with numbers of another kind, for qkv_lm_hidden_slots; F32 for every use. */
qkv_status qkv_lm_cache_create_as(qkv_lm_cache **out, qkv_model *m, qkv_kv_store store, size_t B,
                                  size_t capacity);
void qkv_lm_cache_destroy(qkv_lm_cache *c); /* NULL is allowed */
size_t qkv_lm_cache_length(const qkv_lm_cache *c); /* positions in each sequence */
void qkv_lm_cache_truncate(qkv_lm_cache *c, size_t length); /* removes positions from length on */
/* qkv_kv_cache_select and qkv_kv_cache_reserve for all layers, except the encoder's memory of an
 * encoder-decoder. After a failure the cache is unusable. */
bool qkv_lm_cache_select(qkv_tape *t, qkv_lm_cache *c, const size_t *rows, size_t n);
bool qkv_lm_cache_reserve(qkv_tape *t, qkv_lm_cache *c, size_t capacity);
void qkv_lm_cache_window(qkv_lm_cache *c, size_t positions); /* as qkv_kv_cache_window */
size_t qkv_lm_cache_bytes(const qkv_lm_cache *c); /* memory of the keys and values */
/* qkv_kv_cache_copy for all layers. */
bool qkv_lm_cache_copy(qkv_tape *t, qkv_lm_cache *c, size_t to, size_t from, size_t first,
                       size_t count);

/* ids (B, T) i32 -> the stack's output (B, T, width). The ids follow those in cache (may be NULL);
 * on failure the cache is unchanged. offsets: packed sequences, as in qkv_attention_options (then
 * B is 1), or NULL. NULL once anything on the tape has failed. */
qkv_tensor *qkv_lm_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                          const int32_t *offsets, qkv_lm_cache *cache);
/* The same for sequences that come and go: ids (1, rows) i32 are the rows of slots->sequences, to
 * be appended to their slots of the cache -> (1, rows, width). On failure the slots hold what they
 * did. */
qkv_tensor *qkv_lm_hidden_slots(qkv_model *m, qkv_tape *t, qkv_tensor *ids,
                                const qkv_kv_slots *slots, qkv_lm_cache *cache);
/* hidden (.., width) -> logits (.., vocab) */
qkv_tensor *qkv_lm_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden);
/* Cross-entropy of the next-token predictions, targets i32 (..) -> (); never holds all logits in
 * memory. options may be NULL. */
qkv_tensor *qkv_lm_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                        const qkv_cross_entropy_options *options);

QKV_END_DECLS
#endif
