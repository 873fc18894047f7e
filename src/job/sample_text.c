/* sample_text.c - samples of texts: continued, filled in, translated, labelled. */
#include "job/sample.h"

#include <math.h>
#include <stdio.h>

#include "qkv/bert.h"
#include "qkv/infer.h"
#include "qkv/marian.h"
#include "task/common.h"
#include "task/packed.h"

enum { CONTINUATIONS = 2, PROMPT = 16, MADE = 48 }; /* tokens */
enum { HIDDEN_TEXT = 64, EVERY = 7 };               /* tokens of a text; one of so many is hidden */
enum { PAIRS = 3, SOURCE = 0, TARGET = 1 };
enum { LABELLED = 6, LABEL = 2, TEXT_IDS = 64 };

/* Adds the text of ids. */
static qkv_status add_text(const qkv__run *r, qkv_str *out, const int32_t *ids, size_t n)
{
    qkv_text text = {0};
    qkv_status status = qkv_tokenizer_decode(r->tokenizer, ids, n,
                                             QKV_DECODE_SKIP_SPECIAL | QKV_DECODE_VALID, &text);
    if (!status && text.len)
        qkv_str_add(out, text.data, text.len);
    qkv_text_free(&text, r->ctx);
    return status;
}

/* Adds the sample, and frees its text. */
static qkv_status text_sample(qkv_samples *out, const char *name, qkv_str *text, qkv_status status)
{
    if (!status && text->failed)
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv_samples_text(out, name, text->data ? text->data : "", text->len);
    qkv_str_free(text);
    return status;
}

/* ---- continuing --------------------------------------------------------------------------- */

/* The prompt (n), a mark, and what the model goes on with. */
static qkv_status continued(const qkv__run *r, const int32_t *prompt, size_t n, size_t i,
                            const char *what, qkv_samples *out)
{
    int32_t eos = qkv_tokenizer_special(r->tokenizer, QKV_TOKEN_EOS);
    qkv_generate_options o = {.tokens = MADE, .stop = &eos, .stops = eos >= 0, .index = i,
                              .sampling = qkv_sampling_defaults()};
    qkv_ids made = {0};
    qkv_str line;
    char name[QKV_SAMPLE_NAME];
    qkv_str_init(&line, r->ctx);
    qkv_status status = qkv_generate(r->model, prompt, n, &o, NULL, NULL, &made);
    if (!status)
        status = add_text(r, &line, prompt, n);
    qkv_str_puts(&line, "\xe2\x96\xb8"); /* a small triangle: from here on it is the model's */
    if (!status)
        status = add_text(r, &line, made.data, made.count);
    qkv_ids_free(&made, r->ctx);
    (void)snprintf(name, sizeof name, "%s-%zu", what, i + 1);
    return text_sample(out, name, &line, status);
}

static qkv_status continuation(const qkv__run *r, const qkv_tokens *text, size_t i,
                               qkv_samples *out)
{
    size_t all = qkv_tokens_count(text), most = qkv_lm_positions(r->model) / 2;
    size_t n = PROMPT < most ? PROMPT : most ? most : 1;
    int32_t prompt[PROMPT];
    n = n < all ? n : all;
    qkv_tokens_read(text, (all - n) * i / CONTINUATIONS, n, prompt);
    return continued(r, prompt, n, i, "continuation", out);
}

qkv_status qkv__sample_continuations(const qkv__run *r, const qkv_tokens *text, qkv_samples *out)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < CONTINUATIONS && !status; i++)
        status = continuation(r, text, i, out);
    return status;
}

qkv_status qkv__sample_answers(const qkv__run *r, qkv_samples *out)
{
    const qkv_records *shown = r->valid ? r->valid : r->train;
    size_t count = qkv_records_count(shown);
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < CONTINUATIONS && i < count && !status; i++) {
        const int32_t *ids, *marks;
        size_t n = qkv_records_get(shown, i, 0, &ids), first = 1;
        (void)qkv_records_get(shown, i, 1, &marks);
        while (first + 1 < n && !marks[first])
            first++;
        status = continued(r, ids, first, i, "answer", out);
    }
    return status;
}

