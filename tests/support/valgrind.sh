#!/bin/sh
# valgrind.sh PROGRAM - runs it under valgrind in a folder of its own: it reads no memory that was
# not written or is not there, and leaks none. Its own verdict, 1 or 2, is not asked for: it has
# learnt for a few steps only (few_steps.c). What the library says of a failure is.
set -u
[ -z "${QKV_RUN-}" ] || {
    echo "cross-compiled: NOT checked for uninitialised memory: $1"
    exit 77
}
command -v valgrind >/dev/null || {
    echo "valgrind is not installed: NOT checked for uninitialised memory: $1"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cd "$work" || exit 1
valgrind -q --error-exitcode=99 "$1" >answer 2>errors
code=$?
cat answer errors
[ $code -le 2 ] && [ ! -s errors ]
