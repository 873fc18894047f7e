/* pipeline_look.h - looking inside a model of a directory while it reads one input: what its
 * positions are, where each head looks, what each layer would predict.
 * Layer: pipeline
 *
 *     const qkv_look_input in = {.text = "The cat sat on the mat"};
 *     qkv_look l;
 *     if (qkv_pipeline_look(p, &in, NULL, &l))
 *         return fail(qkv_context_message(ctx));
 *     qkv_look_page(&l, NULL, "report.html");
 *     qkv_look_free(&l); */
#ifndef QKV_PIPELINE_LOOK_H
#define QKV_PIPELINE_LOOK_H

#include <qkv/array.h>
#include <qkv/draw.h>
#include <qkv/json.h>
#include <qkv/look.h>
#include <qkv/pipeline_images.h>

QKV_BEGIN_DECLS

/* What the model reads. Set the member that suits it. */
typedef struct {
    const char *text;       /* text model: the text; translator: the source sentence */
    const char *second;     /* classifier of texts: the second text; translator: the target
                               sentence, NULL: the model's own translation */
    qkv_image_source image; /* image model */
    const char *series;     /* model of series: a CSV file; or .. */
    const qkv_array *rows;  /* .. its rows (rows, columns) in memory */
} qkv_look_input;

typedef enum { QKV_LOOK_F32, QKV_LOOK_F16, QKV_LOOK_BF16 } qkv_look_store;

typedef struct {
    const char *capture; /* safetensors file that receives attention weights and hidden states
                                                                                          NULL */
    qkv_strings places;  /* beside them in the file: tensors at places that match         none */
    qkv_look_store store; /* type of the file's numbers                                     F32 */
    double least;        /* weights below this are left out of maps        (0, 1]       0.001 */
    size_t top;          /* predictions at each position               [0, 64]             5 */
    bool lens;           /* predictions of each layer too, by logit lens                  true */
    bool weights;        /* maps, figures and rollout; false: the capture alone           true */
    double mask;         /* masked autoencoder: share of patches to mask   [0, 1)       0.75 */
    uint64_t seed;       /* masked autoencoder: selects them                                 0 */
    size_t hold_back;    /* forecaster: rows at the end of the series that are not read, but shown
                            as the truth                                                     0 */
    const char *among;   /* images (qkv_image_list_open) in which panels search for patches and
                            codes; of more than 2,000, as many evenly from the set         NULL */
    bool panels;         /* drawings of what else is known of the model                    true */
} qkv_pipeline_look_options;
const qkv_option_table *qkv_pipeline_look_table(void);
qkv_pipeline_look_options qkv_pipeline_look_defaults(void);

/* What the queries or keys of an attention are. */
typedef struct {
    const char *name;   /* "tokens", "source tokens", "target tokens", "patches",
                           "visible patches" */
    size_t count;
    char **labels;      /* (count) text of a token, "[CLS]", "row,column" of a patch */
    size_t lead;        /* positions before the patches: 1 with a class token */
    size_t rows, columns; /* grid of patches; 0: a sequence */
    int32_t *cells;     /* (count - lead) the patch at each position, row by row; NULL: in order */
    size_t from, span;  /* of a series: position i is `span` of its rows, from row from + i span on;
                           span 0: no series */
} qkv_look_axis;

/* The attentions of one kind in one stack. */
typedef struct {
    const char *name;   /* as in a capture: "attentions", "cross_attentions" */
    size_t query, key;  /* indices of axes */
    bool causal;
    size_t layers, heads;
    qkv_head_figures *figures; /* (layers, heads) */
    qkv_head_map *maps;        /* (layers, heads) */
    /* (layers, heads, keys) norm of each value after the output layer, |v_j W_O|; the weights times
     * these are what attention adds to the stream (Kobayashi et al. 2020). NULL: none. */
    float *value_norms;
    const float *rollout;      /* (queries, queries), qkv_rollout; NULL: cross-attention */
} qkv_look_attention;

