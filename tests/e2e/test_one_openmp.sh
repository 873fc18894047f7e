#!/bin/sh
# One OpenMP runtime serves qkv and oneDNN: two thread pools would fight over the cores. A clang
# build loads libgomp too, because oneDNN names it, but every call must bind to one library.
# Needs QKV_BUILD, QKV_RUN. Skipped where the dynamic linker cannot tell (LD_DEBUG is glibc's).
set -eu
[ -z "$QKV_RUN" ] || { echo "cross-compiled: the emulator does not say what is bound"; exit 77; }
bindings=$(LD_DEBUG=bindings LD_BIND_NOW=1 "$QKV_BUILD/examples/00_tensor" 2>&1 >/dev/null |
    grep -E "(GOMP_parallel|__kmpc_fork_call|omp_get_max_threads)'" |
    sed 's/.* to \([^ ]*\) .*/\1/' | sort -u)
[ -n "$bindings" ] || exit 77
echo "$bindings"
[ "$(echo "$bindings" | wc -l)" -eq 1 ]

# Where OpenMP gives fewer threads than are asked for, all of the work is done nonetheless. (oneDNN
# cuts it for a number of threads, and waits for those that do not come.)
OMP_THREAD_LIMIT=1 timeout 60 "$QKV_BUILD/tests/parity_test_lpips_golden"
