/* lesson.c - attention step by step, by the ops that models are made of, and once more by the fused
 * one, which has to agree. */
#include "explain/lesson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qkv/ops.h"

enum { ROWS = 6, WIDTH = 4 };
static const char *const sentence[] = {"The", "cat", "sat", "on", "the", "mat"};

/* ---- options --------------------------------------------------------------------------------- */

static qkv_status lesson_options(qkv__lesson *l, const qkv_explain_options *options)
{
    qkv_explain_options *o = &l->o;
    *o = options ? *options : (qkv_explain_options){0};
    o->rows = o->rows ? o->rows : ROWS;
    o->width = o->width ? o->width : WIDTH;
    o->heads = o->heads ? o->heads : 1;
    o->words = o->words || o->rows != ROWS ? o->words : sentence;
    if (o->rows > QKV_EXPLAIN_ROWS)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "a lesson of %zu rows: 1 to %d expected", o->rows,
                        QKV_EXPLAIN_ROWS);
    if (o->width > QKV_EXPLAIN_WIDTH || o->width % 2)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT,
                        "a lesson of width %zu: an even number from 2 to %d expected", o->width,
                        QKV_EXPLAIN_WIDTH);
    if (o->heads > QKV__LESSON_HEADS || o->width % o->heads)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT,
                        "a lesson with %zu heads: at most %d that divide the width %zu expected",
                        o->heads, QKV__LESSON_HEADS, o->width);
    return QKV_OK;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* What an entry is where the program brings none. */
typedef double lesson_entry(size_t i, size_t j);
static double entry_x(size_t i, size_t j) { return ((double)(i + j) + 1.0) / 10.0; }
static double entry_k(size_t i, size_t j) { return ((double)(i + j) + 5.0) / 10.0; }
static double entry_v(size_t i, size_t j) { return ((double)(i + j) + 9.0) / 10.0; }
static double entry_o(size_t i, size_t j) { return i == j ? 1.0 : 0.0; }
static double bias_q(size_t i, size_t j) { return ((double)(i + j) + 1.0) / 10.0; }
static double bias_k(size_t i, size_t j) { return -((double)(i + j) + 1.0) / 5.0; }
static double bias_v(size_t i, size_t j) { return i + j < 2 ? 0.5 : -0.5; }
static double bias_o(size_t i, size_t j) { return (double)(i + j) / 10.0; }
static double entry_mask(size_t i, size_t j) { return j > i ? -INFINITY : 0.0; }

static qkv_tensor *lesson_tensor(qkv__lesson *l, size_t rows, size_t columns, const qkv_real *own,
                                 lesson_entry *entry)
{
    const size_t shape[] = {rows, columns};
    qkv_tensor *x = qkv_tensor_from(l->t, own, 2, shape);
    qkv_real *data = x && !own ? qkv_tensor_fill(x) : NULL;
    for (size_t i = 0; data && i < rows * columns; i++)
        data[i] = (qkv_real)entry(i / columns, i % columns);
    return x;
}

static qkv_tensor *lesson_positions(qkv__lesson *l)
{
    const size_t shape[] = {l->o.rows, l->o.width};
    qkv_tensor *x = qkv_tensor_from(l->t, NULL, 2, shape);
    qkv_real *data = x ? qkv_tensor_fill(x) : NULL;
    if (!data || qkv_sinusoid_table(l->ctx, data, shape[0], shape[1], QKV_SINUSOID_PAPER, 0, 0))
        return NULL;
    return x;
}

enum { PLAIN, BY_WORDS, BOTH_WORDS, WEIGHTS }; /* labels of a matrix */

/* Adds a matrix and returns its tensor. head 0: of none; otherwise its number ends the key and
 * stands in the title's %s as a superscript. */
