/* base.h - what the rest of the library shares and users do not see: events, arenas, sizes, the
 * instruction sets of this machine. */
#ifndef QKV_SRC_BASE_H
#define QKV_SRC_BASE_H

#include <stdarg.h>

#include "qkv/base.h"
#include "qkv/machine.h"
#include "qkv/random.h"
#include "qkv/string.h"

/* ---- events ------------------------------------------------------------------ */

/* Tells whoever listens on the context. */
void qkv__note(qkv_context *ctx, const char *fmt, ...) QKV_PRINTF(2, 3);
/* QKV_E_CANCELLED, and the context says "stopped", when the listener wants an end. */
qkv_status qkv__progress(qkv_context *ctx, const char *text, const char *unit, size_t done,
                         size_t total);
/* Tells of work now and then, between operations: QKV_E_CANCELLED as above. Silent while held, and
 * in a group of ranks, of which one alone must not give up. */
qkv_status qkv__working(qkv_context *ctx);
bool qkv__hold(qkv_context *ctx, bool held); /* returns what was */

/* ---- what a program brings ------------------------------------------------------ */

/* Types of models that were registered on the context, in their order; NULL past the last. */
struct qkv_model_type;
const struct qkv_model_type *qkv__context_type_at(const qkv_context *ctx, size_t i);
qkv_status qkv__context_add_type(qkv_context *ctx, const struct qkv_model_type *type);

/* ---- ranks ------------------------------------------------------------------- */

/* The run of several processes that a context is a rank of (dist); NULL: it is alone. Whose ranks
 * on this machine are `neighbours` in number shares its cores with them. */
typedef struct qkv__dist qkv__dist;
qkv__dist *qkv__context_dist(const qkv_context *ctx);
void qkv__context_join(qkv_context *ctx, qkv__dist *dist, int neighbours);

/* ---- products ---------------------------------------------------------------- */

/* Kinds of products in training: in f32; of operands rounded to bf16 by our kernels for AVX-512 and
 * for AMX; the same by the library's. */
typedef enum {
    QKV__PRODUCTS_F32, QKV__PRODUCTS_BF16, QKV__PRODUCTS_AMX, QKV__PRODUCTS_LIBRARY,
    QKV__PRODUCTS_COUNT
} qkv__products;
const char *qkv__products_name(qkv__products kind);
/* What their measured time is multiplied by before kinds are compared. Where the library's products
 * are as fast as our own, noise would choose, and two equal runs would have different bits. */
double qkv__products_lead(qkv__products kind);

/* Does this context's machine have them? */
bool qkv__products_exist(const qkv_context *ctx, qkv__products kind);
/* What training uses; the first candidate while they are to be measured. */
qkv__products qkv__context_products(const qkv_context *ctx);
/* Bit i: kind i may be chosen. One bit: it is chosen. */
unsigned qkv__context_candidates(const qkv_context *ctx);
void qkv__context_choose(qkv_context *ctx, qkv__products kind);
/* Training stays with the kind of that name, if the context's options allow it and the machine has
 * it. Returns whether it is that now. */
bool qkv__context_keep_products(qkv_context *ctx, const char *name);

/* How products of several rows with weights in fewer bits are computed (tensor/small_product.c): by
 * the kernel for few rows; as matrices of f32 or bf16 that w is widened to; by the kernel for many
 * rows, each of the table of a kind of products. UNKNOWN: not timed yet. */
typedef enum {
    QKV__SMALL_UNKNOWN, QKV__SMALL_PLAIN, QKV__SMALL_WIDE, QKV__SMALL_MANY
} qkv__small_way;
typedef struct {
    qkv__small_way way;
    qkv__products products;
} qkv__small_choice;
typedef struct {
    qkv__small_choice few, many; /* few: below `from` rows */
    size_t from;
} qkv__small_plan;
enum { QKV__SMALL_TYPES = 3 }; /* of weights: qkv_k_small_type */
qkv__small_plan qkv__context_small(const qkv_context *ctx, unsigned type);
void qkv__context_choose_small(qkv_context *ctx, unsigned type, qkv__small_plan plan);

/* ---- memory ------------------------------------------------------------------ */

/* True when nothing is computed: memory is then zero where nobody wrote, and costs nothing. */
bool qkv__context_meta(const qkv_context *ctx);
/* Large pieces of memory come from the system as they are, not from a program's own allocator. */
bool qkv__context_owns_pages(const qkv_context *ctx);

/* Where tensors lie (device.h). A context is on one, which outlives it; qkv_context_create puts it
 * on the CPU. */
typedef struct qkv__device qkv__device;
/* qkv_context_configure, on that device. */
qkv_status qkv__context_move(qkv_context *ctx, const qkv_context_options *options,
                             const qkv__device *device);
qkv_status qkv__context_create_on(qkv_context **out, const qkv_context_options *options,
                                  const qkv__device *device);
const qkv__device *qkv__context_device(const qkv_context *ctx);

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

/* Two draws, the first of which gives the upper half. */
static inline uint64_t qkv__rng_u64(qkv_rng *r)
{
    uint64_t high = (uint64_t)qkv_rng_u32(r) << 32;
    return high | qkv_rng_u32(r);
}

/* Which of n items is sample number `sample` of a run: every epoch has all of them, in an order
 * that depends on (seed, stream, epoch). */
uint64_t qkv__epoch_place(uint64_t seed, const char *stream, uint64_t sample, uint64_t n);

/* Spreads a number's bits: for hash tables. */
static inline uint64_t qkv__mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 32);
}

/* ---- the machine ---------------------------------------------------------------- */

unsigned qkv__cpu_isa(void);            /* QKV_ISA_* this machine has, REFERENCE among them */
double qkv__thread_seconds(void);       /* of processor time, of this thread alone */
bool qkv__cpu_bf16(void);               /* AVX512_BF16 beside AVX-512, and kernels for it? */
bool qkv__cpu_vnni(void);               /* AVX512_VNNI beside AVX-512, and kernels for it? */
bool qkv__cpu_avx_vnni(void);           /* AVX_VNNI beside AVX2, and kernels for it? */
bool qkv__cpu_dotprod(void);            /* ARMv8.2's dot products beside NEON? */
bool qkv__cpu_amx(void); /* AMX's tiles too, VNNI, and the system lets this process use them? */

#endif
