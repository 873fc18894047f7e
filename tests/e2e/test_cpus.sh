#!/bin/sh
# Runs on processors that this machine is not: one without AVX2 and one without AVX-512, both by
# qemu. Skipped where there is none, and in a sanitized build. Needs QKV_BUILD, QKV, QKV_RUN.
set -eu
[ -z "$QKV_RUN" ] || { echo "cross-compiled: no other processors are tried"; exit 77; }
command -v qemu-x86_64 >/dev/null || exit 77
! grep -q '^QKV_SANITIZE:[^=]*=.' "$QKV_BUILD/CMakeCache.txt" || exit 77
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

try() { # processor, instruction sets it has
    isa=$(qemu-x86_64 -cpu "$1" "$QKV" info --json | tr -d ' \n' |
        sed 's/.*"isa":\[\([^]]*\)\].*/\1/')
    [ "$isa" = "$2" ] || { echo "$1: instruction sets $isa, not $2"; exit 1; }
    for program in unit_test_contracts property_test_attention kernel_test_table; do
        qemu-x86_64 -cpu "$1" "$QKV_BUILD/tests/$program" >"$log" 2>&1 ||
            { cat "$log"; echo "$1: $program failed"; exit 1; }
    done
    echo "$1: [$2]"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
try Nehalem ''
try Haswell '"avx2"'
