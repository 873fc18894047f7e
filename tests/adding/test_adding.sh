#!/bin/sh
# test_adding.sh - docs/adding.md is true: it names the files of each example that lies beside this
# script and no others, and these are all that it takes. In a copy of the tree, an op, a model kind
# with its task and its commands, and a kind of tokenizer are added, new files as they are and
# FILE.patch to FILE; the copy passes the checks of the tree, is built, and what was added works.
# Needs QKV_SOURCE, QKV_BUILD and patch.
set -eu
[ -z "$QKV_RUN" ] || { echo "cross-compiled: what is added is built where it runs"; exit 77; }
! grep -q '^QKV_SANITIZE:[^=]*=.' "$QKV_BUILD/CMakeCache.txt" || exit 77
command -v patch >/dev/null || { echo "patch is missing"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
tree=$work/tree
build=$work/build
failed=0
bad() { echo "adding: $*"; failed=1; }

# ---- the document ------------------------------------------------------------------------------

# EXAMPLE MOST: the files of an example are those that the document names, and at most so many.
check_files() {
    (cd "$QKV_SOURCE" && find "tests/adding/$1" -type f | LC_ALL=C sort) >"$work/files"
    grep -oE "tests/adding/$1/[A-Za-z0-9_./-]*[a-z]" "$QKV_SOURCE/docs/adding.md" |
        LC_ALL=C sort >"$work/named"
    diff "$work/named" "$work/files" >"$work/diff" ||
        bad "docs/adding.md (<) and tests/adding/$1 (>) differ: $(cat "$work/diff")"
    count=$(wc -l <"$work/files")
    [ "$count" -le "$2" ] || bad "$1 takes $count files, at most $2"
}
check_files op 6
check_files model 8
check_files tokenizer 4
[ "$failed" -eq 0 ] || exit 1

# ---- the examples, in a copy -------------------------------------------------------------------

mkdir "$tree"
(cd "$QKV_SOURCE" && tar cf - --exclude=tests/golden CMakeLists.txt cmake cmd docs include src \
    tests tools examples/*.c) | tar xf - -C "$tree"
for example in op model tokenizer; do
    from=$QKV_SOURCE/tests/adding/$example
    (cd "$from" && find . -type f) >"$work/files"
    while read -r file; do
        case $file in
        *.patch) patch -s "$tree/${file%.patch}" "$from/$file" || bad "$file does not apply" ;;
        *) [ ! -e "$tree/$file" ] || bad "$file is there already"
            cp "$from/$file" "$tree/$file" ;;
        esac
    done <"$work/files"
done
for check in check-includes check-circles check-size check-library check-names; do
    "$tree/tools/$check" || bad "$check"
done
QKV_SOURCE=$tree sh "$tree/tests/headers/test_model_functions.sh" || bad "test_model_functions"

# ---- built as the tree is, without what takes long ---------------------------------------------

launcher=
if command -v ccache >/dev/null; then
    launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR="$work" CCACHE_NOHASHDIR=1
fi
generator=
! command -v ninja >/dev/null || generator=-GNinja
tests="grad_test_softplus unit_test_bag unit_test_tokenizer_whitespace unit_test_wrong_kind
unit_test_defaults unit_test_job"
# shellcheck disable=SC2086 # lists, or nothing
{
    cmake -S "$tree" -B "$build" $generator $launcher -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG=-O0 -DQKV_SIMD=OFF -DQKV_DNNL=OFF -DQKV_IMAGES=OFF \
        -DQKV_PYTORCH=OFF >"$work/log" 2>&1 &&
        cmake --build "$build" -j 2 --target qkv-cli $tests >"$work/log" 2>&1
} || { tail -n 30 "$work/log"; exit 1; }
if grep -n 'warning:' "$work/log"; then bad "there are warnings"; fi
grep -q '<qkv/bag.h>' "$tree/include/qkv.h" || bad "include/qkv.h does not name qkv/bag.h"

# ---- what was added works ------------------------------------------------------------------------

export OMP_NUM_THREADS=1
for test in $tests; do
    (cd "$tree" && "$build/tests/$test") >"$work/log" 2>&1 || { cat "$work/log"; bad "$test"; }
done
qkv=$build/qkv
cd "$work"
for i in 1 2 3 4 5 6 7 8 9 10; do
    printf 'good\ta fine film %s\nbad\ta dull film %s\n' $i $i
done >lines.tsv
run() { "$qkv" "$@" >out 2>err || { cat out err; bad "qkv $*"; }; }
run train bag --data lines.tsv --steps 2 --vocab 60 --out bag
run bag bag "a fine film" --json
grep -q '^{"label": "\(good\|bad\)", "probs": {' out || bad "qkv bag says: $(cat out)"
run eval bag --json
grep -q '"accuracy"' out || bad "qkv eval says: $(cat out)"
run train lm --data lines.tsv --tokenizer whitespace --model nano --length 8 --steps 2 --out lm
run tokenize lm "a fine film"
run --help
grep -q '^  train bag ' out || bad "qkv --help does not name train bag"
exit "$failed"
