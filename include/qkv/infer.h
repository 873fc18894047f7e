/* infer.h - inference: text generation, masked words, classification, forecasts, translation.
 * Layer: infer */
#ifndef QKV_INFER_H
#define QKV_INFER_H

#include <qkv/corpus.h>
#include <qkv/forecast.h>
#include <qkv/hub.h>
#include <qkv/model.h>
#include <qkv/series.h>
#include <qkv/shortlist.h>
#include <qkv/texts.h>

QKV_BEGIN_DECLS

/* How the next token is chosen, with Hugging Face's definitions, in its order. Zeroed: greedy. */
typedef struct {
    double temperature;        /* 0: greedy                                 [0, 100]  0.8 */
    size_t top_k;              /* keep the k most likely tokens; 0: all                0 */
    double top_p;              /* keep the most likely ones of total p; 1, 0: all      1 */
    double min_p;              /* keep tokens above min_p times the maximum  [0, 1]    0 */
    double repetition_penalty; /* for tokens that occur in the text; 1, 0: none        1 */
    size_t no_repeat_ngram;    /* forbid repeated n-grams of this n; 0: allow          0 */
} qkv_sampling;

qkv_sampling qkv_sampling_defaults(void);

/* Replaces logits (V) by the distribution to sample from: processors, then softmax. past (n): the
 * tokens so far. order (2 V): scratch memory. Greedy gives a one-hot distribution. All are 0 if
 * every token is excluded. */
void qkv_sampling_distribution(const qkv_sampling *s, qkv_real *logits, size_t V,
                               const int32_t *past, size_t n, int32_t *order);

/* The token that u in [0, 1) selects; -1 if all probabilities are 0. */
int32_t qkv_sampling_draw(const qkv_real *probabilities, size_t V, double u);

/* Receives every token and two distributions (V): the one it was drawn from, and the model's own,
 * softmax(logits), before any processor; NULL unless qkv_generate_options asks for it. Returns
 * false to stop. */
typedef bool qkv_generate_fn(void *user, int32_t id, const qkv_real *probabilities,
                             const qkv_real *model, size_t V);

typedef struct {
    size_t tokens;  /* maximum number of new tokens */
    const int32_t *stop; /* (stops) tokens that end the text */
    size_t stops;   /* 0: none */
    size_t window;  /* maximum number of preceding tokens that the model sees; 0: max positions.
                       Models with learned positions have no more */
    uint64_t seed;
    uint64_t index; /* number of the sample; seed and index determine the text */
    qkv_sampling sampling;
    qkv_tape *tape; /* runs the passes, so that its probes see them; NULL: one of its own */
    bool model_distribution; /* hand the model's own distribution to the callback */
} qkv_generate_options;

/* Generates a continuation of prompt (n >= 1 ids) and appends it, without the stop token, to out.
 * The model reads the last `window` tokens of a longer prompt. Beyond the window, models with
 * learned positions re-read its last half; models with rotary positions use a sliding window. Stops
 * early if every token is excluded. QKV_E_NUMERIC: a logit is NaN. fn may be NULL. */
qkv_status qkv_generate(qkv_model *m, const int32_t *prompt, size_t n,
                        const qkv_generate_options *options, qkv_generate_fn *fn, void *user,
                        qkv_ids *out);

/* A generator makes one text after another and keeps the keys and values of the last: what the next
 * prompt begins with, if the last text began with it too, is not computed again. For conversations.
 * The model must outlive it. On failure *out is NULL. */
typedef struct qkv_generator qkv_generator;
qkv_status qkv_generator_create(qkv_generator **out, qkv_model *m);
void qkv_generator_destroy(qkv_generator *g); /* NULL is allowed */
/* As qkv_generate, whose text it is up to the rounding of numbers. After a failure the generator
 * can be used again. */
qkv_status qkv_generator_run(qkv_generator *g, const int32_t *prompt, size_t n,
                             const qkv_generate_options *options, qkv_generate_fn *fn, void *user,
                             qkv_ids *out);
/* Tokens of the last prompt that were not computed again. */
size_t qkv_generator_reused(const qkv_generator *g);

