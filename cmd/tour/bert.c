/* bert.c - a chapter of the tour: a BERT fills in blanks of the project's own text, and then
 * learns to tell code, comments and prose apart. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tour/lines.h"

enum { COLUMNS = 76, LENGTH = 80 }; /* what fits the page; its tokens at most, special ones too */
enum { VOCAB = 2048, BUDGET = 2048, TEXTS = 64 /* in an update of the classifier */ };
enum { BLANKS = 7, GUESSES = 3, PREDICTED = 400 };
/* Of the chapter's time; what is left is reading and evaluating. */
static const double WORDS_SHARE = 0.6, CLASSES_SHARE = 0.22;

/* The largest model that so many seconds at REFERENCE_FLOPS, two Zen 4 cores, make good use of. */
static const struct {
    double seconds;
    const char *preset;
} sizes[] = {{40, "tiny"}, {0, "nano"}};
static const double REFERENCE_FLOPS = 230e9;

enum { LEARN, VALID, SPLITS };

typedef struct {
    tour *t;
    qkv_context *ctx;
    tour_lines lines[SPLITS];
    qkv_tokenizer *tokenizer;
    qkv_model *model;
    qkv_bert_config config;
    qkv_path words_dir; /* where the model that fills in blanks is */
    double words_right, words_counted; /* shares of held-out words: its guess, counted pairs' */
} chapter;

/* ---- before ------------------------------------------------------------------------------- */

static qkv_status bert_make_tokenizer(chapter *h)
{
    qkv_vocabulary v = qkv_vocabulary_defaults(QKV_VOCABULARY_MLM);
    const qkv_text_span part = {h->lines[LEARN].text.data, h->lines[LEARN].text.len, NULL, 0};
    v.vocab = VOCAB;
    qkv_status status = qkv_train_tokenizer(&h->tokenizer, h->t->page->c->ctx, &part, 1,
                                            QKV_VOCABULARY_MLM, &v, NULL);
    return status ? status : qkv_tokenizer_save(h->tokenizer, h->words_dir.text);
}

static qkv_status bert_make_model(chapter *h, const qkv_model_type *type)
{
    qkv_bert_config *c = &h->config;
    size_t i = 0;
    double speed = qkv_machine_peak_flops(h->ctx, 1) / REFERENCE_FLOPS;
    while (sizes[i].seconds > h->t->seconds * speed)
        i++;
    if (!c->vocab) {
        qkv_option_defaults(qkv_model_type_config(type), c);
        (void)qkv_model_type_preset(type, sizes[i].preset, c);
        c->vocab = qkv_tokenizer_vocab_size(h->tokenizer);
        c->pad = qkv_tokenizer_special(h->tokenizer, QKV_TOKEN_PAD);
        c->positions = LENGTH;
        c->classes = TOUR_KINDS;
    }
    return tour_make(&h->model, h->t, type, c);
}

static qkv_status bert_pack(const chapter *h, int split, bool labelled, qkv_records **out)
{
    const qkv_str *text = labelled ? &h->lines[split].labelled : &h->lines[split].text;
    const qkv_text_span part = {text->data, text->len, "lines", 0};
    qkv_records_writer *w = NULL;
    size_t cut = 0;
    qkv_status status = qkv_records_create(&w, h->ctx, NULL, labelled ? 3 : 1);
    if (!status && labelled)
        status = qkv_corpus_add_labelled(w, h->ctx, h->tokenizer, &part, tour_kinds, TOUR_KINDS,
                                         LENGTH, &cut);
    else if (!status)
        status = qkv_corpus_add_lines(w, h->ctx, h->tokenizer, &part, LENGTH, false);
    if (!status)
        return qkv_records_finish(w, out);
    qkv_records_abandon(w);
    return status;
}

/* ---- filling in blanks -------------------------------------------------------------------- */

/* A word of the line that is one token, about `skip` letters in: its place and length; or 0. */
static size_t pick_word(const chapter *h, const char *line, size_t len, size_t skip, size_t *at)
{
    for (size_t i = skip; i < len; i++) {
        size_t n = 0;
        char lower[32];
        while (i + n < len && n < sizeof lower && isalpha((unsigned char)line[i + n])) {
            lower[n] = (char)tolower((unsigned char)line[i + n]);
            n++;
        }
        if (n >= 3 && n < sizeof lower && qkv_tokenizer_id(h->tokenizer, lower, n) >= 0 &&
            !(i + n < len && isalnum((unsigned char)line[i + n])) &&
            !(i && isalnum((unsigned char)line[i - 1]))) {
            *at = i;
            return n;
        }
        i += n;
    }
    return 0;
}

