#!/bin/sh
# test_recompute.sh - every kind of model learns the same with --recompute, to the bit: dropout,
# stochastic depth, packed sequences, micro-batches, one thread and two, the capture of an update;
# a run may go on with it that began without.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"
# shellcheck source=tests/support/every_kind.sh
. "$QKV_SOURCE/tests/support/every_kind.sh"

awk 'BEGIN { for (w = 0; w < 12; w++) { printf w % 2 ? "up" : "down"
    for (i = 0; i < 16; i++) printf ",%g", (w % 2 ? i : -i) + sin(i); print "" } }' >walks.csv
mkdir keep again

# train THREADS ARGUMENT... : without and with --recompute.
train() {
    threads=$1
    shift
    (cd keep && "$QKV" train "$@" --threads "$threads" </dev/null >>answers 2>notes) ||
        fail "$*: $(cat keep/notes)"
    (cd again && "$QKV" train "$@" --recompute --threads "$threads" </dev/null >>answers 2>notes) ||
        fail "--recompute: $*: $(cat again/notes)"
}
run="--steps 3 --batch 4 --accumulation-steps 2 --quiet"
gpt="--layout gpt2 --set resid_pdrop=0.1 --set attn_pdrop=0.1"
bert="--set hidden_dropout_prob=0.1 --set attention_probs_dropout_prob=0.1"
vit="$bert --set drop_path_rate=0.2"

# shellcheck disable=SC2086
for n in 1 2; do
    train $n lm --data ../text --tokenizer char $nano $gpt --length 16 $run --out gpt$n
    train $n lm --data ../text --tokenizer char $nano --layout llama \
        --set attention_dropout=0.1 --set resid_pdrop=0.1 --length 16 $run --out llama$n
    train $n mlm --data ../text $words $bert $run --out bert$n
    train $n classify --data ../labelled.tsv --init bert$n --rdrop 1 $run --out texts$n
    train $n embed --source ../en --target ../de $words $run --init bert$n --out vectors$n
    train $n translate --source ../en --target ../de $words $run --rdrop 1 --out mt$n
    train $n forecast --data ../rows.csv --context 24 --horizon 6 --patch 3 $run --out series$n
    train $n forecast --data ../rows.csv --context 24 --horizon 6 --decoder $run --out decoder$n
    train $n fill --data ../rows.csv --valid-last 48 --context 24 --patch 3 $run --out gaps$n
    train $n classify --data ../walks.csv --channels 1 $run --out steps$n
    train $n classify --data $bars --type vit $nano $vit $run --out vit$n
    train $n classify --data $bars $nano --set drop_path_rate=0.2 $run --out cct$n
    train $n embed --data $bars --type vit $nano $run --out patches$n
    train $n embed --data ../set --captions ../captions.csv --size 16 --valid-last 2 $words $run \
        --out captions$n
    train $n reconstruct --images $bars $nano $vit $run --out mae$n
    train $n segment --images ../set --masks ../masks --size 16 $nano $vit $run --out masks$n
    train $n colorize --images ../set --size 16 $nano $vit $run --out colors$n
    train $n vqgan --images $bars $coder --set n_embed=32 --disc-start 0 --perceptual-steps 2 \
        $run --out codes$n
    train $n imagine --vqgan codes$n --images $bars $nano $run --out prior$n
done
# shellcheck disable=SC2086
train 2 lm --data ../text --tokenizer char $nano $gpt --length 16 $run --dtype bf16 \
    --capture-step 2 --out bf16
(cd keep && find . -name model.safetensors -o -name 'capture-*.safetensors') >made
[ "$(wc -l <made)" -ge 42 ] || fail "only $(wc -l <made) files to compare"
while read -r file; do
    cmp "keep/$file" "again/$file" || fail "$file differs"
done <made

# A run that began without goes on with it, and a note says so.
later=--recompute
goes_on 1 straight stopped train lm --data text --tokenizer char --model nano --length 64 \
    --batch 4 --steps 40 --threads 1
grep -q 'note: --recompute is true, was false' notes || fail "no note: $(cat notes)"

# What it saves is known before.
for o in --no-recompute --recompute; do
    "$QKV" info --predict --model mini --length 2048 --batch 1 $o --json >memory$o || fail "predict"
done
without=$(field activations_bytes memory--no-recompute)
with=$(field activations_bytes memory--recompute)
above "$((2 * without))" "$((3 * with))" || fail "activations: $without without, $with with it"
exit $failed