/* ---- hidden words ------------------------------------------------------------------------- */

static const qkv_records *shown(const qkv__run *r)
{
    return r->valid && qkv_records_count(r->valid) ? r->valid : r->train;
}

static bool has_role(const qkv__run *r, int32_t id)
{
    const qkv_token_role kinds[] = {QKV_TOKEN_CLS, QKV_TOKEN_SEP, QKV_TOKEN_PAD,
                                       QKV_TOKEN_UNK, QKV_TOKEN_MASK};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (id == qkv_tokenizer_special(r->tokenizer, kinds[i]))
            return true;
    return false;
}

/* ids (n), some of them hidden: the text with "[guess|truth]" at those. */
static qkv_status write_guesses(const qkv__run *r, const int32_t *ids, const int32_t *truth,
                                size_t n, int32_t mask, const qkv_guess *guesses, qkv_str *line)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0, from = 0, k = 0; i <= n && !status; i++) {
        if (i < n && ids[i] != mask)
            continue;
        status = add_text(r, line, ids + from, i - from);
        from = i + 1;
        if (i == n || status)
            break;
        qkv_str_puts(line, " [");
        status = add_text(r, line, &guesses[k++].id, 1);
        qkv_str_puts(line, "|");
        if (!status)
            status = add_text(r, line, &truth[i], 1);
        qkv_str_puts(line, "] ");
    }
    return status;
}

qkv_status qkv__sample_hidden_words(const qkv__run *r, qkv_samples *out)
{
    const int32_t *truth;
    int32_t ids[HIDDEN_TEXT], mask = qkv_tokenizer_special(r->tokenizer, QKV_TOKEN_MASK);
    qkv_guess guesses[HIDDEN_TEXT];
    size_t n = qkv_records_get(shown(r), 0, 0, &truth), words = 0, hidden = 0;
    size_t most = qkv_bert_longest(r->model);
    most = most < HIDDEN_TEXT ? most : HIDDEN_TEXT;
    n = n < most ? n : most;
    for (size_t i = 0; i < n; i++) {
        bool word = !has_role(r, truth[i]);
        bool hide = word && words % EVERY == EVERY / 2;
        ids[i] = hide ? mask : truth[i];
        words += word;
        hidden += hide;
    }
    if (!hidden)
        return QKV_OK;
    qkv_str line;
    qkv_str_init(&line, r->ctx);
    qkv_status status = qkv_fill(r->model, ids, n, mask, 1, guesses);
    if (!status)
        status = write_guesses(r, ids, truth, n, mask, guesses, &line);
    return text_sample(out, "hidden-words", &line, status);
}

/* ---- translations ------------------------------------------------------------------------- */

/* Sources of the records that are shown, one after another. */
static qkv_status add_sources(const qkv__run *r, size_t pairs, qkv_ids *ids, int32_t *offsets)
{
    const qkv_records *from = shown(r);
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < pairs && !status; i++) {
        const int32_t *source;
        size_t n = qkv_records_get(from, i, SOURCE, &source);
        for (size_t k = 0; k < n && !status; k++)
            status = qkv_ids_add(ids, r->ctx, source[k]);
        offsets[i + 1] = (int32_t)ids->count;
    }
    return status;
}

static qkv_status write_translation(const qkv__run *r, size_t i, const qkv_hypothesis *found,
                                    qkv_str *text)
{
    const int32_t *source, *target;
    size_t n = qkv_records_get(shown(r), i, SOURCE, &source);
    size_t m = qkv_records_get(shown(r), i, TARGET, &target);
    qkv_status status = add_text(r, text, source, n);
    qkv_str_puts(text, "\n\xe2\x96\xb8 ");
    if (!status && found)
        status = add_text(r, text, found->ids, found->count);
    qkv_str_puts(text, "\n= ");
    if (!status)
        status = add_text(r, text, target, m);
    qkv_str_puts(text, "\n");
    return status;
}

