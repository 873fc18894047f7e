/* context.c - the context: options, allocator, last error. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/device.h"

enum { MESSAGE_BYTES = 1024, HEADER_BYTES = 64, TYPES = 32 };
static const double WORKING_EVERY = 0.05; /* seconds between events of work */

struct qkv_context {
    qkv_context_options options;
    const qkv__device *device;
    int threads;
    unsigned isa;
    unsigned candidates; /* bits of qkv__products; several: to be measured */
    qkv__small_plan small[QKV__SMALL_TYPES];
    qkv_status status;
    char message[MESSAGE_BYTES];
    qkv_memory_stats memory;
    qkv_event_fn *listener; /* NULL: nobody */
    void *listening;        /* its user */
    double told;            /* qkv_now() after the last event that may cancel */
    bool held;              /* no such events */
    const struct qkv_model_type *types[TYPES]; /* (type_count) a program's own */
    size_t type_count;
    qkv__dist *dist; /* NULL: alone */
    int neighbours;  /* ranks on this machine, itself among them; 0: 1 */
};

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    void *p = NULL;
    return posix_memalign(&p, 64, bytes) == 0 ? p : NULL;
}

static void default_free(void *user, void *p)
{
    (void)user;
    free(p);
}

/* Address space that becomes memory, zeroed, page by page as somebody writes to it. */
static void *context_reserve(void *user, size_t bytes)
{
    (void)user;
    size_t total;
    if (!qkv__add_size(bytes, HEADER_BYTES, &total))
        return NULL;
    char *p = mmap(NULL, total, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    memcpy(p, &total, sizeof total);
    return p + HEADER_BYTES;
}

static void unreserve(void *user, void *p)
{
    (void)user;
    char *base = (char *)p - HEADER_BYTES;
    size_t total;
    memcpy(&total, base, sizeof total);
    munmap(base, total);
}

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *qkv_version(int numbers[3])
{
    static const int parts[] = {QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH};
    if (numbers)
        memcpy(numbers, parts, sizeof parts);
    return VERSION_TEXT(QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);
}

const char *qkv_status_text(qkv_status status)
{
    switch (status) {
#define QKV_STATUS_CASE(name, text) \
    case name:                      \
        return text;
        QKV_STATUS_LIST(QKV_STATUS_CASE)
#undef QKV_STATUS_CASE
    }
    return "unknown status";
}

qkv_context_options qkv_context_defaults(void)
{
    return (qkv_context_options){0};
}

static const char *const products_names[QKV__PRODUCTS_COUNT] = {"f32", "bf16", "bf16 (AMX)",
                                                               "bf16 (oneDNN)"};

const char *qkv__products_name(qkv__products kind) { return products_names[kind]; }

double qkv__products_lead(qkv__products kind)
{
    return kind == QKV__PRODUCTS_LIBRARY ? 1.1 : 1;
}

bool qkv__products_exist(const qkv_context *ctx, qkv__products kind)
{
    if (ctx->device->products)
        return ctx->device->products >> kind & 1;
#ifdef QKV_HAVE_DNNL
    const bool library = true;
#else
    const bool library = false;
#endif
    bool bf16 = (ctx->isa & QKV_ISA_AVX512) && qkv__cpu_bf16();
    const bool exist[QKV__PRODUCTS_COUNT] = {
        [QKV__PRODUCTS_F32] = true,
        [QKV__PRODUCTS_BF16] = bf16,
        [QKV__PRODUCTS_AMX] = bf16 && qkv__cpu_amx(),
        [QKV__PRODUCTS_LIBRARY] = bf16 && library};
    return exist[kind];
}

/* The kinds that the options ask for and the machine has; f32 where that is none. */
static void allow_products(qkv_context *ctx, int products)
{
    enum { all = (1u << QKV__PRODUCTS_COUNT) - 1 };
    static const unsigned asked[] = {
        [QKV_PRODUCTS_F32] = 1u << QKV__PRODUCTS_F32,
        [QKV_PRODUCTS_BF16] = all & ~(1u << QKV__PRODUCTS_F32),
        [QKV_PRODUCTS_AUTO] = all};
    ctx->options.products = products;
    ctx->candidates = 0;
    for (unsigned i = 0; i < QKV__PRODUCTS_COUNT; i++)
        if (asked[products] >> i & 1 && qkv__products_exist(ctx, (qkv__products)i))
            ctx->candidates |= 1u << i;
    if (!ctx->candidates)
        ctx->candidates = 1u << QKV__PRODUCTS_F32;
}

/* The cores for this context, as one rank of those on the machine. A launcher may have bound the
 * process to a part of the cores already. */
static int usual_threads(const qkv_context *ctx)
{
    int here = omp_get_num_procs(), all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int share = ctx->neighbours > 1 ? all / ctx->neighbours : here;
    share = share < here ? share : here;
    return share > 1 ? share : 1;
}

/* What the options ask for and the machine has. */
static void configure(qkv_context *ctx, const qkv_context_options *o)
{
    ctx->options.threads = o->threads;
    ctx->threads = o->threads ? o->threads : usual_threads(ctx);
    if (ctx->threads > omp_get_thread_limit()) /* work is cut for as many as there will be */
        ctx->threads = omp_get_thread_limit();
    ctx->isa = qkv__cpu_isa() & ((o->isa ? o->isa : QKV_ISA_ALL) | QKV_ISA_REFERENCE);
    memset(ctx->small, 0, sizeof ctx->small);
    allow_products(ctx, o->products);
    if (ctx->options.meta) /* it cannot measure */
        qkv__context_choose(ctx, qkv__context_products(ctx));
}

static bool valid_threads(int threads) { return threads >= 0 && threads <= 1024; }
static bool valid_products(int products)
{
    return products >= QKV_PRODUCTS_F32 && products <= QKV_PRODUCTS_AUTO;
}

qkv_status qkv__context_create_on(qkv_context **out, const qkv_context_options *options,
                                  const qkv__device *device)
{
    *out = NULL;
    qkv_context_options o = options ? *options : qkv_context_defaults();
    if (!valid_threads(o.threads) || !valid_products(o.products) || !o.alloc != !o.free)
        return QKV_E_ARGUMENT;
    if (!o.alloc) {
        o.alloc = o.meta ? context_reserve : default_alloc;
        o.free = o.meta ? unreserve : default_free;
    }
    qkv_context *ctx = o.alloc(o.user, sizeof *ctx);
    if (!ctx)
        return QKV_E_MEMORY;
    memset(ctx, 0, sizeof *ctx);
    ctx->options = o;
    ctx->device = device;
    configure(ctx, &o);
    *out = ctx;
    return QKV_OK;
}

static qkv_status products_fail(qkv_context *ctx, int products)
{
    return qkv_fail(ctx, QKV_E_ARGUMENT,
                    "products: QKV_PRODUCTS_F32, _BF16 or _AUTO expected, found %d", products);
}

qkv_status qkv__context_move(qkv_context *ctx, const qkv_context_options *options,
                             const qkv__device *device)
{
    if (!valid_threads(options->threads))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "threads: 0 to 1024 expected, found %d",
                        options->threads);
    if (!valid_products(options->products))
        return products_fail(ctx, options->products);
    ctx->device = device;
    configure(ctx, options);
    return QKV_OK;
}