/* A prediction for a masked token. */
typedef struct {
    int32_t id;
    double prob;
} qkv_guess;

/* Predicts every `mask` among ids (n), in order: the k most likely tokens, best first, into out
 * (masks, k); 1 <= k <= vocabulary. QKV_E_ARGUMENT: not a masked language model, an id out of
 * range, or more ids than max positions. */
qkv_status qkv_fill(qkv_model *m, const int32_t *ids, size_t n, int32_t mask, size_t k,
                    qkv_guess *out);

/* The vectors of texts, each of length 1, into out (count, width of the qkv_bert_config, or of
 * CLIP's common space). The model has QKV_CAN_EMBED_TEXT or QKV_CAN_EMBED_BOTH. Texts with more
 * tokens than it reads are truncated; *cut, if not NULL, receives their number. QKV_E_ARGUMENT: a
 * text has no tokens, special ones counted. */
qkv_status qkv_embed_texts(qkv_model *m, qkv_tokenizer *t, const qkv_line *texts, size_t count,
                           qkv_real *out, size_t *cut);

/* Class probabilities of texts or text pairs, into probs (count, classes). Texts with more tokens
 * than max positions are truncated; *cut, if not NULL, receives their number. */
qkv_status qkv_classify(qkv_model *m, qkv_tokenizer *t, const qkv_text_pair *texts, size_t count,
                        qkv_real *probs, size_t *cut);

/* Forecasts the `horizon` rows that follow the history into out (horizon, targets), in the data's
 * units, from the last `context` rows. A horizon beyond the model's own is rolled out: forecasts
 * are appended to the history, which requires that all columns are targets. QKV_E_ARGUMENT: too few
 * rows, wrong columns, or a roll-out without all targets; QKV_E_NUMERIC: values beyond a float. */
qkv_status qkv_forecast(qkv_model *m, const qkv_series *history, size_t horizon, qkv_real *out);

/* Probabilities of the classes of each series: probs (count, classes). QKV_E_ARGUMENT: a series is
 * longer than the model reads. */
qkv_status qkv_classify_series(qkv_model *m, const qkv_series_batch *in, qkv_real *probs);

/* Copies a series to out (rows, columns) with what is missing (NaN) filled in, in the data's units.
 * A series longer than the model reads is read in windows that overlap by half; each value is taken
 * from the window that has most rows on both sides of it. QKV_E_ARGUMENT: wrong columns;
 * QKV_E_NUMERIC: values beyond a float. */
qkv_status qkv_fill_series(qkv_model *m, const qkv_series *series, qkv_real *out);

/* ---- beam search --------------------------------------------------------------------------- */

/* Beam search with an encoder-decoder: the same ids as Hugging Face transformers 5 (with a
 * length_factor of 0), and the same scores up to rounding. The sentences of a batch are
 * independent. The encoder reads them packed, each sentence's memory is stored once, and finished
 * sentences leave the batch. 1 beam: greedy. */
typedef struct qkv_beam_search qkv_beam_search;

typedef struct {
    const int32_t *ids; /* (count) without the start token; with the eos id, if one ended it */
    size_t count;
    double log_p; /* sum of the log-probabilities of ids; a forced eos counts 0 */
    double score; /* log_p / length^length_penalty */
} qkv_hypothesis;

/* Work of all searches so far. */
typedef struct {
    size_t source_rows; /* tokens read by the encoder */
    size_t rows;        /* tokens read by the decoder */
    size_t steps;       /* forward passes of the decoder */
    size_t sentences;
    size_t choices;     /* logits computed: for each row as many as tokens to choose among */
} qkv_beam_stats;

/* Creates a search with m, a marian, qkv_translator or t5 that outlives it. On failure *out is
 * NULL: QKV_E_ARGUMENT for another model, or options that do not suit it (2 beams must be less than
 * the vocabulary, max_length at most max positions). */
qkv_status qkv_beam_search_create(qkv_beam_search **out, qkv_model *m, const qkv_generation *g);
void qkv_beam_search_destroy(qkv_beam_search *s); /* NULL is allowed */

