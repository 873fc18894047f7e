/* low_rank.c - low-rank terms of matrices (LoRA): y += scale (x A^T) B^T, and its gradients.
 *
 * Of a forward pass h = scale x A^T is kept, r numbers a row. Dropout of x is drawn again. */
#include "tensor/low_rank.h"

#include "tensor/param.h"

enum { FEW_ROWS = 32 }; /* bound by the speed of memory */

struct qkv__term {
    size_t from, rows, r;
    double scale;
    qkv_k_dropout_args dropout; /* p 0: none */
    qkv_real *h;                /* (M, r) */
};

/* ---- a parameter's list --------------------------------------------------------------------- */

qkv_status qkv__param_add_term(qkv_param *w, const qkv__low_rank *term, qkv__low_rank **out)
{
    qkv_context *ctx = qkv__param_context(w);
    const qkv_param *a = term->a, *b = term->b;
    size_t count = 0;
    qkv__low_rank **end = &w->terms;
    for (; *end; end = &(*end)->next)
        count++;
    if (w->role != QKV__LINEAR)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s is not the matrix of a linear layer: it cannot "
                        "have a low-rank term", w->name);
    if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != w->shape[1] || a->shape[0] != b->shape[1] ||
        term->from > w->shape[0] || b->shape[0] > w->shape[0] - term->from)
        return qkv_fail(ctx, QKV_E_SHAPE, "%s, %zu x %zu: a low-rank term of %zu x %zu times "
                        "%zu x %zu at row %zu does not fit", w->name, w->shape[0], w->shape[1],
                        b->shape[0], b->shape[1], a->shape[0], a->shape[1], term->from);
    if (count == QKV__TERMS)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: at most %d low-rank terms expected", w->name,
                        QKV__TERMS);
    qkv__low_rank *copy = qkv__params_alloc(w->owner, sizeof *copy);
    if (!copy)
        return QKV_E_MEMORY;
    *copy = *term;
    copy->next = NULL;
    *end = copy;
    if (out)
        *out = copy;
    return QKV_OK;
}

qkv_status qkv__param_merge_terms(qkv_param *w)
{
    qkv_exec e = qkv__params_exec(w->owner);
    const qkv_kernels *k = qkv__params_kernels(w->owner);
    if (!w->terms)
        return QKV_OK;
    if (!w->data)
        return qkv_fail(qkv__param_context(w), QKV_E_UNSUPPORTED, "%s is kept in %s: terms can be "
                        "merged into f32 alone", w->name, qkv__weights_names[w->weights]);
    for (const qkv__low_rank *l = w->terms; l; l = l->next) {
        size_t r = l->a->shape[0], K = w->shape[1], rows = l->b->shape[0];
        qkv__mark mark = qkv__arena_mark(e.scratch);
        qkv_real *scaled = qkv__arena_alloc(e.scratch, l->a->count * sizeof *scaled);
        if (scaled) {
            k->axpy(&e, scaled, l->a->data, l->scale, false, l->a->count);
            k->gemm(&e, w->data + l->from * K, l->b->data, scaled,
                    &(qkv_k_gemm_args){false, false, true, rows, K, r, r, K, K, NULL, 0});
        }
        qkv__arena_release(e.scratch, mark);
        if (!scaled)
            return QKV_E_MEMORY;
    }
    w->terms = NULL;
    qkv__param_changed(w);
    return QKV_OK;
}

/* ---- in an op ------------------------------------------------------------------------------- */

/* The first term that counts from `term` on. */
static const qkv__low_rank *counting_term(const qkv__low_rank *term)
{
    while (term && term->scale == 0)
        term = term->next;
    return term;
}

static const qkv__low_rank *terms_of(const qkv_tensor *w)
{
    return w && w->root == w && w->param ? counting_term(w->param->terms) : NULL;
}

size_t qkv__terms_use(qkv_tape *t, const qkv_tensor *w, qkv_tensor **in)
{
    size_t n = 0;
    for (const qkv__low_rank *l = terms_of(w); l; l = counting_term(l->next)) {
        in[n++] = qkv_use(t, l->a);
        in[n++] = qkv_use(t, l->b);
    }
    return n;
}

/* x as the term sees it; NULL: no memory. */
static const qkv_real *term_input(qkv_tape *t, const struct qkv__term *term, const qkv_real *x,
                                  size_t count)
{
    if (!(term->dropout.p > 0))
        return x;
    qkv_real *dropped = qkv__scratch(t, count);
    if (dropped)
        t->k->dropout(&t->exec, dropped, x, NULL, false, &term->dropout, count);
    return dropped;
}

/* y (M, N; row stride ldy) = [y +] x (M, K) w^T, of as many rows as gemv takes at a time. */
static void term_few_rows(qkv_tape *t, qkv_real *y, size_t ldy, bool acc, const qkv_real *x,
                     const qkv_real *w, const qkv__product_sizes *s)
{
    qkv_real *z = acc ? qkv__scratch(t, FEW_ROWS * s->N) : NULL;
    if (acc && !z)
        return;
    for (size_t i = 0; i < s->M; i += FEW_ROWS) {
        size_t rows = s->M - i < FEW_ROWS ? s->M - i : FEW_ROWS, shape[] = {rows, s->N};
        const size_t to[] = {ldy, 1}, from[] = {s->N, 1};
        t->k->gemv(&t->exec, acc ? z : y + i * ldy, acc ? s->N : ldy, x + i * s->K, s->K, w, NULL,
                   rows, s->N, s->K);
        if (acc)
            t->k->copy(&t->exec, y + i * ldy, to, z, from, shape, 2, true);
    }
}

