#!/bin/sh
# test_explain.sh - the page of `qkv explain --out` in a real browser.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
check_page check_explain.py "$QKV" "$work"
