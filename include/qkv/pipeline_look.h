/* pipeline_look.h - looking inside a model of a directory while it reads one input: what its
 * positions are, where each head looks, what each layer would predict.
 * Layer: report
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
#include <qkv/change.h>
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
    qkv_image_source image; /* image model; prior: may be unset, the prior samples an image */
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
    uint64_t seed;       /* masked autoencoder: selects them; prior: of the image it samples  0 */
    size_t hold_back;    /* forecaster: rows at the end of the series that are not read, but shown
                            as the truth                                                     0 */
    const char *among;   /* images (qkv_image_list_open) in which panels search for patches and
                            codes; of more than 2,000, as many evenly from the set         NULL */
    const char *pixel;   /* segmenter, colourer: the pixel "X,Y" of the input whose class or colours
                            are traced; NULL: in the middle                              NULL */
    const char *truth;   /* segmenter: the mask of the input, as of training's masks     NULL */
    qkv_strings hints;   /* colourer: qkv_pipeline_colorize_options                      none */
    const char *class_;  /* prior: class of the image, a name, or a number if there are no names;
                            NULL: the first                                              NULL */
    qkv_strings changes; /* of the pass: "h.3.attn.z head=2 zero" (qkv_changes_add_text)    none */
    size_t go_on;        /* qkv_pipeline_change: tokens with which a language model goes on, the
                            likeliest each                                                 24 */
    bool panels;         /* drawings of what else is known of the model                    true */
} qkv_pipeline_look_options;
const qkv_option_table *qkv_pipeline_look_table(void);
qkv_pipeline_look_options qkv_pipeline_look_defaults(void);

/* What the queries or keys of an attention are. */
typedef struct {
    const char *name;   /* "tokens", "source tokens", "target tokens", "patches",
                           "visible patches", "codes" */
    size_t count;
    char **labels;      /* (count) text of a token, "[CLS]", "row,column" of a patch; of a prior's
                           lead "start", "class NAME" or "condition row,column" */
    size_t lead;        /* positions before the patches: 1 with a class token; a prior's tokens
                           before the codes */
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
    size_t layers, heads; /* VQGAN: layers of a tower that attend to the grid of codes, in order of
                             the pass; maps have their names */
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
    const char *name; /* "input", "hidden", "filled in", "classes", "colours", "reconstruction",
                         "decoded", "drawn" */
    qkv_image image;
} qkv_look_image;

/* A drawing of what else is known of the model and its input, with the numbers behind it. */
typedef struct {
    const char *name;  /* "stream"; docs/look.md lists them */
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
     * translators), of the next code (priors) or of the token itself (masked words). lens: before
     * layer 0, 1, .., and after the last, which are the model's own; without lens only these. */
    size_t predicted, lens_layers, top; /* top 0: none */
    qkv_look_guess *guesses; /* (lens_layers, positions, top) */
    /* Classifiers: the classes by probability. */
    qkv_look_guess *classes;
    size_t class_count;
    char **words;        /* (word_count) texts of the ids in guesses or classes .. */
    int32_t *word_ids;   /* .. which ascend */
    size_t word_count;
    qkv_look_series series; /* columns 0: none */
    float *vector; /* encoders: (vector_width) the input's, of length 1; NULL: none */
    size_t vector_width;
    qkv_look_panel *panels;
    size_t panel_count;
    char *target;        /* translator: its own translation, where it read no other; NULL: none */
    char *adapters;      /* names of those on the model, ", " between; NULL: none */
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
/* What is shown where nothing else is chosen: the mean of the heads in the last layer of the
 * attention of that name (NULL: the last, which is a translator's cross-attention), for the class
 * token, the patch in the middle, or the last token. QKV_E_ARGUMENT: there is no such attention. */
qkv_status qkv_look_choose(const qkv_look *l, const char *attention, qkv_look_choice *out);
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

