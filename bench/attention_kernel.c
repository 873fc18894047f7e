/* attention_kernel.c - the attention kernels alone: GF/s forward, backward and together, and the
 * share of the products' limit measured in the same run. Causal work is counted as half.
 *
 *     attention_kernel [B T H Hkv D [S]]      without arguments: a list of usual shapes
 *     QKV_ISA=1 attention_kernel              AVX2 only (bits of QKV_ISA_*)
 *     QKV_ISA=19 attention_kernel             operands in bf16, by AMX (11: by AVX512_BF16); the
 *                                             limit is that of products in f32
 *     QKV_CPU_TIME=1 attention_kernel         one thread in processor time, for a busy machine:
 *                                             medians of shares, each pass beside its own limit */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/device.h"
#include "kernel/kernel.h"

enum { MAX_B = 256, LIMIT = 2048, PASSES = 256 };

typedef struct {
    size_t B, T, H, Hkv, D, S;
} shape;

typedef struct {
    qkv_context *ctx;
    qkv_exec e;
    const qkv_kernels *k, *f32;
    double limit; /* GF/s of products, the best so far */
    bool cpu_time;
} bench;

static double seconds(const bench *b)
{
    return b->cpu_time ? (double)clock() / CLOCKS_PER_SEC : qkv_now();
}

/* In huge pages, as the tensors of a tape that is large enough. */
static float *numbers(bench *b, size_t n)
{
    const size_t least = (size_t)16 << 20, bytes = n * sizeof(float);
    float *x = qkv__cpu.alloc(b->ctx, bytes > least ? bytes : least);
    if (!x) {
        fprintf(stderr, "attention_kernel: out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((i * 2654435761u >> 7) % 2000) / 1000 - 1;
    }
    return x;
}

static void measure_limit(bench *b)
{
    size_t n = LIMIT;
    float *x = numbers(b, n * n), *y = numbers(b, n * n), *z = numbers(b, n * n);
    qkv_k_gemm_args args = { .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n };
    for (int run = 0; run < 5; run++) {
        double start = seconds(b);
        b->f32->gemm(&b->e, z, x, y, &args);
        double rate = 2 * (double)(n * n * n) / (seconds(b) - start) * 1e-9;
        b->limit = rate > b->limit ? rate : b->limit;
    }
    qkv__cpu.free(b->ctx, x);
    qkv__cpu.free(b->ctx, y);
    qkv__cpu.free(b->ctx, z);
}

typedef struct {
    float *memory, *q, *k, *v, *out, *dout, *lse, *dq, *dk, *dv;
    qkv_k_attention_args a;
    qkv_k_attention_bwd_args w;
    size_t q_begin[MAX_B], q_len[MAX_B], k_begin[MAX_B], k_len[MAX_B];
} problem;

/* q, k and v lie in one matrix of rows, as a packed projection leaves them; with fewer queries
 * than keys, k and v in caches of their own. */
static void problem_make(bench *b, problem *p, shape s)
{
    bool cached = s.T < s.S;
    size_t wide = s.H * s.D, narrow = s.Hkv * s.D, row = cached ? wide : wide + 2 * narrow;
    size_t key_row = cached ? narrow : row, keys = s.B * s.S * key_row;
    *p = (problem){ .memory = numbers(b, 2 * (s.B * s.T * row + 2 * keys)) };
    p->q = p->memory;
    p->k = p->q + (cached ? s.B * s.T * row : wide);
    p->v = p->k + (cached ? keys : narrow);
    size_t gradients = s.B * s.T * row + 2 * keys;
    p->dq = p->q + gradients, p->dk = p->k + gradients, p->dv = p->v + gradients;
    p->out = numbers(b, s.B * s.T * wide);
    p->dout = numbers(b, s.B * s.T * wide);
    p->lse = numbers(b, s.B * s.T * s.H);
    for (size_t i = 0; i < s.B; i++) {
        p->q_begin[i] = i * s.T, p->q_len[i] = s.T;
        p->k_begin[i] = i * s.S, p->k_len[i] = s.S;
    }
    p->a = (qkv_k_attention_args){
        .B = s.B, .H = s.H, .Hkv = s.Hkv, .D = s.D, .Dv = s.D, .q_begin = p->q_begin,
        .q_len = p->q_len, .k_begin = p->k_begin, .k_len = p->k_len, .k_len_full = p->k_len,
        .q_row = row, .q_head = s.D, .k_row = key_row, .k_head = s.D, .v_row = key_row,
        .v_head = s.D, .o_row = wide, .o_head = s.D, .scale = 0.125, .causal = true };
    p->w = (qkv_k_attention_bwd_args){
        .dq_row = row, .dq_head = s.D, .dk_row = key_row, .dk_head = s.D, .dv_row = key_row,
        .dv_head = s.D, .do_row = wide, .do_head = s.D };
}

static void problem_free(bench *b, problem *p)
{
    float *all[] = { p->memory, p->out, p->dout, p->lse };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        qkv__cpu.free(b->ctx, all[i]);
    }
}

