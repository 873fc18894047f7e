#!/bin/sh
# test_quantize.sh - models in 8 and 4 bits: `qkv quantize`, directories so kept in every command
# that opens one, --weights, converting back, and what is refused.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM
fail() { echo "quantize: $*"; exit 1; }
number() { sed 's/.*"loss": \([0-9.]*\).*/\1/'; }
# near A B SHARE: they differ by no more than that share of A.
near() { awk -v a="$1" -v b="$2" -v s="$3" 'BEGIN { d = a - b; exit !(d < s * a && -d < s * a) }'; }
# refused CODE SENTENCE ARGUMENTS... : it fails with the code and says so in one line.
refused() {
    code=$1 sentence=$2
    shift 2
    found=0
    "$QKV" "$@" >"$out/note" 2>&1 || found=$?
    [ "$found" -eq "$code" ] || fail "$*: exit $found: $(cat "$out/note")"
    [ "$(wc -l <"$out/note")" -eq 1 ] || fail "$*: not one line: $(cat "$out/note")"
    grep -qF -- "$sentence" "$out/note" || fail "$*: expected \"$sentence\": $(cat "$out/note")"
}

cat "$QKV_SOURCE"/docs/*.md | head -c 60000 >"$out/text"
"$QKV" train lm --data "$out/text" --model nano --steps 30 --threads 1 --quiet \
    --out "$out/f32"
full=$("$QKV" eval "$out/f32" --json | number)
for bits in 8 4; do
    "$QKV" quantize "$out/f32" --to int$bits --out "$out/int$bits" --quiet
    here=$("$QKV" eval "$out/int$bits" --file "$out/text" --json | number)
    whole=$("$QKV" eval "$out/f32" --file "$out/text" --json | number)
    near "$whole" "$here" 0.01 || fail "int$bits: loss $here, in f32 $whole"
    [ "$here" != "$whole" ] || fail "int$bits: nothing was rounded"
    memory=$("$QKV" eval "$out/f32" --weights int$bits --file "$out/text" --json | number)
    near "$here" "$memory" 0.001 || fail "int$bits: $here from the directory, $memory in memory"

    # Back in f32: the numbers that were rounded, which rounding again leaves as they are.
    "$QKV" convert "$out/int$bits" "$out/back$bits" --quiet
    "$QKV" info "$out/back$bits" | grep -q 'I32' && fail "integers after converting back"
    "$QKV" quantize "$out/back$bits" --to int$bits --out "$out/again$bits" --quiet
    a=$("$QKV" eval "$out/int$bits" --file "$out/text" --json | number)
    b=$("$QKV" eval "$out/again$bits" --file "$out/text" --json | number)
    near "$a" "$b" 0.00001 || fail "int$bits: $a, and $b once rounded again"
    "$QKV" info "$out/int$bits" | grep -q "weights in int$bits\$" ||
        fail "info does not say int$bits"
    "$QKV" generate "$out/int$bits" --prompt a --tokens 3 --greedy >"$out/said"
    [ -s "$out/said" ] || fail "generate said nothing"
    "$QKV" look "$out/int$bits" "ab ab" --out "$out/seen.html" >"$out/said" 2>&1 ||
        fail "look: $(cat "$out/said")"
done
"$QKV" info "$out/f32" --json | grep -q '"weights": *"f32"' || fail "info does not say f32"
small=$(wc -c <"$out/int4/model.safetensors") large=$(wc -c <"$out/f32/model.safetensors")
[ $((small * 2)) -lt "$large" ] || fail "$small bytes in 4 bits, $large in f32"

# Every type of weights, and the same answer where nothing is rounded.
"$QKV" generate "$out/f32" --prompt a --tokens 9 --greedy >"$out/a"
for weights in f32 bf16 auto; do
    "$QKV" generate "$out/f32" --prompt a --tokens 9 --greedy --weights $weights >"$out/b"
    [ $weights = bf16 ] || cmp -s "$out/a" "$out/b" || fail "--weights $weights says otherwise"
done
loss=$("$QKV" eval "$out/f32" --weights bf16 --json | number)
near "$full" "$loss" 0.001 || fail "bf16: $loss, f32 $full"

refused 2 '--out DIR expected' quantize "$out/f32"
refused 2 '--to' quantize "$out/f32" --to int3 --out "$out/x"
refused 1 'is not empty' quantize "$out/f32" --out "$out/int8"
refused 1 'config.json' quantize "$out/nothing" --out "$out/x"
[ ! -d "$out/x" ] || fail "a directory was made"
refused 2 'weights=bf16' convert "$out/f32" "$out/x" --set weights=bf16

# hostile SENTENCE FILE FROM TO: with that in the file the directory is refused.
hostile() {
    rm -rf "$out/bad"
    cp -r "$out/int4" "$out/bad"
    LC_ALL=C sed "s/$3/$4/" "$out/int4/$2" >"$out/bad/$2"
    refused 1 "$1" eval "$out/bad" --file "$out/text"
}
config=config.json weights=model.safetensors
hostile 'expected quant_method "compressed-tensors"' $config '"compressed-tensors"' '"gptq"'
hostile 'with format "pack-quantized"' $config pack-quantized float-quantized
hostile 'integers of 8 or 4 bits, found "int" of 3' $config '"num_bits": 4' '"num_bits": 3'
hostile 'symmetric integers' $config '"symmetric": true' '"symmetric": false'
hostile 'symmetric integers' $config '"type": "int"' '"type": "float"'
hostile 'num_bits' $config '"num_bits": 4' '"num_bits": "4"'
hostile 'config_groups' $config config_groups config_group
hostile 'expected an object, found an integer' $config '"group_0": {' '"x": 0, "y": {'
hostile 'weight_scale and weight_shape' $weights 'gate_proj.weight_scale' 'gate_proj.weight_scalx'
hostile 'weight_scale and weight_shape' $weights 'gate_proj.weight_shape' 'gate_proj.weight_shapx'
hostile 'the weights have' $weights '"dtype":"I32"' '"dtype":"F32"'
