/* dist.c - joining and leaving a run of several ranks; messages; what happens when a rank fails. */
#include "dist/dist.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dist/heartbeat.h"

enum { FAILURE = 0, GATHER = 1, BROADCAST = 2 }; /* tags of our own, below QKV__DIST_TAG */
enum { MESSAGE = 500, YIELDS = 1000 };
static const double PATIENCE = 20; /* seconds, for ranks that do not leave after a failure */

/* Why a rank cannot go on. */
typedef struct {
    int32_t status;
    char message[MESSAGE];
} failure;

struct qkv__dist {
    const qkv__dist_backend *backend;
    void *library; /* of dlopen */
    qkv__dist_place place;
    bool over;             /* a rank failed, and all know */
    failure *failures;     /* (size) what others will send when they fail */
    qkv__request *pending; /* (size) their receives */
    bool *arrived;         /* (size) */
    failure own;
    qkv__heartbeat *heartbeat;
    double waited, left; /* left: qkv_now() when this rank began to leave */
};

/* ---- launchers ---------------------------------------------------------------------------- */

typedef struct {
    const char *size, *rank; /* environment variables */
    const char *libraries[2];
} launcher;

static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", {"libqkv-openmpi.so", NULL}},
    {"PMI_SIZE", "PMI_RANK", {"libqkv-mpich.so", NULL}},
    {"SLURM_NTASKS", "PMIX_RANK", {"libqkv-openmpi.so", "libqkv-mpich.so"}},
};

/* NULL: this process is alone. Slurm sets the number of tasks for programs, too, that it has not
 * started as one of them; these have no rank. */
static const launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *size = getenv(launchers[i].size), *rank = getenv(launchers[i].rank);
        if (size && rank && atoi(size) > 1)
            return &launchers[i];
    }
    return NULL;
}

bool qkv_dist_launched(void) { return find_launcher() != NULL; }

/* ---- joining ------------------------------------------------------------------------------ */

static qkv_status load(qkv__dist *d, qkv_context *ctx, const launcher *by)
{
    const char *named = getenv("QKV_MPI");
    const char *const names[] = {named && *named ? named : by->libraries[0],
                                 named && *named ? NULL : by->libraries[1]};
    for (int i = 0; i < 2 && names[i] && !d->library; i++)
        d->library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL); /* MPI opens parts of its own */
    if (!d->library)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s ranks were started, and %s does not open: is "
                        "qkv built with this MPI? (%s)", getenv(by->size), names[0], dlerror());
    qkv__dist_backend_fn *table;
    void *symbol = dlsym(d->library, "qkv__dist_mpi");
    memcpy(&table, &symbol, sizeof table); /* C has no cast between the two */
    d->backend = table ? table() : NULL;
    if (!d->backend || d->backend->version != QKV__DIST_VERSION)
        return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s is not of this version of qkv", names[0]);
    return QKV_OK;
}

/* Receives for what others will say if they fail. */
static qkv_status listen_for_failures(qkv__dist *d, qkv_context *ctx)
{
    size_t n = (size_t)d->place.size;
    d->failures = qkv_calloc(ctx, n, sizeof *d->failures);
    d->pending = qkv_calloc(ctx, n, sizeof *d->pending);
    d->arrived = qkv_calloc(ctx, n, sizeof *d->arrived);
    if (!d->failures || !d->pending || !d->arrived)
        return QKV_E_MEMORY;
    for (int r = 0; r < d->place.size; r++)
        if (r != d->place.rank && !d->backend->receive(&d->failures[r], sizeof *d->failures, r,
                                                       FAILURE, &d->pending[r]))
            return qkv_fail(ctx, QKV_E_IO, "MPI cannot receive");
    return QKV_OK;
}

static void free_dist(qkv__dist *d, qkv_context *ctx)
{
    if (!d)
        return;
    qkv__heartbeat_stop(d->heartbeat);
    qkv_free(ctx, d->failures);
    qkv_free(ctx, d->pending);
    qkv_free(ctx, d->arrived);
    qkv_free(ctx, d);
}

