/* base.h - status codes, the context that every object belongs to, memory, lists of ids and text.
 * Layer: base
 *
 * The library never prints, aborts or exits. A function that can fail returns a qkv_status, and the
 * context keeps a message of one sentence that describes the error. */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every public header wraps its declarations in this pair: C linkage, exported symbols. */
#if defined(__GNUC__)
#define QKV_VISIBLE_PUSH _Pragma("GCC visibility push(default)")
#define QKV_VISIBLE_POP _Pragma("GCC visibility pop")
#else
#define QKV_VISIBLE_PUSH
#define QKV_VISIBLE_POP
#endif
#ifdef __cplusplus
#define QKV_BEGIN_DECLS extern "C" { QKV_VISIBLE_PUSH
#define QKV_END_DECLS QKV_VISIBLE_POP }
#else
#define QKV_BEGIN_DECLS QKV_VISIBLE_PUSH
#define QKV_END_DECLS QKV_VISIBLE_POP
#endif

/* fmt and args: 1-based positions of the format string and of its first argument. */
#if defined(__GNUC__)
#define QKV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QKV_PRINTF(fmt, args)
#endif

QKV_BEGIN_DECLS

/* The version of these headers. The build reads it from here, its only place. docs/abi.md describes
 * what a new version may change. */
#define QKV_VERSION_MAJOR 0
#define QKV_VERSION_MINOR 1
#define QKV_VERSION_PATCH 0

/* Version of the library at run time: "0.1.0". numbers: receives the three parts; may be NULL. */
const char *qkv_version(int numbers[3]);

/* The type of the real numbers in a tensor. Programs use the float build. The double build
 * (QKV_F64) is for gradient checks with a tolerance of 1e-7. */
#ifdef QKV_F64
typedef double qkv_real;
#else
typedef float qkv_real;
#endif

#define QKV_STATUS_LIST(X)                                                    \
    X(QKV_OK, "ok")                                                           \
    X(QKV_E_MEMORY, "out of memory")                                          \
    X(QKV_E_ARGUMENT, "bad argument")                                         \
    X(QKV_E_SHAPE, "shapes do not fit")                                       \
    X(QKV_E_IO, "cannot read or write")                                       \
    X(QKV_E_FORMAT, "malformed file")                                         \
    X(QKV_E_UNSUPPORTED, "not supported")                                     \
    X(QKV_E_NUMERIC, "not a finite number")                                   \
    X(QKV_E_CANCELLED, "cancelled")

typedef enum {
#define QKV_STATUS_ENUM(name, text) name,
    QKV_STATUS_LIST(QKV_STATUS_ENUM)
#undef QKV_STATUS_ENUM
} qkv_status;

/* The status in words: "out of memory" for QKV_E_MEMORY. Never NULL. */
const char *qkv_status_text(qkv_status status);

/* A context holds the threads, the instruction sets in use, the allocator and the last error. One
 * thread uses a context at a time. Contexts are independent of each other. */
typedef struct qkv_context qkv_context;

/* Instruction sets that the kernels may use, if the processor has them. */
enum {
    QKV_ISA_AVX2 = 1 << 0,      /* AVX2 with FMA and F16C */
    QKV_ISA_AVX512 = 1 << 1,    /* AVX-512 F, BW, DQ, VL; requires AVX2 */
    QKV_ISA_NEON = 1 << 2,      /* Advanced SIMD of 64-bit Arm */
    QKV_ISA_REFERENCE = 1 << 8, /* plain C; always available */
    QKV_ISA_ALL = 0x7fffffff
};

/* X(name, bits) for every set of kernels; bits holds the instruction sets that it requires, too. */
#define QKV_ISA_LIST(X)                         \
    X("reference", QKV_ISA_REFERENCE)           \
    X("avx2", QKV_ISA_AVX2)                     \
    X("avx512", QKV_ISA_AVX2 | QKV_ISA_AVX512)  \
    X("neon", QKV_ISA_NEON)

