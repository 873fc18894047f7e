#!/bin/sh
# test_train_lm.sh - what `qkv train lm` says and writes while it trains, fine-tuning, early
# stopping, a diverging run; and that `qkv eval` afterwards says the same.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
cat "$QKV_SOURCE"/src/train/*.c | head -c 20000 >text

# train OPTION... : its answer in `answer`, its notes in `notes`; succeeds when it does.
train() {
    "$QKV" train lm --data text --tokenizer char --model nano --length 16 --batch 2 --threads 1 \
        --json "$@" >answer 2>notes </dev/null
}

# first_loss DIR : of the model that a run began with.
first_loss() {
    sed -n '1s/.*"loss": \([0-9.]*\).*/\1/p' "$1/train/metrics.jsonl"
}

# The notes of a run whose standard error is a file: one progress line at the end, evaluations.
train --steps 60 --out a || fail "train: $(cat notes)"
what='training  [0-9]+/60 steps  loss [0-9]+\.[0-9]{4}  [0-9.]+[kMG]? tokens/s  [0-9.e+]+ GF/s'
grep '^training' notes | grep -qvE "^$what( \([0-9]+% of peak\))?(  ETA [0-9:]+)?\$" &&
    fail "odd progress: $(grep '^training' notes)"
[ "$(grep -c '^training  60/60 steps' notes)" -eq 1 ] || fail "no last line: $(cat notes)"
grep -qE '^step 0  held out loss [0-9.]+  \(best\)$' notes || fail "step 0: $(cat notes)"
grep -qE '^step 60  train [0-9.]+  held out loss [0-9.]+' notes || fail "step 60: $(cat notes)"
grep -q '[^[:print:]]' notes && fail "control characters in a file: $(cat -v notes)"
grep -qE '^60 steps in [0-9.e-]+ seconds; the model in a is of step' notes || fail "$(cat notes)"

# On a terminal the line is written over. (A bare chroot has no terminals to make.)
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    script -qec "'$QKV' train lm --data text --tokenizer char --model nano --length 16 --batch 2 \
        --threads 1 --steps 400 --out terminal" /dev/null >shown 2>&1 </dev/null ||
        fail "$(cat shown)"
    lines=$(tr '\r' '\n' <shown | grep -c '^training')
    [ "$lines" -ge 1 ] || fail "no progress on a terminal: $(cat -v shown)"
    tr '\r' '\n' <shown | sed 's/\x1b\[K//g' | grep -q '.\{80\}' && fail "more than 79 columns"
    # This one does not tell how wide it is: at most 79 columns, of which a run with so many steps
    # needs more. It learns nothing and stops early.
    script -qec "'$QKV' train lm --data text --tokenizer char --model nano --length 16 --batch 2 \
        --threads 1 --steps 4000000000 --eval-every 500 --patience 2 --lr 1e-30 --out endless" \
        /dev/null >endless.shown 2>&1 </dev/null || fail "$(cat endless.shown)"
    tr '\r' '\n' <endless.shown | sed 's/\x1b\[K//g' | grep '^training' >lines ||
        fail "$(cat -v endless.shown)"
    grep -q '.\{80\}' lines && fail "more than 79 columns: $(cat lines)"
fi

# The log: evaluations and every tenth step, in order.
awk -F'"step": ' '{ split($2, a, ","); if (a[1] < last) exit 1; last = a[1] }' \
    a/train/metrics.jsonl || fail "steps go back: $(cat a/train/metrics.jsonl)"
[ "$(grep -c '"kind": "step"' a/train/metrics.jsonl)" -eq 6 ] || fail "not every tenth step"
[ "$(grep -c '"kind": "eval"' a/train/metrics.jsonl)" -eq 11 ] || fail "not eleven evaluations"
head -1 a/train/metrics.jsonl | grep -q 'train_loss' && fail "a training loss before training"
grep '"kind": "step"' a/train/metrics.jsonl |
    grep -qvE '"seconds": [0-9.e-]+, "loss": [0-9.]+, "lr": [0-9.e-]+, "norm": [0-9.]+}$' &&
    fail "odd step: $(cat a/train/metrics.jsonl)"
awk "BEGIN { exit !($(field loss answer) < $(first_loss a) - 0.5) }" ||
    fail "nothing was learnt: $(cat answer)"

# `eval` says what training said; its metrics fit together and to the text.
cp answer trained
"$QKV" eval a --json --threads 1 >evaluated || fail "eval"
[ "$(field loss trained)" = "$(field loss evaluated)" ] || fail "$(cat trained evaluated)"
[ "$(field tokens evaluated)" -eq 1999 ] ||
    fail "tokens 2..2000 of the last tenth: $(cat evaluated)"
