#!/bin/sh
# Every public header compiles alone, and included twice, as C11 and as C++17; the umbrella names
# each once.
# Needs CC, CXX, QKV_SOURCE.
set -u
status=0
count=0
for path in "$QKV_SOURCE"/include/qkv.h "$QKV_SOURCE"/include/qkv/*.h; do
    header=${path#"$QKV_SOURCE"/include/}
    text="#include <$header>
#include <$header>"
    flags="-I$QKV_SOURCE/include -fsyntax-only -Wall -Wextra -Wpedantic -Werror"
    # shellcheck disable=SC2086 # a list of flags
    printf '%s\n' "$text" | $CC -x c -std=c11 $flags - ||
        { echo "$header does not compile alone as C11"; status=1; }
    # shellcheck disable=SC2086
    printf '%s\n' "$text" | $CXX -x c++ -std=c++17 $flags - ||
        { echo "$header does not compile alone as C++17"; status=1; }
    count=$((count + 1))
done
named=$(sed -n 's/^#include <\(qkv\/.*\)>$/\1/p' "$QKV_SOURCE/include/qkv.h" | sort)
there=$(cd "$QKV_SOURCE/include" && printf '%s\n' qkv/*.h | sort)
[ "$named" = "$there" ] || { echo "qkv.h does not name every header once"; status=1; }
echo "$count headers"
exit $status
