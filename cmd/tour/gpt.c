/* gpt.c - a chapter of the tour: a GPT learns to write like the project's own source. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tour/chapter.h"

enum { LENGTH = 128, SAMPLE = 600, LINE = 74 };
static const double TRAINING_SHARE = 0.9;       /* of the chapter's time; the rest is evaluating */
static const double VALID_BYTES_PER_SECOND = 1000;

/* The largest model that so many seconds at REFERENCE_FLOPS, two Zen 4 cores, make good use of. */
static const struct {
    double seconds;
    const char *preset;
} sizes[] = {{240, "mini"}, {40, "tiny"}, {0, "nano"}};
static const double REFERENCE_FLOPS = 230e9;

typedef struct {
    tour *t;
    qkv_context *ctx;
    tour_text text;
    qkv_tokenizer *tokenizer;
    qkv_tokens *train, *valid;
    qkv_model *model;
    qkv_task task;
    tour_training training;
    qkv_text sample;
    double seconds; /* of training */
} chapter;

/* ---- before ------------------------------------------------------------------------------- */

static qkv_status gpt_pack(chapter *h, const qkv_str *text, const char *name, qkv_tokens **out)
{
    const qkv_text_span part = {text->data, text->len, NULL, 0};
    return qkv_tokens_pack(out, h->ctx, h->tokenizer, &part, 1,
                           qkv_path_in(h->t->dir, name).text, NULL, NULL);
}

static qkv_status make_tokens(chapter *h)
{
    const qkv_vocabulary kind = {.kind = QKV_TOKENIZER_CHAR};
    const qkv_str *train = &h->text.train, *valid = &h->text.valid;
    const qkv_text_span parts[] = {{train->data, train->len, NULL, 0},
                                   {valid->data, valid->len, NULL, 0}}; /* all is to be known */
    qkv_status status = qkv_train_tokenizer(&h->tokenizer, h->ctx, parts, 2, QKV_VOCABULARY_LM,
                                            &kind, NULL);
    if (!status)
        status = qkv_dir_create(h->ctx, qkv_path_in(h->t->dir, "train").text);
    if (!status)
        status = qkv_tokenizer_save(h->tokenizer, h->t->dir);
    if (!status)
        status = gpt_pack(h, &h->text.train, "train/train-tokens.safetensors", &h->train);
    return status ? status : gpt_pack(h, &h->text.valid, "train/valid-tokens.safetensors",
                                      &h->valid);
}

static qkv_status gpt_make_model(chapter *h)
{
    qkv_gpt_config c;
    size_t i = 0;
    double speed = qkv_machine_peak_flops(h->ctx, 1) / REFERENCE_FLOPS;
    while (sizes[i].seconds > h->t->seconds * speed)
        i++;
    qkv_option_defaults(qkv_model_type_config(qkv_llama_type()), &c);
    (void)qkv_model_type_preset(qkv_gpt2_type(), sizes[i].preset, &c);
    c.vocab = qkv_tokenizer_vocab_size(h->tokenizer);
    c.positions = LENGTH;
    c.position_kind = QKV_POSITIONS_ROTARY;
    c.bos = c.eos = c.pad = -1;
    qkv_status status = tour_make(&h->model, h->t, qkv_llama_type(), &c);
    if (!status)
        status = qkv_task_lm(&h->task, h->model, h->train, h->valid, LENGTH,
                             h->t->page->c->common.seed);
    return status;
}

static void gpt_introduce(const chapter *h)
{
    const page *p = h->t->page;
    if (h->text.files)
        page_text(p, "The text: %zu files of C and prose below %s, %.2f MB; %zu whole files of "
                     "them (%.0f kB) are held out and only used for evaluation.",
                  h->text.files, h->t->source, 1e-6 * (double)h->text.train.len, h->text.held_out,
                  1e-3 * (double)h->text.valid.len);
    else
        page_text(p, "No source text is here, so the text is this command's own help, %.1f kB; "
                     "the last tenth is held out and only used for evaluation.",
                  1e-3 * (double)h->text.train.len);
    const qkv_gpt_config *c = qkv_model_config(h->model);
    page_text(p, "The model: %zu layers of %zu channels, %zu parameters, all random at first. It "
                 "reads up to %d characters and predicts the next one, of %zu that there are. "
                 "It learns for %.0f seconds.",
              c->layers, c->width, qkv_params_elements(qkv_model_params(h->model)), LENGTH,
              c->vocab, h->seconds);
}

/* ---- training ------------------------------------------------------------------------------- */

static qkv_status gpt_learn(chapter *h)
{
    const qkv_gpt_config *c = qkv_model_config(h->model);
    qkv_training s = qkv_training_defaults();
    s.loop.eval_units = 8192;
    s.schedule.lr = qkv_training_rate(c->width);
    return tour_train(&h->training, h->t, &h->task, &s, h->t->dir, h->seconds);
}

/* ---- after ---------------------------------------------------------------------------------- */

/* Prints what has become whole lines of the sample, cut to the page, with a bar before each. */
static void show_sample(const chapter *h)
{
    const page *p = h->t->page;
    const char *at = h->sample.data, *end = at + h->sample.len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        size_t shown = n > LINE ? LINE : n;
        page_line(p, "│ %.*s", (int)shown, at);
        at += shown + (shown == n && stop ? 1 : 0);
    }
}