/* Adds probes to the tape (qkv_probe_add, qkv_attention_probe_add). A failure ends the call. */
typedef qkv_status qkv_pipeline_pass_fn(void *user, qkv_tape *t);
/* Runs the model once on the input; `begin` is called before the pass, and what it adds sees the
 * pass and is removed. Of options count those of the input (mask, seed, hints, class_) and changes;
 * NULL: the defaults. Errors as of qkv_pipeline_look; and QKV_E_ARGUMENT: no place of the pass
 * matched a probe of begin's (one of attention's gradients is not checked). */
qkv_status qkv_pipeline_pass(qkv_pipeline *p, const qkv_look_input *in,
                             const qkv_pipeline_look_options *options,
                             qkv_pipeline_pass_fn *begin, void *user);

/* ---- activation patching --------------------------------------------------------------------- */

typedef struct {
    const char *answer; /* what is measured: a text, whose first token it is (language models,
                           masked words, translators); a class's name; a code's number; a channel
                           ("red", "a") or a column; of encoders a text or an image's file, with
                           whose vector the cosine is measured. NULL: a token, class or code that
                           is likeliest for the clean input, a number that differs most, the cosine
                           with the clean input                                           NULL */
    const char *other;  /* measure answer - other, of logits or of numbers; NULL: log p(answer), or
                           the number                                                     NULL */
    const char *place;  /* of each layer: a place of qkv_block_forward, NULL: "resid_pre"; of a
                           VQGAN its layers: "mid.attn_1", NULL: "*". "*" stands for any characters
                                                                                          NULL */
    bool heads;         /* a place (B, T, heads, width) is patched a head at a time, at all
                           positions ("attn.z")                                          false */
    int at;             /* where the answer is: a target position (translator), a position (language
                           model), a place of the grid, row by row (prior), a row (forecaster,
                           filler). -1: the last of a language model, the mask that both texts have,
                           else where the two answers differ most                           -1 */
    const char *pixel;  /* "X,Y" in an image of the model's own size, or in a prior's grid of codes;
                           NULL: as at -1                                                 NULL */
    double mask;        /* of qkv_pipeline_look_options                                    0.75 */
    uint64_t seed;      /*                                                                    0 */
    const char *class_; /* of both images; of qkv_pipeline_look_options                   NULL */
} qkv_pipeline_patch_options;
const qkv_option_table *qkv_pipeline_patch_table(void);
qkv_pipeline_patch_options qkv_pipeline_patch_defaults(void);

/* What the answer for the corrupt input becomes when one activation is the clean input's. */
typedef struct {
    const char *stack;        /* "h", "encoder", "decoder.layer" */
    char *pattern;            /* of the places: "h.*.resid_pre", a VQGAN's "encoder.*" */
    size_t axis;              /* of corrupt_input.axes: what the positions are */
    size_t layers, positions; /* positions: heads, where these are patched */
    char **names;             /* (layers) "3", a VQGAN's "mid.attn_1" */
    double *values;           /* (layers, positions) the measure with that activation patched */
} qkv_patch_grid;

typedef struct {
    char *name;
    double clean, corrupt; /* probability, or number, for either input */
} qkv_patch_outcome;

enum { QKV_PATCH_OUTCOMES = 10 };

typedef struct {
    qkv_context *ctx;
    qkv_look clean_input, corrupt_input; /* their axes and images */
    bool heads;
    size_t grid_count;
    qkv_patch_grid grids[QKV_LOOK_AXES];  /* of each stack that has the place */
    double clean, corrupt;                /* the measure for either input */
    char *answer, *other, *place, *where; /* where: "token 5", "pixel 3,4"; other may be NULL */
    bool numbers;                         /* outcomes are numbers, not probabilities */
    size_t outcome_count;                 /* the likeliest for both inputs, or all numbers */
    qkv_patch_outcome outcomes[QKV_PATCH_OUTCOMES];
} qkv_patch;