/* As qkv_tape_pack (initially true): false saves the copies' memory, for a model in training. */
void qkv_beam_search_pack(qkv_beam_search *s, bool pack);

/* Later runs score tokens by m too, a translator with the same tokens, no fewer positions, and the
 * context of the first, which must outlive s: probabilities are the geometric mean of the models',
 * normalised. Statistics count a row once, whatever the number of models. On failure s is as it
 * was. QKV_E_ARGUMENT: a model that does not suit. */
qkv_status qkv_beam_search_add(qkv_beam_search *s, qkv_model *m);

/* Later runs choose among the tokens of a shortlist (of as many tokens as the model has, which must
 * outlive them; NULL: among all): those that it has for all sentences of a run, the eos ids, the
 * source's own tokens where the model shares an embedding, and at least as many of the most
 * frequent ones as a step examines. Their rows of the output layers are copied once a run, and
 * probabilities are normalised over the list, so that they are larger, and depend on which
 * sentences are searched together. A list of all tokens gives what none gives, up to rounding.
 * options: NULL only without a list. */
qkv_status qkv_beam_search_shortlist(qkv_beam_search *s, const qkv_shortlist *list,
                                     const qkv_shortlist_options *options);

/* Searches for n sentences; sentence i is ids offsets[i] .. offsets[i+1]-1, at least one. Discards
 * earlier results. QKV_E_NUMERIC: a probability is NaN. */
qkv_status qkv_beam_search_run(qkv_beam_search *s, const int32_t *ids, const int32_t *offsets,
                               size_t n);

/* The hypothesis of a rank (0: the best) for a sentence of the last run. NULL past the last; there
 * are at most as many as beams. Valid until the next run. */
const qkv_hypothesis *qkv_beam_search_found(const qkv_beam_search *s, size_t sentence, size_t rank);
qkv_beam_stats qkv_beam_search_stats(const qkv_beam_search *s);
qkv_model *qkv_beam_search_model(const qkv_beam_search *s);

/* ---- translation of text ------------------------------------------------------------------- */

typedef struct {
    qkv_text text;
    double score;
} qkv_translation;

/* The translations of a line: best[0] .. best[count-1], the best first. cut: the line had more
 * tokens than max positions and was truncated. */
typedef struct {
    const qkv_translation *best;
    size_t count;
    bool cut;
} qkv_translated;

/* A translator of the other direction, which rescores the hypotheses that a search found: the score
 * of each becomes score + weight log p(line | hypothesis) / tokens of the line, and the best come
 * first (Yee et al. 2019). Tokens are those of its tokenizer, eos among them; what it has no
 * positions for is truncated. Both must outlive the call. */
typedef struct {
    qkv_model *model; /* of the context of the search; NULL: nothing is rescored */
    qkv_tokenizer *tokenizer;
    double weight;
} qkv_reverse;

typedef struct {
    size_t batch;  /* maximum number of lines per search; fewer if they are long            64 */
    size_t n_best; /* translations per line, at most the number of beams; fewer where the search
                      found fewer (length_factor)                                            1 */
    size_t first_line; /* number of the first line in error messages                     1 */
    qkv_reverse reverse; /* rescores all that a search finds                              none */
    bool (*progress)(void *user, size_t lines); /* lines done; false cancels. May be NULL */
    void *user;
} qkv_translate_text_options;
qkv_translate_text_options qkv_translate_text_defaults(void);

/* Receives every line, in the order of the text. */
typedef void qkv_translated_fn(void *user, size_t line, const qkv_translated *found);

/* Translates every line of text (len bytes; the last newline is optional). Groups lines of similar
 * length, and calls fn after all are done. A line without tokens has one empty translation. options
 * may be NULL. QKV_E_CANCELLED if progress returned false. QKV_E_ARGUMENT: a reverse model that
 * does not translate or suit its tokenizer. */
qkv_status qkv_translate(qkv_beam_search *s, qkv_tokenizer *t, const char *text, size_t len,
                         const qkv_translate_text_options *options, qkv_translated_fn *fn,
                         void *user);

QKV_END_DECLS
#endif