qkv_status qkv_dist_join(qkv_context *ctx)
{
    char why[QKV__DIST_WHY] = "";
    const launcher *by = find_launcher();
    if (!by)
        return QKV_OK;
    qkv__dist *d = qkv_calloc(ctx, 1, sizeof *d);
    qkv_status status = d ? load(d, ctx, by) : QKV_E_MEMORY;
    if (!status && !d->backend->open(&d->place, why))
        status = qkv_fail(ctx, QKV_E_IO, "%s", why);
    if (!status)
        status = listen_for_failures(d, ctx);
    if (!status)
        status = qkv__heartbeat_start(&d->heartbeat, ctx, d->backend, &d->place);
    if (status) {
        free_dist(d, ctx);
        return status;
    }
    qkv__context_join(ctx, d, d->place.local);
    return QKV_OK;
}

int qkv_dist_rank(const qkv_context *ctx)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    return d ? d->place.rank : 0;
}

int qkv_dist_size(const qkv_context *ctx)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    return d ? d->place.size : 1;
}

int qkv_dist_lost(const qkv_context *ctx)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    double silence;
    return d ? qkv__heartbeat_lost(d->heartbeat, &silence) : -1;
}

const char *qkv_dist_library(const qkv_context *ctx)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    return d ? d->place.library : NULL;
}

double qkv__dist_waited(const qkv_context *ctx)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    return d ? d->waited : 0;
}

/* ---- failing ------------------------------------------------------------------------------ */

static qkv_status told(qkv_context *ctx, int rank, const failure *f)
{
    qkv__context_dist(ctx)->over = true;
    return qkv_fail(ctx, f->status > 0 ? (qkv_status)f->status : QKV_E_IO, "rank %d: %.*s", rank,
                    MESSAGE - 1, f->message);
}

/* Has a rank said that it failed, or nothing at all? */
static qkv_status look_for_failures(qkv_context *ctx)
{
    qkv__dist *d = qkv__context_dist(ctx);
    double silence;
    int lost = qkv__heartbeat_lost(d->heartbeat, &silence);
    if (lost >= 0)
        return qkv_fail(ctx, QKV_E_IO, "rank %d has given no sign of life for %.0f seconds", lost,
                        silence);
    for (int r = 0; r < d->place.size; r++) {
        bool done = false;
        if (r == d->place.rank || d->arrived[r])
            continue;
        if (!d->backend->test(&d->pending[r], &done))
            return qkv_fail(ctx, QKV_E_IO, "MPI cannot receive from rank %d", r);
        d->arrived[r] = done;
        if (done)
            return told(ctx, r, &d->failures[r]);
    }
    return QKV_OK;
}

static void note_own(qkv__dist *d, const qkv_context *ctx, qkv_status status)
{
    d->own = (failure){.status = (int32_t)status};
    strncpy(d->own.message, qkv_context_message(ctx), MESSAGE - 1);
}

static void send_failure(qkv_context *ctx)
{
    qkv__dist *d = qkv__context_dist(ctx);
    note_own(d, ctx, qkv_context_status(ctx) ? qkv_context_status(ctx) : QKV_E_CANCELLED);
    d->over = true;
    for (int r = 0; r < d->place.size; r++) {
        qkv__request sent;
        bool done = false;
        if (r == d->place.rank || !d->backend->send(&d->own, sizeof d->own, r, FAILURE, &sent))
            continue;
        for (unsigned idle = 0; idle < YIELDS && !done; idle++) /* it need not arrive */
            if (d->backend->test(&sent, &done) && !done)
                (void)sched_yield();
    }
}

/* Is there no use in waiting for the others to leave? */
static bool gives_up(void *dist)
{
    const qkv__dist *d = dist;
    double silence;
    return (d->over && qkv_now() - d->left > PATIENCE) ||
           qkv__heartbeat_lost(d->heartbeat, &silence) >= 0;
}

void qkv_dist_leave(qkv_context *ctx, bool failed)
{
    qkv__dist *d = qkv__context_dist(ctx);
    if (!d)
        return;
    if (!d->over && failed)
        send_failure(ctx);
    for (int r = 0; r < d->place.size; r++)
        if (r != d->place.rank && !d->arrived[r])
            d->backend->cancel(&d->pending[r]);
    d->left = qkv_now();
    d->backend->gather(gives_up, d);
    qkv__heartbeat_stop(d->heartbeat);
    d->heartbeat = NULL;
    d->backend->close();
    qkv__context_join(ctx, NULL, 1);
    free_dist(d, ctx); /* MPI stays loaded: it cannot be begun again */
}

