/* example.c - sections about one sentence: one head, two heads, positions. */
#include <math.h>
#include <stdio.h>

#include "explain/page.h"

const char *const explain_words[EXAMPLE_WORDS] = {"The", "cat", "sat", "on", "the", "mat"};

enum { SAT = 2, HEAD_WIDTH = 4, TWO_HEADS_WIDTH = 8 };

/* rows x columns numbers that grow by a tenth to the right and downward from `first` tenths. */
static qkv_tensor *ramp(page *p, size_t rows, size_t columns, int first)
{
    double values[EXAMPLE_WORDS * EXAMPLE_WIDTH];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            values[i * columns + j] = ((double)(i + j) + first) / 10.0;
    return explain_matrix(p, rows, columns, values);
}

example explain_example(page *p)
{
    example e = {.x = ramp(p, EXAMPLE_WORDS, EXAMPLE_WIDTH, 1),
                 .wq = ramp(p, EXAMPLE_WIDTH, EXAMPLE_WIDTH, 1),
                 .wk = ramp(p, EXAMPLE_WIDTH, EXAMPLE_WIDTH, 5),
                 .wv = ramp(p, EXAMPLE_WIDTH, EXAMPLE_WIDTH, 9)};
    e.q = qkv_matmul(p->t, e.x, false, e.wq, false);
    e.k = qkv_matmul(p->t, e.x, false, e.wk, false);
    e.v = qkv_matmul(p->t, e.x, false, e.wv, false);
    return e;
}

/* "sat" as a query: its weights as shares of a sum over values, and the sum. */
static void show_expectation(page *p, const attention *a)
{
    const qkv_real *w = qkv_data(p->t, a->weights), *out = qkv_data(p->t, a->output);
    if (!w || !out)
        return;
    w += SAT * EXAMPLE_WORDS;
    out += SAT * EXAMPLE_WIDTH;
    page_text(p, "The output is the expectation of the values under its row. For \"sat\":");
    page_line(p, "%.2f v(The) + %.2f v(cat) + %.2f v(sat)", (double)w[0], (double)w[1],
              (double)w[2]);
    page_line(p, "+ %.2f v(on) + %.2f v(the) + %.2f v(mat)", (double)w[3], (double)w[4],
              (double)w[5]);
    page_line(p, "= (%.4f, %.4f, %.4f, %.4f)", (double)out[0], (double)out[1], (double)out[2],
              (double)out[3]);
}

void explain_one_head(page *p)
{
    static const char *const *const words = explain_words;
    page_begin(p, "head", "One head of attention: The cat sat on the mat");
    example e = explain_example(p);
    page_text(p, "Every word is a row of X: 6 words, 4 numbers each. Three matrices, which "
                 "training would find, make of each row a query (what the word looks for), a key "
                 "(what it is found by) and a value (what it hands over).");
    page_show(p, 4, (const panel[]){{"X", "X", e.x, words, NULL, 0},
                                    {"W_Q", "W_Q", e.wq, NULL, NULL, 0},
                                    {"W_K", "W_K", e.wk, NULL, NULL, 0},
                                    {"W_V", "W_V", e.wv, NULL, NULL, 0}});
    page_show(p, 3, (const panel[]){{"Q", "Q = X W_Q", e.q, words, NULL, 0},
                                    {"K", "K = X W_K", e.k, NULL, NULL, 0},
                                    {"V", "V = X W_V", e.v, NULL, NULL, 0}});
    attention unscaled = explain_attention(p, e.q, e.k, e.v, 1.0, false);
    attention scaled = explain_attention(p, e.q, e.k, e.v, 0.0, false);
    page_text(p, "A score is the dot product of a query and a key: row \"sat\", column \"cat\" "
                 "says how much \"sat\" looks for what \"cat\" is found by.");
    page_show(p, 1, (const panel[]){{"scores", "Q Kᵀ", unscaled.scores, words, words, 4}});
    page_text(p, "Softmax makes each row a distribution, exp(score) over the row's sum, and the "
                 "output is the mean of the values that it weighs.");
    page_show(p, 2, (const panel[]){
        {"weights_unscaled", "A = softmax(Q Kᵀ)", unscaled.weights, words, words, 4},
        {"output_unscaled", "A V, unscaled", unscaled.output, words, NULL, 4}});
    page_text(p, "Sums of d_k products grow with d_k and push softmax to its ends, so scores are "
                 "divided by √d_k = 2. That is scaled dot-product attention.");
    page_show(p, 3, (const panel[]){
        {"scaled", "Q Kᵀ / √d_k", scaled.scaled, words, words, 4},
        {"weights", "A = softmax(Q Kᵀ / √d_k)", scaled.weights, words, words, 4},
        {"output", "softmax(Q Kᵀ / √d_k) V", scaled.output, words, NULL, 4}});
    page_distributions(p, &(panel){NULL, "Each row is a distribution: it sums to 1",
                                   scaled.weights, words, words, 0});
    show_expectation(p, &scaled);
    page_text(p, "qkv_attention, the fused op that models run, gives this output too: the largest "
                 "difference is %.1g.",
              fmax(unscaled.difference, scaled.difference));
    page_number(p, "difference", fmax(unscaled.difference, scaled.difference));
    page_end(p);
}

