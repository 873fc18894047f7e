/* signals.c - SIGINT and SIGTERM, taken by a thread that waits for them.
 *
 * There is no handler, on purpose: a handler's frame is written below the stack pointer of the
 * thread that it interrupts, and oneDNN's matrix kernels use that register for other things, so
 * that a signal in the middle of a product overwrote the heap. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core/cli.h"

static atomic_bool catching, stopped;
static sigset_t watched;

/* As if nobody watched. */
static void die(int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        return;
    (void)signal(number, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
    (void)raise(number);
}

static void *signals_watch(void *unused)
{
    int number;
    while (sigwait(&watched, &number) == 0) {
        if (atomic_exchange(&catching, false))
            atomic_store(&stopped, true);
        else
            die(number);
    }
    return unused;
}

void cli_watch_signals(void)
{
    pthread_t thread;
    (void)sigemptyset(&watched);
    (void)sigaddset(&watched, SIGTERM);
    (void)sigaddset(&watched, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &watched, NULL);
    if (pthread_create(&thread, NULL, signals_watch, NULL) == 0)
        (void)pthread_detach(thread);
    else
        (void)pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
}

void cli_catch_signals(void)
{
    (void)signal(SIGINT, SIG_DFL); /* a shell may have started us with it ignored */
    (void)signal(SIGTERM, SIG_DFL);
    atomic_store(&catching, true);
}

bool cli_release_signals(void)
{
    atomic_store(&catching, false);
    return atomic_exchange(&stopped, false);
}

bool cli_stopped(void)
{
    return atomic_load(&stopped);
}
