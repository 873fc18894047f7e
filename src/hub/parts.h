/* parts.h - the two halves of a model directory: config.json and the weights. */
#ifndef QKV_SRC_HUB_PARTS_H
#define QKV_SRC_HUB_PARTS_H

#include "base/base.h"
#include "io/json.h"
#include "qkv/hub.h"

/* config.c: makes the model that the file, a config.json, and changes ("key=value") describe, if it
 * has at most so many numbers: those of its weights, since a file can claim any size. adapter: the
 * directory of an adapter that has no such file and takes its base's; NULL: none. */
qkv_status qkv__hub_read_config(qkv_model **out, qkv_context *ctx, const char *file,
                                const char *adapter, qkv_strings changes, size_t most);
qkv_status qkv__hub_write_config(qkv_model *m, const char *dir, qkv_store store,
                                 qkv_weights weights);

/* The same of an object that would be config.json; most: numbers that there are. */
qkv_status qkv__hub_make_model(qkv_model **out, const qkv__json *config, qkv_strings changes,
                               size_t most);
/* What config.json would say of the model. name stands for the file in messages and outlives *out,
 * which is to be freed. */
qkv_status qkv__hub_config_json(qkv__json *out, qkv_model *m, const char *name);
/* fields.c: QKV_OK unless config.json has a field that no row of the type's table has and that asks
 * for something; j: the file, of which the table's own fields were read. */
qkv_status qkv__hub_check_fields(const qkv__json *j, const qkv_model_type *type);

/* generation.c: the members of generation_config.json, for a model that it is about. */
void qkv__hub_write_generation(qkv_json_writer *w, const qkv_model *m);

/* labels.c */
qkv_status qkv__hub_count_labels(const qkv__json *config, size_t *count);
qkv_status qkv__hub_read_labels(qkv_model *m, const qkv__json *config);
void qkv__hub_write_labels(qkv_json_writer *w, const qkv_model *m);

/* preprocessor.c: preprocessor_config.json, where the directory has one, and where the model says
 * how it wants images. */
qkv_status qkv__hub_read_preprocessor(qkv_model *m, const char *dir);
qkv_status qkv__hub_write_preprocessor(qkv_model *m, const char *dir);

/* sentence.c: how a BertModel pools, in the files of sentence-transformers; nothing for other
 * models. */
qkv_status qkv__hub_read_sentence(qkv_model *m, const char *dir);
qkv_status qkv__hub_write_sentence(qkv_model *m, const char *dir);

/* weights.c; the most numbers that the weights in dir, or in a file, can be */
qkv_status qkv__hub_count_weights(size_t *out, qkv_context *ctx, const char *dir);
qkv_status qkv__hub_read_weights(qkv_model *m, const char *dir, bool partial);
/* Values are stored as they come (qkv_params_store); of a failure they mean nothing. partial: rows
 * that dir lacks stay as they are. */
qkv_status qkv__hub_read_stored(qkv_model *m, const char *dir, qkv_weights weights, bool partial);
/* Calls fn, unless it is NULL, for each row of the model that dir lacks; *count, unless NULL: how
 * many. Optional rows that it lacks are left out, as reading it would do. */
qkv_status qkv__hub_visit_lacking(qkv_model *m, const char *dir, qkv_state_entry_fn *fn,
                                  void *user, size_t *count);
qkv_status qkv__hub_write_weights(qkv_model *m, const char *dir, const qkv_hub_save_options *o);

/* The same of one file with another library's names, those of the model all behind `under`; what
 * stands elsewhere in the file is left out. A head that the file lacks stays as it is. */
qkv_status qkv__hub_read_named(qkv_model *m, const qkv_safetensors *file, const char *under);
qkv_status qkv__hub_write_named(qkv_model *m, const char *path, const qkv_hub_save_options *o);

/* Fills the row from the file's tensor of that name, which must have its shape. */
qkv_status qkv__hub_read_row(const qkv_state_entry *row, qkv_context *ctx,
                             const qkv_safetensors *file, const char *name);

/* names.c: the model's rows as other libraries have them: their names, each behind `under`, and
 * query, key and value of a vit or vit_mae as one tensor. Rows that those do not have are not
 * visited. */
qkv_status qkv__hub_visit_named(qkv_model *m, const char *under, qkv_state_entry_fn *fn,
                                void *user);

#endif