qkv_status qkv__sample_translations(const qkv__run *r, qkv_samples *out)
{
    size_t count = qkv_records_count(shown(r)), pairs = count < PAIRS ? count : PAIRS;
    int32_t offsets[PAIRS + 1] = {0};
    qkv_generation g;
    qkv_beam_search *search = NULL;
    qkv_ids ids = {0};
    qkv_str text;
    qkv_str_init(&text, r->ctx);
    qkv_generation_defaults(&g, r->model);
    g.beams = 1;
    qkv_status status = add_sources(r, pairs, &ids, offsets);
    if (!status)
        status = qkv_beam_search_create(&search, r->model, &g);
    if (!status) {
        qkv_beam_search_pack(search, false); /* the weights will change */
        status = qkv_beam_search_run(search, ids.data, offsets, pairs);
    }
    for (size_t i = 0; i < pairs && !status; i++)
        status = write_translation(r, i, qkv_beam_search_found(search, i, 0), &text);
    qkv_beam_search_destroy(search);
    qkv_ids_free(&ids, r->ctx);
    return text_sample(out, "translations", &text, status);
}

/* ---- labels of texts ------------------------------------------------------------------------- */

/* The class with the largest of logits (n), and its probability. */
static size_t sample_likeliest(const qkv_real *logits, size_t n, double *p)
{
    size_t best = 0;
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        best = logits[k] > logits[best] ? k : best;
    for (size_t k = 0; k < n; k++)
        sum += exp((double)logits[k] - (double)logits[best]);
    *p = 1 / sum;
    return best;
}

void qkv__sample_label(qkv_str *text, const qkv_model *m, const qkv_real *logits, size_t classes,
                       int32_t truth)
{
    const char *const *labels = qkv_model_labels(m);
    double p;
    size_t best = sample_likeliest(logits, classes, &p);
    if (labels && truth >= 0)
        qkv_str_printf(text, "%s %.0f %% (%s)", labels[best], 100 * p, labels[truth]);
    else
        qkv_str_printf(text, "%zu %.0f %% (%d)", best, 100 * p, (int)truth);
}

qkv_status qkv__sample_text_labels(const qkv__run *r, qkv_tape *t, qkv_samples *out)
{
    const qkv_records *from = shown(r);
    const qkv_bert_config *c = qkv_model_config(r->model);
    size_t all = qkv_records_count(from), n = all < LABELLED ? all : LABELLED;
    qkv__packed p = {.ctx = r->ctx};
    qkv_str text;
    qkv_str_init(&text, r->ctx);
    for (size_t i = 0; i < n; i++)
        qkv__packed_record(&p, from, qkv__evenly(i, n, all), LABEL);
    qkv_tensor *y = qkv_bert_class_logits(r->model, t, qkv__packed_hidden(&p, r->model, t),
                                          qkv_tensor_ids(t, p.offsets, 1, &n));
    const qkv_real *logits = qkv_data(t, y);
    qkv_status status = p.failed ? QKV_E_MEMORY : logits ? QKV_OK : qkv_tape_status(t);
    for (size_t i = 0; i < n && !status; i++) {
        const int32_t *ids, *label;
        size_t len = qkv_records_get(from, qkv__evenly(i, n, all), 0, &ids);
        (void)qkv_records_get(from, qkv__evenly(i, n, all), LABEL, &label);
        qkv__sample_label(&text, r->model, logits + i * c->classes, c->classes, *label);
        qkv_str_puts(&text, "  ");
        status = add_text(r, &text, ids, len < TEXT_IDS ? len : TEXT_IDS);
        qkv_str_puts(&text, "\n");
    }
    qkv__packed_free(&p);
    return text_sample(out, "labels", &text, status);
}