/* The data type of products in training. F32: operands and sums. BF16: products and convolutions
 * round their operands to bf16 and accumulate in f32 while a tape records; f32 where the processor
 * lacks AVX512_BF16. There are several kinds of bf16 products (qkv_machine_products): the fastest
 * is found by timing them (1/10 second) when the context's first tape is created. AUTO: the fastest
 * of them and f32. A resumed run keeps its kind. */
enum { QKV_PRODUCTS_F32, QKV_PRODUCTS_BF16, QKV_PRODUCTS_AUTO };

/* Options of a context. Zeroed: the defaults. */
typedef struct {
    int threads;  /* size of the OpenMP team; 0: one per core; limited by OMP_THREAD_LIMIT
                                                                       [0, 1024]  0 */
    unsigned isa; /* QKV_ISA_* bits that may be used; 0: all                      0
                   * What oneDNN uses is limited by its own ONEDNN_MAX_CPU_ISA. */
    int products; /* QKV_PRODUCTS_*                                               F32 */
    const char *device; /* "cpu"; "cuda" or "cuda:N", a card, numbered from 0, that libqkv-cuda.so
                         * serves. NULL: "cpu", or of qkv_context_configure as it is. Read
                         * during the call alone                  NULL */
    bool meta;    /* reserves memory and computes nothing, to measure what a step takes; values
                     are undefined                             false        */
    /* The allocator; NULL: malloc and free. alloc returns 64-byte aligned memory, or NULL. Tests
     * use it to make the n-th allocation fail. */
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *p);
    void *user;
} qkv_context_options;

qkv_context_options qkv_context_defaults(void);

/* options may be NULL: the defaults. On failure *out is NULL: QKV_E_ARGUMENT for threads,
 * products or device out of range, or for only one of alloc and free; QKV_E_UNSUPPORTED for a
 * device that does not open (qkv_context_configure says why); QKV_E_MEMORY. */
qkv_status qkv_context_create(qkv_context **out, const qkv_context_options *options);

/* Destroy every object made on the context first. ctx may be NULL. */
void qkv_context_destroy(qkv_context *ctx);

/* The message of the last failure on this context; "" if nothing failed. Valid until the next
 * failing call. */
const char *qkv_context_message(const qkv_context *ctx);

/* Status of the last failure; QKV_OK if nothing failed. */
qkv_status qkv_context_status(const qkv_context *ctx);
/* Returns when the context's device has done all that was asked of it; the status says whether it
 * was done. On the CPU nothing waits. Only clocks need it: what reads values waits itself. */
qkv_status qkv_context_wait(qkv_context *ctx);

/* Records the message and returns status:
 *     return qkv_fail(ctx, QKV_E_FORMAT, "%s: header length %zu exceeds the file", ...);
 * The message names the file and the field, what was expected and what was found. Control
 * characters in it are replaced by '?'. */
qkv_status qkv_fail(qkv_context *ctx, qkv_status status, const char *fmt, ...) QKV_PRINTF(3, 4);
qkv_status qkv_vfail(qkv_context *ctx, qkv_status status, const char *fmt, va_list args);
/* Prepends "prefix: " to the recorded message and returns its status. */
qkv_status qkv_fail_prefix(qkv_context *ctx, const char *prefix);

int qkv_context_threads(const qkv_context *ctx); /* size of the OpenMP team, >= 1 */

/* QKV_ISA_* bits in use: those of the processor that the options allow. REFERENCE is always set. */
unsigned qkv_context_isa(const qkv_context *ctx);

/* QKV_PRODUCTS_F32 or _BF16: what training's products use, once qkv_machine_products or the first
 * tape has chosen. QKV_PRODUCTS_AUTO: f32 or bf16, not yet chosen. */
int qkv_context_products(const qkv_context *ctx);

/* Replaces the options' QKV_PRODUCTS_* and forgets what was chosen. Tapes that exist keep what they
 * were created with. QKV_E_ARGUMENT, with a message, out of range. */
