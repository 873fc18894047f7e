#!/bin/sh
# The command is a client of the library: its files include <qkv.h>, headers of their own folder and
# the system's, and compile with nothing else in sight; the program is linked against the shared
# library, names none of its inner functions, finds it from where it lies, and holds no path of the
# machine that built it. Needs CC, NM, READELF, STRIP, QKV_PROGRAM,
# QKV_BUILD, QKV_SOURCE.
set -u
status=0
complain() { echo "$*"; status=1; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$QKV_SOURCE" || exit 1

files=$(find cmd -name '*.[ch]' | sort)
for file in $files; do
    # shellcheck disable=SC2013 # no header's name has a space
    for header in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$file"); do
        [ -e "cmd/$header" ] || complain "$file includes \"$header\""
    done
    if grep -n '#include <qkv/' "$file"; then complain "$file: <qkv.h> is what programs include"; fi
    if grep -n 'qkv__' "$file"; then complain "$file names what is inside the library"; fi
done
# shellcheck disable=SC2046,SC2086 # lists without spaces
$CC -std=c11 -fsyntax-only -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Iinclude -Icmd \
    $(echo "$files" | grep '\.c$') || complain "the command needs more than public headers"

sanitized=$(sed -n 's/^QKV_SANITIZE:[^=]*=//p' "$QKV_BUILD/CMakeCache.txt") # keeps paths
for program in "$QKV_PROGRAM" "$QKV_BUILD/libqkv.so"; do
    [ -z "$sanitized" ] || break
    $STRIP -o "$tmp/stripped" "$program"
    ! grep -qaF "$QKV_SOURCE/" "$tmp/stripped" || complain "$program holds $QKV_SOURCE/"
done
$READELF -d "$QKV_BUILD/libqkv.so" | grep -q 'SONAME.*\[libqkv\.so\.[0-9]*\.[0-9]*\]' ||
    complain "libqkv.so has no soname MAJOR.MINOR"
path=$($READELF -d "$QKV_PROGRAM" | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p')
case ":$path" in *:/*) complain "qkv looks for libraries in $path" ;; esac
inner=$($NM -u "$QKV_PROGRAM" | grep 'qkv__')
[ -z "$inner" ] || complain "qkv names $inner"
$READELF -d "$QKV_PROGRAM" | grep -q 'NEEDED.*\[libqkv\.so\.' ||
    complain "qkv does not load libqkv.so"
# shellcheck disable=SC2016 # the loader expands it
case $path in *'$ORIGIN'*) ;; *) complain "qkv does not look beside itself: $path" ;; esac
exit $status
