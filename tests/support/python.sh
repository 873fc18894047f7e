#!/bin/sh
# python.sh package: makes the Python package in the build folder.
# python.sh NAME: runs python/tests/NAME.py on it.
# Skipped without Python 3.9 (QKV_PYTHON: another interpreter than python3), when cross-compiled,
# and with other sanitizers than gcc's for addresses, which is loaded before Python.
set -eu
python=${QKV_PYTHON:-python3}
"$python" -c 'import sys, ctypes; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    { echo "skipped: Python 3.9 or later, with ctypes, is not installed"; exit 77; }
[ -z "$QKV_RUN" ] || { echo "skipped: cross-compiled"; exit 77; }
sanitizer=$(sed -n 's/^QKV_SANITIZE:[^=]*=//p' "$QKV_BUILD/CMakeCache.txt")
runtime=$($CC -print-file-name=libasan.so)
case $sanitizer:$runtime:$1 in
:* | address:/*:package) ;;
address:*:test_wheel) echo "skipped: no wheel of a sanitized library"; exit 77 ;;
address:/*) # Python itself leaks
    export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" LD_PRELOAD="$runtime" ;;
*) echo "skipped: a library with the sanitizer $sanitizer"; exit 77 ;;
esac
[ "$1" != package ] ||
    exec "$python" "$QKV_SOURCE/python/generate.py" --build "$QKV_BUILD" --cc "$CC"
export OMP_WAIT_POLICY=passive # other tests run beside this one
cd "$QKV_SOURCE/python/tests"
PYTHONPATH=$QKV_BUILD/python exec "$python" -X faulthandler "$1.py"
