/* conv_dnnl.c - convolution from oneDNN, 2.x and 3.x alike: in f32, or of images in bf16, where
 * the sums, what comes out and our weights stay f32.
 *
 * Images stay channels last; weights go into the library's own format and back at every call,
 * which costs as much as a pixel or two. What the library plans for a shape is kept, with its
 * memory objects, in a cache of fixed size; a plan serves one thread at a time. What the library
 * refuses is left to the reference. */
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <string.h>

#include "kernel/kernel.h"

enum { PLANS = 64, DIMS = 4 };
enum { SRC, WEIGHTS, BIAS, DST, SCRATCH, OPERANDS };
typedef enum { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS } kind; /* what a plan does */

typedef struct {
    bool used, busy;
    kind what;
    int threads;
    bool bf16, has_bias;
    qkv_k_conv_args args; /* the key, with the four before it */
    uint64_t last;        /* when it was asked for */
    dnnl_primitive_t work, pack; /* pack: between our weights and the library's */
    dnnl_memory_t mem[OPERANDS], plain; /* plain: our weights */
    dnnl_stream_t stream;
    size_t weights_bytes, scratch_bytes;
} plan;

static struct {
    pthread_mutex_t lock;
    dnnl_engine_t engine;
    uint64_t now;
    plan plans[PLANS];
    /* Of every table alike. */
    qkv_k_conv_fn *conv;
    qkv_k_conv_bwd_data_fn *conv_bwd_data;
    qkv_k_conv_bwd_weights_fn *conv_bwd_weights;
    qkv_k_round_fn *round; /* set before anything asks for bf16 */
} conv_cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what differs between the library's versions ------------------------------------------ */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;

static bool make_desc(desc *d, int ndims, const dnnl_dim_t *dims, bool bf16, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(d, ndims, dims, bf16 ? dnnl_bf16 : dnnl_f32, tag) ==
           dnnl_success;
}

static void free_desc(desc *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
    *d = NULL;
}

static const_dnnl_memory_desc_t ref(const desc *d) { return *d; }
static size_t conv_dnnl_bytes_of(const_dnnl_memory_desc_t d)
{
    return dnnl_memory_desc_get_size(d);
}

static bool conv_dnnl_describe(dnnl_primitive_desc_t *pd, kind what, const desc *m, bool has_bias,
                               const dnnl_dim_t *stride, const dnnl_dim_t *before,
                               const dnnl_dim_t *after, const_dnnl_primitive_attr_t attr,
                               const_dnnl_primitive_desc_t hint)
{
    const dnnl_dims_t dense = {0};
    dnnl_engine_t e = conv_cache.engine;
    if (what == FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(
                   pd, e, dnnl_forward_training, dnnl_convolution_direct, m[SRC], m[WEIGHTS],
                   has_bias ? m[BIAS] : NULL, m[DST], stride, dense, before, after, attr) ==
               dnnl_success;
    if (what == BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
                   pd, e, dnnl_convolution_direct, m[SRC], m[WEIGHTS], m[DST], stride, dense,
                   before, after, hint, attr) == dnnl_success;
    return dnnl_convolution_backward_weights_primitive_desc_create(
               pd, e, dnnl_convolution_direct, m[SRC], m[WEIGHTS], NULL, m[DST], stride, dense,
               before, after, hint, attr) == dnnl_success;
}
#else
typedef dnnl_memory_desc_t desc;
typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

static bool make_desc(desc *d, int ndims, const dnnl_dim_t *dims, bool bf16, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(d, ndims, dims, bf16 ? dnnl_bf16 : dnnl_f32, tag) ==
           dnnl_success;
}

static void free_desc(desc *d) { (void)d; }
static const_dnnl_memory_desc_t ref(const desc *d) { return d; }
static size_t conv_dnnl_bytes_of(const_dnnl_memory_desc_t d)
{
    return dnnl_memory_desc_get_size(d);
}

static bool is_for_amx(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name) ==
               dnnl_success &&
           name && strstr(name, "amx");
}

