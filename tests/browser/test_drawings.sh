#!/bin/sh
# test_drawings.sh - a page with every kind of content, and a drawing, in a real browser.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
if grep -q '^QKV_IMAGES:BOOL=OFF' "$QKV_BUILD/CMakeCache.txt"; then
    echo "SKIPPED: this build writes no images"
    exit 77
fi
$QKV_RUN "$QKV_BUILD/tests/browser_drawings" "$work"
check_page check_drawings.py "$work"
