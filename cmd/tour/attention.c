/* attention.c - the tour's first chapter: attention on one sentence, by numbers. */
#include <math.h>

#include "tour/chapter.h"

qkv_status tour_attention(tour *t)
{
    enum { SAT = 2, CAT = 1 };
    page *p = t->page;
    example e = explain_example(p);
    page_text(p, "Six words, four numbers each: X. Three matrices make of every word a query (what "
                 "it looks for), a key (what it is found by) and a value (what it hands over): "
                 "Q = X W_Q, K = X W_K, V = X W_V.");
    page_show(p, 2, (const panel[]){{"X", "X", e.x, explain_words, NULL, 0},
                                    {"Q", "Q = X W_Q", e.q, NULL, NULL, 0}});
    page_show(p, 2, (const panel[]){{"K", "K = X W_K", e.k, explain_words, NULL, 0},
                                    {"V", "V = X W_V", e.v, NULL, NULL, 0}});
    attention a = explain_attention(p, e.q, e.k, e.v, 0.0, false);
    page_text(p, "Attention compares every query with every key, makes each row of scores a "
                 "distribution, and gives each word the mean of the values that its row weighs.");
    page_distributions(p, &(panel){NULL, "softmax(Q Kᵀ / √4): who looks at whom", a.weights,
                                   explain_words, explain_words, 0});
    page_show(p, 1, (const panel[]){
        {"output", "softmax(Q Kᵀ / √4) V", a.output, explain_words, NULL, 4}});
    if (page_failed(p))
        return qkv_tape_status(p->t);
    const qkv_real *w = qkv_data(p->t, a.weights) + SAT * EXAMPLE_WORDS;
    page_text(p, "Nothing was learnt here: the weights are given, so \"sat\" gives %.1f%% of its "
                 "attention to \"cat\" and %.1f%% to \"mat\" for no reason of language. The fused "
                 "op that models run and the formula done step by step differ by %.1g at most. "
                 "More of it: qkv explain all",
              100 * (double)w[CAT], 100 * (double)w[EXAMPLE_WORDS - 1], a.difference);
    page_number(p, "difference", a.difference);
    qkv_page_text(t->index, "Six words, four numbers each: every matrix and step, to change and to "
                            "see change.");
    qkv_status status = qkv_explain_page(p->c->ctx, NULL, qkv_path_in(t->dir, "lesson.html").text);
    if (!status)
        tour_link(t, t->dir, "lesson.html", "The worked example, number by number");
    return status;
}