awk 'BEGIN { l = '"$(field loss evaluated)"'; p = '"$(field perplexity evaluated)"'
    b = '"$(field bits_per_byte evaluated)"'
    e = p / exp(l) - 1; f = b / (l * 1999 / log(2) / 2000) - 1
    exit !(e * e < 1e-12 && f * f < 1e-12) }' || fail "perplexity, bits: $(cat evaluated)"
tail -c 2000 text >end
"$QKV" eval a --json --threads 1 --file end >again || fail "eval --file"
cmp evaluated again || fail "$(cat evaluated again)"

# Fine-tuning begins where the other run ended, with its tokenizer, and leaves it alone.
cp -r a before
train --init a --steps 5 --out b || fail "--init: $(cat notes)"
grep -q '^--model has no effect' notes || fail "--model beside --init: $(cat notes)"
[ "$(field loss trained)" = "$(first_loss b)" ] ||
    fail "--init starts elsewhere: $(cat trained; head -1 b/train/metrics.jsonl)"
train --init a --steps 5 --length 8 --out shorter || fail "--init --length: $(cat notes)"
cmp a/tokenizer.json b/tokenizer.json || failed=1
cmp a/config.json b/config.json || failed=1
train --steps 1 --set vocab_size=300 --out wider && fail "--set vocab_size is not refused"
grep -q '^qkv: --set vocab_size: it follows from the data' notes || fail "$(cat notes)"

# What --set says then stands in place of what the run had; a size that the weights lack is refused.
train --init a --steps 1 --set resid_pdrop=0.25 --out dropped || fail "--init --set: $(cat notes)"
grep -q '"resid_pdrop": 0.25' dropped/config.json || fail "$(grep pdrop dropped/config.json)"
train --init a --steps 1 --set num_hidden_layers=9 --out taller && fail "9 layers of fewer"
grep -q '^qkv: --init with --set num_hidden_layers=9: a/config.json: describes a model' notes ||
    fail "$(cat notes)"
[ ! -e taller ] || fail "a refused run left its directory"
diff -r a before || fail "--init changed the model it started from"

# Nothing held out: no evaluations, the last model is kept.
train --valid-last 0 --steps 12 --out none || fail "nothing held out: $(cat notes)"
grep -q 'held out' notes && ! grep -q ' 0 held out' notes && fail "$(cat notes)"
[ "$(field best_step answer)" -eq 12 ] || fail "$(cat answer)"

# Early stopping keeps the best.
train --steps 400 --eval-every 1 --patience 2 --lr 0.3 --out early || fail "$(cat notes)"
grep -q 'no better for a while' notes || fail "not stopped: $(cat notes)"
[ "$(field steps answer)" -eq $(($(field best_step answer) + 2)) ] || fail "$(cat answer)"
"$QKV" eval early --json --threads 1 >evaluated
[ "$(field loss evaluated)" = "$(field loss answer)" ] ||
    fail "not the best: $(cat evaluated answer)"

# Numbers that are not finite end the run with the step and the parameter.
train --steps 50 --lr 1e5 --warmup 0 --out nan && fail "a diverging run succeeded"
grep -qE '^qkv: step [0-9]+: (the gradient of )?[a-z0-9_.]+ is not finite$' notes ||
    fail "$(cat notes)"

# Muon learns, says what it costs, and keeps its own state.
train --steps 40 --optimizer muon --out muon || fail "--optimizer muon: $(cat notes)"
awk "BEGIN { exit !($(field loss answer) < $(first_loss muon) - 0.5) }" || fail "$(cat answer)"
grep -qE "^note: muon's Newton-Schulz iteration is [0-9]+ % of an update's arithmetic" notes ||
    fail "its share is not told: $(cat notes)"
train --steps 1 --optimizer muon --muon-adjust fast --out wrong
[ $? -eq 2 ] || fail "--muon-adjust fast: $(cat notes)"

# A time budget: the plan is told, and all of it ends.
train --minutes 0.03 --out time || fail "$(cat notes)"
grep -q '^plan: [0-9]* updates in 0.03 minutes' notes || fail "$(cat notes)"
grep -q '"finished": true' answer || fail "$(cat answer)"
train --minutes 1 --steps 5 --out both
[ $? -eq 2 ] || fail "--steps with --minutes: $(cat notes)"
exit $failed
