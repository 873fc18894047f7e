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
# shellcheck disable=SC2086
for threads in 1 2; do
    train_every_kind $threads $run --dtype f32
done
for _ in 1 2 3 4 5; do # until both have the same kind of them
    rm -rf keep/bf16 again/bf16
    # shellcheck disable=SC2086
    train 2 lm --data ../text --tokenizer char $nano $gpt --length 16 $run --dtype bf16 \
        --capture-step 2 --out bf16
    [ "$(products_of keep/bf16)" != "$(products_of again/bf16)" ] || break
done
(cd keep && find . -name '*model.safetensors' -o -name 'capture-*.safetensors') >made
[ "$(wc -l <made)" -ge 44 ] || fail "only $(wc -l <made) files to compare"
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
    "$QKV" info --predict --model mini --length 2048 --batch 4 $o --json >memory$o || fail "predict"
done
without=$(field activations_bytes memory--no-recompute)
with=$(field activations_bytes memory--recompute)
above "$((3 * without))" "$((4 * with))" || fail "activations: $without without, $with with it"
exit $failed
