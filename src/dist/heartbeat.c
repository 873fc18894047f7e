/* heartbeat.c - signs of life around the ring of ranks, and the progress of messages. */
#include "dist/heartbeat.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static const double EVERY = 3, SILENCE = 45, STALL = 10; /* seconds; see listen_once */
enum { MILLISECOND = 1000000, CALM = 200, BUSY = 1 }; /* CALM, BUSY: milliseconds of a pause */

struct qkv__heartbeat {
    qkv_context *ctx;
    const qkv__dist_backend *backend;
    int before, after;
    double silence;
    pthread_t thread;
    atomic_bool ending;
    atomic_int lost; /* seconds of silence; 0: not lost */
    atomic_int messages; /* of the main thread that are under way */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* when the pause is to be another one */
    /* The thread's own. */
    char heard, said;
    qkv__request receiving, sending;
    bool is_sending;
    double last_heard, last_said, last_round;
};

/* One round: what has come, what is to go. A round that comes late is the fault of this process,
 * which was stopped itself: the silence begins anew. */
static bool listen_once(qkv__heartbeat *h)
{
    double now = qkv_now();
    bool done = false;
    if (now - h->last_round > STALL)
        h->last_heard = now;
    h->last_round = now;
    if (!h->backend->test(&h->receiving, &done))
        return false;
    if (done) {
        h->last_heard = now;
        if (!h->backend->receive(&h->heard, 1, h->before, QKV__DIST_HEARTBEAT, &h->receiving))
            return false;
    }
    done = !h->is_sending;
    if (h->is_sending && !h->backend->test(&h->sending, &done))
        return false;
    h->is_sending = !done;
    if (done && now - h->last_said >= EVERY) {
        h->last_said = now;
        h->is_sending = true;
        if (!h->backend->send(&h->said, 1, h->after, QKV__DIST_HEARTBEAT, &h->sending))
            return false;
    }
    if (now - h->last_heard > h->silence)
        atomic_store(&h->lost, (int)(now - h->last_heard));
    return true;
}

/* Returns after the pause, or when it is to be shorter. */
static void pause_thread(qkv__heartbeat *h)
{
    struct timespec until;
    bool busy = atomic_load(&h->messages) > 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (busy ? BUSY : CALM) * MILLISECOND;
    until.tv_sec += until.tv_nsec / (1000 * MILLISECOND);
    until.tv_nsec %= 1000 * MILLISECOND;
    (void)pthread_mutex_lock(&h->lock);
    bool same = busy == (atomic_load(&h->messages) > 0) && !atomic_load(&h->ending);
    if (busy || same)
        (void)pthread_cond_timedwait(&h->wake, &h->lock, &until);
    (void)pthread_mutex_unlock(&h->lock);
}

static void *live(void *heartbeat)
{
    qkv__heartbeat *h = heartbeat;
    while (!atomic_load(&h->ending) && listen_once(h))
        pause_thread(h);
    h->backend->cancel(&h->receiving);
    return NULL;
}

static void wake_thread(qkv__heartbeat *h)
{
    (void)pthread_mutex_lock(&h->lock);
    (void)pthread_cond_signal(&h->wake);
    (void)pthread_mutex_unlock(&h->lock);
}

void qkv__heartbeat_messages(qkv__heartbeat *h, int more)
{
    if (h && atomic_fetch_add(&h->messages, more) == 0 && more > 0)
        wake_thread(h);
}

/* Signals are the program's: the thread gets none. */
static bool start_thread(qkv__heartbeat *h)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool fine = pthread_create(&h->thread, NULL, live, h) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return fine;
}

static void free_heartbeat(qkv__heartbeat *h)
{
    (void)pthread_cond_destroy(&h->wake);
    (void)pthread_mutex_destroy(&h->lock);
    qkv_free(h->ctx, h);
}

qkv_status qkv__heartbeat_start(qkv__heartbeat **out, qkv_context *ctx,
                                const qkv__dist_backend *backend, const qkv__dist_place *place)
{
    const char *given = getenv("QKV_DIST_SILENCE");
    double now = qkv_now(), silence = given ? atof(given) : 0;
    *out = NULL;
    if (!place->threads || place->size < 2)
        return QKV_OK;
    qkv__heartbeat *h = qkv_calloc(ctx, 1, sizeof *h);
    if (!h)
        return QKV_E_MEMORY;
    h->ctx = ctx;
    h->backend = backend;
    h->before = (place->rank + place->size - 1) % place->size;
    h->after = (place->rank + 1) % place->size;
    h->silence = silence > 0 ? silence : SILENCE;
    h->last_heard = h->last_round = now;
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->wake, NULL);
    if (backend->receive(&h->heard, 1, h->before, QKV__DIST_HEARTBEAT, &h->receiving) &&
        start_thread(h)) {
        *out = h;
        return QKV_OK;
    }
    free_heartbeat(h);
    return qkv_fail(ctx, QKV_E_IO, "the thread that watches the other ranks cannot begin");
}

void qkv__heartbeat_stop(qkv__heartbeat *h)
{
    if (!h)
        return;
    atomic_store(&h->ending, true);
    wake_thread(h);
    (void)pthread_join(h->thread, NULL);
    free_heartbeat(h);
}

int qkv__heartbeat_lost(const qkv__heartbeat *h, double *seconds)
{
    *seconds = h ? atomic_load(&h->lost) : 0;
    return *seconds > 0 ? h->before : -1;
}