/* ---- messages ----------------------------------------------------------------------------- */

static qkv_status over(qkv_context *ctx)
{
    return qkv_context_status(ctx) ? qkv_context_status(ctx)
                                   : qkv_fail(ctx, QKV_E_IO, "another rank has failed");
}

qkv_status qkv__dist_send(qkv_context *ctx, const void *data, size_t bytes, int to, int tag,
                          qkv__request *r)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    if (d->over)
        return over(ctx);
    if (!d->backend->send(data, bytes, to, tag, r))
        return qkv_fail(ctx, QKV_E_IO, "MPI cannot send to rank %d", to);
    qkv__heartbeat_messages(d->heartbeat, 1);
    return QKV_OK;
}

qkv_status qkv__dist_receive(qkv_context *ctx, void *data, size_t bytes, int from, int tag,
                             qkv__request *r)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    if (d->over)
        return over(ctx);
    if (!d->backend->receive(data, bytes, from, tag, r))
        return qkv_fail(ctx, QKV_E_IO, "MPI cannot receive from rank %d", from);
    qkv__heartbeat_messages(d->heartbeat, 1);
    return QKV_OK;
}

qkv_status qkv__dist_test(qkv_context *ctx, qkv__request *r, bool *done)
{
    const qkv__dist *d = qkv__context_dist(ctx);
    *done = false;
    if (d->over)
        return over(ctx);
    if (!d->backend->test(r, done))
        return qkv_fail(ctx, QKV_E_IO, "a message of MPI failed");
    qkv__heartbeat_messages(d->heartbeat, *done ? -1 : 0);
    return QKV_OK;
}

qkv_status qkv__dist_pause(qkv_context *ctx, unsigned *idle)
{
    const struct timespec pause = {.tv_nsec = 50000};
    double begun = qkv_now();
    if (++*idle < YIELDS)
        (void)sched_yield();
    else
        (void)nanosleep(&pause, NULL);
    qkv_status status = *idle % 16 ? QKV_OK : look_for_failures(ctx);
    qkv__context_dist(ctx)->waited += qkv_now() - begun;
    return status;
}

qkv_status qkv__dist_wait(qkv_context *ctx, qkv__request *r)
{
    bool done = false;
    unsigned idle = 0;
    qkv_status status = qkv__dist_test(ctx, r, &done);
    while (!status && !done) {
        status = qkv__dist_pause(ctx, &idle);
        if (!status)
            status = qkv__dist_test(ctx, r, &done);
    }
    return status;
}

/* ---- what is built of them ------------------------------------------------------------------ */

/* A binomial tree: after round k, 2^k ranks have the bytes. */
qkv_status qkv__dist_broadcast(qkv_context *ctx, void *data, size_t bytes)
{
    int size = qkv_dist_size(ctx), rank = qkv_dist_rank(ctx);
    qkv_status status = QKV_OK;
    qkv__request r;
    for (int have = 1; have < size && !status && bytes; have *= 2) {
        if (rank >= have && rank < 2 * have) {
            status = qkv__dist_receive(ctx, data, bytes, rank - have, BROADCAST, &r);
            status = status ? status : qkv__dist_wait(ctx, &r);
        } else if (rank < have && rank + have < size) {
            status = qkv__dist_send(ctx, data, bytes, rank + have, BROADCAST, &r);
            status = status ? status : qkv__dist_wait(ctx, &r);
        }
    }
    return status;
}

qkv_status qkv__dist_gather(qkv_context *ctx, const void *mine, size_t bytes, void *all)
{
    size_t size = (size_t)qkv_dist_size(ctx), rank = (size_t)qkv_dist_rank(ctx), begun = 0;
    memcpy((char *)all + rank * bytes, mine, bytes);
    if (size == 1)
        return QKV_OK;
    qkv__request *r = qkv_malloc(ctx, 2 * size * sizeof *r);
    qkv_status status = r ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 1; i < size && !status; i++) {
        size_t to = (rank + i) % size, from = (rank + size - i) % size;
        status = qkv__dist_receive(ctx, (char *)all + from * bytes, bytes, (int)from, GATHER,
                                   &r[begun]);
        begun += !status;
        if (!status)
            status = qkv__dist_send(ctx, (char *)all + rank * bytes, bytes, (int)to, GATHER,
                                    &r[begun]);
        begun += !status;
    }
    for (size_t i = 0; i < begun && !status; i++)
        status = qkv__dist_wait(ctx, &r[i]);
    qkv_free(ctx, r);
    return status;
}

