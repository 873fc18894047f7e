/* contrastive.c - a chapter of the tour: texts of one day learn to find each other, and the
 * loss that teaches them is made of attention rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tour/reading.h"

enum { LAYERS = 2, WIDTH = 64, HEADS = 4, EMBEDDING = 32, BATCH = 64, JUDGED = 200, SHOWN = 6 };
enum { STREAM_PAIRS = 0x80, STREAM_EVALUATED,
      DRAWS = 16 /* bits of the stream's index for a pair */ };
static const double TEMPERATURE = 0.1, TRAINING_SHARE = 0.9;

/* Texts one after another: n queries, and n keys that mean the same, one each. */
typedef struct {
    size_t n;
    int32_t ids[2 * JUDGED * TOUR_SOURCE], offsets[2 * JUDGED + 1];
} texts;

typedef struct {
    tour_reader reader; /* its model is the encoder */
    tour_training training;
    texts *texts;
} chapter;

/* ---- pairs -------------------------------------------------------------------------------- */

/* A day in two forms; the second one in *p. */
static void draw_other(tour_pair *p, const tour_script *s, qkv_rng *r)
{
    size_t first = p->form;
    while (p->form == first)
        p->form = qkv_rng_below(r, (uint32_t)s->forms);
    qkv_str_clear(&p->source);
    s->write(&p->source, p->value, p->form, r);
}

static qkv_status contrastive_append(const chapter *h, tour_pair *p, size_t i)
{
    qkv_status status = tour_pair_encode(p, &h->reader);
    texts *x = h->texts;
    if (status)
        return status;
    memcpy(x->ids + x->offsets[i], p->source_ids.data,
           p->source_ids.count * sizeof *p->source_ids.data);
    x->offsets[i + 1] = x->offsets[i] + (int32_t)p->source_ids.count;
    return QKV_OK;
}

/* Pairs first .. first+n-1 of the stream. The keys repeat what the queries drew. */
static qkv_status contrastive_draw(const chapter *h, uint64_t stream, uint64_t first, size_t n,
                                   bool held_out)
{
    qkv_status status = QKV_OK;
    tour_pair p;
    tour_pair_init(&p, h->reader.ctx);
    h->texts->n = n;
    for (size_t i = 0; i < 2 * n && !status; i++) {
        qkv_rng r;
        qkv_rng_init(&r, h->reader.seed, stream);
        r.index = (first + i % n) << DRAWS;
        tour_pair_draw(&p, h->reader.script, &r, held_out);
        if (i >= n)
            draw_other(&p, h->reader.script, &r);
        status = contrastive_append(h, &p, i);
    }
    tour_pair_free(&p, h->reader.ctx);
    return status;
}

/* ---- the task ----------------------------------------------------------------------------- */

/* The texts' embeddings: q and k (n, EMBEDDING). */
static void contrastive_embed(const chapter *h, qkv_tape *t, qkv_tensor **q, qkv_tensor **k)
{
    const texts *x = h->texts;
    size_t n = x->n, rows = (size_t)x->offsets[2 * n];
    qkv_bert_input in = {.ids = qkv_tensor_ids(t, x->ids, 2, (size_t[]){1, rows}),
                         .sequences = 2 * n, .offsets = x->offsets};
    qkv_tensor *hidden = qkv_bert_hidden(h->reader.model, t, &in);
    qkv_tensor *first = qkv_tensor_ids(t, x->offsets, 1, (size_t[]){2 * n});
    qkv_tensor *all = qkv_bert_class_logits(h->reader.model, t, hidden, first);
    *q = qkv_slice(t, all, 0, 0, n);
    *k = qkv_slice(t, all, 0, n, 2 * n);
}

static qkv_tensor *contrastive_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    const chapter *h = self;
    qkv_tensor *q, *k;
    if (contrastive_draw(h, STREAM_PAIRS, part->step * part->total + part->first, part->count,
                         false))
        return NULL;
    contrastive_embed(h, t, &q, &k);
    return qkv_infonce_loss(t, q, k, TEMPERATURE);
}

static double contrastive_flops(void *self)
{
    enum { TEXT = 19 }; /* tokens, about */
    return qkv_model_flops(((chapter *)self)->reader.model,
                           &(qkv_workload){.samples = 2, .length = TEXT, .predictions = 2});
}

static const qkv_task_type type = {.name = "contrastive", .unit = "pairs", .phases = 1,
                                   .loss = contrastive_loss, .flops = contrastive_flops};

