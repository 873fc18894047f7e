#!/bin/sh
# test_look_series.sh - pages of `qkv look --out` on series in a real browser: a filler of gaps and
# a classifier, with hostile names of columns and classes.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
cd "$work"

hostile="a,<script>window.hacked = 1</script> <b>\"$(printf '\342\200\256')x"
printf '%s\n' "$hostile" "down <img src=x onerror=hacked=1>" >names
sed 's/"/""/g; s/.*/"&"/' names | paste -s -d , - >gaps.csv
# In the last 48 rows a gap of four, single ones, and two rows without any value.
awk 'BEGIN { for (i = 0; i < 300; i++) {
    a = i % 50 == 20 || i % 90 == 85 || (i > 270 && i < 274) ? "" : sprintf("%.3f", sin(i / 4))
    b = i == 280 || i == 265 || i == 271 ? "NA" : 40 - i % 24
    print a "," b } }' >>gaps.csv
awk 'BEGIN { for (i = 0; i < 80; i++) {
    printf "%s", i % 2 ? "<i>slow</i>" : "quick \"<script>window.hacked=1</script>"
    for (t = 0; t < 18 + i % 3; t++) printf ",%.3f,%d", sin(t / (i % 2 ? 6 : 2)), t
    print "" } }' >labelled.csv
cut -d , -f 2- labelled.csv >series.csv
train() {
    "$QKV" train "$@" --steps 20 --threads 1 --quiet >answer
}
train fill --data gaps.csv --context 48 --valid-last 60 --out filler
train classify --data labelled.csv --channels 2 --patch 4 --out classifier
cd "$OLDPWD"
check_page check_look_series.py "$QKV" "$work"
