#!/bin/sh
# The shared library exports qkv_ names alone, none of them an inner qkv__ one, and functions alone;
# the static library has no global name without the prefix. Skipped in a sanitized build, whose
# compiler adds names. Needs QKV_BUILD, NM.
set -eu
! grep -q "^QKV_SANITIZE:[^=]*=." "$QKV_BUILD/CMakeCache.txt" || exit 77
shared=$($NM -D --defined-only "$QKV_BUILD/libqkv.so" | awk 'NF == 3 { print $3 }')
global=$($NM -g --defined-only "$QKV_BUILD/libqkv.a" 2>/dev/null | awk 'NF == 3 { print $3 }')
echo "$shared" | grep -q '^qkv_context_create$' || { echo "nothing is exported"; exit 1; }

# clang's OpenMP shares a lock between all programs under a name of its own.
foreign=$(echo "$shared" | grep -Ev '^(qkv_[a-z0-9]|\.gomp_critical_user_)' || true)
[ -z "$foreign" ] || { echo "libqkv.so exports: $foreign"; exit 1; }
data=$($NM -D --defined-only "$QKV_BUILD/libqkv.so" | awk 'NF == 3 && $2 != "T" { print $3 }' |
    grep -v '^\.gomp_critical_user_' || true)
[ -z "$data" ] || { echo "libqkv.so exports data: $data"; exit 1; }
foreign=$(echo "$global" | grep -Ev '^(qkv_|\.gomp_critical_user_)' || true)
[ -z "$foreign" ] || { echo "libqkv.a defines: $foreign"; exit 1; }
echo "$(echo "$shared" | wc -l) names exported"
