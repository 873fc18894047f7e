#!/bin/sh
# test_drawings.sh - a page with every kind of content, and a drawing, in a real browser.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
"$QKV_BUILD/tests/browser_drawings" "$work"
check_page check_drawings.py "$work"
