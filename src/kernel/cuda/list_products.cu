/* list_products.cu - products and what stands beside them: a norm that a product reads, and what is
 * done to its result at once, become part of it. */
#include "kernel/cuda/list_host.cuh"

enum { JOINED_ROWS = 8 };

/* ---- products -------------------------------------------------------------------------------- */

/* What gemv and small have in common. */
struct product {
    float *y;
    const float *x, *bias;
    size_t m, n, k, ldy, ldx;
    const void *weights;
    size_t weight_bytes;
    const void *scales;
    size_t scale_bytes;
    size_t held_room; /* shared memory that it wants for itself */
    size_t units;     /* that warps or blocks share out */
};

/* Whether the norm that is the last item can be done by the blocks of this product. */
static bool joins_norm(const list_item *last, const product &p, const list_access *accesses, int n,
                       size_t bytes)
{
    if (!last || last->kind != LIST_NORM || last->flags & LIST_JOINED)
        return false;
    const norm_job &a = ((const list_norm_item *)last)->a;
    const list_access in[] = {reads(a.x, a.N * a.C), reads(a.residual, a.residual ? a.N * a.C : 0)};
    const list_access out[] = {writes(a.y, a.N * a.C), writes(a.sum, a.sum ? a.N * a.C : 0)};
    for (const list_access &o : out)
        for (const list_access &i : in)
            if ((const char *)o.p < (const char *)i.p + i.bytes &&
                (const char *)i.p < (const char *)o.p + o.bytes)
                return false;
    return p.x == a.y && p.ldx == a.C && p.m == a.N && p.k == a.C && p.m <= JOINED_ROWS &&
           a.N * a.C * sizeof(float) <= LIST_HELD && p.held_room <= LIST_ROOM - LIST_HELD &&
           list_has_room(bytes) && list_agrees(accesses, n);
}

static list_item *add_product(list_kind kind, size_t bytes, const product &p)
{
    list_state *l = list_now();
    const list_access accesses[] = {writes(p.y, span(p.m, p.ldy, p.n)),
                                    list_reads(p.weights, p.weight_bytes),
                                    list_reads(p.scales, p.scale_bytes),
                                    reads(p.bias, p.bias ? p.n : 0),
                                    reads(p.x, span(p.m, p.ldx, p.k))};
    const int n = sizeof accesses / sizeof *accesses;
    list_item *norm = list_last(l);
    const bool joined = joins_norm(norm, p, accesses, n - 1, bytes); /* all but x */
    if (joined)
        norm->flags |= LIST_JOINED;
    list_item *item = list_add_item(kind, bytes, accesses, joined ? n - 1 : n);
    list_item *before = list_at(l, l->product);
    if (before != item)
        before->product = l->last;
    l->product = l->last;
    l->live = true;
    if (list_is_late(accesses[1]) || list_is_late(accesses[3]))
        item->flags |= LIST_LATE;
    item->weights = (const char *)p.weights;
    item->weight_bytes = p.weight_bytes;
    item->shift = l->shift;
    l->shift += (unsigned)p.units;
    return item;
}

static stream_plan plan_of(size_t units, size_t unit_bytes)
{
    const unsigned warps = LIST_THREADS / WARP;
    const unsigned steps = (unsigned)((unit_bytes + STREAM_STEP - 1) / STREAM_STEP);
    const unsigned each = (unsigned)((units + STREAM_BLOCKS - 1) / STREAM_BLOCKS);
    stream_plan p = {(unsigned)units, (unsigned)unit_bytes, 0, 0};
    while (2u << p.parts <= steps && (2u << p.parts) * each <= warps)
        p.parts++;
    p.part_bytes = (steps + (1u << p.parts) - 1) / (1u << p.parts) * STREAM_STEP;
    return p;
}

bool list_gemv(const gemv_args &a)
{
    if (a.m > LIST_ROWS_MOST || a.k == 0 || !list_lock(true))
        return false;
    const size_t rows = a.m <= 2 ? 1 : 2, chunk = a.m <= 4 ? 4 : 8;
    const product p = {a.y, a.x, a.bias, a.m, a.n, a.k, a.ldy, a.ldx, a.w,
                       a.n * a.k * sizeof(float), NULL, 0, 0,
                       (a.n + rows - 1) / rows * ((a.m + chunk - 1) / chunk)};
    list_gemv_item *item = (list_gemv_item *)add_product(LIST_GEMV, sizeof *item, p);
    item->plan = plan_of(a.n, a.k * sizeof(float));
    item->a = a;
    item->tail = {};
    list_done();
    return true;
}