/* ---- two heads ------------------------------------------------------------------------------ */

/* article, noun, verb, preposition; cos, sin of 30 degrees times the position; capital; 1. */
static qkv_tensor *sentence_features(page *p)
{
    static const int kind[EXAMPLE_WORDS] = {0, 1, 2, 3, 0, 1};
    double x[EXAMPLE_WORDS * TWO_HEADS_WIDTH] = {0};
    for (int i = 0; i < EXAMPLE_WORDS; i++) {
        double *row = x + i * TWO_HEADS_WIDTH, angle = i * acos(-1.0) / 6.0;
        row[kind[i]] = 1.0;
        row[4] = cos(angle);
        row[5] = sin(angle);
        row[6] = i == 0;
        row[7] = 1.0;
    }
    return explain_matrix(p, EXAMPLE_WORDS, TWO_HEADS_WIDTH, x);
}

typedef struct {
    qkv_tensor *wq, *wk, *wv; /* (8, 4) */
} head_weights;

/* Articles, verbs and prepositions look for nouns, nouns for articles; the value is the kind. */
static head_weights kind_head(page *p)
{
    double wq[TWO_HEADS_WIDTH * HEAD_WIDTH] = {0}, same[TWO_HEADS_WIDTH * HEAD_WIDTH] = {0};
    static const int wanted[HEAD_WIDTH] = {1, 0, 1, 1};
    for (int i = 0; i < HEAD_WIDTH; i++) {
        wq[i * HEAD_WIDTH + wanted[i]] = 6.0;
        same[i * HEAD_WIDTH + i] = 1.0;
    }
    return (head_weights){explain_matrix(p, TWO_HEADS_WIDTH, HEAD_WIDTH, wq),
                          explain_matrix(p, TWO_HEADS_WIDTH, HEAD_WIDTH, same),
                          explain_matrix(p, TWO_HEADS_WIDTH, HEAD_WIDTH, same)};
}

/* Every word looks for the position 30 degrees before its own; the value is the kind. */
static head_weights before_head(page *p)
{
    double wq[TWO_HEADS_WIDTH * HEAD_WIDTH] = {0}, wk[TWO_HEADS_WIDTH * HEAD_WIDTH] = {0};
    double wv[TWO_HEADS_WIDTH * HEAD_WIDTH] = {0}, back = acos(-1.0) / 6.0;
    wq[4 * HEAD_WIDTH] = wq[5 * HEAD_WIDTH + 1] = 6.0 * cos(back);
    wq[5 * HEAD_WIDTH] = 6.0 * sin(back);
    wq[4 * HEAD_WIDTH + 1] = -6.0 * sin(back);
    wk[4 * HEAD_WIDTH] = wk[5 * HEAD_WIDTH + 1] = 6.0;
    for (int i = 0; i < HEAD_WIDTH; i++)
        wv[i * HEAD_WIDTH + i] = 1.0;
    return (head_weights){explain_matrix(p, TWO_HEADS_WIDTH, HEAD_WIDTH, wq),
                          explain_matrix(p, TWO_HEADS_WIDTH, HEAD_WIDTH, wk),
                          explain_matrix(p, TWO_HEADS_WIDTH, HEAD_WIDTH, wv)};
}

