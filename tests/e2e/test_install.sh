#!/bin/sh
# qkv, installed into an empty prefix, serves programs: every example and README's program is
# built from there and run, as C and as C++, through pkg-config (shared and static) and CMake.
# Needs CC, CXX, QKV_BUILD, QKV_SOURCE, QKV_RUN. A sanitized build is not for installing: skipped.
set -eu
! grep -q '^QKV_SANITIZE:[^=]*=.' "$QKV_BUILD/CMakeCache.txt" || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
prefix=$work/prefix
fail() { echo "install test: $*"; exit 1; }

cmake --install "$QKV_BUILD" --prefix "$prefix" >"$work/log" || { cat "$work/log"; fail "install"; }
pc=$(dirname "$(find "$prefix" -name qkv.pc)")
library=$(dirname "$pc")
[ -e "$library/libqkv.so" ] || fail "libqkv.so is missing"
[ -e "$library/libqkv.a" ] || fail "libqkv.a is missing"
if [ -x "$QKV_BUILD/qkv" ]; then
    $QKV_RUN "$prefix/bin/qkv" --help >/dev/null || fail "the installed command does not run"
    for file in man/man1/qkv.1 bash-completion/completions/qkv zsh/site-functions/_qkv; do
        [ -s "$prefix/share/$file" ] || fail "share/$file is missing or empty"
    done
    ! command -v bash >/dev/null || bash -n "$prefix/share/bash-completion/completions/qkv" ||
        fail "the bash completion is not bash"
fi

[ -z "$QKV_RUN" ] || { echo "cross-compiled: NOT tried: building programs on it"; exit 77; }

# A second prefix without the shared library: there -lqkv can only be the static one.
cp -r "$prefix" "$work/static"
rm "$work/static/${library#"$prefix"/}"/libqkv.so*
static_pc=$work/static/${pc#"$prefix"/}

mkdir "$work/programs"
cp "$QKV_SOURCE"/examples/*.c "$work/programs/"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$QKV_SOURCE/README.md" \
    >"$work/programs/readme.c"
[ -s "$work/programs/readme.c" ] || fail "README.md holds no C program"

# Each program once: language, library and how it was found alternate, so that every
# combination is met while the time stays short. build_and_run LANGUAGE LIBRARY SOURCE.
warnings="-Wall -Wextra -Wpedantic -Werror"
# As people debug: not optimised; and what nobody sets is no 0 by chance, where the compiler can.
plain=-O0
junk=-ftrivial-auto-var-init=pattern
if echo 'int main(void) { return 0; }' | $CC "$junk" -Werror -x c - -o "$work/a.out" 2>"$work/log"
then
    plain="$plain $junk"
else
    echo "$CC does not take $junk: uninitialised variables are left to chance"
fi
build_and_run() {
    if [ "$1" = c ]; then compiler="$CC -std=c11"; else compiler="$CXX -std=c++17 -x c++"; fi
    if [ "$2" = static ]; then
        export PKG_CONFIG_PATH="$static_pc"
        libs=$(pkg-config --static --libs qkv)
    else
        export PKG_CONFIG_PATH="$pc"
        libs="$(pkg-config --libs qkv) -Wl,-rpath,$library"
    fi
    cflags=$(pkg-config --cflags qkv)
    # shellcheck disable=SC2086 # lists of flags
    $compiler $plain $warnings $cflags "$3" -x none -o "$work/a.out" $libs -lm ||
        fail "$3 does not build as $1, $2"
    if [ "$2" = static ] && ldd "$work/a.out" | grep -q libqkv; then
        fail "the static program loads libqkv.so"
    fi
    (cd "$work" && ./a.out >"$work/log" 2>&1) || { cat "$work/log"; fail "$3 fails as $1, $2"; }
}
for source in "$work"/programs/*.c; do
    build_and_run c shared "$source"
    build_and_run c++ static "$source"
done
build_and_run c static "$work/programs/readme.c"
build_and_run c++ shared "$work/programs/readme.c"

cat >"$work/programs/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C CXX)
find_package(qkv 0.1 REQUIRED COMPONENTS shared static)
file(GLOB sources ${CMAKE_SOURCE_DIR}/*.c)
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE qkv::shared m)
endforeach()
configure_file(readme.c readme.cpp COPYONLY)
add_executable(static_cpp ${CMAKE_BINARY_DIR}/readme.cpp)
target_link_libraries(static_cpp PRIVATE qkv::static)
END
{
    cmake -S "$work/programs" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" &&
        cmake --build "$work/build"
} >"$work/log" 2>&1 || { cat "$work/log"; fail "find_package(qkv)"; }
"$work/build/readme" >/dev/null || fail "the program on qkv::shared"
"$work/build/static_cpp" >/dev/null || fail "the C++ program on qkv::static"
echo "installed, built and run: $(find "$work/programs" -name '*.c' | wc -l) programs"
