/* products.c - which kind of products training uses here: the fastest of those that the context
 * allows, found by timing them. A processor's list of instructions does not tell: on some
 * processors bf16 products run at half the rate of f32. */
#include "base/device.h"
#include "kernel/kernel.h"
#include "qkv/machine.h"

/* Sizes of the products timed, and how often each kind is timed: the best counts. */
enum { ROWS = 256, IN = 768, OUT = 768, TRIES = 3 };
static const double operations = 2.0 * 2 * ROWS * IN * OUT;

/* Of one thread: a layer's output, and its weights' gradient. */
static double time_layer(const qkv_kernels *k, qkv_exec *e, qkv_real *x, qkv_real *w, qkv_real *y)
{
    double start = qkv__thread_seconds();
    k->gemm(e, y, x, w, &(qkv_k_gemm_args){.tb = true, .m = ROWS, .n = OUT, .k = IN, .lda = IN,
                                           .ldb = IN, .ldc = OUT});
    k->gemm(e, w, y, x, &(qkv_k_gemm_args){.ta = true, .m = OUT, .n = IN, .k = ROWS, .lda = OUT,
                                           .ldb = IN, .ldc = IN});
    return qkv__thread_seconds() - start;
}

/* Least seconds of each kind among `kinds` (bits); other places stay. The clock is one thread's
 * processor time, because other programs on the machine would otherwise choose. */
static qkv_status time_kinds(qkv_context *ctx, unsigned kinds, double best[QKV__PRODUCTS_COUNT])
{
    const size_t x = ROWS * IN, w = OUT * IN, y = ROWS * OUT;
    qkv_exec e = qkv__exec_of(ctx, NULL);
    e.threads = 1;
    qkv_status status = qkv__arena_create(&e.scratch, ctx, "scratch");
    qkv_real *data = status ? NULL : qkv_malloc(ctx, (x + w + y) * sizeof *data);
    for (unsigned i = 0; data && i < QKV__PRODUCTS_COUNT * TRIES; i++) {
        unsigned kind = i % QKV__PRODUCTS_COUNT;
        if (!(kinds >> kind & 1))
            continue;
        for (size_t j = 0; j < x + w; j++)
            data[j] = (qkv_real)(j % 17) / 16;
        const qkv_kernels *k = qkv__kernels(qkv_context_isa(ctx) |
                                            qkv__products_isa((qkv__products)kind));
        double seconds = time_layer(k, &e, data, data + x, data + x + w);
        best[kind] = i < QKV__PRODUCTS_COUNT || seconds < best[kind] ? seconds : best[kind];
        qkv__arena_reset(e.scratch);
    }
    qkv_free(ctx, data);
    qkv__arena_destroy(e.scratch);
    return data ? QKV_OK : QKV_E_MEMORY;
}

/* Of `kinds` (bits), one at least. */
static qkv__products choose(unsigned kinds, const double seconds[QKV__PRODUCTS_COUNT])
{
    unsigned best = 0;
    while (!(kinds >> best & 1))
        best++;
    for (unsigned i = best + 1; i < QKV__PRODUCTS_COUNT; i++)
        if (kinds >> i & 1 && seconds[i] * qkv__products_lead((qkv__products)i) <
                                  seconds[best] * qkv__products_lead((qkv__products)best))
            best = i;
    return (qkv__products)best;
}

size_t qkv_machine_products_rates(qkv_context *ctx, qkv_products_rate rates[QKV_PRODUCTS_KINDS])
{
    double seconds[QKV__PRODUCTS_COUNT];
    unsigned kinds = 0;
    size_t count = 0;
    if (qkv__context_device(ctx)->products)
        return 0; /* these are the processor's */
    for (unsigned i = 0; i < QKV__PRODUCTS_COUNT; i++)
        kinds |= (unsigned)qkv__products_exist(ctx, (qkv__products)i) << i;
    if (time_kinds(ctx, kinds, seconds))
        return 0;
    for (unsigned i = 0; i < QKV__PRODUCTS_COUNT; i++)
        if (kinds >> i & 1)
            rates[count++] = (qkv_products_rate){qkv__products_name((qkv__products)i),
                                                 operations / seconds[i],
                                                 choose(kinds, seconds) == i};
    return count;
}

/* Of a note, in GFLOP/s: the kind chosen, beside the first that was not (f32, unless it was). */
static void note_rates(qkv_context *ctx, unsigned kinds, qkv__products chosen,
                       const double seconds[QKV__PRODUCTS_COUNT])
{
    unsigned other = 0;
    while (!(kinds >> other & 1) || other == (unsigned)chosen)
        other++;
    qkv__note(ctx, "products in %s: here %.0f GFLOP/s a thread, in %s %.0f",
              qkv__products_name(chosen), operations / seconds[chosen] / 1e9,
              qkv__products_name((qkv__products)other), operations / seconds[other] / 1e9);
}

const char *qkv_machine_products(qkv_context *ctx)
{
    const unsigned kinds = qkv__context_candidates(ctx);
    qkv__products fastest = qkv__context_products(ctx);
    const qkv__device *device = qkv__context_device(ctx);
    double seconds[QKV__PRODUCTS_COUNT];
    if (!(kinds & (kinds - 1)))
        return qkv__products_name(fastest);
    if (device->products) { /* its last kind is its fastest */
        while (kinds >> (fastest + 1))
            fastest = (qkv__products)(fastest + 1);
        qkv__context_choose(ctx, fastest);
        qkv__note(ctx, "products in %s: the fastest of %s", qkv__products_name(fastest),
                  device->name);
        return qkv__products_name(fastest);
    }
    bool timed = !time_kinds(ctx, kinds, seconds);
    if (timed)
        fastest = choose(kinds, seconds);
    qkv__context_choose(ctx, fastest);
    if (timed)
        note_rates(ctx, kinds, fastest, seconds);
    return qkv__products_name(fastest);
}