static qkv_status contrastive_make_model(chapter *h)
{
    qkv_bert_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_bert_classifier_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(h->reader.tokenizer);
    c.positions = TOUR_SOURCE;
    c.width = WIDTH;
    c.layers = LAYERS;
    c.heads = HEADS;
    c.ff_width = 2 * WIDTH;
    c.classes = EMBEDDING;
    c.dropout = c.attention_dropout = 0;
    c.init_range = 0;
    c.pad = h->reader.pad;
    return tour_make(&h->reader.model, h->reader.t, qkv_bert_classifier_type(), &c);
}

static qkv_status contrastive_learn(chapter *h)
{
    tour *t = h->reader.t;
    qkv_task task = {&type, h, h->reader.model, h->reader.seed, false};
    qkv_training s = qkv_training_defaults();
    s.loop.batch = BATCH;
    s.schedule.lr = qkv_training_rate(WIDTH);
    return tour_train(&h->training, t, &task, &s, NULL, TRAINING_SHARE * t->seconds);
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* The share of the held-out queries whose own key is the nearest of all. */
static qkv_status contrastive_evaluate(const chapter *h, double *share)
{
    qkv_tape *t = h->reader.t->page->t;
    qkv_tensor *q, *k;
    qkv_tape_reset(t);
    qkv_status status = contrastive_draw(h, STREAM_EVALUATED, 0, JUDGED, true);
    if (status)
        return status;
    contrastive_embed(h, t, &q, &k);
    qkv_tensor *s = qkv_matmul(t, qkv_l2_normalize(t, q, 1e-12), false,
                               qkv_l2_normalize(t, k, 1e-12), true);
    const qkv_real *similar = qkv_data(t, s);
    size_t found = 0;
    for (size_t i = 0; similar && i < JUDGED; i++) {
        size_t best = 0;
        for (size_t j = 1; j < JUDGED; j++)
            best = similar[i * JUDGED + j] > similar[i * JUDGED + best] ? j : best;
        found += best == i;
    }
    *share = (double)found / JUDGED;
    return qkv_tape_status(t);
}

static void take_rows(void *user, const char *name, int sequence, int head, size_t row,
                      size_t rows, size_t S, const qkv_real *weights)
{
    (void)name, (void)sequence, (void)head, (void)row;
    memcpy(user, weights, rows * S * sizeof *weights);
}

/* Three ways to the posterior of the first held-out pairs: attention's rows, the formula, the
 * loss. */
static qkv_status contrastive_compare(const chapter *h)
{
    static const char *const letters[] = {"a", "b", "c", "d", "e", "f"};
    static const char *const capitals[] = {"A", "B", "C", "D", "E", "F"};
    page *p = h->reader.t->page;
    qkv_tape *t = p->t;
    qkv_real rows[SHOWN * SHOWN] = {0};
    qkv_attention_probe probe = {.name = "posterior", .fn = take_rows, .user = rows};
    qkv_attention_options o = {.scale = 1 / TEMPERATURE, .probe = "posterior"};
    const size_t shape[] = {1, SHOWN, 1, EMBEDDING};
    qkv_tensor *q, *k;
    qkv_tape_reset(t);
    qkv_status status = contrastive_draw(h, STREAM_EVALUATED, 0, SHOWN, true);
    if (!status)
        status = qkv_attention_probe_add(t, &probe);
    if (status)
        return status;
    contrastive_embed(h, t, &q, &k);
    qkv_tensor *loss_ = qkv_infonce_loss(t, q, k, TEMPERATURE);
    q = qkv_l2_normalize(t, q, 1e-12);
    k = qkv_l2_normalize(t, k, 1e-12);
    qkv_tensor *q4 = qkv_reshape(t, q, 4, shape), *k4 = qkv_reshape(t, k, 4, shape);
    (void)qkv_attention(t, q4, k4, k4, &o);
    qkv_probes_clear(t);
    qkv_tensor *posterior =
        qkv_softmax(t, qkv_scale(t, qkv_matmul(t, q, false, k, true), 1 / TEMPERATURE));
    qkv_tensor *weights = qkv_tensor_from(t, rows, 2, (size_t[]){SHOWN, SHOWN});
    double from_rows = 0;
    for (size_t i = 0; i < SHOWN; i++)
        from_rows -= log((double)rows[i * SHOWN + i]) / SHOWN;
    page_distributions(p, &(panel){NULL, "softmax(q kᵀ / τ): whom each query takes for its own",
                                   weights, letters, capitals, 0});
    page_text(p, "These are rows of qkv_attention, with the embeddings for queries and keys and "
                 "1/τ for the scale. The posterior that the loss is made of, softmax(q kᵀ / τ) "
                 "done step by step, differs from them by %.1g at most; and",
              explain_difference(p, weights, posterior));
    double direct = (double)qkv_item(t, loss_);
    page_space(p);
    page_line(p, "mean of -log of the diagonal above   %.6f", from_rows);
    page_line(p, "qkv_infonce_loss                     %.6f", direct);
    page_number(p, "difference", explain_difference(p, weights, posterior));
    page_number(p, "loss", direct);
    page_number(p, "loss_from_attention", from_rows);
    return qkv_tape_status(t);
}

enum { HALF = 35 }; /* columns of a text in a list of pairs */

static bool contrastive_cut(const char *text) { return strlen(text) >= HALF; }

static qkv_status contrastive_list(const chapter *h)
{
    page *p = h->reader.t->page;
    qkv_status status = contrastive_draw(h, STREAM_EVALUATED, 0, SHOWN, true);
    qkv_text text = {0};
    page_text(p, "Six of the held-out days, each in two forms:");
    page_space(p);
    for (size_t i = 0; i < 2 * SHOWN && !status; i++) {
        const texts *x = h->texts;
        size_t at = (i % 2 ? SHOWN : 0) + i / 2, start = text.len;
        status = qkv_tokenizer_decode(h->reader.tokenizer, x->ids + x->offsets[at],
                                      (size_t)(x->offsets[at + 1] - x->offsets[at] - 1), 0,
                                      &text);
        if (i % 2 && !status)
            page_line(p, "%c  %-*.*s%s %c  %.*s%s", (int)('a' + i / 2),
                      contrastive_cut(text.data) ? 0 : HALF,
                      HALF - 1, text.data, contrastive_cut(text.data) ? "…" : "",
                      (int)('A' + i / 2),
                      HALF - 1, text.data + start, contrastive_cut(text.data + start) ? "…" : "");
        if (i % 2)
            text.len = 0;
        else if (!status)
            text.data[text.len++] = 0;
    }
    qkv_text_free(&text, h->reader.ctx);
    return status;
}

/* ---- the chapter -------------------------------------------------------------------------- */

static qkv_status contrastive_report(const chapter *h, double before)
{
    const page *p = h->reader.t->page;
    double after = 0;
    qkv_status status = contrastive_evaluate(h, &after);
    if (status)
        return status;
    tour_training_show(&h->training, h->reader.t, "InfoNCE over the time:");
    page_text(p, "Evaluated on %d held-out days: of %d keys, the query's own is the nearest for",
              JUDGED, JUDGED);
    page_space(p);
    page_line(p, "by chance        %5.1f%%", 100.0 / JUDGED);
    page_line(p, "untrained        %5.1f%%", 100 * before);
    page_line(p, "trained          %5.1f%%", 100 * after);
    page_number(p, "untrained", before);
    page_number(p, "trained", after);
    status = contrastive_list(h);
    if (!status)
        status = contrastive_compare(h);
    const bool learnt = after >= 2 * fmax(before, 1.0 / JUDGED);
    if (!status && learnt)
        tour_say(h->reader.t,
                 "What was learnt: an attention row was taught where to look. The loss is "
                 "how surprised it is by the right answer, and the lower τ, the harder "
                 "it has to choose.");
    else if (!status)
        tour_say(h->reader.t, "What was learnt: not yet which texts are of one day. The time was "
                              "short; give it more with --minutes.");
    return status;
}

qkv_status tour_contrastive(tour *t)
{
    chapter h = {0};
    double before = 0;
    qkv_status status = tour_reader_open(&h.reader, t, &tour_dates_script);
    h.texts = qkv_calloc(h.reader.ctx, 1, sizeof *h.texts);
    if (!status)
        status = h.texts ? contrastive_make_model(&h) : QKV_E_MEMORY;
    if (!status)
        status = contrastive_evaluate(&h, &before);
    if (!status) {
        page_text(t->page, "A day written in one form is a query q, the same day in another form "
                           "is its key k. A small encoder makes %d numbers of a text, and is "
                           "taught one thing: of the %d keys in a batch, the query's own is to be "
                           "the likeliest, by softmax(q kᵀ / τ) of the normalised embeddings, "
                           "τ = %.1f (InfoNCE, van den Oord et al. 2018).",
                  EMBEDDING, BATCH, TEMPERATURE);
        status = contrastive_learn(&h);
    }
    if (!status && !h.training.result.stopped)
        status = contrastive_report(&h, before);
    qkv_free(h.reader.ctx, h.texts);
    tour_reader_close(&h.reader);
    return status;
}
