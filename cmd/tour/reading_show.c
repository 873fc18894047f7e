/* reading_show.c - what an encoder-decoder has learnt to read: how much of what it never saw
 * is right, examples, and where it looks while it writes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tour/reading.h"

enum { JUDGED = 1000, EVALUATED_PER_SECOND = 50, TOGETHER = 250, STREAM_EVALUATED = 0x72 };
enum { SHOWN_RIGHT = 8, SHOWN_WRONG = 4, TEXT = 60, LOOKED_THROUGH = 40, WIDEST = 44 };

/* A held-out text, what it means and what the model made of it. */
typedef struct {
    uint32_t value;
    size_t form;
    bool right;
    char source[TOUR_SOURCE], target[TOUR_TARGET], read[TOUR_TARGET];
    int32_t ids[TOUR_SOURCE]; /* of the source, and eos */
    int32_t length;
} answer;

/* ---- reading ------------------------------------------------------------------------------ */

static size_t likeliest(const qkv_real *logits, size_t V)
{
    size_t best = 0;
    for (size_t v = 1; v < V; v++)
        best = logits[v] > logits[best] ? v : best;
    return best;
}

/* Each character the likeliest one, until all n texts have ended. */
static qkv_status write_out(const tour_reader *reader, qkv_tape *t, answer *a, size_t n,
                            const qkv_marian_side *source, qkv_lm_cache *cache)
{
    size_t V = qkv_tokenizer_vocab_size(reader->tokenizer), ended = 0;
    int32_t ids[TOGETHER];
    bool over[TOGETHER] = {false};
    qkv_tensor *memory = qkv_marian_encode(reader->model, t, source);
    for (size_t i = 0; i < n; i++)
        ids[i] = reader->pad;
    for (size_t k = 0; k + 1 < TOUR_TARGET && ended < n; k++) {
        qkv_marian_side target = {.ids = qkv_tensor_ids(t, ids, 2, (size_t[]){n, 1})};
        qkv_tensor *h = qkv_marian_decode(reader->model, t, &target, memory, source, cache);
        const qkv_real *logits = qkv_data(t, qkv_marian_logits(reader->model, t, h));
        for (size_t i = 0; logits && i < n; i++) {
            size_t len;
            ids[i] = (int32_t)likeliest(logits + i * V, V);
            const char *c = qkv_tokenizer_token(reader->tokenizer, ids[i], &len);
            ended += !over[i] && ids[i] == reader->eos;
            over[i] = over[i] || ids[i] == reader->eos;
            if (!over[i])
                a[i].read[k] = c && len == 1 ? c[0] : '?';
        }
    }
    return qkv_tape_status(t);
}

static qkv_status read_some(const tour_reader *reader, qkv_tape *t, answer *a, size_t n)
{
    int32_t ids[TOGETHER * TOUR_SOURCE], lengths[TOGETHER];
    size_t S = 0;
    for (size_t i = 0; i < n; i++) {
        lengths[i] = a[i].length;
        S = (size_t)a[i].length > S ? (size_t)a[i].length : S;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < S; j++)
            ids[i * S + j] = j < (size_t)a[i].length ? a[i].ids[j] : reader->pad;
    qkv_lm_cache *cache = NULL;
    qkv_status status = qkv_marian_cache_create(&cache, reader->model, n, TOUR_TARGET, S, false);
    qkv_tape_reset(t);
    qkv_marian_side source = {.ids = qkv_tensor_ids(t, ids, 2, (size_t[]){n, S}),
                              .lengths = lengths};
    if (!status)
        status = write_out(reader, t, a, n, &source, cache);
    qkv_lm_cache_destroy(cache);
    return status;
}

