#!/bin/sh
# python.sh package: makes the Python package in the build folder.
# python.sh NAME: runs python/tests/NAME.py on it.
# Skipped without Python 3.9 (QKV_PYTHON: another interpreter than python3), in a sanitized build,
# whose library Python cannot load, and when cross-compiled.
set -eu
python=${QKV_PYTHON:-python3}
"$python" -c 'import sys, ctypes; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    { echo "skipped: Python 3.9 or later, with ctypes, is not installed"; exit 77; }
[ -z "$QKV_RUN" ] || { echo "skipped: cross-compiled"; exit 77; }
! grep -q "^QKV_SANITIZE:[^=]*=." "$QKV_BUILD/CMakeCache.txt" ||
    { echo "skipped: a sanitized library"; exit 77; }
[ "$1" != package ] ||
    exec "$python" "$QKV_SOURCE/python/generate.py" --build "$QKV_BUILD" --cc "$CC"
export OMP_WAIT_POLICY=passive # other tests run beside this one
cd "$QKV_SOURCE/python/tests"
PYTHONPATH=$QKV_BUILD/python exec "$python" -X faulthandler "$1.py"