/* Activation patching (Vig et al. 2020; Meng et al. 2022): one activation of the clean input's pass
 * is put into the corrupt input's, for each layer and position (or head), and what becomes of the
 * answer is measured. The inputs must have equally many positions. A masked autoencoder sees the
 * same patches of both; a translator's decoder and a causal forecaster's read the same target:
 * `second` of the clean input, or the model's own for it. Numbers are the model's outputs: a masked
 * autoencoder's pixels as it learnt them (normalised, where it was trained so), a VQGAN's from -1
 * to 1, a colourer's a and b, a segmenter's and classifier's logits of a class, rows of a
 * forecaster or filler in their units, cosines of an encoder's vectors. Of a VQGAN the positions
 * are its codes; what is patched of a layer's map is the part that lies in the code's square. An
 * encoder of texts and images reads two texts or two images. Only layers from the patched one on
 * are computed, a language model's and a prior's from the patched position on. On failure *out is
 * zeroed. QKV_E_ARGUMENT: the inputs do not fit each other, or there is no such answer or place. */
qkv_status qkv_pipeline_patch(qkv_pipeline *p, const qkv_look_input *clean,
                              const qkv_look_input *corrupt,
                              const qkv_pipeline_patch_options *options, qkv_patch *out);
void qkv_patch_free(qkv_patch *x);
/* The share of the difference that a value restores, (value - corrupt) / (clean - corrupt); 0
 * without a difference. */
double qkv_patch_share(const qkv_patch *x, double value);
/* The shares of a grid as a map of layers and positions; positions of images as one map for each
 * layer over the corrupt image. On failure *out is NULL. */
qkv_status qkv_patch_draw(const qkv_patch *x, size_t grid, qkv_drawing **out);
/* Adds members to an object: "answer", "other" where there is one, "where", "place", "clean",
 * "corrupt", "outcomes", "grids". */
void qkv_patch_json(const qkv_patch *x, qkv_json_writer *w);
/* Lines for a terminal: the grid where it is small, else the activations that matter most. */
qkv_status qkv_patch_text(const qkv_patch *x, qkv_str *out);
/* Writes a page (page.h): both answers, the images, each grid with its numbers to read by mouse or
 * arrow keys. */
qkv_status qkv_patch_page(const qkv_patch *x, const qkv_look_page_options *options,
                          const char *path);

/* ---- changes --------------------------------------------------------------------------------- */

enum { QKV_CHANGED_TOP = 64 }; /* predictions at each position */

/* An input read by the model, and by the model with changes. */
typedef struct {
    qkv_context *ctx;
    qkv_look before, after; /* axes, predictions, classes, images; no attention */
    char *text_before, *text_after; /* how a language model goes on; NULL: it is none */
} qkv_changed;

/* Runs the model with and without options->changes (qkv_changes_add_text). A translator's target is
 * `second`, or its own translation without changes, for both. On failure *out is zeroed.
 * QKV_E_ARGUMENT: a change is malformed, matches no place, or does not fit what is there. */
qkv_status qkv_pipeline_change(qkv_pipeline *p, const qkv_look_input *in,
                               const qkv_pipeline_look_options *options, qkv_changed *out);
void qkv_changed_free(qkv_changed *c);
/* As qkv_patch_text, qkv_patch_json and qkv_patch_page. at: the position whose predictions are
 * listed, -1: the last. */
qkv_status qkv_changed_text(const qkv_changed *c, int at, qkv_str *out);
void qkv_changed_json(const qkv_changed *c, int at, qkv_json_writer *w);
qkv_status qkv_changed_page(const qkv_changed *c, int at, const qkv_look_page_options *options,
                            const char *path);

/* A vector for changes that steer: the mean over positions of what is at a place ("h.5.resid_post")
 * while the model reads an input, less that of another (NULL: none). Free it with qkv_array_free;
 * save it with qkv_npy_save. On failure *out is zeroed. */
qkv_status qkv_pipeline_vector(qkv_pipeline *p, const qkv_look_input *in,
                               const qkv_look_input *minus, const char *place, qkv_array *out);

QKV_END_DECLS
#endif