/* The series that a model of series read, and what it made of it. */
typedef struct {
    size_t columns, targets; /* the first `targets` columns are forecast */
    size_t first;            /* number of row 0 in the input, from 0 */
    size_t read, made;       /* rows that were read; rows behind them that were forecast */
    char **names;            /* (columns); NULL: none */
    float *values;           /* (read + made, columns): what was read, then the truth; NaN: not
                                known */
    float *answers;          /* (read + made, targets): what the model made; NaN: nothing */
} qkv_look_series;

/* A prediction. */
typedef struct {
    int32_t id;  /* -1: fewer are possible */
    float p;
} qkv_look_guess;

/* A set of images that belong to the input, of the model's size. */
typedef struct {
    const char *name; /* "input", "hidden", "filled in", "classes", "colours" */
    qkv_image image;
} qkv_look_image;

/* A drawing of what else is known of the model and its input, with the numbers behind it. */
typedef struct {
    const char *name;  /* "stream" */
    const char *title;
    char *note;        /* sentences: what is drawn, how to read it */
    qkv_drawing *drawing;
    char *json;        /* the numbers, one JSON value */
} qkv_look_panel;

enum { QKV_LOOK_AXES = 2, QKV_LOOK_ATTENTIONS = 3, QKV_LOOK_IMAGES = 4 };

typedef struct {
    qkv_context *ctx;
    const char *kind; /* the model's type: "gpt2" */
    size_t axes_count, attentions_count, images_count;
    qkv_look_axis axes[QKV_LOOK_AXES];
    qkv_look_attention attentions[QKV_LOOK_ATTENTIONS];
    qkv_look_image images[QKV_LOOK_IMAGES];
    /* Predictions at every position of axis `predicted`: of the next token (language models,
     * translators) or of the token itself (masked words). lens: before layer 0, 1, .., and after
     * the last, which are the model's own; without lens the last alone. */
    size_t predicted, lens_layers, top; /* top 0: none */
    qkv_look_guess *guesses; /* (lens_layers, positions, top) */
    /* Classifiers: the classes by probability. */
    qkv_look_guess *classes;
    size_t class_count;
    char **words;        /* (word_count) texts of the ids in guesses or classes .. */
    int32_t *word_ids;   /* .. which ascend */
    size_t word_count;
    qkv_look_series series; /* columns 0: none */
    qkv_look_panel *panels;
    size_t panel_count;
    struct qkv_look_tools *tools; /* what the arrays belong to */
} qkv_look;

/* Runs the model once on the input with probes. On failure *out is zeroed. QKV_E_UNSUPPORTED: the
 * kind of model cannot be looked into; QKV_E_ARGUMENT: the input suits another kind, or is too
 * long. */
qkv_status qkv_pipeline_look(qkv_pipeline *p, const qkv_look_input *in,
                             const qkv_pipeline_look_options *options, qkv_look *out);
void qkv_look_free(qkv_look *l);

const char *qkv_look_word(const qkv_look *l, int32_t id); /* text of an id; "" if unknown */

/* The panel of that name. NULL: there is none; the context's message names those there are. */
const qkv_look_panel *qkv_look_panel_of(const qkv_look *l, const char *name);

/* ---- one row --------------------------------------------------------------------------------- */

/* A row of weights: of a query, in a head and layer. */
typedef struct {
    size_t attention;  /* index in look.attentions */
    int layer;         /* -1: rollout */
    int head;          /* -1: mean of the heads */
    size_t position;   /* the query */
} qkv_look_choice;
/* Fills row (keys of the attention). QKV_E_ARGUMENT: no such layer, head or position. */
qkv_status qkv_look_row(const qkv_look *l, const qkv_look_choice *c, double *row);