/* The same of many rows, unless a row's bits must not depend on them. */
static void term_product(qkv_tape *t, qkv_real *y, size_t ldy, bool acc, const qkv_real *x,
                         const qkv_tensor *w, const qkv__product_sizes *s, bool recording)
{
    if (!recording && (t->invariant || s->M <= FEW_ROWS))
        term_few_rows(t, y, ldy, acc, x, qkv__real(w), s);
    else
        t->k->gemm(&t->exec, y, x, qkv__real(w),
                   &(qkv_k_gemm_args){false, true, acc, s->M, s->N, s->K, s->K, s->K, ldy, NULL,
                                      qkv__version_of(w)});
}

static void add_term(qkv_tape *t, struct qkv__term *term, qkv_tensor *const *in, qkv_real *y,
                     const qkv_real *x, const qkv__product_sizes *s, bool recording)
{
    const size_t count = s->M * term->r;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *h = recording ? qkv__step_memory(t, count * sizeof *h) : qkv__scratch(t, count);
    const qkv_real *seen = h ? term_input(t, term, x, s->M * s->K) : NULL;
    if (seen) {
        const qkv__product_sizes down = {.M = s->M, .K = s->K, .N = term->r};
        const qkv__product_sizes up = {.M = s->M, .K = term->r, .N = term->rows};
        term_product(t, h, term->r, false, seen, in[0], &down, recording);
        t->k->axpy(&t->exec, h, h, term->scale, false, count);
        term_product(t, y + term->from, s->N, true, h, in[1], &up, recording);
    }
    term->h = h;
    qkv__arena_release(t->exec.scratch, mark);
}

void qkv__terms_add(qkv_tape *t, qkv__terms *out, const qkv_tensor *w, qkv_tensor *const *in,
                    qkv_real *y, const qkv_real *x, const qkv__product_sizes *s, bool recording)
{
    *out = (qkv__terms){0};
    const qkv__low_rank *l = terms_of(w);
    if (!l || t->status)
        return;
    if (recording)
        out->list = qkv__step_alloc(t, QKV__TERMS * sizeof *out->list);
    for (; l && !t->status; l = counting_term(l->next), in += 2) {
        struct qkv__term term = {.from = l->from, .rows = l->b->shape[0], .r = l->a->shape[0],
                                 .scale = l->scale};
        if (t->train && l->dropout > 0)
            term.dropout = (qkv_k_dropout_args){
                l->dropout, t->random.seed, t->random.step,
                qkv__first_row(t, s->M, s->leading) * s->K, l->dropout_id};
        add_term(t, &term, in, y, x, s, recording);
        if (recording && !t->status)
            out->list[out->count++] = term;
    }
}

/* dx += what comes back through A, dropped as x was. */
static void term_input_gradient(qkv_tape *t, const struct qkv__term *term, const qkv_tensor *a,
                                qkv_real *dx, const qkv_real *dh, const qkv__product_sizes *s)
{
    bool drops = term->dropout.p > 0;
    qkv_real *to = drops ? qkv__scratch(t, s->M * s->K) : dx;
    if (!to)
        return;
    t->k->gemm(&t->exec, to, dh, qkv__real(a),
               &(qkv_k_gemm_args){false, false, !drops, s->M, s->K, term->r, term->r, s->K, s->K,
                                  NULL, qkv__version_of(a)});
    if (drops)
        t->k->dropout(&t->exec, dx, to, NULL, true, &term->dropout, s->M * s->K);
}

static void term_backward(qkv_tape *t, const struct qkv__term *term, qkv_tensor *const *in,
                          qkv_real *dx, const qkv_real *x, const qkv_real *dy,
                          const qkv__product_sizes *s)
{
    size_t r = term->r, rows = term->rows;
    bool acc;
    const qkv_real *dz = dy + term->from;
    qkv_real *dh = qkv__scratch(t, s->M * r);
    const bool reads = qkv__wants(t, in[0]); /* x is there for A's gradient alone */
    const qkv_real *seen = dh && reads ? term_input(t, term, x, s->M * s->K) : NULL;
    if (!dh || (reads && !seen))
        return;
    t->k->gemm(&t->exec, dh, dz, qkv__real(in[1]),
               &(qkv_k_gemm_args){false, false, false, s->M, r, rows, s->N, r, r, NULL,
                                  qkv__version_of(in[1])});
    t->k->axpy(&t->exec, dh, dh, term->scale, false, s->M * r);
    qkv_real *db = qkv__grad(t, in[1], &acc);
    if (db)
        t->k->gemm(&t->exec, db, dz, term->h,
                   &(qkv_k_gemm_args){true, false, acc, rows, r, s->M, s->N, r, r, NULL, 0});
    qkv_real *da = qkv__grad(t, in[0], &acc);
    if (da)
        t->k->gemm(&t->exec, da, dh, seen,
                   &(qkv_k_gemm_args){true, false, acc, r, s->K, s->M, r, s->K, s->K, NULL, 0});
    if (dx)
        term_input_gradient(t, term, in[0], dx, dh, s);
}

void qkv__terms_backward(qkv_tape *t, const qkv__terms *terms, qkv_tensor *const *in, qkv_real *dx,
                         const qkv_real *x, const qkv_real *dy, const qkv__product_sizes *s)
{
    for (size_t i = 0; i < terms->count; i++) {
        qkv__mark mark = qkv__arena_mark(t->exec.scratch);
        term_backward(t, &terms->list[i], in + 2 * i, dx, x, dy, s);
        qkv__arena_release(t->exec.scratch, mark);
    }
}