qkv_status qkv_context_set_products(qkv_context *ctx, int products)
{
    if (!valid_products(products))
        return products_fail(ctx, products);
    allow_products(ctx, products);
    return QKV_OK;
}

void qkv_context_destroy(qkv_context *ctx)
{
    if (ctx)
        ctx->options.free(ctx->options.user, ctx);
}

const struct qkv_model_type *qkv__context_type_at(const qkv_context *ctx, size_t i)
{
    return i < ctx->type_count ? ctx->types[i] : NULL;
}

qkv_status qkv__context_add_type(qkv_context *ctx, const struct qkv_model_type *type)
{
    if (ctx->type_count == TYPES)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "at most %d types of models", TYPES);
    ctx->types[ctx->type_count++] = type;
    return QKV_OK;
}

const char *qkv_context_message(const qkv_context *ctx) { return ctx->message; }
qkv_status qkv_context_status(const qkv_context *ctx) { return ctx->status; }
int qkv_context_threads(const qkv_context *ctx) { return ctx->threads; }
unsigned qkv_context_isa(const qkv_context *ctx) { return ctx->isa; }
const qkv__device *qkv__context_device(const qkv_context *ctx) { return ctx->device; }
unsigned qkv__context_candidates(const qkv_context *ctx) { return ctx->candidates; }

qkv__products qkv__context_products(const qkv_context *ctx)
{
    unsigned i = QKV__PRODUCTS_F32;
    while (!(ctx->candidates >> i & 1))
        i++;
    return (qkv__products)i;
}

int qkv_context_products(const qkv_context *ctx)
{
    const unsigned f32 = 1u << QKV__PRODUCTS_F32;
    return !(ctx->candidates & f32)  ? QKV_PRODUCTS_BF16
           : ctx->candidates == f32 ? QKV_PRODUCTS_F32
                                    : QKV_PRODUCTS_AUTO;
}

void qkv__context_choose(qkv_context *ctx, qkv__products kind) { ctx->candidates = 1u << kind; }

qkv__small_plan qkv__context_small(const qkv_context *ctx, unsigned type)
{
    return ctx->small[type];
}

void qkv__context_choose_small(qkv_context *ctx, unsigned type, qkv__small_plan plan)
{
    ctx->small[type] = plan;
}

bool qkv__context_keep_products(qkv_context *ctx, const char *name)
{
    allow_products(ctx, ctx->options.products);
    for (unsigned i = 0; i < QKV__PRODUCTS_COUNT; i++)
        if (ctx->candidates >> i & 1 && strcmp(products_names[i], name) == 0) {
            qkv__context_choose(ctx, (qkv__products)i);
            return true;
        }
    return false;
}

