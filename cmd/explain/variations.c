/* variations.c - sections that change one thing about the example: the scale, the
 * projections, the similarity, the order of the words. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain/page.h"

enum { WORDS = EXAMPLE_WORDS, WIDTH = EXAMPLE_WIDTH, SAT = 2 };

static size_t argmax(const qkv_real *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

void explain_select(page *p)
{
    static const double scales[] = {0.5, 1.0, 4.0, 16.0, 64.0};
    static const char *const labels[] = {"× 0.5", "× 1", "× 4", "× 16", "× 64", "select"};
    enum { SCALES = 5 };
    qkv_tensor *weights[SCALES + 1], *outputs[SCALES + 1];
    page_begin(p, "select", "Hard select is the limit of attention");
    example e = explain_example(p);
    qkv_tensor *q = qkv_slice(p->t, e.q, 0, SAT, SAT + 1);
    attention a = {0};
    for (int i = 0; i < SCALES; i++) {
        a = explain_attention(p, q, e.k, e.v, scales[i], false);
        weights[i] = a.weights;
        outputs[i] = a.output;
    }
    if (qkv_tape_status(p->t))
        return;
    size_t best = argmax(qkv_data(p->t, a.scores), WORDS);
    double chosen[WORDS] = {0};
    chosen[best] = 1.0;
    weights[SCALES] = explain_matrix(p, 1, WORDS, chosen);
    outputs[SCALES] = qkv_slice(p->t, e.v, 0, best, best + 1);
    page_text(p, "A database's select compares the query with every key and returns the value of "
                 "the "
                 "most similar one: similarity 1 for one key, 0 for the rest. Attention spreads "
                 "the 1 over all keys. The larger the scale of the scores, the harder the "
                 "choice; here for the query of \"sat\":");
    page_show(p, 2, (const panel[]){
        {"weights", "softmax(scale · q Kᵀ)", qkv_concat(p->t, 0, SCALES + 1, weights), labels,
         explain_words, 4},
        {"output", "softmax(scale · q Kᵀ) V", qkv_concat(p->t, 0, SCALES + 1, outputs), labels,
         NULL, 4}});
    page_text(p, "Soft select has a gradient for every key; hard select has none for those it did "
                 "not choose, and could not be trained.");
    page_end(p);
}

void explain_plain(page *p)
{
    static const char *const *const words = explain_words;
    page_begin(p, "plain", "Without projections: Q = K = V = X");
    example e = explain_example(p);
    attention a = explain_attention(p, e.x, e.x, e.x, 0.0, false);
    page_text(p, "X Xᵀ is symmetric: (X Xᵀ)ᵢⱼ = Σₖ xᵢₖ xⱼₖ is how alike words i and j are, in both "
                 "directions. W_Q and W_K exist so that \"what I look for\" can differ from \"what "
                 "I am\".");
    page_show(p, 4, (const panel[]){{"X", "Q = K = V = X", a.q, words, NULL, 0},
                                    {"scores", "X Xᵀ", a.scores, words, words, 0},
                                    {"weights", "softmax(X Xᵀ / √d)", a.weights, words, words, 4},
                                    {"output", "softmax(X Xᵀ / √d) X", a.output, words, NULL, 4}});
    page_end(p);
}

void explain_cosine(page *p)
{
    static const char *const *const words = explain_words;
    page_begin(p, "cosine", "Dot product against cosine");
    example e = explain_example(p);
    attention dot = explain_attention(p, e.q, e.k, e.v, 0.0, false);
    attention cosine = explain_attention(p, qkv_l2_normalize(p->t, e.q, 0.0),
                                         qkv_l2_normalize(p->t, e.k, 0.0), e.v, 1.0, false);
    page_text(p, "A dot product is large when two vectors point the same way and when they are "
                 "long: "
                 "q·k = |q| |k| cos(q, k). The example's rows all point nearly the same way and "
                 "get longer, so its attention always prefers \"mat\". The cosine, the dot product "
                 "of vectors of length 1, hardly sees a difference:");
    page_show(p, 4, (const panel[]){
        {"dot", "q·k / √d_k", dot.scaled, words, words, 4},
        {"cosine", "cos(q, k)", cosine.scores, words, words, 4},
        {"weights_dot", "softmax(q·k / √d_k)", dot.weights, words, words, 4},
        {"weights_cosine", "softmax(cos(q, k))", cosine.weights, words, words, 4}});
    page_text(p, "A cosine lies in [-1, 1], so without a scale above 1 its softmax can never be "
                 "sharp.");
    page_end(p);
}

/* ---- order ---------------------------------------------------------------------------------- */

static const size_t shuffled[WORDS] = {5, 2, 0, 4, 1, 3};

/* Row i of the result is row order[i] of x. */
static qkv_tensor *variations_reorder(page *p, qkv_tensor *x, const size_t *order)
{
    qkv_tensor *rows[WORDS];
    for (int i = 0; i < WORDS; i++)
        rows[i] = qkv_slice(p->t, x, 0, order[i], order[i] + 1);
    return qkv_concat(p->t, 0, WORDS, rows);
}

static qkv_tensor *output_of(page *p, const example *e, qkv_tensor *x)
{
    qkv_tape *t = p->t;
    return explain_attention(p, qkv_matmul(t, x, false, e->wq, false),
                             qkv_matmul(t, x, false, e->wk, false),
                             qkv_matmul(t, x, false, e->wv, false), 0.0, false)
        .output;
}

static qkv_tensor *encodings(page *p)
{
    qkv_real table[WORDS * WIDTH];
    double values[WORDS * WIDTH];
    if (qkv_sinusoid_table(p->c->ctx, table, WORDS, WIDTH, QKV_SINUSOID_PAPER, 0, 0))
        return NULL;
    for (int i = 0; i < WORDS * WIDTH; i++)
        values[i] = (double)table[i];
    return explain_matrix(p, WORDS, WIDTH, values);
}

void explain_order(page *p)
{
    const char *labels[WORDS];
    for (int i = 0; i < WORDS; i++)
        labels[i] = explain_words[shuffled[i]];
    page_begin(p, "order", "Order matters only through positions");
    example e = explain_example(p);
    qkv_tensor *pe = encodings(p), *mixed = variations_reorder(p, e.x, shuffled);
    qkv_tensor *bare = output_of(p, &e, e.x), *bare_mixed = output_of(p, &e, mixed);
    qkv_tensor *placed = output_of(p, &e, qkv_add(p->t, e.x, pe));
    qkv_tensor *placed_mixed = output_of(p, &e, qkv_add(p->t, mixed, pe));
    page_text(p, "The rows of X are put in another order, \"mat sat The the cat on\". Without "
                 "positions each word gets the same output, wherever it stands:");
    page_show(p, 2, (const panel[]){
        {"output", "attention(X)", bare, explain_words, NULL, 4},
        {"output_permuted", "attention(X in another order)", bare_mixed, labels, NULL, 4}});
    page_text(p, "With positions added, X + PE, it does not:");
    page_show(p, 2, (const panel[]){
        {"output_positions", "attention(X + PE)", placed, explain_words, NULL, 4},
        {"output_positions_permuted", "attention(X in another order + PE)", placed_mixed, labels,
         NULL, 4}});
    if (qkv_tape_status(p->t))
        return;
    double without = explain_difference(p, variations_reorder(p, bare, shuffled), bare_mixed);
    double with = explain_difference(p, variations_reorder(p, placed, shuffled), placed_mixed);
    page_text(p, "Largest change of any word's output: %.1g without positions, %.3f with them.",
              without, with);
    page_number(p, "change", without);
    page_number(p, "change_positions", with);
    page_end(p);
}
