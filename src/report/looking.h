/* looking.h - what the files of looking share: the tools of a pass, and the kinds of models. */
#ifndef QKV_SRC_REPORT_LOOKING_H
#define QKV_SRC_REPORT_LOOKING_H

#include "pipeline/pipeline.h"
#include "qkv/pipeline_look.h"
#include "qkv/pixels.h"

typedef struct qkv__look_value qkv__look_value;

/* One call. */
typedef struct {
    qkv_pipeline *p;
    const struct qkv__look_kind *kind;
    const qkv_look_input *in;
    qkv_pipeline_look_options o;
    qkv_look *out;
    qkv_ids ids[QKV_LOOK_AXES]; /* tokens of the axes */
    /* The residual stream before each layer of the stack that predicts, and after the last. */
    qkv_real **states;
    size_t state_count, state_room, state_size;
    qkv_real *window, *target; /* of series: rows read; a forecast in the model's scale */
    qkv__look_value *values; /* of all attentions, in order of the pass */
    size_t value_count, value_room;
    bool causal[QKV_LOOK_ATTENTIONS]; /* in this model, though not in all of its kind */
    size_t panel_room;
    bool out_of_memory; /* in a probe */
    qkv_changes *changes; /* NULL: none */
    /* Patching: the images as the model gets them, (1, height, width, channels). */
    qkv_real *pixels;
    size_t pixel_shape[4];
    qkv_lm_cache *cache; /* patching of causal models: positions before `from`; NULL: none */
    size_t from;
    /* Patching of encoders: vectors of length 1, (toward_count, width), with which cosines are
     * measured, and what they are of; a name of NULL: the clean input. */
    qkv_real *toward;
    const char *toward_names[2];
    size_t toward_count;
} qkv__looking;

/* The attentions of a kind of model: those of a stack and a part of its blocks ("attn"). */
typedef struct {
    const char *stack, *part;
    size_t query, key; /* axes */
    bool causal;
} qkv__look_attentions;

enum { QKV__EVERYWHERE = -1 };
/* Models that read a second text. */
enum { QKV__CAN_READ_TWO = QKV_CAN_CLASSIFY_TEXT | QKV_CAN_TRANSLATE };

/* How a pass comes by the layers of a stack: places, as patterns behind the stack's name. */
typedef struct {
    const char *before; /* the stream before each layer; NULL: no place has the first layer's */
    const char *behind; /* the stream behind each layer */
    const char *place;  /* what option "place" is put behind */
    const char *usual;  /* that option, where it is not given */
    bool packed;        /* sequences of a pass lie one after another in (1, rows, ..) */
    bool maps;          /* places have maps (B, H, W, C) of the axis' grid, H and W multiples of its
                           rows and columns; else (B, positions, ..) */
} qkv__patch_layers;

/* What patching needs of a kind: the outputs, of which an answer is measured at one place. */
typedef struct {
    const qkv__patch_layers *layers; /* NULL: blocks */
    bool numbers; /* outputs are numbers by themselves, not logits of one choice */
    const char *place; /* what a place is: "token"; without `places` what there is */
    /* What passes begin with, beyond what `prepare` of the kind makes. May be NULL. */
    qkv_status (*inputs)(qkv__looking *l);
    /* Places of an input; *columns: of an image, else 0. NULL: there is one. */
    size_t (*places)(const qkv__looking *l, size_t *columns);
    /* Where a caller that names no place wants the answer; NULL: where it differs most. */
    qkv_status (*usual)(const qkv__looking *clean, const qkv__looking *corrupt, size_t *at);
    /* What both inputs take from the first one and the options. May be NULL. */
    qkv_status (*share)(qkv__looking *clean, qkv__looking *corrupt,
                        const qkv_pipeline_patch_options *o);
    /* Causal models: the next passes are on n sequences from position `from` on, behind the input's
     * own. Calls have rising `from`. NULL: passes are on all positions. */
    qkv_status (*begin)(qkv__looking *l, size_t from, size_t n);
    /* The last position that the answer at a place depends on; NULL: the place itself. */
    size_t (*position)(const qkv__looking *l, size_t place);
    /* Sequences that a pass takes; NULL: so many positions in all. */
    size_t (*at_once)(const qkv__looking *l);
    /* Whether the model answers there; NULL: everywhere. */
    bool (*answers)(const qkv__looking *l, size_t at);
    /* The outputs (n, .., choices) of n passes on the input at a place, or, n 1, at all places in
     * order. On l->p->tape; stacks may have been entered with n sequences. */
    qkv_tensor *(*outputs)(qkv__looking *l, size_t n, int at);
    /* The choice that an option's text names. NULL: the one of that name. */
    qkv_status (*choice)(const qkv__looking *l, const char *flag, const char *text,
                         size_t choices, size_t *choice);
    /* The name of a choice, to be freed by the caller. NULL: out of memory. */
    char *(*name)(const qkv__looking *l, size_t choice);
} qkv__patch_kind;

