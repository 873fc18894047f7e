#!/bin/sh
# test_train_lm.sh - a model is trained on the CUDA device and on the CPU, in f32 and in bf16: the
# losses agree, and what one has begun the other ends. A device that is not there is told in one
# sentence.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/losses.sh
. "$QKV_SOURCE/tests/support/losses.sh"
head -c 3000 "$QKV_SOURCE/README.md" >text
steps=6
common="train lm --data text --tokenizer char --model nano --length 16 --batch 2 --steps $steps \
    --eval-every $steps --eval-units 2 --threads 1 --seed 3 --quiet"

# train OPTION... : in f32, unless told.
train() {
    # shellcheck disable=SC2086
    "$QKV" $common --dtype f32 "$@" 2>notes </dev/null || fail "train $*: $(cat notes)"
}

# handed_over FROM TO : stops on one device after the first state is saved, goes on on the other.
handed_over() {
    dir=$1-$2
    for _ in 1 2 3 4 5; do
        rm -rf "$dir"
        # shellcheck disable=SC2086
        "$QKV" $common --dtype f32 --device "$1" --save-every 1 --out "$dir" 2>notes </dev/null &
        child=$!
        while kill -0 $child 2>/dev/null && ! [ -s "$dir/train/state.safetensors" ]; do
            sleep 0.01
        done
        kill -INT $child 2>/dev/null
        wait $child
        grep -q '"kind": "final"' "$dir/train/metrics.jsonl" || break
    done
    grep -q '"kind": "final"' "$dir/train/metrics.jsonl" && fail "$dir ended before it was stopped"
    train --device "$2" --save-every 1 --out "$dir" --resume
    agree 1e-3 cpu "$dir"
}

train --device cpu --out cpu
train --device cuda --out cuda
agree 1e-3 cpu cuda
train --dtype bf16 --out cpu-bf16
train --dtype bf16 --device cuda --out cuda-bf16
agree 3e-3 cpu-bf16 cuda-bf16
cmp -s cuda/model.safetensors cuda-bf16/model.safetensors && fail "bf16 gives what f32 gives"
handed_over cuda cpu
handed_over cpu cuda

refused 2 "device: cpu, cuda or cuda:N expected, found gpu" info cpu --device gpu
refused 1 "device cuda:99: " info cpu --device cuda:99
# shellcheck disable=SC2086
refused 1 "device cuda:99: " $common --device cuda:99 --out none
export QKV_CUDA="$out/nothing.so"
refused 1 "nothing.so does not open: is qkv built with CUDA?" info cpu --device cuda
# shellcheck disable=SC2086
refused 1 "nothing.so does not open" $common --device cuda --out none
[ ! -e none ] || fail "a folder for a run that cannot begin"
exit $failed