static qkv_tensor *lesson_add(qkv__lesson *l, qkv__lesson_step step, const char *key,
                              const char *title, size_t head, int labels, qkv_tensor *x)
{
    static const char *const superscripts[] = {"", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸"};
    if (!x || l->count == QKV__LESSON_MATRICES)
        return NULL;
    qkv__lesson_matrix *m = &l->matrices[l->count++];
    *m = (qkv__lesson_matrix){.step = step, .x = x, .by_words = labels != PLAIN,
                              .words_across = labels >= BOTH_WORDS, .weights = labels == WEIGHTS};
    const char *mark = superscripts[l->o.heads > 1 ? head : 0], *rest = title;
    size_t n = 0;
    for (const char *at; (at = strchr(rest, '^')); rest = at + 1)
        n += (size_t)snprintf(m->title + n, sizeof m->title - n, "%.*s%s", (int)(at - rest), rest,
                              mark);
    (void)snprintf(m->title + n, sizeof m->title - n, "%s", rest);
    if (head)
        (void)snprintf(m->key, sizeof m->key, "%s_%zu", key, head);
    else
        (void)snprintf(m->key, sizeof m->key, "%s", key);
    return x;
}

static qkv_tensor *lesson_input(qkv__lesson *l)
{
    const qkv_explain_options *o = &l->o;
    qkv_tensor *x = lesson_add(l, QKV__STEP_INPUT, "X", "X", 0, BY_WORDS,
                               lesson_tensor(l, o->rows, o->width, o->x, entry_x));
    if (!o->positions)
        return x;
    qkv_tensor *pe = lesson_add(l, QKV__STEP_INPUT, "PE", "PE", 0, BY_WORDS, lesson_positions(l));
    return lesson_add(l, QKV__STEP_INPUT, "XP", "X + PE", 0, BY_WORDS, qkv_add(l->t, x, pe));
}

/* y W + b, with the weights and the bias among the matrices of the step. */
static qkv_tensor *lesson_linear(qkv__lesson *l, qkv__lesson_step step, char which, qkv_tensor *y,
                                 const qkv_real *own, lesson_entry *entry, lesson_entry *bias)
{
    char w[] = "W_Q", b[] = "b_Q";
    w[2] = b[2] = which;
    qkv_tensor *weight = lesson_add(l, step, w, w, 0, PLAIN,
                                    lesson_tensor(l, l->o.width, l->o.width, own, entry));
    qkv_tensor *out = qkv_matmul(l->t, y, false, weight, false);
    if (!l->o.biases)
        return out;
    return qkv_add(l->t, out, lesson_add(l, step, b, b, 0, PLAIN,
                                         lesson_tensor(l, 1, l->o.width, NULL, bias)));
}

static qkv_tensor *lesson_columns(qkv__lesson *l, qkv_tensor *x, size_t head)
{
    size_t d = l->o.width / l->o.heads;
    return l->o.heads > 1 ? qkv_slice(l->t, x, 1, (head - 1) * d, head * d) : x;
}

/* The scores to the output of one head, from 1. */
static qkv_tensor *lesson_head(qkv__lesson *l, size_t head, qkv_tensor *const qkv[3])
{
    qkv_tape *t = l->t;
    const size_t n = l->o.rows;
    double scale = l->o.unscaled ? 1.0 : 1.0 / sqrt((double)(l->o.width / l->o.heads));
    qkv_tensor *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = lesson_columns(l, qkv[i], head);
    qkv_tensor *x = lesson_add(l, QKV__STEP_SCORES, "scores", "Q^ K^ᵀ", head, BOTH_WORDS,
                               qkv_matmul(t, part[0], false, part[1], true));
    x = lesson_add(l, QKV__STEP_SCALE, "scaled",
                   l->o.unscaled ? "Q^ K^ᵀ, not scaled" : "Q^ K^ᵀ / √d_k", head, BOTH_WORDS,
                   qkv_scale(t, x, scale));
    if (l->o.causal)
        x = qkv_add(t, x, lesson_tensor(l, n, n, NULL, entry_mask));
    x = lesson_add(l, QKV__STEP_MASK, "masked",
                   l->o.causal ? "S^: −∞ where a key is hidden" : "S^: every key is seen", head,
                   BOTH_WORDS, x);
    x = lesson_add(l, QKV__STEP_SOFTMAX, "weights", "A^ = softmax(S^)", head, WEIGHTS,
                   qkv_softmax(t, x));
    return lesson_add(l, QKV__STEP_HEADS, "head", "A^ V^", head, BY_WORDS,
                      qkv_matmul(t, x, false, part[2], false));
}

/* Largest difference between the heads side by side and qkv_attention. */
static double lesson_difference(qkv__lesson *l, qkv_tensor *const qkv[3], qkv_tensor *steps)
{
    const size_t shape[] = {1, l->o.rows, l->o.heads, l->o.width / l->o.heads};
    qkv_tensor *in[3];
    for (int i = 0; i < 3; i++)
        in[i] = qkv_reshape(l->t, qkv[i], 4, shape);
    const qkv_attention_options options = {.scale = l->o.unscaled ? 1.0 : 0.0,
                                           .causal = l->o.causal};
    qkv_tensor *fused = qkv_attention(l->t, in[0], in[1], in[2], &options);
    const qkv_real *a = qkv_data(l->t, steps), *b = qkv_data(l->t, fused);
    double largest = 0.0;
    for (size_t i = 0; a && b && i < l->o.rows * l->o.width; i++)
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
    return largest;
}

static void lesson_steps(qkv__lesson *l)
{
    const qkv_explain_options *o = &l->o;
    qkv_tensor *x = lesson_input(l), *heads[QKV__LESSON_HEADS];
    qkv_tensor *const projected[] = {
        lesson_linear(l, QKV__STEP_PROJECT, 'Q', x, o->wq, entry_x, bias_q),
        lesson_linear(l, QKV__STEP_PROJECT, 'K', x, o->wk, entry_k, bias_k),
        lesson_linear(l, QKV__STEP_PROJECT, 'V', x, o->wv, entry_v, bias_v)};
    static const char *const keys[] = {"Q", "K", "V"};
    static const char *const titles[2][2][3] = {
        {{"Q = X W_Q", "K = X W_K", "V = X W_V"},
         {"Q = X W_Q + b_Q", "K = X W_K + b_K", "V = X W_V + b_V"}},
        {{"Q = (X + PE) W_Q", "K = (X + PE) W_K", "V = (X + PE) W_V"},
         {"Q = (X + PE) W_Q + b_Q", "K = (X + PE) W_K + b_K", "V = (X + PE) W_V + b_V"}}};
    for (int i = 0; i < 3; i++)
        lesson_add(l, QKV__STEP_PROJECT, keys[i], titles[o->positions][o->biases][i], 0, BY_WORDS,
                   projected[i]);
    for (size_t h = 0; h < o->heads; h++)
        heads[h] = lesson_head(l, h + 1, projected);
    qkv_tensor *both = qkv_concat(l->t, 1, (int)o->heads, heads);
    lesson_add(l, QKV__STEP_HEADS, "concat", o->heads > 1 ? "heads side by side" : "one head", 0,
               BY_WORDS, both);
    qkv_tensor *out = lesson_linear(l, QKV__STEP_OUTPUT, 'O', both, o->wo, entry_o, bias_o);
    lesson_add(l, QKV__STEP_OUTPUT, "output", o->biases ? "output = heads W_O + b_O"
                                                        : "output = heads W_O",
               0, BY_WORDS, out);
    l->difference = lesson_difference(l, projected, both);
}

qkv_status qkv__lesson_create(qkv__lesson *l, qkv_context *ctx, const qkv_explain_options *options)
{
    *l = (qkv__lesson){.ctx = ctx};
    qkv_status status = lesson_options(l, options);
    if (!status)
        status = qkv_tape_create(&l->t, ctx);
    if (!status) {
        qkv_tape_mode(l->t, false, false);
        lesson_steps(l);
        status = qkv_tape_status(l->t);
    }
    if (status)
        qkv__lesson_destroy(l);
    return status;
}

void qkv__lesson_destroy(qkv__lesson *l)
{
    qkv_tape_destroy(l->t);
    *l = (qkv__lesson){0};
}

const qkv__lesson_matrix *qkv__lesson_find(const qkv__lesson *l, const char *key)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->matrices[i].key, key) == 0)
            return &l->matrices[i];
    return NULL;
}