/* Shows a line with a word hidden, and what the model would write there. */
static qkv_status show_blank(const chapter *h, const char *line, size_t len, size_t at, size_t n)
{
    const page *p = h->t->page;
    qkv_guess guess[GUESSES];
    qkv_ids ids = {0};
    qkv_str text;
    int32_t mask = qkv_tokenizer_special(h->tokenizer, QKV_TOKEN_MASK);
    qkv_str_init(&text, h->ctx);
    qkv_str_printf(&text, "%.*s[MASK]%.*s", (int)at, line, (int)(len - at - n), line + at + n);
    qkv_status status = text.failed ? QKV_E_MEMORY
                                    : qkv_tokenizer_encode(h->tokenizer, text.data, text.len,
                                                           QKV_ENCODE_ADD_SPECIAL, &ids);
    if (!status)
        status = qkv_fill(h->model, ids.data, ids.count, mask, GUESSES, guess);
    if (!status) {
        qkv_str_clear(&text);
        for (int i = 0; i < GUESSES; i++) {
            const char *word = qkv_tokenizer_token(h->tokenizer, guess[i].id, NULL);
            bool right = strlen(word) == n;
            for (size_t k = 0; k < n && right; k++)
                right = word[k] == tolower((unsigned char)line[at + k]);
            qkv_str_printf(&text, "   %s %.0f%%%s", word, 100 * guess[i].prob,
                           right ? " ✓" : "");
        }
        page_line(p, "%.*s____%.*s", (int)at, line, (int)(len - at - n), line + at + n);
        page_line(p, "   %.*s:%s", (int)n, line + at, text.failed ? "" : text.data);
    }
    qkv_str_free(&text);
    qkv_ids_free(&ids, h->ctx);
    return status;
}

/* Some held-out lines, evenly over all of them. */
static qkv_status show_blanks(const chapter *h)
{
    const qkv_str *text = &h->lines[VALID].text;
    qkv_status status = QKV_OK;
    page_text(h->t->page, "Held-out lines with a word hidden, the word, and what it would write "
                          "there:");
    page_space(h->t->page);
    for (size_t i = 0; i < BLANKS && !status; i++) {
        const char *at = text->data + i * text->len / BLANKS, *end = text->data + text->len;
        qkv_line line;
        size_t word = 0, n = 0;
        if (i)
            qkv_next_line(&at, end, &line); /* the rest of one */
        while (!n && qkv_next_line(&at, end, &line))
            if (line.len > COLUMNS / 2 && line.len < COLUMNS)
                n = pick_word(h, line.data, line.len, line.len / 3, &word);
        if (n)
            status = show_blank(h, line.data, line.len, word, n);
    }
    return status;
}

static void show_words(const page *p, const qkv_mlm_score *score, const tour_guesses *n)
{
    page_text(p, "Evaluated on held-out files: %zu words hidden, and how many the likeliest guess "
                 "got right:", score->words);
    page_space(p);
    page_line(p, "counted: the commonest word          %5.1f%%", 100 * n->commonest);
    page_line(p, "counted: after the word before       %5.1f%%", 100 * n->after);
    page_line(p, "this BERT, from both sides           %5.1f%%", 100 * score->accuracy);
    page_number(p, "commonest", n->commonest);
    page_number(p, "after", n->after);
    page_number(p, "words", score->accuracy);
}

static qkv_status bert_words(chapter *h)
{
    const page *p = h->t->page;
    const qkv_mlm_options o = {BUDGET, 0.15};
    qkv_records *learn = NULL, *valid = NULL;
    qkv_task task = {0};
    tour_training training;
    qkv_mlm_score score;
    tour_guesses counted = {0};
    qkv_training s = qkv_training_defaults();
    s.loop.batch = 1; /* a pack of lines */
    qkv_status status = bert_pack(h, LEARN, false, &learn);
    if (!status)
        status = bert_pack(h, VALID, false, &valid);
    if (!status)
        status = qkv_task_mlm(&task, h->model, learn, NULL, h->tokenizer, &o,
                              p->c->common.seed);
    s.schedule.lr = qkv_training_rate(h->config.width);
    if (!status)
        status = tour_train(&training, h->t, &task, &s, h->words_dir.text,
                            WORDS_SHARE * h->t->seconds);
    if (!status && !training.result.stopped) {
        tour_training_show(&training, h->t, "Loss of a hidden word, nats, over the time:");
        status = qkv_mlm_evaluate(h->model, p->t, valid, h->tokenizer, &o, 0, &score);
        if (!status)
            status = tour_count_guesses(&counted, h->ctx, learn, valid, h->config.vocab);
        if (!status) {
            h->words_right = score.accuracy;
            h->words_counted = counted.after;
            show_words(p, &score, &counted);
            status = show_blanks(h);
        }
    }
    qkv_task_destroy(&task);
    qkv_records_close(learn);
    qkv_records_close(valid);
    return status;
}

