/* mpi.c - the table of backend.h on MPI (Open MPI, MPICH and others): a shared object of its own,
 * since each MPI has another binary interface. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/backend.h"

#if defined(__GNUC__)
#define EXPORTED __attribute__((visibility("default")))
#else
#define EXPORTED
#endif
EXPORTED qkv__dist_backend_fn qkv__dist_mpi;

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request holds one of MPI's");

enum { BLOCK = 64 }; /* bytes; messages of whole blocks may be longer than INT_MAX bytes */
static MPI_Datatype block;
static MPI_Comm ranks; /* our own, so that a program may use MPI beside */

static void first_line(char *out, size_t room, const char *text)
{
    size_t n = strcspn(text, "\n,");
    (void)snprintf(out, room, "%.*s", (int)n, text);
}

static bool mpi_open(qkv__dist_place *place, char *why)
{
    int had = 0, ended = 0, length = 0, given = 0;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm here;
    (void)MPI_Initialized(&had);
    (void)MPI_Finalized(&ended);
    if (ended || (!had && MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given)) ||
        MPI_Query_thread(&given)) {
        (void)snprintf(why, QKV__DIST_WHY, "MPI_Init_thread failed");
        return false;
    }
    place->threads = given == MPI_THREAD_MULTIPLE;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &ranks) || MPI_Comm_rank(ranks, &place->rank) ||
        MPI_Comm_size(ranks, &place->size) ||
        MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) ||
        MPI_Comm_size(here, &place->local) || MPI_Comm_free(&here) ||
        MPI_Type_contiguous(BLOCK, MPI_BYTE, &block) || MPI_Type_commit(&block) ||
        MPI_Get_library_version(version, &length)) {
        (void)snprintf(why, QKV__DIST_WHY, "MPI cannot make a communicator");
        return false;
    }
    first_line(place->library, sizeof place->library, version);
    return true;
}

/* How many of which type. */
static int units(size_t bytes, MPI_Datatype *type)
{
    bool whole = bytes % BLOCK == 0;
    *type = whole ? block : MPI_BYTE;
    return (int)(whole ? bytes / BLOCK : bytes);
}

static bool mpi_send(const void *data, size_t bytes, int to, int tag, qkv__request *r)
{
    MPI_Datatype type;
    MPI_Request request;
    int n = units(bytes, &type);
    bool fine = MPI_Isend(data, n, type, to, tag, ranks, &request) == MPI_SUCCESS;
    memcpy(&r->id, &request, sizeof request);
    return fine;
}

static bool mpi_receive(void *data, size_t bytes, int from, int tag, qkv__request *r)
{
    MPI_Datatype type;
    MPI_Request request;
    int n = units(bytes, &type);
    bool fine = MPI_Irecv(data, n, type, from, tag, ranks, &request) == MPI_SUCCESS;
    memcpy(&r->id, &request, sizeof request);
    return fine;
}

static bool mpi_test(qkv__request *r, bool *done)
{
    MPI_Request request;
    int flag = 0;
    memcpy(&request, &r->id, sizeof request);
    bool fine = MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    memcpy(&r->id, &request, sizeof request);
    *done = flag;
    return fine;
}

static void mpi_cancel(qkv__request *r)
{
    MPI_Request request;
    memcpy(&request, &r->id, sizeof request);
    if (MPI_Cancel(&request) == MPI_SUCCESS)
        (void)MPI_Request_free(&request);
}

static void mpi_gather(bool (*give_up)(void *user), void *user)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    MPI_Request all;
    int done = 0;
    bool fine = MPI_Ibarrier(ranks, &all) == MPI_SUCCESS;
    while (fine && !done) {
        fine = MPI_Test(&all, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && (done || !give_up(user));
        if (!done)
            (void)nanosleep(&pause, NULL);
    }
    if (!fine) /* MPICH 4.2 tells its launcher only of this communicator, not of a copy */
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

static void mpi_close(void)
{
    (void)MPI_Type_free(&block);
    (void)MPI_Comm_free(&ranks);
    (void)MPI_Finalize();
}

const qkv__dist_backend *qkv__dist_mpi(void)
{
    static const qkv__dist_backend table = {
        .version = QKV__DIST_VERSION, .open = mpi_open, .send = mpi_send, .receive = mpi_receive,
        .test = mpi_test, .cancel = mpi_cancel, .gather = mpi_gather,
        .close = mpi_close};
    return &table;
}