/* Texts of `most` values, none of which is in training. */
static qkv_status reading_show_collect(const tour_reader *reader, answer *a, size_t most)
{
    qkv_rng r;
    qkv_rng_init(&r, reader->seed, STREAM_EVALUATED);
    tour_pair p;
    tour_pair_init(&p, reader->ctx);
    qkv_status status = QKV_OK;
    for (size_t n = 0; n < most && !status;) {
        tour_pair_draw(&p, reader->script, &r, true);
        status = tour_pair_encode(&p, reader);
        bool known = false;
        for (size_t i = 0; i < n && !known; i++)
            known = a[i].value == p.value;
        if (status || known)
            continue;
        a[n] = (answer){.value = p.value, .form = p.form,
                        .length = (int32_t)p.source_ids.count};
        (void)snprintf(a[n].source, sizeof a[n].source, "%s", p.source.data);
        (void)snprintf(a[n].target, sizeof a[n].target, "%s", p.target.data);
        memcpy(a[n].ids, p.source_ids.data, p.source_ids.count * sizeof *a[n].ids);
        n++;
    }
    tour_pair_free(&p, reader->ctx);
    return status;
}

/* ---- where it looks ------------------------------------------------------------------------ */

/* Weights of the last cross-attention on one text, added up over its heads: (T, S). */
typedef struct {
    double weight[TOUR_TARGET][TOUR_SOURCE];
} lpips;

static void add_perceptual(void *user, const char *name, int sequence, int head, size_t row,
                           size_t rows, size_t S, const qkv_real *weights)
{
    lpips *l = user;
    (void)name, (void)sequence, (void)head;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < S; j++)
            l->weight[row + i][j] += (double)weights[i * S + j];
}

static qkv_status reading_show_look(const tour_reader *reader, qkv_tape *t, const answer *a,
                                    lpips *l)
{
    const qkv_marian_config *c = qkv_model_config(reader->model);
    char name[40];
    (void)snprintf(name, sizeof name, "decoder.%zu.cross", c->decoder_layers - 1);
    qkv_attention_probe probe = {.name = name, .sequence = -1, .head = -1, .fn = add_perceptual,
                                 .user = l};
    int32_t ids[TOUR_TARGET] = {reader->pad};
    size_t T = 1;
    for (const char *at = a->read; *at; at++)
        ids[T++] = qkv_tokenizer_id(reader->tokenizer, at, 1);
    *l = (lpips){0};
    qkv_tape_reset(t);
    qkv_status status = qkv_attention_probe_add(t, &probe);
    if (status)
        return status;
    qkv_marian_side source = {.ids = qkv_tensor_ids(t, a->ids, 2,
                                                    (size_t[]){1, (size_t)a->length})};
    qkv_marian_side target = {.ids = qkv_tensor_ids(t, ids, 2, (size_t[]){1, T})};
    qkv_tensor *memory = qkv_marian_encode(reader->model, t, &source);
    (void)qkv_marian_decode(reader->model, t, &target, memory, &source, NULL);
    qkv_probes_clear(t);
    for (size_t i = 0; i < T; i++)
        for (int32_t j = 0; j < a->length; j++)
            l->weight[i][j] /= (double)c->decoder_heads;
    return qkv_tape_status(t);
}

/* The text above, the answer down the side; the darker, the more attention, beside the most in its
 * row. */
static void draw_perceptual(const page *p, const answer *a, const lpips *l)
{
    static const char *const shades[] = {" ", "·", "░", "▒", "▓", "█"};
    static const double from[] = {0, 0.1, 0.2, 0.4, 0.6, 0.8};
    page_space(p);
    page_line(p, "     %s", a->source);
    for (size_t i = 0; i <= strlen(a->read); i++) {
        char line[TOUR_SOURCE * 3 + 1] = "";
        double most = 0;
        for (int32_t j = 0; j < a->length; j++)
            most = fmax(most, l->weight[i][j]);
        for (int32_t j = 0; j < a->length; j++) {
            size_t shade = sizeof shades / sizeof *shades - 1;
            while (l->weight[i][j] < from[shade] * most)
                shade--;
            strcat(line, shades[shade]);
        }
        page_line(p, "  %s  %s", a->read[i] ? (char[]){a->read[i], 0} : "∎", line);
    }
}

/* The longest of the first texts that are right and not too wide to take in. */
static const answer *best_to_look_at(const answer *a, size_t n)
{
    const answer *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < n && i < LOOKED_THROUGH; i++)
        if (a[i].right && a[i].length < WIDEST && (size_t)a[i].length > longest) {
            longest = (size_t)a[i].length;
            best = &a[i];
        }
    return best;
}