static bool conv_dnnl_describe(dnnl_primitive_desc_t *pd, kind what, const desc *m, bool has_bias,
                               const dnnl_dim_t *stride, const dnnl_dim_t *before,
                               const dnnl_dim_t *after,
                               const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t status =
        what == FORWARD ? dnnl_convolution_forward_desc_init(
                              &d, dnnl_forward_training, dnnl_convolution_direct, &m[SRC],
                              &m[WEIGHTS], has_bias ? &m[BIAS] : NULL, &m[DST], stride, before,
                              after)
        : what == BACKWARD_DATA
            ? dnnl_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &m[SRC],
                                                       &m[WEIGHTS], &m[DST], stride, before, after)
            : dnnl_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, &m[SRC],
                                                          &m[WEIGHTS], NULL, &m[DST], stride,
                                                          before, after);
    dnnl_primitive_desc_iterator_t it = NULL;
    if (status || dnnl_primitive_desc_iterator_create(&it, &d, attr, conv_cache.engine, hint))
        return false;
    do { /* the best first; the forward one for AMX (2.6) with a stride crashes at a window that
          * lies in the padding alone, and now and then errs at others */
        *pd = dnnl_primitive_desc_iterator_fetch(it);
        if (*pd && (what != FORWARD || stride[0] == 1 || !is_for_amx(*pd)))
            break;
        if (*pd)
            dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
    } while (dnnl_primitive_desc_iterator_next(it) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    return *pd != NULL;
}
#endif

/* ---- plans -------------------------------------------------------------------------------- */

static void free_plan(plan *p)
{
    if (p->work)
        dnnl_primitive_destroy(p->work);
    if (p->pack)
        dnnl_primitive_destroy(p->pack);
    for (int i = 0; i < OPERANDS; i++)
        if (p->mem[i])
            dnnl_memory_destroy(p->mem[i]);
    if (p->plain)
        dnnl_memory_destroy(p->plain);
    if (p->stream)
        dnnl_stream_destroy(p->stream);
    *p = (plan){.used = false};
}

static bool make_memory(dnnl_memory_t *m, const_dnnl_memory_desc_t d)
{
    return dnnl_memory_create(m, d, conv_cache.engine, DNNL_MEMORY_NONE) == dnnl_success;
}

/* The library's weights and scratch, as it chose them. */
static bool make_memories(plan *p, const_dnnl_primitive_desc_t pd, const desc *m)
{
    bool back = p->what == BACKWARD_WEIGHTS;
    const_dnnl_memory_desc_t weights = dnnl_primitive_desc_query_md(
        pd, back ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    const_dnnl_memory_desc_t scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md,
                                                                    0);
    if (!weights || !scratch)
        return false;
    p->weights_bytes = conv_dnnl_bytes_of(weights);
    p->scratch_bytes = conv_dnnl_bytes_of(scratch);
    return make_memory(&p->mem[WEIGHTS], weights) && make_memory(&p->mem[SCRATCH], scratch) &&
           make_memory(&p->mem[SRC], ref(&m[SRC])) && make_memory(&p->mem[DST], ref(&m[DST])) &&
           (!p->has_bias || make_memory(&p->mem[BIAS], ref(&m[BIAS])));
}

