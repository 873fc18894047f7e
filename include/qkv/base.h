/* base.h - status codes, the context that every object hangs on, and memory.
 * Layer: base
 *
 * The library never prints, aborts or exits. A call that can fail returns a
 * qkv_status, and the context keeps one sentence that says what was wrong. */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every public header wraps its declarations in these two: C linkage, exported symbols. */
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

/* fmt and its arguments are numbered from 1. */
#if defined(__GNUC__)
#define QKV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QKV_PRINTF(fmt, args)
#endif

QKV_BEGIN_DECLS

/* The version of these headers, and the one place that it is written in: the build reads it here.
 * What a new version may change: docs/abi.md. */
#define QKV_VERSION_MAJOR 0
#define QKV_VERSION_MINOR 1
#define QKV_VERSION_PATCH 0

/* "0.1.0": the version of the library that runs. numbers, unless NULL, gets its three parts. */
const char *qkv_version(int numbers[3]);

/* The type of every real number in a tensor. The double build (QKV_F64) exists so that
 * gradient checks can demand 1e-7; programs use the float build. */
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

/* "out of memory" for QKV_E_MEMORY and so on; never NULL. */
const char *qkv_status_text(qkv_status status);

/* A context: threads, kernels' instruction set, allocator, last error.
 * Use one context from one thread at a time; contexts are independent of each other. */
typedef struct qkv_context qkv_context;

/* Instruction sets that may be used; the machine's own limits still hold. */
enum {
    QKV_ISA_AVX2 = 1 << 0,      /* AVX2 with FMA and F16C */
    QKV_ISA_AVX512 = 1 << 1,    /* AVX-512 F, BW, DQ, VL; needs AVX2 beside it */
    QKV_ISA_REFERENCE = 1 << 8, /* plain C, which is always there */
    QKV_ISA_ALL = 0x7fffffff
};

/* Which products training takes. AUTO: the faster ones, which is measured (a twentieth of a second)
 * when the context's first tape is made; a resumed run keeps what it began with. */
enum { QKV_BF16_OFF, QKV_BF16_ON, QKV_BF16_AUTO };

/* Zeroed: the defaults. */
typedef struct {
    int threads;  /* OpenMP team size; 0: one per core; OMP_THREAD_LIMIT at most
                                                                       [0, 1024]  0 */
    unsigned isa; /* QKV_ISA_* that may be used; 0: all                           0 */
    int bf16;     /* QKV_BF16_*. ON: steps that a tape records (training) round the operands of
                     products and convolutions to bf16 and add up in f32, where the processor can
                     (AVX512_BF16): from 0.6 of the time to 1.8 times it; else f32 stays  OFF */
    bool meta;    /* compute nothing and only reserve memory, so that a step shows what it would
                     take; values mean nothing                         false        */
    /* Where memory comes from; NULL: malloc and free. alloc returns 64-byte aligned
     * memory or NULL. Used by tests that make the n-th allocation fail. */
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *p);
    void *user;
} qkv_context_options;

qkv_context_options qkv_context_defaults(void);

/* options may be NULL for the defaults. On failure *out is NULL: QKV_E_ARGUMENT for threads or bf16
 * out of range or one of alloc and free alone, QKV_E_MEMORY. */
qkv_status qkv_context_create(qkv_context **out, const qkv_context_options *options);

/* Every object made on the context must be gone. NULL is allowed. */
void qkv_context_destroy(qkv_context *ctx);

/* The sentence of the last failure on this context; "" when nothing failed yet.
 * Valid until the next failing call. */
const char *qkv_context_message(const qkv_context *ctx);

/* Status of the last failure, QKV_OK when nothing failed yet. */
qkv_status qkv_context_status(const qkv_context *ctx);

/* Records the sentence and returns status, so that callers write
 *     return qkv_fail(ctx, QKV_E_FORMAT, "%s: header length %zu exceeds the file", ...);
 * The sentence names file and field, what was expected and what was found; control characters in
 * it become '?'. */
