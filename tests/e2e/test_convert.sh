#!/bin/sh
# test_convert.sh - `qkv convert` of a PyTorch file: the directory loads as the model that the same
# weights in safetensors are, in every number type and in shards.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM
golden=$QKV_SOURCE/tests/golden/pytorch
model=$golden/gpt2
fail() { echo "convert: $*"; exit 1; }
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors" || fail "$1 is not $2"; }
convert() { "$QKV" convert "$@" --quiet; }

convert "$model" "$out/expected"
convert "$model/pytorch_model.bin" "$out/from-bin"
cmp "$model/config.json" "$out/from-bin/config.json"
convert "$out/from-bin" "$out/again"
same again expected

# A file beside which nothing else lies, named without a folder.
cp "$model/pytorch_model.bin" "$model/config.json" "$out"
(cd "$out" && convert pytorch_model.bin sharded --shard 0 --dtype f32)
convert "$out/sharded" "$out/again2"
same again2 expected

convert "$model" "$out/expected16" --dtype bf16
convert "$model/pytorch_model.bin" "$out/bin16" --dtype bf16
convert "$out/bin16" "$out/again16" --dtype bf16
same again16 expected16

# Only what stands beneath a key; what was left out is told.
"$QKV" convert "$golden/nested.pth" "$out/nested" --under state_dict 2>"$out/note"
grep -q '7 tensors; [0-9]* other values left out' "$out/note" || fail "$(cat "$out/note")"
"$QKV" convert "$model" "$out/none" --under x 2>"$out/note" && fail "--under of a directory"
grep -q 'is no file' "$out/note" || fail "$(cat "$out/note")"