/* Our weights (N, KH, KW, C) to the library's; the other way for their gradient. */
static bool make_pack(plan *p, const_dnnl_primitive_desc_t pd, const desc *ours)
{
    bool back = p->what == BACKWARD_WEIGHTS;
    const_dnnl_memory_desc_t theirs = dnnl_primitive_desc_query_md(
        pd, back ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    dnnl_engine_t e = conv_cache.engine;
    dnnl_primitive_desc_t rd = NULL;
    bool fine = dnnl_reorder_primitive_desc_create(&rd, back ? theirs : ref(ours), e,
                                                   back ? ref(ours) : theirs, e, NULL) ==
                    dnnl_success &&
                dnnl_primitive_create(&p->pack, rd) == dnnl_success;
    if (rd)
        dnnl_primitive_desc_destroy(rd);
    return fine && make_memory(&p->plain, ref(ours));
}

/* The images x and y, with the library's own weights between them, and a bias. */
static bool make_descs(desc *m, const dnnl_dim_t *x, const dnnl_dim_t *w, const dnnl_dim_t *y,
                       bool x_bf16, bool w_bf16, bool y_bf16)
{
    return make_desc(&m[SRC], DIMS, x, x_bf16, dnnl_nhwc) &&
           make_desc(&m[DST], DIMS, y, y_bf16, dnnl_nhwc) &&
           make_desc(&m[WEIGHTS], DIMS, w, w_bf16, dnnl_format_tag_any) &&
           make_desc(&m[BIAS], 1, w, false, dnnl_a);
}

static void free_descs(desc *m)
{
    for (int i = 0; i < OPERANDS; i++)
        free_desc(&m[i]);
}

static bool conv_dnnl_build(plan *p)
{
    const qkv_k_conv_args *a = &p->args;
    const dnnl_dims_t x = {(dnnl_dim_t)a->B, (dnnl_dim_t)a->C, (dnnl_dim_t)a->H,
                            (dnnl_dim_t)a->W};
    const dnnl_dims_t w = {(dnnl_dim_t)a->N, (dnnl_dim_t)a->C, (dnnl_dim_t)a->KH,
                            (dnnl_dim_t)a->KW};
    const dnnl_dims_t y = {(dnnl_dim_t)a->B, (dnnl_dim_t)a->N, (dnnl_dim_t)a->OH,
                            (dnnl_dim_t)a->OW};
    const dnnl_dims_t stride = {(dnnl_dim_t)a->stride, (dnnl_dim_t)a->stride};
    const dnnl_dims_t before = {(dnnl_dim_t)a->top, (dnnl_dim_t)a->left};
    /* What the windows need behind the image; negative: its last rows are in none. */
    const dnnl_dims_t after = {(y[2] - 1) * stride[0] + w[2] - x[2] - before[0],
                                (y[3] - 1) * stride[1] + w[3] - x[3] - before[1]};
    const bool forward = p->what == FORWARD, weights = p->what == BACKWARD_WEIGHTS;
    desc m[OPERANDS] = {0}, plain[OPERANDS] = {0}, ours = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    bool fine = dnnl_stream_create(&p->stream, conv_cache.engine, dnnl_stream_default_flags) ==
                    dnnl_success &&
                dnnl_primitive_attr_create(&attr) == dnnl_success &&
                dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
                    dnnl_success &&
                make_descs(m, x, w, y, p->bf16 && (forward || weights), p->bf16 && !weights,
                           p->bf16 && !forward) &&
                make_desc(&ours, DIMS, w, false, dnnl_ohwi) &&
                (forward || (make_descs(plain, x, w, y, p->bf16, p->bf16, p->bf16) &&
                             conv_dnnl_describe(&hint, FORWARD, plain, false, stride, before, after,
                                                attr, NULL))) &&
                conv_dnnl_describe(&pd, p->what, m, p->has_bias, stride, before, after, attr,
                                   hint) &&
                dnnl_primitive_create(&p->work, pd) == dnnl_success && make_memories(p, pd, m) &&
                make_pack(p, pd, &ours);
    free_descs(m);
    free_descs(plain);
    free_desc(&ours);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return fine;
}

/* What p must be made for. */
static bool is_for(const plan *p, const plan *key)
{
    return p->used && p->what == key->what && p->threads == key->threads &&
           p->bf16 == key->bf16 && p->has_bias == key->has_bias &&
           memcmp(&p->args, &key->args, sizeof key->args) == 0;
}

/* A plan that nobody else has until it is put back, or NULL. */
static plan *conv_dnnl_take(const plan *key)
{
    plan *p = NULL, *oldest = NULL;
    pthread_mutex_lock(&conv_cache.lock);
    if (!conv_cache.engine &&
        dnnl_engine_create(&conv_cache.engine, dnnl_cpu, 0) != dnnl_success)
        conv_cache.engine = NULL;
    for (int i = 0; i < PLANS && conv_cache.engine && !p; i++) {
        plan *q = &conv_cache.plans[i];
        if (!q->busy && is_for(q, key))
            p = q;
        else if (!q->busy && (!oldest || q->last < oldest->last))
            oldest = q;
    }
    if (!p && oldest) {
        free_plan(oldest);
        *oldest = *key;
        oldest->used = conv_dnnl_build(oldest);
        p = oldest->used ? oldest : NULL;
        if (!p)
            free_plan(oldest);
    }
    if (p) {
        p->busy = true;
        p->last = ++conv_cache.now;
    }
    pthread_mutex_unlock(&conv_cache.lock);
    return p;
}

static void put_back(plan *p)
{
    pthread_mutex_lock(&conv_cache.lock);
    p->busy = false;
    pthread_mutex_unlock(&conv_cache.lock);
}

/* ---- work --------------------------------------------------------------------------------- */

static bool bind(dnnl_memory_t m, const void *data)
{
    return dnnl_memory_set_data_handle(m, (void *)(uintptr_t)data) == dnnl_success;
}

static bool conv_dnnl_run(dnnl_primitive_t work, const plan *p, int n, const dnnl_exec_arg_t *args)
{
    return dnnl_primitive_execute(work, p->stream, n, args) == dnnl_success;
}

/* The library's weights from ours, or ours from the library's. */
static bool move_weights(plan *p)
{
    bool back = p->what == BACKWARD_WEIGHTS;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, back ? p->mem[WEIGHTS] : p->plain},
                                    {DNNL_ARG_TO, back ? p->plain : p->mem[WEIGHTS]}};
    return conv_dnnl_run(p->pack, p, 2, args);
}

