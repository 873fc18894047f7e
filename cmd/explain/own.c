/* own.c - attention on the user's own matrices: Q, K and V from files, or made from X. */
#include <stdio.h>

#include "explain/page.h"

enum { KEY_BYTES = 40 };

/* The file's matrix, or NULL: p->failed then, and the context says why. NULL for no file. */
static qkv_tensor *own_load(page *p, const char *file)
{
    qkv_array a = {0};
    if (!file || page_failed(p))
        return NULL;
    p->failed = qkv_array_load(&a, p->c->ctx, file) != QKV_OK;
    if (p->failed)
        return NULL;
    qkv_tensor *x = NULL;
    if (a.ndim == 2 && a.count)
        x = qkv_tensor_from(p->t, a.data, 2, a.shape);
    else
        qkv_fail(p->c->ctx, QKV_E_SHAPE,
                 "%s: %d dimensions, %zu numbers; a matrix expected: rows and columns", file,
                 a.ndim, a.count);
    p->failed = !x;
    qkv_array_free(&a);
    return x;
}

/* x, or x times the matrix of the file when there is one. */
static qkv_tensor *project(page *p, qkv_tensor *x, const char *file)
{
    qkv_tensor *w = own_load(p, file);
    return w ? qkv_matmul(p->t, x, false, w, false) : x;
}

static qkv_status own_check(const page *p, const example *e, size_t heads)
{
    qkv_context *ctx = p->c->ctx;
    size_t d = qkv_dim(e->q, 1), dk = qkv_dim(e->k, 1), dv = qkv_dim(e->v, 1);
    if (d != dk)
        return qkv_fail(ctx, QKV_E_SHAPE, "Q has %zu columns and K %zu: equal ones expected", d,
                        dk);
    if (qkv_dim(e->k, 0) != qkv_dim(e->v, 0))
        return qkv_fail(ctx, QKV_E_SHAPE, "K has %zu rows and V %zu: equal ones expected",
                        qkv_dim(e->k, 0), qkv_dim(e->v, 0));
    if (d % heads || dv % heads)
        return qkv_fail(ctx, QKV_E_SHAPE,
                        "%zu heads do not divide the %zu columns of Q and K, or the %zu of V",
                        heads, d, dv);
    return QKV_OK;
}

/* Q, K and V as the options say; false on failure. */
static bool own_gather(page *p, const explain_own *own, example *e)
{
    bool any = own->q || own->k || own->v;
    if (any && (!own->q || !own->k || !own->v || own->x || own->wq || own->wk || own->wv)) {
        qkv_fail(p->c->ctx, QKV_E_ARGUMENT,
                 "--q, --k and --v go together, without --x and its projections");
        p->failed = true;
    } else if (any) {
        e->q = own_load(p, own->q);
        e->k = own_load(p, own->k);
        e->v = own_load(p, own->v);
    } else if (own->x) {
        e->x = own_load(p, own->x);
        e->q = project(p, e->x, own->wq);
        e->k = project(p, e->x, own->wk);
        e->v = project(p, e->x, own->wv);
    } else {
        *e = explain_example(p);
        e->q = own->wq ? project(p, e->x, own->wq) : e->q;
        e->k = own->wk ? project(p, e->x, own->wk) : e->k;
        e->v = own->wv ? project(p, e->x, own->wv) : e->v;
    }
    p->failed = page_failed(p) || own_check(p, e, own->heads) != QKV_OK;
    return !p->failed;
}

/* Columns of one head. */
static qkv_tensor *own_part(page *p, qkv_tensor *x, size_t head, size_t heads)
{
    size_t width = qkv_dim(x, 1) / heads;
    return qkv_slice(p->t, x, 1, head * width, (head + 1) * width);
}

static void own_show_head(page *p, const attention *a, const explain_own *own, size_t head,
                          const char *const *words)
{
    static const char *const names[] = {"scores", "scaled", "weights", "output"};
    char keys[4][KEY_BYTES];
    for (int i = 0; i < 4; i++)
        (void)snprintf(keys[i], sizeof keys[i], own->heads > 1 ? "%s%zu" : "%s", names[i],
                       head + 1);
    char scaled[64], weights[64];
    (void)snprintf(scaled, sizeof scaled, "%.4g · Q Kᵀ%s", a->scale,
                   own->causal ? ", later keys hidden" : "");
    (void)snprintf(weights, sizeof weights, "softmax(%.4g · Q Kᵀ)", a->scale);
    if (own->heads > 1)
        page_heading(p, "Head %zu of %zu", head + 1, own->heads);
    page_show(p, 4, (const panel[]){{keys[0], "Q Kᵀ", a->scores, words, words, 0},
                                    {keys[1], scaled, a->scaled, words, words, 4},
                                    {keys[2], weights, a->weights, words, words, 4},
                                    {keys[3], "weights · V", a->output, words, NULL, 4}});
    page_distributions(p, &(panel){NULL, "Each row is a distribution", a->weights, words, words,
                                   0});
}

void explain_own_matrices(page *p, const explain_own *own)
{
    example e = {0};
    if (!own_gather(p, own, &e))
        return;
    const char *const *words = own->x || own->q ? NULL : explain_words;
    page_begin(p, "own", "softmax(scale · Q Kᵀ) V");
    page_show(p, 3, (const panel[]){{"Q", "Q", e.q, words, NULL, 0},
                                    {"K", "K", e.k, words, NULL, 0},
                                    {"V", "V", e.v, words, NULL, 0}});
    qkv_tensor *outputs = NULL;
    double difference = 0.0;
    for (size_t h = 0; h < own->heads; h++) {
        attention a = explain_attention(p, own_part(p, e.q, h, own->heads),
                                        own_part(p, e.k, h, own->heads),
                                        own_part(p, e.v, h, own->heads), own->scale, own->causal);
        own_show_head(p, &a, own, h, words);
        qkv_tensor *pair[] = {outputs, a.output};
        outputs = h ? qkv_concat(p->t, 1, 2, pair) : a.output;
        difference = a.difference > difference ? a.difference : difference;
    }
    if (own->heads > 1) {
        page_heading(p, "The heads' outputs, side by side");
        page_show(p, 1, (const panel[]){{"output", "[head 1 | .. ]", outputs, words, NULL, 4}});
    }
    page_text(p, "The fused op that models run differs from these steps by at most "
                 "%.1g.", difference);
    page_number(p, "difference", difference);
    page_end(p);
}