/* ---- classes ------------------------------------------------------------------------------- */

static void show_classes(const page *p, const qkv_classify_score *score, const qkv_records *learn,
                         const qkv_records *valid, double bayes)
{
    size_t count[TOUR_KINDS] = {0}, most = 0;
    for (size_t i = 0; i < qkv_records_count(valid); i++) {
        const int32_t *label;
        (void)qkv_records_get(valid, i, 2, &label);
        count[*label]++;
    }
    for (size_t k = 1; k < TOUR_KINDS; k++)
        most = count[k] > count[most] ? k : most;
    double commonest = (double)count[most] / (double)qkv_records_count(valid);
    page_text(p, "Evaluated on %zu held-out lines (it learnt from %zu):", score->texts,
              qkv_records_count(learn));
    page_space(p);
    page_line(p, "all of them %-8s                 %5.1f%% right", tour_kinds[most],
              100 * commonest);
    page_line(p, "counted: naive Bayes of the words    %5.1f%%", 100 * bayes);
    page_line(p, "this BERT                            %5.1f%%", 100 * score->accuracy);
    page_number(p, "commonest_class", commonest);
    page_number(p, "bayes", bayes);
    page_number(p, "classes", score->accuracy);
}

/* The i-th of about `n` lines, evenly over the held-out labelled ones. */
static bool labelled_line(const chapter *h, size_t i, size_t n, qkv_labelled_text *out)
{
    const qkv_str *all = &h->lines[VALID].labelled;
    const char *at = all->data + i * all->len / n, *end = all->data + all->len;
    const char *tab;
    qkv_line line;
    if (i)
        qkv_next_line(&at, end, &line); /* the rest of one */
    if (!qkv_next_line(&at, end, &line) || !(tab = memchr(line.data, '\t', line.len)))
        return false;
    *out = (qkv_labelled_text){.label = line.data, .label_len = (size_t)(tab - line.data)};
    out->pair = (qkv_text_pair){tab + 1, line.len - out->label_len - 1, NULL, 0};
    return true;
}

static qkv_status show_some_classes(const chapter *h)
{
    const page *p = h->t->page;
    qkv_text_pair pairs[PREDICTED];
    size_t labels[PREDICTED], n = 0;
    qkv_real probs[PREDICTED * TOUR_KINDS];
    for (size_t i = 0; i < PREDICTED; i++) {
        qkv_labelled_text x;
        if (!labelled_line(h, i, PREDICTED, &x) || x.pair.len > COLUMNS - 20)
            continue;
        for (labels[n] = 0; strlen(tour_kinds[labels[n]]) != x.label_len ||
                            strncmp(tour_kinds[labels[n]], x.label, x.label_len) != 0;)
            labels[n]++;
        pairs[n++] = x.pair;
    }
    qkv_status status = qkv_classify(h->model, h->tokenizer, pairs, n, probs, NULL);
    page_text(p, "It calls, and how sure it is (✗: wrongly):");
    page_space(p);
    size_t shown[2][TOUR_KINDS] = {{0}}; /* wrong, right; by kind */
    for (int right = 1; right >= 0 && !status; right--)
        for (size_t i = 0; i < n; i++) {
            const qkv_real *prob = probs + i * TOUR_KINDS;
            size_t best = 0;
            for (size_t k = 1; k < TOUR_KINDS; k++)
                best = prob[k] > prob[best] ? k : best;
            if ((best == labels[i]) != (right == 1) || shown[right][labels[i]] > (size_t)right)
                continue;
            shown[right][labels[i]]++;
            page_line(p, "%-8s%3.0f%% %s %.*s", tour_kinds[best], 100 * (double)prob[best],
                      right ? " " : "✗", (int)pairs[i].len, pairs[i].text);
        }
    return status;
}

static qkv_status make_classifier(chapter *h)
{
    qkv_model_destroy(h->model);
    h->model = NULL;
    qkv_status status = bert_make_model(h, qkv_bert_classifier_type());
    if (!status)
        status = qkv_model_set_labels(h->model, tour_kinds, TOUR_KINDS);
    if (!status)
        status = qkv_tokenizer_save(h->tokenizer, h->t->dir);
    return status ? status : qkv_hub_load_matching(h->model, h->words_dir.text);
}

