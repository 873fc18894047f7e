#!/bin/sh
# test_predict.sh - the memory that a training step takes, and what was predicted from its
# configuration: within a tenth of each other.
# A sanitizer's own memory is predicted by nobody: skipped there.
set -u
grep -q '^QKV_SANITIZE:STRING=.' "$QKV_BUILD/CMakeCache.txt" && exit 77
failed=0

# bytes JSON KEY
bytes() { echo "$1" | tail -1 | sed "s/.*\"$2\": \([0-9]*\).*/\1/"; }

# products NOTES : the kind that was found to be the fastest, if several were timed.
products() { echo "$1" | sed -n 's/^products in \([^:]*\):.*/\1/p'; }

# compare OPTION... : of the same products, which each command times.
compare() {
    for _ in 1 2 3 4 5; do
        predicted=$("$QKV" info --predict "$@" --json 2>&1)
        taken=$("$QKV" bench train "$@" --steps 1 --json 2>&1)
        [ "$(products "$predicted")" != "$(products "$taken")" ] || break
    done
    predicted=$(bytes "$predicted" peak_rss_bytes)
    taken=$(bytes "$taken" peak_rss_bytes)
    echo "$*: predicted $predicted, taken $taken"
    if [ $((10 * predicted)) -lt $((9 * taken)) ] || [ $((10 * predicted)) -gt $((11 * taken)) ]
    then
        echo "more than a tenth apart"
        failed=1
    fi
}

compare --model nano --layout gpt2 --batch 1 --length 64 --threads 1
compare --model nano --layout llama --batch 1 --length 1024 --threads 2
compare --model tiny --layout gpt2 --batch 4 --length 128 --threads 2
if [ -z "$QKV_RUN" ]; then # six steps of GPT-2 124M take hours in an emulator
    compare --model gpt2 --batch 4 --length 256 --lora r=8 --dtype f32
    compare --model gpt2 --batch 4 --length 256 --lora r=8,weights=int8 --dtype f32
else
    echo "cross-compiled: NOT tried: steps of GPT-2 124M"
fi

# GPT-2 124M: the parts add up, and the parameters are all there.
parts=0
answer=$("$QKV" info --predict --model gpt2 --batch 4 --length 256 --json)
for part in parameters gradients optimizer activations scratch base; do
    parts=$((parts + $(bytes "$answer" ${part}_bytes)))
done
if [ "$parts" -ne "$(bytes "$answer" peak_rss_bytes)" ]; then
    echo "parts: $parts in $answer"
    failed=1
fi
[ "$(bytes "$answer" parameters_bytes)" -ge $((4 * 124439808)) ] || failed=1

# parameters MODEL COUNT: a network has that many, four bytes each
parameters() {
    answer=$("$QKV" info --predict --model "$1" --json)
    if [ "$(bytes "$answer" parameters_bytes)" -lt $((4 * $2)) ] ||
        [ "$(bytes "$answer" parameters_bytes)" -gt $((4 * $2 + 4 * $2 / 1000)) ]; then
        echo "$1: not $2 parameters: $answer"
        failed=1
    fi
}
parameters bert-base 109514298
parameters transformer-base 60817153
exit $failed