qkv_status qkv_fail(qkv_context *ctx, qkv_status status, const char *fmt, ...) QKV_PRINTF(3, 4);
qkv_status qkv_vfail(qkv_context *ctx, qkv_status status, const char *fmt, va_list args);
/* Puts "prefix: " before the recorded sentence and returns its status. */
qkv_status qkv_fail_prefix(qkv_context *ctx, const char *prefix);

int qkv_context_threads(const qkv_context *ctx); /* the team's size, >= 1 */

/* QKV_ISA_* bits in use: what the machine has and the options allow; REFERENCE always. */
unsigned qkv_context_isa(const qkv_context *ctx);

/* Does training round to bf16? What the options ask for and the machine can; false as long as AUTO
 * has not measured (qkv_machine_bf16 makes it). */
bool qkv_context_bf16(const qkv_context *ctx);

/* What long work tells whoever waits for it. */
typedef enum {
    QKV_EVENT_NOTE,    /* text is a sentence */
    QKV_EVENT_PROGRESS /* so much of the work that text names is done */
} qkv_event_kind;

typedef struct {
    qkv_event_kind kind;
    const char *text;   /* "reading"; valid during the call */
    const char *unit;   /* of progress: "images" */
    size_t done, total; /* of progress, in units; total 0: not known */
} qkv_event;

/* Returns false to stop: the work then ends with QKV_E_CANCELLED. */
typedef bool qkv_event_fn(void *user, const qkv_event *event);

/* Who is told of long work on the context from now on; fn NULL: nobody. Progress comes often, the
 * last of it with done == total or a failure of the call. Called on the thread that called the
 * library. */
void qkv_context_on_event(qkv_context *ctx, qkv_event_fn *fn, void *user);

/* Other threads, instruction sets and bf16 from now on; what else is in options stays as it was.
 * Nothing but option tables may have been made on the context yet. QKV_E_ARGUMENT, with a sentence,
 * for threads or bf16 out of range. */
qkv_status qkv_context_configure(qkv_context *ctx, const qkv_context_options *options);

/* What the context's allocator has handed out; libraries' own memory is not in it. */
typedef struct {
    size_t live_bytes;  /* allocated through the context and not yet freed */
    size_t peak_bytes;  /* the most live_bytes has been */
    uint64_t calls;     /* allocations so far: constant from step to step once training runs */
} qkv_memory_stats;

qkv_memory_stats qkv_context_memory(const qkv_context *ctx);

/* Memory of the context's allocator: 64-byte aligned, not cleared. NULL on failure, and the context
 * says so. bytes 0 gives a unique pointer too. The caller owns it until qkv_free. */
void *qkv_malloc(qkv_context *ctx, size_t bytes);
void *qkv_calloc(qkv_context *ctx, size_t count, size_t size); /* zeroed; overflow checked */
/* As realloc: NULL on failure and p stays valid. old_bytes is what p holds now; p may be NULL. */
void *qkv_realloc(qkv_context *ctx, void *p, size_t old_bytes, size_t bytes);
char *qkv_strdup(qkv_context *ctx, const char *s);
void qkv_free(qkv_context *ctx, void *p); /* of that context; NULL is allowed */

/* ---- lists ----------------------------------------------------------------------------------- */

/* Where ids and text go: start from {0}; calls append; setting the count to 0 keeps the memory
 * for the next use. After a failed call there is what was there before it. */
typedef struct {
    int32_t *data;
    size_t count, capacity;
} qkv_ids;

typedef struct {
    char *data; /* followed by a 0 that len does not count; NULL before the first use */
    size_t len, capacity;
} qkv_text;

qkv_status qkv_ids_add(qkv_ids *ids, qkv_context *ctx, int32_t id); /* at the end */
void qkv_ids_free(qkv_ids *ids, qkv_context *ctx);
void qkv_text_free(qkv_text *text, qkv_context *ctx);

/* A stretch of text in memory. */
typedef struct {
    const char *data;
    size_t len;
    const char *name; /* the file's, for the sentence when it cannot be encoded; may be NULL */
    size_t before;    /* lines of that file before this stretch, for the same sentence */
} qkv_text_span;

/* A permutation of [0, n) that is a function of (seed, i): where index i goes. */
uint64_t qkv_shuffled(uint64_t i, uint64_t n, uint64_t seed);

QKV_END_DECLS
#endif