static void pass(bench *b, problem *p, bool both, double *forward, double *backward)
{
    double start = seconds(b);
    b->k->attention(&b->e, p->out, p->lse, p->q, p->k, p->v, &p->a);
    double middle = seconds(b);
    if (both) {
        b->k->attention_bwd(&b->e, p->dq, p->dk, p->dv, NULL, p->dout, p->out, p->lse, p->q, p->k,
                            p->v, &p->a, &p->w);
    }
    *forward = middle - start;
    *backward = seconds(b) - middle;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, ascending);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* Each pass beside the limit of that moment, which is measured just before it. */
static void run_shares(bench *b, problem *p, double flops)
{
    static double forward[PASSES], backward[PASSES], both[PASSES];
    size_t n = 0;
    double until = seconds(b) + 8;
    for (; n < PASSES && (n < 3 || seconds(b) < until); n++) {
        double f, r;
        b->limit = 0;
        measure_limit(b);
        pass(b, p, true, &f, &r);
        forward[n] = flops / f * 1e-9 / b->limit;
        backward[n] = 2.5 * flops / r * 1e-9 / b->limit;
        both[n] = 3.5 * flops / (f + r) * 1e-9 / b->limit;
    }
    printf("of the limit: forward %4.1f %%  backward %4.1f %%  both %4.1f %%  (medians of %zu)\n",
           100 * median(forward, n), 100 * median(backward, n), 100 * median(both, n), n);
}

static void run(bench *b, shape s)
{
    static problem p;
    problem_make(b, &p, s);
    double forward = 1e30, backward = 1e30, until = seconds(b) + 1;
    double pairs = (double)s.T * ((double)s.S - ((double)s.T - 1) / 2); /* seen by the mask */
    double flops = 4 * (double)(s.B * s.H * s.D) * pairs, g = 1e-9;
    for (int n = 0; !(b->cpu_time && s.T > 1) && (n < 3 || seconds(b) < until); n++) {
        double f, r;
        pass(b, &p, s.T > 1, &f, &r);
        forward = f < forward ? f : forward;
        backward = r < backward ? r : backward;
    }
    printf("B %3zu  T %5zu  S %5zu  H %2zu/%2zu  D %3zu   ", s.B, s.T, s.S, s.H, s.Hkv, s.D);
    if (s.T == 1) {
        double bytes = 4 * 2 * (double)(s.B * s.Hkv * s.S * s.D);
        printf("%8.1f us  %6.1f GB/s of keys and values\n", forward * 1e6, bytes / forward * g);
    } else if (b->cpu_time) {
        run_shares(b, &p, flops);
    } else {
        double both = 3.5 * flops / (forward + backward) * g;
        printf("forward %6.1f  backward %6.1f  both %6.1f GF/s  %4.1f %% of %.0f\n",
               flops / forward * g, 2.5 * flops / backward * g, both, 100 * both / b->limit,
               b->limit);
    }
    problem_free(b, &p);
}

static const shape usual[] = {
    { 1, 2048, 12, 12, 64, 2048 }, { 4, 256, 12, 12, 64, 256 },  { 1, 1024, 12, 12, 64, 1024 },
    { 8, 128, 4, 4, 32, 128 },     { 32, 64, 4, 4, 32, 64 },     { 8, 256, 6, 6, 64, 256 },
    { 1, 1024, 32, 8, 64, 1024 },  { 2, 512, 8, 8, 48, 512 },    { 2, 512, 8, 8, 80, 512 },
    { 2, 512, 8, 8, 96, 512 },     { 1, 1024, 8, 8, 128, 1024 }, { 1, 2048, 1, 1, 64, 2048 },
    { 1, 1, 12, 12, 64, 1024 },    { 1, 1, 12, 12, 64, 16384 },  { 1, 1, 32, 8, 64, 16384 },
    { 1, 4, 12, 12, 64, 1024 },    { 1, 8, 12, 12, 64, 1024 },
};

int main(int argc, char **argv)
{
    bench b = { .limit = 0 };
    qkv_context_options options = qkv_context_defaults();
    b.cpu_time = getenv("QKV_CPU_TIME") != NULL;
    options.threads = b.cpu_time;
    unsigned rounded = 0;
    if (getenv("QKV_ISA")) {
        options.isa = (unsigned)atoi(getenv("QKV_ISA"));
        rounded = options.isa & QKV__BF16_ANY;
        options.isa &= ~rounded;
    }
    if (qkv_context_create(&b.ctx, &options) != QKV_OK ||
        qkv__arena_create(&b.e.scratch, b.ctx, "scratch") != QKV_OK) {
        return 1;
    }
    b.e.threads = qkv_context_threads(b.ctx);
    b.f32 = qkv__kernels(qkv_context_isa(b.ctx));
    b.k = qkv__kernels(qkv_context_isa(b.ctx) | rounded);
    measure_limit(&b);
    if (argc >= 6) {
        size_t n[6] = { 0 };
        for (int i = 1; i < argc && i <= 6; i++) {
            n[i - 1] = (size_t)strtoul(argv[i], NULL, 10);
        }
        run(&b, (shape){ n[0], n[1], n[2], n[3], n[4], n[5] ? n[5] : n[1] });
    } else {
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
            run(&b, usual[i]);
        }
    }
    measure_limit(&b);
    printf("limit %.1f GF/s, %d threads, %s\n", b.limit, b.e.threads, qkv_machine_cpu());
    qkv__arena_destroy(b.e.scratch);
    qkv_context_destroy(b.ctx);
    return 0;
}
