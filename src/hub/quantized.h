/* quantized.h - matrices of 8 and 4 bits in model directories, as compressed-tensors packs them.
 *
 * In the place of NAME.weight (n, k) there are NAME.weight_packed, I32 (n, k bits / 32 rounded up):
 * 32 / bits neighbours of a row in a word, the first in its lowest bits, each plus 128 or 8;
 * NAME.weight_scale (n, groups), one for k / groups neighbours; NAME.weight_shape, I64 (2): n, k.
 * config.json says so in quantization_config. Matrices that a file otherwise keeps turned (GPT-2's)
 * are kept like all others here. */
#ifndef QKV_SRC_HUB_QUANTIZED_H
#define QKV_SRC_HUB_QUANTIZED_H

#include "hub/parts.h"

/* The tensors of one matrix in a file; NULL: absent. */
enum { QKV__FEWER_WORDS, QKV__FEWER_SCALES, QKV__FEWER_SHAPE, QKV__FEWER_PARTS };
typedef struct {
    const qkv_safetensor *part[QKV__FEWER_PARTS];
} qkv__fewer_tensors;

/* "a.weight" -> "a.weight_packed" and so on; false if the name is not of that form or too long. */
enum { QKV__FEWER_NAME = 256 };
bool qkv__fewer_name(char out[QKV__FEWER_NAME], const char *name, int part);

/* The row's numbers become what its tensors stand for. */
qkv_status qkv__fewer_read(const qkv_state_entry *row, qkv_context *ctx,
                            const qkv_safetensors *file, const qkv__fewer_tensors *t);

/* One matrix to be written; its tensors are entries of a file. */
typedef struct {
    size_t words_shape[2], scales_shape[2], shape_shape[1];
    int32_t *words;
    qkv_real *scales;
    int64_t shape[2];
} qkv__fewer;

/* Is the row one that is kept in that many bits? */
bool qkv__fewer_takes(const qkv_state_entry *row, qkv_weights weights);
/* Rounds the row's numbers; entries (QKV__FEWER_PARTS) get shapes, types and data, not names.
 * QKV_E_UNSUPPORTED: some are not finite. What p points to is the caller's, on failure too. */
qkv_status qkv__fewer_make(qkv__fewer *p, qkv_safetensors_entry *entries,
                            const qkv_state_entry *row, qkv_weights weights);
void qkv__fewer_free(qkv__fewer *p, qkv_context *ctx);

/* The field of config.json: checked, and which type its matrices have (F32: there is none). */
qkv_status qkv__hub_read_quantization(const qkv__json *config, qkv_weights *out);
/* QKV_E_UNSUPPORTED: the model has no matrix that can be kept so. */
qkv_status qkv__hub_check_weights(qkv_model *m, qkv_weights weights);
qkv_status qkv__hub_write_quantization(qkv_json_writer *w, qkv_model *m, qkv_weights weights);

#endif
