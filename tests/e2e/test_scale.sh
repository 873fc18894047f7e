#!/bin/sh
# test_scale.sh - what training on many ranks is predicted to take: the fields that scripts rely on,
# arithmetic between them, and one sentence on what cannot be.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# field FILE ROW NAME: a number of the row of predictions
field() {
    tr '{' '\n' <"$1" | grep '"ranks"' | sed -n "$2p" |
        sed "s/.*\"$3\": \([-+.e0-9]*\).*/\1/"
}

# holds EXPRESSION: of awk
holds() {
    awk "BEGIN { exit !($1) }" || { echo "not true: $1"; failed=1; }
}

scale() {
    "$QKV" scale --model nano --batch 2 --length 16 --ranks 1,8,64 --threads 1 "$@" 2>"$out/err"
}

# Of a step that is given: nothing is measured, and passes take what they took.
scale --step-seconds 0.5 --bandwidth 1Gbit --latency 100us --price 2 --json >"$out/given" ||
    { echo "failed: $(cat "$out/err")"; failed=1; }
grep -qF '"measured": false' "$out/given" || { echo "measured: $(cat "$out/given")"; failed=1; }
for row in 1 2 3; do
    for name in ranks step_s compute_s update_s tokens_per_s efficiency memory_bytes hours cost; do
        holds "$(field "$out/given" $row $name) > 0"
    done
    holds "$(field "$out/given" $row compute_s) == 0.5"
done
holds "$(field "$out/given" 1 waiting_s) == 0 && $(field "$out/given" 1 efficiency) == 1"
holds "$(field "$out/given" 3 waiting_s) > $(field "$out/given" 2 waiting_s)"
holds "$(field "$out/given" 3 efficiency) < $(field "$out/given" 2 efficiency)"
ratio="$(field "$out/given" 2 hours) * 8 * 2 / $(field "$out/given" 2 cost)"
holds "$ratio > 0.9999 && $ratio < 1.0001"

# A faster network; bytes or bits; the shares of an update.
scale --step-seconds 0.5 --bandwidth 1.25GB --update-batch 256 --json >"$out/fast"
scale --step-seconds 0.5 --bandwidth 10Gbit --update-batch 256 --json >"$out/bits"
holds "$(field "$out/fast" 3 sent_bytes) == $(field "$out/bits" 3 sent_bytes)"
holds "$(field "$out/fast" 3 waiting_s) == $(field "$out/bits" 3 waiting_s)"
holds "$(field "$out/fast" 2 compute_s) == 8 && $(field "$out/fast" 3 compute_s) == 1"

# Measured here, as a table, and of a network of images.
scale --repeats 1 --tokens 1e6 --price 1 >"$out/table" ||
    { echo "failed: $(cat "$out/err")"; failed=1; }
[ "$(grep -cE '^ +(1|8|64) +[0-9.]+ +[0-9.kMG]+ ' "$out/table")" -eq 3 ] ||
    { echo "no three rows: $(cat "$out/table")"; failed=1; }
"$QKV" scale --model cct-7 --batch 8 --length 8 --ranks 2 --gflops 1 --json >"$out/images" ||
    { echo "of images: failed"; failed=1; }
holds "$(field "$out/images" 1 compute_s) > 0"

# refused CODE SENTENCE ARGUMENT...
refused() {
    code=$1 sentence=$2
    shift 2
    "$QKV" scale --model nano --batch 2 --length 16 "$@" >"$out/said" 2>"$out/err"
    found=$?
    [ $found -eq "$code" ] || { echo "scale $*: exit code $found, not $code"; failed=1; }
    [ "$(grep -c '^qkv: ' "$out/err")" -eq 1 ] ||
        { echo "scale $*: no one sentence"; cat "$out/err"; failed=1; }
    grep -qF -- "$sentence" "$out/err" || { echo "scale $*: $(cat "$out/err")"; failed=1; }
}
for rate in 10 Gbit -1Gbit 0Gbit 1Tbit 10Gbits nanGbit; do
    refused 2 "--bandwidth: a rate such as 10Gbit" --bandwidth=$rate
done
refused 2 "--latency: a time such as 20us" --latency 20
refused 2 "one of them expected" --step-seconds 1 --gflops 1
refused 2 "--ranks" --ranks 0
refused 2 "--ranks" --ranks many
refused 1 'no preset "giant"' --model giant
refused 1 "a sample for each of the 8 ranks" --step-seconds 1 --ranks 8 --update-batch 4
refused 1 "a multiple of the 4 ranks" --step-seconds 1 --ranks 6 --ranks-per-machine 4
exit $failed
