/* infer.h - models at work: continuing text and series, translating.
 * Layer: infer */
#ifndef QKV_INFER_H
#define QKV_INFER_H

#include <qkv/corpus.h>
#include <qkv/forecast.h>
#include <qkv/hub.h>
#include <qkv/model.h>

QKV_BEGIN_DECLS

/* How the next token is chosen: Hugging Face's definitions, in its order. Zeroed: greedy. */
typedef struct {
    double temperature;        /* 0: greedy                                 [0, 100]  0.8 */
    size_t top_k;              /* only the k most likely; 0: all                       0 */
    double top_p;              /* only the likeliest that make up p; 1, 0: all         1 */
    double min_p;              /* only those above min_p times the likeliest [0, 1]    0 */
    double repetition_penalty; /* of tokens that were there already; 1, 0: none        1 */
    size_t no_repeat_ngram;    /* no n tokens twice; 0: allowed                        0 */
} qkv_sampling;

qkv_sampling qkv_sampling_defaults(void);

/* Turns logits (V) into the distribution that is sampled from, in place: processors, then
 * softmax. past (n) holds the tokens so far. order (2 V) is scratch. Greedy gives a single 1.
 * All are 0 when every token is ruled out. */
void qkv_sampling_distribution(const qkv_sampling *s, qkv_real *logits, size_t V,
                               const int32_t *past, size_t n, int32_t *order);

/* The token that u in [0, 1) falls on; -1 when all probabilities are 0. */
int32_t qkv_sampling_draw(const qkv_real *probabilities, size_t V, double u);

/* Called with every token as it is made and the distribution it was drawn from (V). false stops. */
typedef bool qkv_generate_fn(void *user, int32_t id, const qkv_real *probabilities, size_t V);

typedef struct {
    size_t tokens;  /* most to make */
    const int32_t *stop; /* (stops) tokens that end the text */
    size_t stops;   /* 0: none does */
    size_t window;  /* earlier tokens that the next one is chosen from, at most; 0: as many as the
                       model was trained on. Models with learned positions have no more. */
    uint64_t seed;
    uint64_t index; /* of the sample: the same seed and index give the same text */
    qkv_sampling sampling;
} qkv_generate_options;

/* Continues prompt (n >= 1 ids) and appends what it makes to out (without the stop token). A
 * prompt longer than the window is read from its last window on. Past the window, models with
 * learned positions re-read its last half; rotary ones go on and see the last window of tokens.
 * Ends early when every token is ruled out. QKV_E_NUMERIC: a logit is not a number. fn may be
 * NULL. */
qkv_status qkv_generate(qkv_model *m, const int32_t *prompt, size_t n,
                        const qkv_generate_options *options, qkv_generate_fn *fn, void *user,
                        qkv_ids *out);

/* A token that may stand where a word is hidden. */
typedef struct {
    int32_t id;
    double prob;
} qkv_guess;

/* For every `mask` among ids (n), in order, the k likeliest tokens, best first, into out (masks,
 * k); 1 <= k <= vocabulary. QKV_E_ARGUMENT: the model guesses no words, ids that it does not have
 * or that are more than its positions. */
qkv_status qkv_fill(qkv_model *m, const int32_t *ids, size_t n, int32_t mask, size_t k,
                    qkv_guess *out);

/* The classes' probabilities for texts or pairs, into probs (count, classes). Texts with more
 * tokens than the model has positions lose their ends: *cut, if not NULL, gets how many. */
qkv_status qkv_classify(qkv_model *m, qkv_tokenizer *t, const qkv_text_pair *texts, size_t count,
                        qkv_real *probs, size_t *cut);

/* Forecasts the `horizon` rows that follow the history, into out (horizon, targets), in the data's
 * units. Only the last `context` rows are read. More rows than the model's own horizon are rolled
 * out: forecasts become history, for which all columns must be targets. QKV_E_ARGUMENT: too few
 * rows, columns that do not fit or are not forecast; QKV_E_NUMERIC: numbers beyond a float's. */
qkv_status qkv_forecast(qkv_model *m, const qkv_series *history, size_t horizon, qkv_real *out);

/* ---- searching for the likeliest answer ---------------------------------------------------- */

/* Beam search with an encoder-decoder, exactly as Hugging Face's (transformers 5; the same ids, and
 * the same scores but for rounding). Sentences of a batch do not see each other; the encoder runs
 * on them packed, each memory is kept once, and who is finished leaves. One beam is greedy. */
typedef struct qkv_beam_search qkv_beam_search;

typedef struct {
    const int32_t *ids; /* (count) without the first input; the token that ends it, if one did */
    size_t count;
    double log_p; /* sum of the log-probabilities of ids; a forced end counts 0 */
    double score; /* log_p / length^length_penalty */
} qkv_hypothesis;

/* What it took, of all searches so far. */
typedef struct {
    size_t source_rows; /* tokens that went through the encoder */
    size_t rows;        /* and through the decoder */
    size_t steps;       /* passes of the decoder */
    size_t sentences;
} qkv_beam_stats;

/* A search with m, which must outlive it: marian or qkv_translator. On failure *out is NULL:
 * QKV_E_ARGUMENT for another model, and for options that do not fit it (2 beams must be fewer than
 * the vocabulary, max_length no longer than its positions). */
qkv_status qkv_beam_search_create(qkv_beam_search **out, qkv_model *m, const qkv_generation *g);
void qkv_beam_search_destroy(qkv_beam_search *s); /* NULL is allowed */

/* Searches for n sentences: sentence i is ids offsets[i] .. offsets[i+1]-1, one or more. What was
 * found before is forgotten. QKV_E_NUMERIC: a probability is not a number. */
qkv_status qkv_beam_search_run(qkv_beam_search *s, const int32_t *ids, const int32_t *offsets,
                               size_t n);

/* The rank-th best for a sentence of the last run, 0 the best; NULL past the last of, at most,
 * as many as there are beams. Valid until the next run. */
const qkv_hypothesis *qkv_beam_search_found(const qkv_beam_search *s, size_t sentence, size_t rank);
qkv_beam_stats qkv_beam_search_stats(const qkv_beam_search *s);
qkv_model *qkv_beam_search_model(const qkv_beam_search *s);

/* ---- translating text ---------------------------------------------------------------------- */

typedef struct {
    qkv_text text;
    double score;
} qkv_translation;

/* What became of one line: best[0] .. best[count-1], the best first. cut: it had more tokens than
 * the model has positions, and only the first of them were read. */
typedef struct {
    const qkv_translation *best;
    size_t count;
    bool cut;
} qkv_translated;

typedef struct {
    size_t batch;  /* lines searched at once, at most; fewer when they are long             64 */
    size_t n_best; /* of each line, at most as many as there are beams                       1 */
    size_t first_line; /* what errors call the first line                                1 */
    bool (*progress)(void *user, size_t lines); /* so many are done; false stops. May be NULL */
    void *user;
} qkv_translate_text_options;
qkv_translate_text_options qkv_translate_text_defaults(void);

/* Called with every line, in the order of the text. */
typedef void qkv_translated_fn(void *user, size_t line, const qkv_translated *found);

/* Translates every line of text (len bytes; the last newline may be missing). Lines are searched
 * with others of their length; fn is called when all are done. A line without tokens has one empty
 * translation. options may be NULL. QKV_E_CANCELLED when progress said so. */
qkv_status qkv_translate(qkv_beam_search *s, qkv_tokenizer *t, const char *text, size_t len,
                         const qkv_translate_text_options *options, qkv_translated_fn *fn,
                         void *user);

QKV_END_DECLS
#endif