static bool compute(plan *p)
{
    const dnnl_exec_arg_t forward[] = {{DNNL_ARG_SRC, p->mem[SRC]},
                                       {DNNL_ARG_WEIGHTS, p->mem[WEIGHTS]},
                                       {DNNL_ARG_DST, p->mem[DST]},
                                       {DNNL_ARG_SCRATCHPAD, p->mem[SCRATCH]},
                                       {DNNL_ARG_BIAS, p->mem[BIAS]}};
    const dnnl_exec_arg_t data[] = {{DNNL_ARG_DIFF_SRC, p->mem[SRC]},
                                    {DNNL_ARG_WEIGHTS, p->mem[WEIGHTS]},
                                    {DNNL_ARG_DIFF_DST, p->mem[DST]},
                                    {DNNL_ARG_SCRATCHPAD, p->mem[SCRATCH]}};
    const dnnl_exec_arg_t weights[] = {{DNNL_ARG_SRC, p->mem[SRC]},
                                       {DNNL_ARG_DIFF_WEIGHTS, p->mem[WEIGHTS]},
                                       {DNNL_ARG_DIFF_DST, p->mem[DST]},
                                       {DNNL_ARG_SCRATCHPAD, p->mem[SCRATCH]}};
    if (p->what == FORWARD)
        return move_weights(p) && conv_dnnl_run(p->work, p, p->has_bias ? 5 : 4, forward);
    if (p->what == BACKWARD_DATA)
        return move_weights(p) && conv_dnnl_run(p->work, p, 4, data);
    return conv_dnnl_run(p->work, p, 4, weights) && move_weights(p);
}

/* y from x, w and bias, x from y and w, or w from x and y. bf16: those of x and y that are read
 * hold bf16; all else is f32. False when the library does not do it: what is written means nothing
 * then. */
static bool run_plan(const qkv_exec *e, kind what, bool bf16, const void *x,
                     const void *w, const void *bias, const void *y, const qkv_k_conv_args *a)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(e->threads); /* plans are cut for it */
    plan *p = conv_dnnl_take(&(plan){.what = what, .threads = e->threads, .bf16 = bf16,
                                     .has_bias = bias != NULL, .args = *a});
    if (!p) {
        omp_set_num_threads(before);
        return false;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    void *weights = qkv__arena_alloc(e->scratch, p->weights_bytes);
    void *scratch = qkv__arena_alloc(e->scratch, p->scratch_bytes ? p->scratch_bytes : 1);
    bool fine = weights && scratch && bind(p->mem[SRC], x) && bind(p->mem[DST], y) &&
                bind(p->mem[WEIGHTS], weights) && bind(p->mem[SCRATCH], scratch) &&
                bind(p->plain, w) && (!bias || bind(p->mem[BIAS], bias)) && compute(p) &&
                dnnl_stream_wait(p->stream) == dnnl_success;
    omp_set_num_threads(before);
    qkv__arena_release(e->scratch, mark);
    put_back(p);
    return fine;
}

typedef struct {
    size_t x, w, y;
} sizes;

static sizes sizes_of(const qkv_k_conv_args *a)
{
    return (sizes){a->B * a->H * a->W * a->C, a->N * a->KH * a->KW * a->C,
                   a->B * a->OH * a->OW * a->N};
}

/* The library's bf16 kernels want their channels in vectors; of windows larger than the image
 * (2.6, 3 threads, the weights' gradient) they make nonsense. */
static bool suits_bf16(const qkv_k_conv_args *a)
{
    enum { LANES = 16 };
    return a->C % LANES == 0 && a->N % LANES == 0 && a->H >= a->KH && a->W >= a->KW;
}

/* n numbers of x, rounded; NULL: the scratch knows. */
static const void *conv_dnnl_rounded(const qkv_exec *e, const float *x, size_t n)
{
    uint16_t *y = qkv__arena_alloc(e->scratch, n * sizeof *y);
    if (y)
        conv_cache.round(e, y, x, n);
    return y;
}