/* Writes everything but the maps as one JSON object; with a choice its row, too (NULL: none). */
void qkv_look_json(const qkv_look *l, const qkv_look_choice *c, qkv_json_writer *w);
/* The row as lines of text for a terminal: a bar for each token, or the grid of patches. */
qkv_status qkv_look_text(const qkv_look *l, const qkv_look_choice *c, qkv_str *out);

/* ---- drawings and the page ------------------------------------------------------------------- */

/* The row as heat over the input image, where keys are its patches; else the map of all rows. Save
 * it with qkv_drawing_save, as SVG or PNG. On failure *out is NULL. */
qkv_status qkv_look_draw(const qkv_look *l, const qkv_look_choice *c, qkv_drawing **out);
/* Small maps of all layers and heads of an attention. On failure *out is NULL. */
qkv_status qkv_look_draw_heads(const qkv_look *l, size_t attention, qkv_drawing **out);

typedef struct {
    const char *title; /* NULL: "Inside a gpt2 model" */
    const char *input; /* a line under the title: what the model read; NULL: none */
    double least;      /* smaller weights are left out; 0: 0.001. More are left out of long
                          inputs, so that the page stays small; it says which */
} qkv_look_page_options;
/* Writes a page (page.h) with all heads, in which a reader selects positions, heads and layers. */
qkv_status qkv_look_page(const qkv_look *l, const qkv_look_page_options *options,
                         const char *path);

/* ---- places ---------------------------------------------------------------------------------- */

/* A place of a model's forward pass. */
typedef struct {
    char *name;   /* "h.3.attn.z" */
    bool weights; /* attention weights (B, heads, T, S): a place of qkv_attention_probe_add; else a
                     tensor: a place of qkv_probe_add */
    int ndim;
    size_t shape[QKV_MAX_DIMS]; /* in a pass over a sample */
} qkv_look_place;
typedef struct {
    qkv_context *ctx;
    qkv_look_place *items; /* in order of the pass */
    size_t count;
} qkv_look_places;
/* All places of the model, by a pass over a sample: the text "a", or a grey image. Removes all
 * probes. On failure *out is zeroed. */
qkv_status qkv_pipeline_places(qkv_pipeline *p, qkv_look_places *out);
void qkv_look_places_free(qkv_look_places *x);

/* ---- activation patching --------------------------------------------------------------------- */

typedef struct {
    const char *answer; /* text whose first token is measured; NULL: the likeliest prediction for
                           the clean text                                                 NULL */
    const char *other;  /* measure logit(answer) - logit(other); NULL: log p(answer)      NULL */
    const char *place;  /* of each layer: a place of qkv_block_forward               resid_pre */
} qkv_pipeline_patch_options;
const qkv_option_table *qkv_pipeline_patch_table(void);
qkv_pipeline_patch_options qkv_pipeline_patch_defaults(void);

/* What the prediction for the corrupt text becomes when one activation is the clean text's. */
typedef struct {
    qkv_context *ctx;
    size_t layers, positions;
    double *values;        /* (layers, positions) the measure with that activation patched */
    double clean, corrupt; /* the measure of either text */
    char **labels;         /* (positions) tokens of the corrupt text */
    char *answer;          /* the token that is measured */
} qkv_patch;

/* Activation patching (Vig et al. 2020; Meng et al. 2022) of a language model, measured at the last
 * position, or of a masked language model, measured at the mask that both texts have. The texts
 * must have equally many tokens. Only layers from the patched one on are computed. On failure *out
 * is zeroed. */
qkv_status qkv_pipeline_patch(qkv_pipeline *p, const char *clean, const char *corrupt,
                              const qkv_pipeline_patch_options *options, qkv_patch *out);
void qkv_patch_free(qkv_patch *x);
/* The shares (value - corrupt) / (clean - corrupt), as a map of layers and positions. On failure
 * *out is NULL. */
qkv_status qkv_patch_draw(const qkv_patch *x, qkv_drawing **out);

QKV_END_DECLS
#endif
