/* table.c - which kernel serves which instruction set: the reference first, then what the
 * faster files have, upward. It decides nothing else. */
#include <pthread.h>

#include "base/device.h"
#include "kernel/kernel.h"

enum {
    ISA_BITS = QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV_ISA_NEON | QKV__BF16_ANY,
    TABLES = ISA_BITS + 1
};

/* By isa bits; written once, under `once`. */
static qkv_kernels tables[TABLES], meta_tables[TABLES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static qkv__fill_fn *const reference[] = {
    qkv__kernels_ref_elementwise, qkv__kernels_ref_pointwise, qkv__kernels_ref_rows,
    qkv__kernels_ref_channels, qkv__kernels_ref_group_norm, qkv__kernels_ref_attention,
    qkv__kernels_ref_gemm, qkv__kernels_ref_small, qkv__kernels_ref_conv, qkv__kernels_ref_pool,
    qkv__kernels_ref_update, qkv__kernels_ref_kv, NULL};

/* Files of each instruction set, in the order in which they overwrite each other's kernels. */
static const struct {
    unsigned isa;
    qkv__fill_fn *files[16]; /* NULL ends them */
    qkv__fill_fn *over[3];   /* the same, over what the library has, of the last set alone */
} sets[] = {
#if defined(QKV_HAVE_SIMD) && defined(__x86_64__)
    {QKV_ISA_AVX2, {QKV__SIMD_FILES(avx2), qkv__kernels_small_avx2}, {QKV__SIMD_OVER(avx2)}},
    {QKV_ISA_AVX512, {QKV__SIMD_FILES(avx512)}, {QKV__SIMD_OVER(avx512)}},
#elif defined(QKV_HAVE_SIMD)
    {QKV_ISA_NEON, {QKV__SIMD_FILES(neon), qkv__kernels_small_neon}, {QKV__SIMD_OVER(neon)}},
#endif
    {QKV_ISA_REFERENCE, {NULL}, {NULL}},
};

static void table_fill(qkv_kernels *k, qkv__fill_fn *const *files)
{
    for (; *files; files++)
        (*files)(k);
}

/* A dry table: nothing is done, but what takes much scratch in the faster files takes it. */
static void fill_meta(unsigned isa, unsigned usable)
{
    qkv_kernels *k = &meta_tables[isa];
    qkv__kernels_meta(k);
    if (usable) {
        k->attention = tables[isa].attention;
        k->attention_bwd = tables[isa].attention_bwd;
        k->attention_stored = tables[isa].attention_stored;
        k->gemm = tables[isa].gemm;
    }
}

/* A fill function is itself compiled for its instruction set, so it runs only on a machine
 * that has it. */
static void fill_all(void)
{
    unsigned machine = qkv__cpu_isa() | (qkv__cpu_bf16() ? QKV__BF16 | QKV__BF16_LIBRARY : 0) |
                       (qkv__cpu_amx() ? QKV__BF16_AMX : 0);
    for (unsigned isa = 0; isa < TABLES; isa++) {
        qkv_kernels *k = &tables[isa];
        table_fill(k, reference);
        unsigned usable = isa & machine;
        if (!(usable & QKV_ISA_AVX512))
            usable &= ~(unsigned)QKV__BF16_ANY;
        if (!usable) {
            fill_meta(isa, usable);
            continue;
        }
        qkv__fill_fn *const *over = NULL;
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            if (!(usable & sets[i].isa))
                continue;
            table_fill(k, sets[i].files);
            over = sets[i].over;
        }
#ifdef QKV_HAVE_DNNL
        qkv__kernels_dnnl(k);
        qkv__kernels_dnnl_conv(k, NULL);
#endif
        if (over)
            table_fill(k, over);
#if defined(QKV_HAVE_SIMD) && defined(__x86_64__)
        if ((usable & QKV_ISA_AVX512) && qkv__cpu_vnni())
            qkv__kernels_small_vnni_avx512(k); /* without: what AVX2 has */
        else if ((usable & QKV_ISA_AVX2) && qkv__cpu_avx_vnni())
            qkv__kernels_small_avxvnni_avx2(k);
        if (usable & QKV__BF16_ANY)
            (usable & QKV__BF16 || !qkv__cpu_amx() ? qkv__kernels_attention_bf16_avx512
                                                   : qkv__kernels_attention_amx_avx512)(k);
        if (usable & QKV__BF16)
            qkv__kernels_bf16_avx512(k);
        if (usable & QKV__BF16_AMX) {
            qkv__kernels_amx_avx512(k);
            qkv__kernels_small_amx_avx512(k);
        }
#ifdef QKV_HAVE_DNNL
        if (usable & QKV__BF16_LIBRARY)
            qkv__kernels_dnnl_bf16(k, qkv__round_bf16_avx512);
        if (usable & QKV__BF16_ANY)
            qkv__kernels_dnnl_conv(k, qkv__round_bf16_avx512);
#endif
#endif
#if defined(QKV_HAVE_SIMD) && defined(__aarch64__)
        if ((usable & QKV_ISA_NEON) && qkv__cpu_dotprod())
            qkv__kernels_small_dotprod_neon(k);
#endif
        fill_meta(isa, usable);
    }
}

const qkv_kernels *qkv__kernels(unsigned isa)
{
    pthread_once(&once, fill_all);
    return &tables[isa & ISA_BITS];
}

unsigned qkv__products_isa(qkv__products kind)
{
    static const unsigned bits[QKV__PRODUCTS_COUNT] = {
        [QKV__PRODUCTS_BF16] = QKV__BF16,
        [QKV__PRODUCTS_AMX] = QKV__BF16_AMX,
        [QKV__PRODUCTS_LIBRARY] = QKV__BF16_LIBRARY};
    return bits[kind];
}

const qkv_kernels *qkv__kernels_of(const qkv_context *ctx, bool training)
{
    return qkv__kernels_for(ctx, training ? qkv__context_products(ctx) : QKV__PRODUCTS_F32);
}

const qkv_kernels *qkv__kernels_for(const qkv_context *ctx, qkv__products kind)
{
    unsigned isa = qkv_context_isa(ctx) | qkv__products_isa(kind);
    const qkv_kernels *k = qkv__kernels(isa);
    const qkv__device *device = qkv__context_device(ctx);
    if (device->kernels)
        return device->kernels(isa);
    return qkv__context_meta(ctx) ? &meta_tables[isa & ISA_BITS] : k;
}

qkv_exec qkv__exec_of(const qkv_context *ctx, qkv__arena *scratch)
{
    return (qkv_exec){qkv_context_threads(ctx), scratch, qkv__context_meta(ctx), 0};
}