typedef struct qkv__look_kind {
    unsigned can;           /* any of these QKV_CAN_* bits */
    bool (*reads)(const qkv_look_input *in); /* which inputs; NULL: all that models of it do */
    bool final_norm;        /* of qkv_capture_options */
    const char *predicting; /* the stack whose states the logit lens reads; NULL: no lens */
    qkv__look_attentions attentions[QKV_LOOK_ATTENTIONS];
    /* The attention, and its layer, of that full name. NULL: stack, layer and part say it. */
    bool (*attention_at)(const qkv__looking *l, const char *name, size_t *attention,
                         size_t *layer);
    /* The text of an id that was predicted, freed by the caller. NULL: a token's text. */
    char *(*word)(const qkv__looking *l, int32_t id);
    qkv_status (*prepare)(qkv__looking *l); /* axes and inputs, before there are probes */
    qkv_status (*run)(qkv__looking *l);     /* the pass on l->p->tape */
    /* The predictions at all positions from the stack's output, (1, positions, width), for lens
     * layer i. May be NULL. */
    qkv_status (*predict)(qkv__looking *l, const struct qkv__look_kind *kind);
    const qkv__patch_kind *patch; /* NULL: activations cannot be patched */
    qkv_status (*panels)(qkv__looking *l); /* after the rest; may be NULL */
} qkv__look_kind;

/* The kind of p's model, of one of texts and images with that input; NULL: none can be looked
 * into. */
const qkv__look_kind *qkv__look_kind_of(const qkv_pipeline *p, const qkv_look_input *in);
/* Options and inputs of other kinds of models are errors, not ignored. */
qkv_status qkv__look_suits(const qkv__looking *l);
void qkv__look_end(qkv__looking *l); /* frees all but l->out */
extern const qkv__patch_layers qkv__patch_blocks;
extern const qkv__patch_kind qkv__patch_lm, qkv__patch_words, qkv__patch_text_classes,
    qkv__patch_translator, qkv__patch_image_classes, qkv__patch_masked, qkv__patch_segmenter,
    qkv__patch_colorizer, qkv__patch_forecaster, qkv__patch_codes, qkv__patch_prior,
    qkv__patch_text_vectors, qkv__patch_image_vectors, qkv__patch_caption_texts,
    qkv__patch_filler, qkv__patch_series_classes;

extern const qkv__look_kind qkv__look_lm, qkv__look_words, qkv__look_text_classes,
    qkv__look_translator, qkv__look_image_classes, qkv__look_masked, qkv__look_segmenter,
    qkv__look_colorizer, qkv__look_forecaster, qkv__look_filler, qkv__look_series_classes,
    qkv__look_codes_kind, qkv__look_prior, qkv__look_text_vectors, qkv__look_image_vectors,
    qkv__look_caption_texts, qkv__look_caption_images;

/* ---- for the kinds --------------------------------------------------------------------------- */

/* An axis of tokens, labelled by their texts; ids are l->ids[axis]. */
qkv_status qkv__look_tokens(qkv__looking *l, size_t axis, const char *name);
/* Axis 0: the tokens of the input's text, `most` at most. */
qkv_status qkv__look_read_text(qkv__looking *l, size_t most);
/* Axis 0: `lead` positions and side x side patches of the input's image, which is added as the
 * model sees it. */
qkv_status qkv__look_read_image(qkv__looking *l, size_t lead, size_t side);
/* An axis of lead positions and a grid; cells NULL: in order. */
qkv_status qkv__look_patches(qkv__looking *l, size_t axis, const char *name, size_t lead,
                             size_t rows, size_t columns, const int32_t *cells, size_t count);
