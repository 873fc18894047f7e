/* base.h - what the rest of the library shares and users do not see:
 * failing, allocating, arenas, counter-based randomness, strings that grow. */
#ifndef QKV_SRC_BASE_H
#define QKV_SRC_BASE_H

#include <stdarg.h>

#include "qkv/base.h"

#if defined(__GNUC__)
#define QKV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QKV_PRINTF(fmt, args)
#endif

/* ---- errors ------------------------------------------------------------------ */

/* Records the sentence and returns status, so that callers write
 *     return qkv_fail(ctx, QKV_E_FORMAT, "%s: header length %zu exceeds the file", ...);
 * The sentence names file and field, what was expected and what was found. */
qkv_status qkv_fail(qkv_context *ctx, qkv_status status, const char *fmt, ...) QKV_PRINTF(3, 4);
qkv_status qkv_vfail(qkv_context *ctx, qkv_status status, const char *fmt, va_list args);

/* Puts "prefix: " before the recorded sentence and returns its status. */
qkv_status qkv_fail_prefix(qkv_context *ctx, const char *prefix);

/* ---- events ------------------------------------------------------------------ */

/* Tells whoever listens on the context. */
void qkv__note(qkv_context *ctx, const char *fmt, ...) QKV_PRINTF(2, 3);
/* QKV_E_CANCELLED, and the context says "stopped", when the listener wants an end. */
qkv_status qkv__progress(qkv_context *ctx, const char *text, const char *unit, size_t done,
                         size_t total);

/* ---- memory ------------------------------------------------------------------ */

/* True when nothing is computed: memory is then zero where nobody wrote, and costs nothing. */
bool qkv__context_dry(const qkv_context *ctx);

/* Where tensors lie (device.h). A context is on one, which outlives it; qkv_context_create puts it
 * on the CPU. */
typedef struct qkv__device qkv__device;
qkv_status qkv__context_create_on(qkv_context **out, const qkv_context_options *options,
                                  const qkv__device *device);
const qkv__device *qkv__context_device(const qkv_context *ctx);

/* 64-byte aligned, not cleared. NULL on failure, and the context says so. bytes 0 gives a
 * unique pointer too. */
void *qkv_malloc(qkv_context *ctx, size_t bytes);
void *qkv_calloc(qkv_context *ctx, size_t count, size_t size); /* overflow checked */

/* As realloc: NULL on failure and p stays valid. old_bytes is what p holds now. */
void *qkv_realloc(qkv_context *ctx, void *p, size_t old_bytes, size_t bytes);
void qkv_free(qkv_context *ctx, void *p);
char *qkv_strdup(qkv_context *ctx, const char *s);

/* a*b and a+b for sizes; false when the result does not fit. */
bool qkv__mul_size(size_t a, size_t b, size_t *out);
bool qkv__add_size(size_t a, size_t b, size_t *out);

/* Memory handed out front to back and given back all at once, or back to a mark.
 * A chain of blocks at first; reset joins them into one, so that a steady state of
 * equal steps allocates nothing. */
typedef struct qkv__arena qkv__arena;
typedef struct { size_t block, used, total; } qkv__mark;

/* Of the host's memory, or of a device's. */
qkv_status qkv__arena_create(qkv__arena **out, qkv_context *ctx, const char *name);
qkv_status qkv__arena_create_on(qkv__arena **out, qkv_context *ctx, const qkv__device *device,
                                const char *name);
void qkv__arena_destroy(qkv__arena *a);
/* 64-byte aligned, not cleared; NULL on failure (recorded on the context). */
void *qkv__arena_alloc(qkv__arena *a, size_t bytes);
void *qkv__arena_zalloc(qkv__arena *a, size_t bytes);
qkv__mark qkv__arena_mark(const qkv__arena *a);
void qkv__arena_release(qkv__arena *a, qkv__mark mark); /* gives back all since the mark */
void qkv__arena_reset(qkv__arena *a);
/* True once an allocation has failed, until the reset: kernels return early without scratch,
 * and whoever called them has to notice. */
bool qkv__arena_failed(const qkv__arena *a);
size_t qkv__arena_used(const qkv__arena *a);       /* bytes handed out now */
size_t qkv__arena_high_water(const qkv__arena *a); /* the most there has been */

/* ---- strings that grow --------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    char *data; /* always ends in 0 once anything was added; NULL before */
    size_t len, cap;
    bool failed; /* an allocation failed; later calls do nothing */
} qkv_str;

void qkv_str_init(qkv_str *s, qkv_context *ctx);
void qkv_str_free(qkv_str *s);
void qkv_str_clear(qkv_str *s);
void qkv_str_add(qkv_str *s, const char *data, size_t len);
void qkv_str_puts(qkv_str *s, const char *text);
void qkv_str_printf(qkv_str *s, const char *fmt, ...) QKV_PRINTF(2, 3);

/* ---- lists that grow ------------------------------------------------------------ */

/* Room for count more; false when memory is out (recorded). */
bool qkv__ids_reserve(qkv_context *ctx, qkv_ids *ids, size_t count);
bool qkv__ids_push(qkv_context *ctx, qkv_ids *ids, int32_t id);
bool qkv__text_add(qkv_context *ctx, qkv_text *text, const char *data, size_t len);
/* Doubles an array so that it holds at least need elements; false when memory is out. */
bool qkv__grow(qkv_context *ctx, void *array, size_t *capacity, size_t need, size_t size);

/* ---- randomness: Philox4x32-10 (Salmon et al. 2011) ------------------------------ */

/* Four words that depend on (key, counter) alone. */
void qkv__philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* A stream of numbers: (seed, stream) is the key, index runs in the counter. */
typedef struct {
    uint64_t seed;
    uint64_t stream; /* what the numbers are for, so that uses never share numbers */
    uint64_t index;
    uint32_t buffer[4];
    int left;
} qkv_rng;

void qkv_rng_init(qkv_rng *r, uint64_t seed, uint64_t stream);
uint32_t qkv_rng_u32(qkv_rng *r);
uint32_t qkv_rng_below(qkv_rng *r, uint32_t n); /* uniform in [0, n), unbiased; n > 0 */
double qkv_rng_uniform(qkv_rng *r);             /* [0, 1), 53 bits */
double qkv_rng_normal(qkv_rng *r);              /* mean 0, variance 1 (Box-Muller) */
uint64_t qkv_hash64(const void *data, size_t len); /* FNV-1a, for stream names */
/* Spreads a number's bits: for hash tables. */
static inline uint64_t qkv__mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 32);
}

/* ---- the machine ---------------------------------------------------------------- */

unsigned qkv__cpu_isa(void);            /* QKV_ISA_* this machine has, REFERENCE among them */
bool qkv__cpu_bf16(void);               /* AVX512_BF16 beside AVX-512, and kernels for it? */
const char *qkv_machine_cpu(void);        /* model name, family and model; never NULL */
double qkv_now(void);                  /* seconds, monotonic */
size_t qkv_machine_rss(void);                  /* bytes of memory in use; 0 where unknown */
size_t qkv_machine_peak_rss(void);             /* the most there has been */

#endif