static attention run_head(page *p, qkv_tensor *x, const head_weights *w)
{
    qkv_tape *t = p->t;
    return explain_attention(p, qkv_matmul(t, x, false, w->wq, false),
                             qkv_matmul(t, x, false, w->wk, false),
                             qkv_matmul(t, x, false, w->wv, false), 0.0, false);
}

/* One head's part of the page. */
static void example_show_head(page *p, const attention *a, const head_weights *w, int head)
{
    static const char *const *const words = explain_words;
    static const char *const keys[2][7] = {
        {"W_Q1", "W_K1", "W_V1", "Q1", "K1", "V1", "weights1"},
        {"W_Q2", "W_K2", "W_V2", "Q2", "K2", "V2", "weights2"}};
    static const char *const titles[2][7] = {
        {"W_Q¹", "W_K¹", "W_V¹", "Q¹ = X W_Q¹", "K¹ = X W_K¹", "V¹ = X W_V¹",
         "softmax(Q¹ K¹ᵀ / √4)"},
        {"W_Q²", "W_K²", "W_V²", "Q² = X W_Q²", "K² = X W_K²", "V² = X W_V²",
         "softmax(Q² K²ᵀ / √4)"}};
    const char *const *key = keys[head], *const *title = titles[head];
    page_show(p, 3, (const panel[]){{key[0], title[0], w->wq, NULL, NULL, head ? 3 : 0},
                                    {key[1], title[1], w->wk, NULL, NULL, 0},
                                    {key[2], title[2], w->wv, NULL, NULL, 0}});
    page_show(p, 3, (const panel[]){{key[3], title[3], a->q, words, NULL, head ? 3 : 0},
                                    {key[4], title[4], a->k, NULL, NULL, head ? 3 : 0},
                                    {key[5], title[5], a->v, NULL, NULL, 0}});
    panel weights = {key[6], title[6], a->weights, words, words, 4};
    if (p->json)
        page_show(p, 1, &weights);
    page_distributions(p, &weights);
}