/* An axis of `count` positions, each of `span` rows of l->out->series from row `from` on. */
qkv_status qkv__look_steps(qkv__looking *l, size_t axis, const char *name, size_t from, size_t span,
                           size_t count);
/* A copy of the image belongs to the result. */
qkv_status qkv__look_add_image(qkv__looking *l, const char *name, const qkv_image *image);
/* Room for predictions of `layers` lens layers at the positions of an axis. */
qkv_status qkv__look_guesses(qkv__looking *l, size_t axis, size_t layers);
/* The classes by probability. */
qkv_status qkv__look_classes(qkv__looking *l, const qkv_real *probabilities, size_t count);

/* The text of a token, or its spelling if it decodes to nothing; the caller frees it. NULL: out of
 * memory. */
char *qkv__look_token_text(const qkv_pipeline *p, int32_t id);
/* Texts of all ids that were predicted. */
qkv_status qkv__look_name_words(qkv__looking *l);

/* Array NAME of rows (rows, columns); NaN is null. */
void qkv__look_put_rows(qkv_json_writer *w, const char *name, const float *values, size_t rows,
                        size_t columns);
/* Members "cells", or "from" and "span": where an axis' positions lie, unless in order. */
void qkv__look_put_cells(qkv_json_writer *w, const qkv_look_axis *a);
/* Array "names": full names of an attention's layers, where a number does not say which layer it
 * is, as in a VQGAN. */
void qkv__look_put_names(qkv_json_writer *w, const qkv_look_attention *a);

/* Of kinds that are patched: the name of a class; an image's pixels as the model gets them, kept by
 * a run of the kind, and on the tape. */
char *qkv__patch_class_name(const qkv__looking *l, size_t choice);
qkv_status qkv__patch_pixels(qkv__looking *l);
qkv_tensor *qkv__patch_image(const qkv__looking *l);

/* ids (n, tokens): n copies of an axis' tokens. */
qkv_tensor *qkv__look_ids(const qkv__looking *l, size_t axis, size_t n);
/* Row `at` of hidden (n, positions, width), or all of them: QKV__EVERYWHERE. */
qkv_tensor *qkv__look_at(qkv__looking *l, qkv_tensor *hidden, int at);
/* Rows of zeros that a model of series reads; other models: none, data NULL. Freed with
 * qkv_array_free, after a failure, too. */
qkv_status qkv__look_sample_rows(const qkv_pipeline *p, qkv_array *out);

/* ---- series, curve.c ------------------------------------------------------------------------- */

void qkv__look_free_series(qkv_look_series *s, qkv_context *ctx);
/* The series with the weights of a row of keys over its positions; no keys: the curves alone. */
qkv_status qkv__look_draw_row(const qkv_look *l, const qkv_look_axis *keys, const double *row,
                              const char *title, qkv_drawing **out);
/* The panel "effects", effects.c. */
qkv_status qkv__look_effects(qkv__looking *l);
/* The weights as lines of text. */
void qkv__look_text_row(const qkv_look *l, const qkv_look_axis *keys, const double *row,
                        qkv_str *out);
/* The member "series" of a JSON object; visible: names of columns as a page shows them. */
void qkv__look_series_json(const qkv_look *l, bool visible, qkv_json_writer *w);

/* ---- panels, panels.c ------------------------------------------------------------------------ */

/* Adds a panel. name and title are kept, note is copied (NULL: it could not be made, out of
 * memory); drawing and numbers (NULL: none) belong to it, on failure, too. */
qkv_status qkv__look_add_panel(qkv__looking *l, const char *name, const char *title,
                               const char *note, qkv_drawing *drawing, qkv_json_writer *numbers);
/* The images of option "among", 2,000 at most, evenly from the set, in the size and channels of o.
 * *out is NULL without the option and on failure; close it with qkv_pixels_close. */
qkv_status qkv__look_among(qkv__looking *l, const qkv_pixels_options *o, qkv_pixels **out);
/* The panel "stream", of the states that the lens reads; none: no panel. */
qkv_status qkv__look_stream(qkv__looking *l);

/* ---- norms of values, values.c --------------------------------------------------------------- */

qkv_status qkv__look_watch_values(qkv__looking *l, const qkv__look_kind *k); /* adds a probe */
qkv_status qkv__look_value_norms(qkv__looking *l); /* after the pass */
void qkv__look_free_values(qkv__looking *l);

#endif
