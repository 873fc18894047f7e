/* backend.h - what carries bytes between ranks: all that this library asks of MPI.
 *
 * The shared object of an MPI exports one function, qkv__dist_mpi, that returns such a table. It
 * uses nothing of this library. */
#ifndef QKV_SRC_DIST_BACKEND_H
#define QKV_SRC_DIST_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QKV__DIST_VERSION = 1, QKV__DIST_WHY = 256, QKV__DIST_LIBRARY = 64 };

/* A message under way. */
typedef struct {
    uint64_t id;
} qkv__request;

/* Who we are. */
typedef struct {
    int rank, size;
    int local;    /* ranks on this machine */
    bool threads; /* may several threads call the functions below at once? */
    char library[QKV__DIST_LIBRARY];
} qkv__dist_place;

/* Functions return false after a failure; open writes a sentence into why (QKV__DIST_WHY). */
typedef struct {
    int version; /* QKV__DIST_VERSION */
    bool (*open)(qkv__dist_place *place, char *why);
    /* Begin to send or receive bytes, which stay untouched until test says that it is done. Between
     * two ranks, messages of one tag arrive in order; both sides name the same size. */
    bool (*send)(const void *data, size_t bytes, int to, int tag, qkv__request *r);
    bool (*receive)(void *data, size_t bytes, int from, int tag, qkv__request *r);
    bool (*test)(qkv__request *r, bool *done);
    void (*cancel)(qkv__request *r); /* a receive that is not waited for */
    /* All ranks call it, and it waits until all have. A rank whose give_up says so, which is asked
     * again and again, ends the whole run. */
    void (*gather)(bool (*give_up)(void *user), void *user);
    void (*close)(void); /* afterwards */
} qkv__dist_backend;

typedef const qkv__dist_backend *qkv__dist_backend_fn(void);

#endif