void explain_two_heads(page *p)
{
    static const char *const *const words = explain_words;
    page_begin(p, "heads", "Two heads: the same sentence, 8 numbers a word");
    qkv_tensor *x = sentence_features(p);
    page_text(p, "Two heads of width 4 look at the same words for different reasons. So that one "
                 "can see why, the weights here are chosen, not trained, and the columns of X "
                 "mean something: article, noun, verb, preposition; the cosine and sine of 30° "
                 "times the position; a capital letter and a constant, which neither head uses.");
    page_show(p, 1, (const panel[]){{"X", "X", x, words, NULL, 3}});
    const head_weights weights[] = {kind_head(p), before_head(p)};
    const attention heads[] = {run_head(p, x, &weights[0]), run_head(p, x, &weights[1])};
    page_heading(p, "Head 1: nouns look for articles, all else looks for nouns");
    example_show_head(p, &heads[0], &weights[0], 0);
    page_heading(p, "Head 2: every word looks for the word before it");
    page_text(p, "W_Q² turns the position back by 30°, so a query points where the word before "
                 "keeps its key; the first word, with none before it, comes out nearest to itself. "
                 "What is handed over is again the kind of word.");
    example_show_head(p, &heads[1], &weights[1], 1);
    qkv_tensor *outputs[] = {heads[0].output, heads[1].output};
    qkv_tensor *both = qkv_concat(p->t, 1, 2, outputs);
    double identity[TWO_HEADS_WIDTH * TWO_HEADS_WIDTH] = {0};
    for (int i = 0; i < TWO_HEADS_WIDTH; i++)
        identity[i * (TWO_HEADS_WIDTH + 1)] = 1.0;
    qkv_tensor *wo = explain_matrix(p, TWO_HEADS_WIDTH, TWO_HEADS_WIDTH, identity);
    page_heading(p, "Together");
    page_text(p, "The heads' outputs, 6×4 each, stand side by side in one 6×8 matrix (they are not "
                 "stacked: each word stays one row), and W_O (8×8) mixes them. Here W_O = I.");
    page_show(p, 3, (const panel[]){{"concat", "[head¹ | head²]", both, words, NULL, 4},
                                    {"W_O", "W_O = I", wo, NULL, NULL, 0},
                                    {"output", "[head¹ | head²] W_O",
                                     qkv_matmul(p->t, both, false, wo, false), words, NULL, 4}});
    page_text(p, "Row \"cat\": head 1 saw the two articles; head 2 saw \"The\", an article, and a "
                 "little of \"cat\" itself.");
    page_end(p);
}

/* ---- positions ------------------------------------------------------------------------------ */

void explain_positions(page *p)
{
    enum { CAT = 1, D = EXAMPLE_WIDTH };
    static const char *const one[] = {"cat"};
    static const double embedding[D] = {0.5, 0.2, -0.3, 0.1};
    qkv_real table[EXAMPLE_WORDS * D];
    double values[EXAMPLE_WORDS * D];
    page_begin(p, "positions", "Where a word stands: sinusoid positions");
    p->failed = qkv_sinusoid_table(p->c->ctx, table, EXAMPLE_WORDS, D, QKV_SINUSOID_PAPER, 0, 0);
    if (p->failed)
        return;
    for (int i = 0; i < EXAMPLE_WORDS * D; i++)
        values[i] = (double)table[i];
    qkv_tensor *pe = explain_matrix(p, EXAMPLE_WORDS, D, values);
    qkv_tensor *e1 = explain_matrix(p, 1, D, embedding);
    qkv_tensor *pe1 = qkv_slice(p->t, pe, 0, CAT, CAT + 1);
    page_text(p, "Attention sees a set of words, not their order. The order is added to the "
                 "embeddings, as waves of different lengths; positions count from 0, and i runs "
                 "from 0 to d/2-1:");
    page_space(p);
    page_line(p, "PE(pos, 2i)   = sin(pos / 10000^(2i/d))");
    page_line(p, "PE(pos, 2i+1) = cos(pos / 10000^(2i/d))");
    page_text(p, "\"cat\" is at position 1; d = 4, so the wave numbers are 1 and 1/100:");
    page_show(p, 1, (const panel[]){{"E_1", "E₁, the embedding", e1, one, NULL, 5}});
    page_show(p, 1, (const panel[]){
        {"PE_1", "PE₁ = (sin 1, cos 1, sin 0.01, cos 0.01)", pe1, one, NULL, 5}});
    page_show(p, 1, (const panel[]){
        {"X_1", "X₁ = E₁ + PE₁", qkv_add(p->t, e1, pe1), one, NULL, 5}});
    page_show(p, 2, (const panel[]){
        {"PE", "PE, all positions", pe, explain_words, NULL, 4},
        {"products", "PE PEᵀ", qkv_matmul(p->t, pe, false, pe, true), NULL, explain_words, 3}});
    page_text(p, "A product of two encodings depends on their distance alone: every diagonal of "
                 "PE PEᵀ is constant. They need no training and exist for every position, "
                 "which does not make a model good at lengths that it never saw. More than d of "
                 "them cannot be linearly independent: these 6 have rank 4 at most.");
    page_end(p);
}