static qkv_status classes(chapter *h)
{
    const page *p = h->t->page;
    qkv_records *learn = NULL, *valid = NULL;
    qkv_task task = {0};
    tour_training training;
    qkv_classify_score score;
    double bayes = 0;
    qkv_training s = qkv_training_defaults();
    s.loop.batch = TEXTS;
    s.schedule.lr = qkv_training_rate(h->config.width) / 4; /* it knows the words already */
    qkv_status status = make_classifier(h);
    if (!status)
        status = bert_pack(h, LEARN, true, &learn);
    if (!status)
        status = bert_pack(h, VALID, true, &valid);
    if (!status)
        status = qkv_task_classify(&task, h->model, learn, NULL, NULL, NULL, p->c->common.seed);
    if (!status) {
        page_text(p, "The same BERT, taught for %.0f seconds more to say what a line is: code, a "
                     "comment (without its marks) or the prose of the documents.",
                  CLASSES_SHARE * h->t->seconds);
        status = tour_train(&training, h->t, &task, &s, h->t->dir,
                            CLASSES_SHARE * h->t->seconds);
    }
    if (!status && !training.result.stopped)
        status = qkv_classify_evaluate(h->model, p->t, valid, 0, &score);
    if (!status && !training.result.stopped)
        status = tour_naive_bayes(&bayes, h->ctx, learn, valid, h->config.vocab, TOUR_KINDS);
    if (!status && !training.result.stopped) {
        show_classes(p, &score, learn, valid, bayes);
        status = show_some_classes(h);
    }
    qkv_task_destroy(&task);
    qkv_records_close(learn);
    qkv_records_close(valid);
    return status;
}

/* ---- the chapter -------------------------------------------------------------------------- */

static void bert_introduce(const chapter *h)
{
    const page *p = h->t->page;
    page_text(p, "The text: %zu lines of %s; the lines of every tenth file are held out and only "
                 "used for evaluation. A word, or a piece of a rare one, is a token.",
              h->lines[LEARN].count + h->lines[VALID].count,
              h->lines[LEARN].files ? "qkv's source and documents" : "this command's own help");
    page_text(p, "The model: %zu layers of %zu channels, %zu parameters, all random at first. "
                 "Unlike the GPT it sees what is before and behind. In each line that it reads, "
                 "15 of 100 words are hidden, and it learns for %.0f seconds to guess them.",
              h->config.layers, h->config.width,
              qkv_params_elements(qkv_model_params(h->model)), WORDS_SHARE * h->t->seconds);
}

static qkv_status bert_conclude(const chapter *h)
{
    const page *p = h->t->page;
    if (h->words_right > h->words_counted)
        tour_say(h->t,
                 "What was learnt: to guess a word from both sides, for %.0f of 100 words more "
                 "than what most often follows the one before. From that knowledge and a few "
                 "labels it tells kinds of text apart.",
                 100 * (h->words_right - h->words_counted));
    else
        tour_say(h->t, "What was learnt: the commonest words, not yet what counting pairs knows. "
                       "The time was short; give it more with --minutes.");
    page_text(p, "Ask it for more: qkv fill %s \"the [MASK] of a tensor\"", h->words_dir.text);
    return tour_look(h->t, h->words_dir.text,
                     &(qkv_look_input){.text = "the [MASK] of a tensor"}, "look.html",
                     "Where each token attends to, last layer, mean of the heads");
}

qkv_status tour_bert(tour *t)
{
    chapter h = {.t = t, .ctx = t->page->c->ctx};
    h.words_dir = qkv_path_in(t->dir, "words");
    qkv_status status = qkv_dir_create(h.ctx, h.words_dir.text);
    if (!status)
        status = tour_lines_collect(h.lines, t);
    if (!status)
        status = bert_make_tokenizer(&h);
    if (!status)
        status = bert_make_model(&h, qkv_bert_masked_type());
    if (!status) {
        bert_introduce(&h);
        status = bert_words(&h);
    }
    bool kinds = h.lines[LEARN].labelled.len && h.lines[VALID].labelled.len;
    if (!status && kinds && !cli_stopped())
        status = classes(&h);
    if (!status && !cli_stopped())
        status = bert_conclude(&h);
    qkv_model_destroy(h.model);
    qkv_tokenizer_destroy(h.tokenizer);
    for (int i = 0; i < SPLITS; i++)
        tour_lines_free(&h.lines[i]);
    return status;
}