bool list_small(const small_product &t)
{
    const small_matrix &w = t.w;
    const size_t groups = (w.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    const size_t rows = (t.m + ROWS - 1) / ROWS * ROWS, warps = LIST_THREADS / WARP;
    size_t room = warps * ROWS * QKV_K_PACKED * sizeof(float), scales = 0;
    if (w.type != QKV_K_BF16)
        room += rows * w.blocks * (small_block(w.type) + sizeof(float)) + LIST_ALIGN;
    if (w.type == QKV_K_INT8)
        scales = w.n * sizeof(float);
    else if (w.type == QKV_K_INT4)
        scales = groups * w.blocks * QKV_K_PACKED * sizeof(uint16_t);
    if (t.m > LIST_ROWS_MOST || w.lines == 0 || room > LIST_ROOM || !list_lock(true))
        return false;
    const size_t chunks = t.m <= 4 ? 1 : (t.m + ROWS - 1) / ROWS;
    const product p = {t.y, t.x, t.bias, t.m, w.n, w.k, t.ldy, t.ldx, w.words,
                       groups * w.lines * QKV_K_PACKED * sizeof(uint32_t), w.scales, scales, room,
                       groups * chunks};
    list_small_item *item = (list_small_item *)add_product(LIST_SMALL, sizeof *item, p);
    item->plan = plan_of(groups, w.lines * QKV_K_PACKED * sizeof(uint32_t));
    item->t = t;
    item->tail = {};
    list_done();
    return true;
}

bool list_product_of(list_item *i, list_made *p)
{
    if (i && i->kind == LIST_GEMV) {
        list_gemv_item *g = (list_gemv_item *)i;
        *p = {g->a.y, g->a.m, g->a.n, g->a.ldy, &g->tail};
    } else if (i && i->kind == LIST_SMALL) {
        list_small_item *s = (list_small_item *)i;
        *p = {s->t.y, s->t.m, s->t.w.n, s->t.ldy, &s->tail};
    } else {
        return false;
    }
    return true;
}

/* ---- norms ----------------------------------------------------------------------------------- */

bool list_norm(const norm_job &a)
{
    const size_t n = a.N * a.C, most = 4 * (size_t)LIST_THREADS * BLOCK_QUADS;
    const bool fours = a.C % 4 == 0 && quads_fit(a.y) && quads_fit(a.sum) && quads_fit(a.x) &&
                       quads_fit(a.residual) && quads_fit(a.weight) && quads_fit(a.bias);
    if (n == 0 || n > LIST_ELEMENTS_MOST || a.C > most || !fours ||
        !list_lock(false))
        return false;
    const list_access accesses[] = {
        writes(a.y, n), writes(a.sum, a.sum ? n : 0), writes(a.mean, a.mean ? a.N : 0),
        writes(a.rstd, a.rstd ? a.N : 0), reads(a.x, n), reads(a.residual, a.residual ? n : 0),
        reads(a.weight, a.weight ? a.C : 0), reads(a.bias, a.bias ? a.C : 0)};
    list_add_plain<list_norm_item>(LIST_NORM, accesses, sizeof accesses / sizeof *accesses)->a = a;
    list_done();
    return true;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* y = act(x) in place of the last product's result. */
static bool joins_act(float *y, const float *x, qkv_k_act act, size_t n)
{
    list_made p;
    if (y != x || !list_product_of(list_last(list_now()), &p) || p.y != x || p.ldy != p.n ||
        n != p.m * p.n || p.tail->act != QKV_K_NONE || p.tail->sum)
        return false;
    p.tail->act = act;
    return true;
}

bool list_act(float *y, const float *x, qkv_k_act act, size_t n)
{
    if (n == 0 || n > LIST_ELEMENTS_MOST || !list_lock(false))
        return false;
    if (!joins_act(y, x, act, n)) {
        const list_access accesses[] = {writes(y, n), reads(x, n)};
        list_act_item *item = list_add_plain<list_act_item>(LIST_ACT, accesses, 2);
        item->a = {y, x, act};
        item->n = n;
    }
    list_done();
    return true;
}

bool list_gated(const gated_args<float> &a, qkv_k_act act, size_t N)
{
    const size_t n = N * a.C;
    if (n == 0 || n > LIST_ELEMENTS_MOST || !list_lock(false))
        return false;
    const list_access accesses[] = {writes(a.y, n), reads(a.gate, span(N, a.ldg, a.C)),
                                    reads(a.up, span(N, a.ldu, a.C))};
    list_gated_item *item = list_add_plain<list_gated_item>(LIST_GATED, accesses, 3);
    item->a = a;
    item->act = act;
    item->N = N;
    list_done();
    return true;
}

template <typename Body>
static bool list_body(list_kind kind, const Body &body, size_t n, bool fours,
                      const list_access *accesses, int count)
{
    list_elements<Body> *item = list_add_plain<list_elements<Body>>(kind, accesses, count);
    item->body = body;
    item->n = n;
    item->fours = fours;
    list_done();
    return true;
}

/* y = a + b, one of which is the last product's result. */
static bool joins_add(const add_body &a, size_t n)
{
    list_made p;
    if (!list_product_of(list_last(list_now()), &p) || p.ldy != p.n || n != p.m * p.n ||
        p.tail->sum || (a.a == p.y) == (a.b == p.y))
        return false;
    const float *added = a.a == p.y ? a.b : a.a;
    const list_access accesses[] = {reads(added, n), writes(a.y, n)};
    const int count = a.y == p.y ? 1 : 2; /* in place of the product's result: it writes there */
    if (!list_agrees(accesses, count) || !list_remember(accesses, count))
        return false;
    p.tail->added = added;
    p.tail->sum = a.y;
    return true;
}

bool list_add(const add_body &a, size_t n)
{
    if (n == 0 || n > LIST_ELEMENTS_MOST || !list_lock(false))
        return false;
    const list_access accesses[] = {writes(a.y, n), reads(a.a, n), reads(a.b, n)};
    if (!joins_add(a, n))
        return list_body(LIST_ADD, a, n, aligned16(a.y, a.a, a.b), accesses, 3);
    list_done();
    return true;
}

bool list_axpy(const axpy_body &a, size_t n)
{
    if (n == 0 || n > LIST_ELEMENTS_MOST || !list_lock(false))
        return false;
    const list_access accesses[] = {writes(a.y, n), reads(a.x, n)};
    return list_body(LIST_AXPY, a, n, aligned16(a.y, a.x), accesses, 2);
}

bool list_mul(const mul_body &a, size_t n)
{
    if (n == 0 || n > LIST_ELEMENTS_MOST || !list_lock(false))
        return false;
    const list_access accesses[] = {writes(a.y, n), reads(a.a, n), reads(a.b, n)};
    return list_body(LIST_MUL, a, n, aligned16(a.y, a.a, a.b), accesses, 3);
}
