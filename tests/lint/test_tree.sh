#!/bin/sh
# test_tree - the quick checks of tools/lint: who includes whom, files that need each other, sizes,
# and what the library must not do. Shell and C analysers take longer: make lint.
cd "$QKV_SOURCE" || exit 1
status=0
for check in check-includes check-circles check-size check-library check-names; do
    "tools/$check" || status=1
done
exit $status