static qkv_status write_sample(chapter *h)
{
    static const char prompt[] = "/* ";
    qkv_ids ids = {0}, made = {0};
    qkv_generate_options o = {.tokens = SAMPLE, .seed = h->t->page->c->common.seed,
                              .sampling = qkv_sampling_defaults()};
    bool known = memchr(h->text.train.data, '*', h->text.train.len) &&
                 memchr(h->text.train.data, '/', h->text.train.len);
    const char *first = known ? prompt : "\n";
    qkv_status status = qkv_tokenizer_encode(h->tokenizer, first, strlen(first), 0, &ids);
    if (!status)
        status = qkv_generate(h->model, ids.data, ids.count, &o, NULL, NULL, &made);
    if (!status)
        status = qkv_tokenizer_decode(h->tokenizer, ids.data, ids.count, 0, &h->sample);
    if (!status)
        status = qkv_tokenizer_decode(h->tokenizer, made.data, made.count, 0, &h->sample);
    qkv_ids_free(&ids, h->ctx);
    qkv_ids_free(&made, h->ctx);
    return status;
}

static void show_losses(const page *p, const tour_counts *n, double loss)
{
    const struct {
        const char *key, *name;
        double loss;
    } rows[] = {{"uniform", "every character alike", n->uniform},
                {"frequency", "counted: how frequent it is", n->frequency},
                {"pair", "counted: after the one before", n->pair},
                {"triple", "counted: after the two before", n->triple},
                {"gpt", "this GPT", loss}};
    page_text(p, "Evaluated on the held-out text, in nats a character (less is better) and in what "
                 "that means: choosing among so many equally likely characters.");
    page_space(p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].loss <= 0)
            continue;
        page_line(p, "%-32s %6.3f nats   1 of %5.1f", rows[i].name, rows[i].loss,
                  exp(rows[i].loss));
        page_number(p, rows[i].key, rows[i].loss);
    }
}

static void gpt_conclude(const chapter *h, const tour_counts *n, double loss)
{
    double best = n->triple > 0 ? n->triple : n->pair;
    if (loss < best)
        tour_say(h->t, "What was learnt: %.2f nats a character beyond the better of the counts, "
                       "which know the same training text. That is spelling, indentation and the "
                       "shape of code, not its meaning: the sample will not compile.",
                       best - loss);
    else
        tour_say(h->t, "What was learnt: more than nothing (%.2f nats better than guessing), but "
                       "counting still predicts better by %.2f nats. The time was short; give it "
                       "more with --minutes.",
                       n->uniform - loss, loss - best);
}

static qkv_status gpt_report(chapter *h)
{
    const page *p = h->t->page;
    tour_counts n;
    double loss = h->training.result.metrics.item[0].value;
    qkv_status status = tour_count(&n, h->ctx, h->train, h->valid,
                                   qkv_tokenizer_vocab_size(h->tokenizer));
    if (!status) /* the model kept is the best on held-out text, not the last */
        status = qkv_hub_load_weights(h->model, h->t->dir);
    if (!status)
        status = write_sample(h);
    if (status)
        return status;
    tour_training_show(&h->training, h->t, "Training loss, nats a character, over the time:");
    show_losses(p, &n, loss);
    page_text(p, "It writes, after \"/* \" and by chance (temperature 0.8):");
    page_space(p);
    show_sample(h);
    size_t copied = tour_longest_copy(h->sample.data, h->sample.len, h->text.train.data,
                                      h->text.train.len);
    page_text(p, "The longest stretch of this that stands in the training text has %zu "
                 "characters, spaces not counted.", copied);
    page_number(p, "longest_copy", (double)copied);
    gpt_conclude(h, &n, loss);
    page_text(p, "Ask it for more: qkv generate %s --prompt \"static \"", h->t->dir);
    qkv_page_code(h->t->index, h->sample.data);
    return tour_look(h->t, h->t->dir, &(qkv_look_input){.text = "static void page_text(const page "
                                                               "*p, const char *fmt, ...);"},
                     "look.html", "Where each character attends to, last layer, mean of the heads");
}

qkv_status tour_gpt(tour *t)
{
    static const char *const endings[] = {".c", ".h", ".md", NULL};
    chapter h = {.t = t, .ctx = t->page->c->ctx, .seconds = TRAINING_SHARE * t->seconds};
    size_t valid = (size_t)(VALID_BYTES_PER_SECOND * t->seconds) + 8 * LENGTH;
    qkv_status status = tour_text_collect(&h.text, t, endings, valid < 200000 ? valid : 200000);
    if (!status)
        status = make_tokens(&h);
    if (!status)
        status = gpt_make_model(&h);
    if (!status) {
        gpt_introduce(&h);
        status = gpt_learn(&h);
    }
    if (!status && !h.training.result.stopped)
        status = gpt_report(&h);
    qkv_text_free(&h.sample, h.ctx);
    qkv_task_destroy(&h.task);
    qkv_model_destroy(h.model);
    qkv_tokens_close(h.train);
    qkv_tokens_close(h.valid);
    qkv_tokenizer_destroy(h.tokenizer);
    tour_text_free(&h.text);
    return status;
}