qkv__dist *qkv__context_dist(const qkv_context *ctx) { return ctx->dist; }
void qkv__context_join(qkv_context *ctx, qkv__dist *dist, int neighbours)
{
    ctx->dist = dist;
    ctx->neighbours = neighbours;
    if (!ctx->options.threads)
        ctx->threads = usual_threads(ctx);
}

bool qkv__context_meta(const qkv_context *ctx) { return ctx->options.meta; }
bool qkv__context_owns_pages(const qkv_context *ctx)
{
    return ctx->options.alloc == default_alloc;
}
qkv_memory_stats qkv_context_memory(const qkv_context *ctx) { return ctx->memory; }

qkv_status qkv_vfail(qkv_context *ctx, qkv_status status, const char *fmt, va_list args)
{
    char text[MESSAGE_BYTES]; /* fmt's arguments may point into the old message */
    vsnprintf(text, sizeof text, fmt, args);
    for (char *p = text; *p; p++) /* one line, whatever the names in it hold */
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    memcpy(ctx->message, text, sizeof text);
    ctx->status = status;
    return status;
}

qkv_status qkv_fail(qkv_context *ctx, qkv_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    qkv_vfail(ctx, status, fmt, args);
    va_end(args);
    return status;
}

qkv_status qkv_fail_prefix(qkv_context *ctx, const char *prefix)
{
    return qkv_fail(ctx, ctx->status, "%s: %s", prefix, ctx->message);
}

void qkv_context_on_event(qkv_context *ctx, qkv_event_fn *fn, void *user)
{
    ctx->listener = fn;
    ctx->listening = user;
    ctx->told = qkv_now();
}

void qkv__note(qkv_context *ctx, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    if (!ctx->listener)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)ctx->listener(ctx->listening,
                        &(qkv_event){.kind = QKV_EVENT_NOTE, .text = text, .unit = ""});
}

static qkv_status ask_listener(qkv_context *ctx, const qkv_event *event)
{
    bool go_on = !ctx->listener || ctx->listener(ctx->listening, event);
    ctx->told = qkv_now();
    return go_on ? QKV_OK : qkv_fail(ctx, QKV_E_CANCELLED, "stopped");
}

qkv_status qkv__progress(qkv_context *ctx, const char *text, const char *unit, size_t done,
                         size_t total)
{
    const qkv_event event = {QKV_EVENT_PROGRESS, text, unit, done, total};
    return ask_listener(ctx, &event);
}

qkv_status qkv__working(qkv_context *ctx)
{
    static const qkv_event event = {.kind = QKV_EVENT_WORKING, .text = "", .unit = ""};
    if (!ctx->listener || ctx->held || ctx->dist || qkv_now() - ctx->told < WORKING_EVERY)
        return QKV_OK;
    return ask_listener(ctx, &event);
}

bool qkv__hold(qkv_context *ctx, bool held)
{
    bool was = ctx->held;
    ctx->held = held;
    return was;
}

/* Each allocation carries in front how many bytes it counts for. They lie behind that, or on a
 * device. */
static void *count(qkv_context *ctx, size_t bytes, bool here)
{
    size_t total = HEADER_BYTES;
    char *p = NULL;
    if (!here || qkv__add_size(bytes, HEADER_BYTES, &total))
        p = ctx->options.alloc(ctx->options.user, total);
    if (!p) {
        qkv_fail(ctx, QKV_E_MEMORY, "out of memory: %zu bytes wanted, %zu in use", bytes,
                 ctx->memory.live_bytes);
        return NULL;
    }
    memcpy(p, &bytes, sizeof bytes);
    ctx->memory.calls++;
    ctx->memory.live_bytes += bytes;
    if (ctx->memory.live_bytes > ctx->memory.peak_bytes)
        ctx->memory.peak_bytes = ctx->memory.live_bytes;
    return p + HEADER_BYTES;
}

void *qkv_malloc(qkv_context *ctx, size_t bytes) { return count(ctx, bytes, true); }
void *qkv__claim(qkv_context *ctx, size_t bytes) { return count(ctx, bytes, false); }

void *qkv_calloc(qkv_context *ctx, size_t count, size_t size)
{
    size_t bytes;
    if (!qkv__mul_size(count, size, &bytes)) {
        qkv_fail(ctx, QKV_E_MEMORY, "out of memory: %zu x %zu bytes wanted", count, size);
        return NULL;
    }
    void *p = qkv_malloc(ctx, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *qkv_realloc(qkv_context *ctx, void *p, size_t old_bytes, size_t bytes)
{
    void *q = qkv_malloc(ctx, bytes);
    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old_bytes < bytes ? old_bytes : bytes);
    qkv_free(ctx, p);
    return q;
}

void qkv_free(qkv_context *ctx, void *p)
{
    if (!p)
        return;
    char *base = (char *)p - HEADER_BYTES;
    size_t bytes;
    memcpy(&bytes, base, sizeof bytes);
    ctx->memory.live_bytes -= bytes;
    ctx->options.free(ctx->options.user, base);
}

char *qkv_strdup(qkv_context *ctx, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = qkv_malloc(ctx, n);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

bool qkv__mul_size(size_t a, size_t b, size_t *out)
{
    if (b && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

bool qkv__add_size(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}