qkv_status qkv_context_set_products(qkv_context *ctx, int products);

/* Events that long calls report to the program. */
typedef enum {
    QKV_EVENT_NOTE,     /* text is a sentence */
    QKV_EVENT_PROGRESS, /* done of total units of the work that text names */
    QKV_EVENT_WORKING   /* between two operations of a computation, every 50 ms or so: a chance to
                           cancel it */
} qkv_event_kind;

typedef struct {
    qkv_event_kind kind;
    const char *text;   /* note: a sentence; progress: "reading"; else "". Valid during the call */
    const char *unit;   /* progress: the unit, "images"; else "" */
    size_t done, total; /* progress, in units; total 0: unknown */
} qkv_event;

/* Receives an event. Returns false to cancel: the long call then returns QKV_E_CANCELLED; training
 * saves and stops (qkv_train). */
typedef bool qkv_event_fn(void *user, const qkv_event *event);

/* Sets the function that receives the events of long calls on the context; fn NULL: none. Progress
 * is reported often; the last event has done == total, unless the call fails. fn runs on the thread
 * that called the library. */
void qkv_context_on_event(qkv_context *ctx, qkv_event_fn *fn, void *user);

/* Replaces threads, isa, products and, unless it is NULL, device; other options stay. Call it
 * before anything but option tables is made on the context. With a message: QKV_E_ARGUMENT for
 * threads, products or device out of range; QKV_E_UNSUPPORTED for a device that does not open. */
qkv_status qkv_context_configure(qkv_context *ctx, const qkv_context_options *options);

/* Memory from the context's allocator. Memory that other libraries allocate is not included. */
typedef struct {
    size_t live_bytes;  /* allocated and not yet freed */
    size_t peak_bytes;  /* maximum of live_bytes */
    uint64_t calls;     /* number of allocations; a training step adds none */
} qkv_memory_stats;

qkv_memory_stats qkv_context_memory(const qkv_context *ctx);

/* 64-byte aligned, uninitialised memory from the context's allocator. NULL on failure, recorded in
 * the context. bytes 0 returns a unique pointer. The caller frees it with qkv_free. */
void *qkv_malloc(qkv_context *ctx, size_t bytes);
void *qkv_calloc(qkv_context *ctx, size_t count, size_t size); /* zeroed; overflow checked */
/* As realloc: on failure NULL, and p stays valid. old_bytes: the size of p; p may be NULL. */
void *qkv_realloc(qkv_context *ctx, void *p, size_t old_bytes, size_t bytes);
char *qkv_strdup(qkv_context *ctx, const char *s);
void qkv_free(qkv_context *ctx, void *p); /* p: from the same context, or NULL */

/* ---- lists ----------------------------------------------------------------------------------- */

/* Lists for ids and text. Initialise with {0}. Functions append. Setting the count to 0 empties the
 * list and keeps its memory. A failed call leaves the list unchanged. */
typedef struct {
    int32_t *data;
    size_t count, capacity;
} qkv_ids;

typedef struct {
    char *data; /* followed by a 0 byte that len does not count; NULL before the first use */
    size_t len, capacity;
} qkv_text;

qkv_status qkv_ids_add(qkv_ids *ids, qkv_context *ctx, int32_t id); /* at the end */
void qkv_ids_free(qkv_ids *ids, qkv_context *ctx);
void qkv_text_free(qkv_text *text, qkv_context *ctx);

/* Bytes of a text in memory, with the file and line they come from. */
typedef struct {
    const char *data;
    size_t len;
    const char *name; /* the file's name, for error messages; may be NULL */
    size_t before;    /* lines of that file before the span, for error messages */
} qkv_text_span;

/* A pseudorandom permutation of [0, n): the new position of index i, a function of (seed, i). */
uint64_t qkv_shuffled(uint64_t i, uint64_t n, uint64_t seed);

QKV_END_DECLS
#endif
