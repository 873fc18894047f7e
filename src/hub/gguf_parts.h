/* gguf_parts.h - which fields and tensors of a GGUF file are which of ours: what the files of the
 * two directions share. */
#ifndef QKV_SRC_HUB_GGUF_PARTS_H
#define QKV_SRC_HUB_GGUF_PARTS_H

#include "hub/parts.h"
#include "io/file.h"
#include "io/gguf.h"
#include "qkv/nn.h"
#include "qkv/tokenizer.h"

/* How a file is written. */
typedef struct {
    const qkv__gguf_type *type; /* of matrices */
    qkv_weights kept;           /* how the model's directory keeps them: integers of INT8 are kept
                                   by Q8_0, those of INT4 by Q4_0 */
    const char *dir;            /* the directory, for messages; its name is the model's */
    const char *chat_template;  /* or NULL: that of the tokenizer's configuration */
} qkv__hub_gguf_options;

/* ---- architectures (gguf_arch.c) ------------------------------------------------------------- */

/* A field of the architecture, "llama.block_count", and the member of config.json it stands for. */
typedef struct {
    const char *suffix, *key;
    bool real;
} qkv__gguf_row;

/* A member of config.json whose value the architecture fixes; as JSON. */
typedef struct {
    const char *key, *value;
} qkv__gguf_fixed;

/* A member of config.json that is true where the file has the tensor, or, `absent`, has it not. */
typedef struct {
    const char *key, *tensor;
    bool absent;
} qkv__gguf_told;

/* The beginning of a name: ours, and the file's. */
typedef struct {
    const char *ours, *theirs;
    enum { QKV__GGUF_PLAIN, QKV__GGUF_QUERY, QKV__GGUF_KEY, QKV__GGUF_POSITIONS } part;
} qkv__gguf_name;

/* What tells the types of one name apart: bits. */
enum { QKV__GGUF_WINDOW = 1, QKV__GGUF_LABELS = 2, QKV__GGUF_SUBWORDS = 4,
       QKV__GGUF_NO_SEGMENTS = 8 };

typedef struct {
    const char *name; /* general.architecture */
    unsigned marks;   /* of a file that is this type */
    const qkv_model_type *(*type)(void);
    enum {
        QKV__GGUF_LEARNED,
        QKV__GGUF_AFTER_PAD,   /* learned; a file lacks the rows up to the padding token's */
        QKV__GGUF_ROTARY,      /* a pair is two channels half a head apart ... */
        QKV__GGUF_ROTARY_PAIRS /* ... or two neighbours */
    } positions;
    const char *layer; /* a block's names begin so; its number follows */
    const qkv__gguf_name *outside, *inside; /* ended by NULL */
    const qkv__gguf_row *rows;              /* these lists too */
    const qkv__gguf_fixed *fixed;
    const qkv__gguf_told *told;
} qkv__gguf_arch;

/* NULL: none is known, and the context says so. */
const qkv__gguf_arch *qkv__gguf_arch_of_file(const qkv__gguf *g);
const qkv__gguf_arch *qkv__gguf_arch_of_model(const qkv_model *m);

bool qkv__gguf_rotary(const qkv__gguf_arch *a);
/* Rows of m's table of positions that its file does not have. */
size_t qkv__gguf_rows_left_out(const qkv__gguf_arch *a, const qkv_model *m);

/* The tensor's name in the file for ours; false: it has none. */
bool qkv__gguf_rename(const qkv__gguf_arch *a, const char *name, char *out, size_t room,
                      const qkv__gguf_name **part);

/* A member of what config.json would say; takes value, NULL where memory is out. */
qkv_status qkv__gguf_set(json_t *object, const qkv__gguf *g, const char *key, json_t *value);

/* ---- configuration (gguf_config.c, gguf_rope.c) ---------------------------------------------- */

enum { QKV__GGUF_KEY_BYTES = 128 };
/* "NAME.suffix" */
const char *qkv__gguf_key(char out[QKV__GGUF_KEY_BYTES], const qkv__gguf_arch *a,
                          const char *suffix);

/* What config.json would say; an object, to be freed. */
qkv_status qkv__gguf_read_config(json_t **out, const qkv__gguf *g, const qkv__gguf_arch *a);
qkv_status qkv__gguf_write_config(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m,
                                  const qkv__json *config);

/* Ids of special tokens: the tokenizer's (NULL: there is none), then the model's. */
qkv_status qkv__gguf_write_ids(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_tokenizer *t,
                               const qkv__json *config);
/* How a BertModel pools, which config.json does not say. */
qkv_status qkv__gguf_read_pooling(qkv_model *m, const qkv__gguf *g);

/* The name of the tensor that has the divisors of a llama3's frequencies. */
#define QKV__GGUF_ROPE_TENSOR "rope_freqs.weight"
/* Rotary positions: as members of config.json; as fields; and how many divisors there are (0: the
 * file has no such tensor), and these. */
qkv_status qkv__gguf_read_rope(json_t *config, const qkv__gguf *g, const qkv__gguf_arch *a,
                               size_t head_width);
qkv_status qkv__gguf_write_rope(qkv__gguf_fields *f, const qkv__gguf_arch *a, const qkv_model *m);
size_t qkv__gguf_rope_divisors(const qkv_model *m, qkv_real *out);

/* gguf_llama3.c: what the frequencies of c, of kind LLAMA3, are divided by; arrays of
 * head_width / 2. The way back fills c, whose base is set: *found false: nothing makes these.
 * told: the length of the training before; 0: it is not known. */
enum { QKV__GGUF_MOST_LENGTH = 1 << 24 };
void qkv__llama3_divisors(const qkv_rotary_config *c, size_t head_width, double *out,
                          double *scratch);
qkv_status qkv__llama3_of_divisors(qkv_context *ctx, qkv_rotary_config *c, size_t told,
                                   const qkv_real *divisors, size_t head_width, bool *found);

/* ---- weights (gguf_weights.c) ---------------------------------------------------------------- */

/* Values are stored as they come (qkv_params_store); of a failure they mean nothing. */
qkv_status qkv__gguf_read_weights(qkv_model *m, const qkv__gguf *g, const qkv__gguf_arch *a,
                                  qkv_weights weights);
qkv_status qkv__gguf_write_weights(qkv_model *m, const char *path, const qkv__gguf_arch *a,
                                   const qkv__gguf_fields *f, const qkv__hub_gguf_options *o);

#endif
