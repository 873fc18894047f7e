#!/bin/sh
# test_runs.sh - reports and comparisons of runs, from the shell: also of a run that was killed, and
# what is said where there is no run.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/models.sh
. "$QKV_SOURCE/tests/support/models.sh"
export OMP_WAIT_POLICY=passive

sentences 400 >text
common="train lm --data text --tokenizer char --model nano --length 16 --batch 2 --threads 1
    --eval-units 64 --quiet"
# shellcheck disable=SC2086 # several words
"$QKV" $common --steps 40 --out a || fail "train a"
# shellcheck disable=SC2086
"$QKV" $common --steps 30 --lr 0.001 --set num_hidden_layers=1 --out "b <i>" || fail "train b"
# shellcheck disable=SC2086
"$QKV" $common --steps 100000 --out killed &
pid=$!
while kill -0 $pid 2>null && ! grep -qs '"step": 50,' killed/train/metrics.jsonl; do
    sleep 0.02
done
kill -s KILL $pid
wait $pid 2>null

for name in a "b <i>" killed; do
    "$QKV" report "$name" --out page.html 2>notes || fail "report $name: $(cat notes)"
    grep -q '^written: page.html' notes || fail "report $name: $(cat notes)"
    grep -q 'Norm of the gradient by layer' page.html || fail "report $name: no norms"
    grep -q 'continuation-1' page.html || fail "report $name: no samples"
    grep -q 'Content-Security-Policy' page.html || fail "report $name: no policy"
    grep -o 'https*://[a-z0-9./-]*' page.html | grep -v '^http://www.w3.org/' &&
        fail "report $name: a link"
done
cmp -s a/train/report.html page.html && fail "two runs have one page"
"$QKV" report a --json >answer || fail "report --json"
[ "$(cat answer)" = '{"out": "a/train/report.html"}' ] || fail "report --json: $(cat answer)"

# Only what differs is printed, and the metrics of the models that are kept.
"$QKV" compare a "b <i>" killed --out page.html >answer 2>notes || fail "compare: $(cat notes)"
grep -qE '^steps +40 +30 +100000$' answer || fail "no steps: $(cat answer)"
grep -qE '^num_hidden_layers +2 +1 +2$' answer || fail "no layers: $(cat answer)"
grep -qE '^lr +[0-9.]+ +0.001 ' answer || fail "no lr: $(cat answer)"
grep -q '^batch' answer && fail "a setting that is the same: $(cat answer)"
grep -qE '^perplexity +[0-9.]+ +[0-9.]+ +[0-9.]+$' answer || fail "no perplexity: $(cat answer)"
grep -q '<i>' page.html && fail "markup in a name"
grep -q 'b &lt;i&gt;' page.html || fail "no name of the second run"
"$QKV" compare a "b <i>" --json >answer || fail "compare --json"
grep -qF '"num_hidden_layers": ["2", "1"]' answer || fail "compare --json: $(cat answer)"
grep -qF '"runs": [{"directory": "a", "task": "lm", "steps": 40' answer || fail "$(cat answer)"
"$QKV" compare a | grep -q '^lr' && fail "a run differs from itself"

# Where there is no run, or something else.
"$QKV" compare a none 2>notes && fail "no run, and no error"
grep -q '^qkv: none/train/metrics.jsonl: cannot be opened' notes || fail "no run: $(cat notes)"
"$QKV" report none 2>notes && fail "report of no run, and no error"
"$QKV" compare 2>notes
[ $? -eq 2 ] || fail "compare without a run: $(cat notes)"
mkdir -p odd/train
printf '{"kind": "step", "step": 1, "seconds": 1}\n[1]\n' >odd/train/metrics.jsonl
"$QKV" report odd 2>notes && fail "an odd log, and no error"
grep -q '^qkv: odd/train/metrics.jsonl: line 2: ' notes || fail "an odd log: $(cat notes)"
printf 'x' >odd/train/metrics.jsonl
"$QKV" report odd 2>notes || fail "a log without a whole line: $(cat notes)"
# What models write may have any byte in it.
printf '{"kind": "sample", "step": 1, "seconds": 1, "name": "n", "file": "f", "text": "%s"}\n' \
    'nul \u0000 bell \u0007 <script>' >odd/train/metrics.jsonl
"$QKV" report odd --out page.html 2>notes || fail "a sample with U+0000: $(cat notes)"
grep -q 'nul ␀ bell \\x07 &lt;script&gt;' page.html || fail "a sample with control characters"
exit $failed
