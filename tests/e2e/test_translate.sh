#!/bin/sh
# train translate from two files: what it writes, what it leaves out, going on, evaluating; pairs
# that are none.
set -u
qkv=$QKV
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
fail() { echo "$*"; exit 1; }

# shellcheck source=tests/support/digits.sh
. "$QKV_SOURCE/tests/support/digits.sh"
train() { "$qkv" train translate --quiet --threads 1 --model nano --vocab 60 --warmup 5 "$@"; }

train --source s --target t --valid-last 4 --steps 60 --set dropout=0 --lr 0.01 --json --out a \
    >answer 2>notes || fail "training: $(cat notes)"
grep -q '"steps": *60' answer || fail "no 60 steps: $(cat answer)"
for f in config.json generation_config.json model.safetensors source.spm target.spm vocab.json \
    train/train-records.safetensors train/valid-records.safetensors; do
    [ -s "a/$f" ] || fail "no a/$f"
done
grep -q '"model_type": "marian"' a/config.json || fail "not a marian: $(cat a/config.json)"

# What it learns, and that held-out pairs are evaluated.
"$qkv" eval a --json >held 2>notes || fail "eval: $(cat notes)"
"$qkv" eval a --source s --target t --json >learnt 2>notes || fail "eval of files: $(cat notes)"
awk -F'[:,]' '{ exit !($2 < 1.0) }' learnt || fail "nothing is learnt: $(cat learnt)"
awk -F'"chrf": ' '{ split($2, b, ","); exit !(b[1] > 60 && b[1] <= 100) }' learnt ||
    fail "its translations are none: $(cat learnt)"
grep -q '"bleu": ' held || fail "no BLEU of the held-out pairs: $(cat held)"
grep -q '"tokens": ' learnt || fail "no tokens: $(cat learnt)"

# Two runs are alike, and one that is finished stays as it is.
train --source s --target t --valid-last 4 --steps 20 --out b 2>notes || fail "b: $(cat notes)"
train --source s --target t --valid-last 4 --steps 20 --out c --save-every 7 2>notes ||
    fail "c: $(cat notes)"
cmp -s b/model.safetensors c/model.safetensors || fail "two equal runs differ"
train --source s --target t --resume --steps 20 --out b 2>notes || fail "resume: $(cat notes)"
cmp -s b/model.safetensors c/model.safetensors || fail "a finished run was changed"

# Words cut anew each time: another model, and the same one when it is asked for again.
for dir in d e; do
    train --source s --target t --valid-last 4 --steps 20 --subword-sampling 0.3 --out $dir \
        2>notes || fail "sampling: $(cat notes)"
done
cmp -s d/model.safetensors e/model.safetensors || fail "two equal runs with sampling differ"
cmp -s d/model.safetensors b/model.safetensors && fail "sampling changes nothing"

# A model for each language, ids of both's pieces.
train --source s --target t --steps 2 --separate --out sep 2>notes || fail "separate: $(cat notes)"
cmp -s sep/source.spm sep/target.spm && fail "one model for both languages"
cmp -s a/source.spm a/target.spm || fail "two models without being asked"
"$qkv" eval sep >answer 2>&1 || fail "eval of two models: $(cat answer)"

# The pre-norm variant, every kind of token, a validation pair, going on from a model.
train --source s --target t --norm pre --steps 2 --out p 2>notes || fail "pre: $(cat notes)"
grep -q '"model_type": "qkv_translator"' p/config.json || fail "not a qkv_translator"
for kind in char bpe wordpiece unigram; do
    vocab=60
    [ $kind = bpe ] && vocab=300
    "$qkv" train translate --quiet --threads 1 --model nano --tokenizer $kind --vocab $vocab \
        --set max_position_embeddings=32 --source s --target t --valid-source s --valid-target t \
        --steps 2 --out $kind 2>notes || fail "$kind: $(cat notes)"
    "$qkv" eval $kind >answer 2>&1 || fail "eval $kind: $(cat answer)"
done
"$qkv" train translate --quiet --threads 1 --init a --source s --target t --steps 2 --out i \
    2>notes || fail "init: $(cat notes)"

# An empty side and a long line are left out and counted.
{ cat s; echo; yes 1 | head -300 | tr '\n' ' '; echo; } >s2
{ cat t; echo eins; echo eins; } >t2
"$qkv" train translate --threads 1 --model nano --vocab 60 --set max_position_embeddings=100 \
    --source s2 --target t2 --valid-last 0 --steps 1 --out l 2>notes || fail "long: $(cat notes)"
grep -q '1 pairs with an empty side and 1 of more than 100 tokens are left out' notes ||
    fail "nothing is said of what is left out: $(cat notes)"

# Refused in one sentence, with nothing written.
refused() {
    want=$1
    shift
    "$qkv" "$@" >answer 2>notes
    code=$?
    [ $code = 1 ] || fail "exit $code, not 1: $*"
    grep -q -- "$want" notes || fail "no \"$want\": $(cat notes)"
    [ "$(wc -l <notes)" = 1 ] || fail "more than a sentence: $(cat notes)"
    [ ! -e new ] || fail "something was written: $*"
}
head -39 t >short
refused "s has 40 lines and short has 39" train translate --source s --target short --out new
refused "both or none" train translate --source s --target t --valid-source s --out new
refused "only 40" train translate --source s --target t --valid-last 40 --out new
refused "none" train translate --source none --target t --out new
refused "WordPiece draws nothing" train translate --source s --target t --tokenizer wordpiece \
    --vocab 60 --subword-sampling 0.1 --out new
refused "--separate: a model for each language" train translate --source s --target t \
    --tokenizer bpe --vocab 300 --separate --out new
refused "preset" train translate --source s --target t --model huge --out new
refused "both or none" eval a --source s
refused "s has 40 lines" eval a --source s --target short
exit 0