static qkv_status show_perceptual(const tour_reader *reader, const answer *a, size_t n)
{
    const page *p = reader->t->page;
    const answer *shown = best_to_look_at(a, n);
    lpips l;
    if (!shown)
        return QKV_OK;
    qkv_status status = reading_show_look(reader, p->t, shown, &l);
    if (status)
        return status;
    page_text(p, "Where it looks while it writes: a row is a character of the answer, and the "
                 "darker a place, the more of the last layer's attention (the mean of its heads) "
                 "went to the character above it; ∎ is the answer's end.");
    draw_perceptual(p, shown, &l);
    return QKV_OK;
}

/* ---- the report --------------------------------------------------------------------------- */

static void show_some(const page *p, const answer *a, size_t n, bool right, size_t most)
{
    size_t shown = 0, form = SIZE_MAX;
    for (size_t i = 0; i < n && shown < most; i++) {
        if (a[i].right != right || a[i].form == form || (right && a[i].length > TEXT))
            continue;
        form = a[i].form; /* no two of a kind in a row */
        shown++;
        if (right)
            page_line(p, "%-*s %s", TEXT, a[i].source, a[i].read);
        else
            page_line(p, "%s\n      as %s, and it is %s", a[i].source, a[i].read, a[i].target);
    }
}

static void show_answers(const tour_reader *reader, const answer *a, size_t n)
{
    const page *p = reader->t->page;
    size_t right = 0;
    for (size_t i = 0; i < n; i++)
        right += a[i].right;
    double share = (double)right / (double)n;
    page_text(p,
              "Evaluated on texts of %zu %ss that training met in no form; right is what is right "
                 "to the last character:", n, reader->script->one);
    page_space(p);
    page_line(p, "looked up in the training pairs         0.0%% right: none is there");
    page_line(p, "this encoder-decoder                  %5.1f%% right", 100 * share);
    page_number(p, "exact", share);
    page_number(p, "evaluated", (double)n);
    if (right) {
        page_text(p, "It reads");
        page_space(p);
        show_some(p, a, n, true, SHOWN_RIGHT);
    }
    if (right < n) {
        page_text(p, "and takes wrongly");
        page_space(p);
        show_some(p, a, n, false, SHOWN_WRONG);
    }
}

static qkv_status reading_show_conclude(const tour_reader *reader, const answer *a, size_t n)
{
    const page *p = reader->t->page;
    size_t right = 0;
    for (size_t i = 0; i < n; i++)
        right += a[i].right;
    if (2 * right >= n)
        tour_say(reader->t,
                 "What was learnt: to read, from nothing but pairs of texts. Nobody told it "
                 "what a word is, or which part of a text each character of the answer comes "
                 "from: that attention found.");
    else
        tour_say(reader->t,
                 "What was learnt: the shape of the answers, not yet to read. The time was "
                 "short; give it more with --minutes.");
    page_text(p, "Ask it for more: echo \"%s\" | qkv translate %s", a[0].source, reader->t->dir);
    return tour_look(reader->t, reader->t->dir, &(qkv_look_input){.text = a[0].source}, "look.html",
                     "Which characters of the text each character of the answer attends to, last "
                     "layer, mean of the heads");
}

qkv_status tour_reading_show(const tour_reader *reader)
{
    size_t n = (size_t)(EVALUATED_PER_SECOND * reader->t->seconds);
    n = n > JUDGED ? JUDGED : n;
    answer *a = qkv_calloc(reader->ctx, n, sizeof *a);
    qkv_status status = a ? reading_show_collect(reader, a, n) : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i += TOGETHER)
        status = read_some(reader, reader->t->page->t, a + i, n - i < TOGETHER ? n - i : TOGETHER);
    if (!status) {
        for (size_t i = 0; i < n; i++)
            a[i].right = strcmp(a[i].target, a[i].read) == 0;
        show_answers(reader, a, n);
        status = show_perceptual(reader, a, n);
    }
    if (!status)
        status = reading_show_conclude(reader, a, n);
    qkv_free(reader->ctx, a);
    return status;
}
