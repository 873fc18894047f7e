/* dist.h - training and evaluating over several processes, the ranks of one run.
 * Layer: dist
 *
 *     qkv_context_create(&ctx, NULL);
 *     qkv_dist_join(ctx);             one rank unless a launcher (mpirun, srun) started several
 *     ... jobs, qkv_train, evaluations: every rank makes the same calls ...
 *     qkv_dist_leave(ctx, status != QKV_OK);
 *
 * Each rank is a process with a context of its own. A batch is cut over the ranks; rank 0 alone
 * writes files and reports events. */
#ifndef QKV_DIST_H
#define QKV_DIST_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* True if a launcher started this process as one of several ranks: the environment variables of
 * Open MPI, MPICH (PMI), PMIx or Slurm say so. */
bool qkv_dist_launched(void);

/* Makes ctx a rank of the run that the launcher started, through the MPI of that launcher. Without
 * a launcher ctx becomes the only rank, and MPI is not loaded. Call it before anything else is made
 * on the context, on one context of a process, once a process. Unless the options said how many,
 * the ranks of a machine share its cores: each has cores / ranks threads, at least one.
 * QKV_E_UNSUPPORTED: there is no MPI library of that launcher; QKV_MPI names another shared object
 * (libqkv-openmpi.so, libqkv-mpich.so). QKV_E_IO: MPI fails.
 *
 * From then on a thread gives signs of life. Calls that wait for a rank of which nothing has been
 * heard for 45 seconds fail (QKV_DIST_SILENCE: another number). */
qkv_status qkv_dist_join(qkv_context *ctx);

/* Leaves the run, and waits until all ranks do. failed: this rank's work did; the other ranks learn
 * its context's message, and their waiting calls fail with it. A rank that does not leave within 20
 * seconds then, or that has vanished, ends the whole run through MPI. Nothing for a context that
 * has not joined. */
void qkv_dist_leave(qkv_context *ctx, bool failed);

int qkv_dist_rank(const qkv_context *ctx); /* 0 .. size - 1; 0 for a context that has not joined */
int qkv_dist_size(const qkv_context *ctx); /* number of ranks; 1 for such a context */

/* The rank of which this one has heard nothing for too long; -1: none. Each watches the one before
 * it: so a single rank can say that rank 0, which says all else, is lost. */
int qkv_dist_lost(const qkv_context *ctx);

/* "Open MPI v4.1.4", ..; NULL: no MPI is in use. */
const char *qkv_dist_library(const qkv_context *ctx);

QKV_END_DECLS
#endif