/* As run_plan, x and y being f32: rounded first where they are read, if bf16. */
static bool conv_dnnl_work(const qkv_exec *e, kind what, bool bf16, const float *x,
                           const float *w, const float *bias, const float *y,
                           const qkv_k_conv_args *a)
{
    const sizes n = sizes_of(a);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    bf16 = bf16 && suits_bf16(a);
    const void *from = bf16 && what != BACKWARD_DATA ? conv_dnnl_rounded(e, x, n.x) : x;
    const void *to = bf16 && what != FORWARD ? conv_dnnl_rounded(e, y, n.y) : y;
    bool fine = from && to && run_plan(e, what, bf16, from, w, bias, to, a);
    qkv__arena_release(e->scratch, mark);
    return fine || (bf16 && run_plan(e, what, false, x, w, bias, y, a));
}

static void conv_dnnl_add(const qkv_exec *e, float *y, const float *x, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, n)
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void forward(const qkv_exec *e, bool bf16, float *y, const float *x, const float *w,
                    const float *bias, const qkv_k_conv_args *a)
{
    if (!conv_dnnl_work(e, FORWARD, bf16, x, w, bias, y, a))
        conv_cache.conv(e, y, x, w, bias, a);
}

static void backward_data(const qkv_exec *e, bool bf16, float *dx, const float *dy, const float *w,
                          const qkv_k_conv_args *a, bool acc)
{
    size_t n = sizes_of(a).x;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *to = acc ? qkv__arena_alloc(e->scratch, n * sizeof *to) : dx;
    if (!to)
        return; /* the scratch knows */
    if (!conv_dnnl_work(e, BACKWARD_DATA, bf16, to, w, NULL, dy, a))
        conv_cache.conv_bwd_data(e, dx, dy, w, a, acc);
    else if (acc)
        conv_dnnl_add(e, dx, to, n);
    qkv__arena_release(e->scratch, mark);
}

static void backward_weights(const qkv_exec *e, bool bf16, float *dw, const float *dy,
                             const float *x, const qkv_k_conv_args *a, bool acc)
{
    size_t n = sizes_of(a).w;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *to = acc ? qkv__arena_alloc(e->scratch, n * sizeof *to) : dw;
    if (!to)
        return;
    if (!conv_dnnl_work(e, BACKWARD_WEIGHTS, bf16, x, to, NULL, dy, a))
        conv_cache.conv_bwd_weights(e, dw, dy, x, a, acc);
    else if (acc)
        conv_dnnl_add(e, dw, to, n);
    qkv__arena_release(e->scratch, mark);
}

/* The table's functions: in f32, and of images that are rounded to bf16 first. */
#define CONVOLUTIONS(suffix, bf16)                                                               \
    static void conv_##suffix(const qkv_exec *e, float *y, const float *x, const float *w,       \
                              const float *bias, const qkv_k_conv_args *a)                       \
    {                                                                                            \
        forward(e, bf16, y, x, w, bias, a);                                                      \
    }                                                                                            \
    static void conv_bwd_data_##suffix(const qkv_exec *e, float *dx, const float *dy,            \
                                       const float *w, const qkv_k_conv_args *a, bool acc)       \
    {                                                                                            \
        backward_data(e, bf16, dx, dy, w, a, acc);                                               \
    }                                                                                            \
    static void conv_bwd_weights_##suffix(const qkv_exec *e, float *dw, const float *dy,         \
                                          const float *x, const qkv_k_conv_args *a, bool acc)    \
    {                                                                                            \
        backward_weights(e, bf16, dw, dy, x, a, acc);                                            \
    }
CONVOLUTIONS(f32, false)
CONVOLUTIONS(bf16, true)

void qkv__kernels_dnnl_conv(qkv_kernels *k, qkv_k_round_fn *round)
{
    if (!round) { /* the first time: what serves is the reference */
        conv_cache.conv = k->conv;
        conv_cache.conv_bwd_data = k->conv_bwd_data;
        conv_cache.conv_bwd_weights = k->conv_bwd_weights;
    }
    conv_cache.round = round ? round : conv_cache.round;
    k->conv = round ? conv_bf16 : conv_f32;
    k->conv_bwd_data = round ? conv_bwd_data_bf16 : conv_bwd_data_f32;
    k->conv_bwd_weights = round ? conv_bwd_weights_bf16 : conv_bwd_weights_f32;
}