/* Messages of an exchange. sizes: (size, size) bytes from each rank to each. */
static qkv_status exchange_parts(qkv_context *ctx, const qkv__dist_part *parts, char *all,
                                 const size_t *sizes, qkv__request *r)
{
    size_t size = (size_t)qkv_dist_size(ctx), rank = (size_t)qkv_dist_rank(ctx), begun = 0;
    qkv_status status = QKV_OK;
    for (size_t i = 0, at = 0; i < size && !status; at += sizes[i++ * size + rank]) {
        size_t bytes = sizes[i * size + rank];
        if (i == rank && bytes)
            memcpy(all + at, parts[i].data, bytes);
        if (i != rank && bytes) {
            status = qkv__dist_receive(ctx, all + at, bytes, (int)i, GATHER, &r[begun]);
            begun += !status;
        }
        if (i != rank && parts[i].bytes && !status) {
            status = qkv__dist_send(ctx, parts[i].data, parts[i].bytes, (int)i, GATHER, &r[begun]);
            begun += !status;
        }
    }
    for (size_t i = 0; i < begun && !status; i++)
        status = qkv__dist_wait(ctx, &r[i]);
    return status;
}

qkv_status qkv__dist_exchange(qkv_context *ctx, const qkv__dist_part *parts, void **all,
                              size_t *total)
{
    size_t size = (size_t)qkv_dist_size(ctx), rank = (size_t)qkv_dist_rank(ctx);
    size_t *sizes = qkv_malloc(ctx, (size + 1) * size * sizeof *sizes);
    qkv__request *r = qkv_malloc(ctx, 2 * size * sizeof *r);
    char *out = NULL;
    qkv_status status = sizes && r ? QKV_OK : QKV_E_MEMORY;
    *total = 0;
    for (size_t i = 0; i < size && !status; i++)
        sizes[size * size + i] = parts[i].bytes;
    if (!status)
        status = qkv__dist_gather(ctx, sizes + size * size, size * sizeof *sizes, sizes);
    for (size_t i = 0; i < size && !status; i++)
        *total += sizes[i * size + rank];
    if (!status && !(out = qkv_malloc(ctx, *total)))
        status = QKV_E_MEMORY;
    if (!status)
        status = exchange_parts(ctx, parts, out, sizes, r);
    qkv_free(ctx, r);
    qkv_free(ctx, sizes);
    if (status)
        qkv_free(ctx, out);
    *all = status ? NULL : out;
    return status;
}

qkv_status qkv__dist_concat(qkv_context *ctx, const void *mine, size_t bytes, void **all,
                            size_t *total)
{
    size_t size = (size_t)qkv_dist_size(ctx);
    qkv__dist_part *parts = qkv_malloc(ctx, size * sizeof *parts);
    *all = NULL;
    for (size_t i = 0; i < size && parts; i++)
        parts[i] = (qkv__dist_part){mine, bytes};
    qkv_status status = parts ? qkv__dist_exchange(ctx, parts, all, total) : QKV_E_MEMORY;
    qkv_free(ctx, parts);
    return status;
}

qkv_status qkv__dist_agree(qkv_context *ctx, qkv_status own)
{
    qkv__dist *d = qkv__context_dist(ctx);
    if (!d || d->over)
        return d && !own ? over(ctx) : own;
    failure *all = qkv_malloc(ctx, (size_t)d->place.size * sizeof *all);
    note_own(d, ctx, own);
    qkv_status status = all ? qkv__dist_gather(ctx, &d->own, sizeof d->own, all) : QKV_E_MEMORY;
    for (int r = 0; r < d->place.size && !status; r++)
        if (all[r].status && r != d->place.rank)
            status = told(ctx, r, &all[r]);
        else if (all[r].status) {
            d->over = true;
            status = own;
        }
    qkv_free(ctx, all);
    return status;
}
