#!/bin/sh
# test_bench.sh - every bench at its smallest: each answers with the fields that scripts rely on,
# all of them numbers above 0, and qkv bench has them all under one roof. No speed is evaluated.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# fields FILE NAME... : each is a field whose value is a number, and not 0
fields() {
    file=$1
    shift
    for name in "$@"; do
        grep -qE "\"$name\": [0-9]*[.]?[0-9]*[1-9]" "$file" ||
            { echo "no number for $name in: $(cat "$file")"; failed=1; }
    done
}

# bench FILE ARGUMENT... : into the file
bench() {
    file=$1
    shift
    "$QKV" bench "$@" >"$file" 2>"$out/err" ||
        { echo "qkv bench $*: failed: $(cat "$out/err")"; failed=1; }
}

train='step_s tokens_per_s gflops peak_gflops of_peak peak_rss_bytes'
attention='forward_s backward_s forward_gflops backward_gflops gflops peak_gflops of_peak'
decode='tokens_per_s weight_bytes bandwidth of_bandwidth peak_rss_bytes'
prompt='tokens_per_s seconds gflops peak_gflops of_peak peak_rss_bytes'
image='image_s gflops peak_gflops of_peak peak_rss_bytes'
forward='pass_s samples_per_s gflops peak_gflops of_peak peak_rss_bytes'
translate='tokens_per_s sentences_per_s rows rows_of_needed gflops peak_gflops of_peak'
translate="$translate peak_rss_bytes"
tokenize='bytes vocab train_s encode_mb_per_s encode_again_mb_per_s tokens bytes_per_token'

# shellcheck disable=SC2086 # the lists above are words
{
    bench "$out/tokenize" tokenize --file "$QKV_SOURCE/README.md" --merges 50 --json
    fields "$out/tokenize" $tokenize threads
    grep -qF '"vocab": 307,' "$out/tokenize" || { echo "50 merges are no 307 tokens"; failed=1; }

    bench "$out/all" --model nano --length 16 --repeats 1 --json
    fields "$out/all" $train $attention $decode $image $translate $tokenize threads
}
for name in train train_codes attention decode image translate tokenize; do
    grep -qF "\"$name\": {" "$out/all" || { echo "qkv bench has no $name"; failed=1; }
done
has=$("$QKV" info --json | tr -d '\n' | grep -c '"products_gflops": {[^}]*bf16')
[ "$(grep -cF '"train_bf16": {' "$out/all")" -eq "$has" ] ||
    { echo "qkv bench: train_bf16 where the processor has no such products, or none"; failed=1; }

# The networks that are no GPT, a step each at their smallest; the encoder-decoder reads both sides.
# shellcheck disable=SC2086
for name in bert-base transformer-base; do
    bench "$out/$name" train --model $name --batch 1 --length 4 --steps 1 --json
    fields "$out/$name" $train threads
done
# shellcheck disable=SC2086
{
    for at in 'vit-base 16' 'mae-base 32' 'cct-7 8'; do
        bench "$out/images" train --model ${at% *} --batch 1 --length ${at#* } --steps 1 --json
        fields "$out/images" $train threads
    done
    for at in 'vit-base 16' 'cct-7 8' 'bert-base 4'; do
        bench "$out/forward" forward --model ${at% *} --length ${at#* } --repeats 1 --json
        fields "$out/forward" $forward threads
    done
}
# Weights in fewer bits, several texts with their cache, a shortlist.
# shellcheck disable=SC2086
for weights in bf16 int8 int4; do
    bench "$out/decode" decode --model nano --prompt 4 --tokens 4 --batch 3 --kv int8 \
        --weights "$weights" --json
    fields "$out/decode" $decode batch batch_tokens_per_s of_one batch_of_bandwidth cache_bytes
    bench "$out/prompt" prompt --model nano --length 16 --repeats 1 --weights "$weights" --json
    fields "$out/prompt" $prompt
done
bench "$out/drawn" decode --model nano --prompt 4 --tokens 4 --batch 3 --temperature 1 --top-k 5 \
    --top-p 0.9
grep -q 'one text, f32, drawn' "$out/drawn" || { echo "nothing was drawn"; failed=1; }
grep -q 'tokens of all' "$out/drawn" || { echo "nothing was drawn for three texts"; failed=1; }
for weights in f32 int8; do # four bytes a weight; one, and scales
    bench "$out/decode" decode --model nano --prompt 4 --tokens 4 --weights "$weights" --json
    sed 's/.*"weight_bytes": \([0-9]*\).*/\1/' "$out/decode" >"$out/$weights"
done
[ "$(cat "$out/f32")" -gt $((3 * $(cat "$out/int8"))) ] || { echo "int8 is not smaller"; failed=1; }
# shellcheck disable=SC2086
{
    bench "$out/short" translate --sentences 2 --length 4 --tokens 4 --beam 2 --repeats 1 \
        --weights int8 --shortlist 3000 --json
    fields "$out/short" $translate of_all_tokens
}

"$QKV" bench forward --model mae-base --length 32 >/dev/null 2>"$out/err"
[ $? -eq 1 ] || { echo "qkv bench forward of a MAE is no failure"; failed=1; }
grep -qF 'expected vit-base, cct-7 or bert-base' "$out/err" ||
    { echo "no sentence on it: $(cat "$out/err")"; failed=1; }
bench "$out/codes" train --model vqgan-nano --batch 1 --steps 1
grep -qE '^ *codes +[0-9.]+ */s' "$out/codes" || { echo "no codes: $(cat "$out/codes")"; failed=1; }
for at in '--model giant --size 16' '--size 250'; do
    # shellcheck disable=SC2086
    "$QKV" bench image $at >/dev/null 2>"$out/err"
    [ $? -eq 1 ] || { echo "qkv bench image $at is no failure"; failed=1; }
done

# --isa holds for the library of products too, where there is one that says what it takes.
verbose() {
    ONEDNN_VERBOSE=1 "$QKV" bench forward --model cct-7 --length 8 --repeats 1 "$@" >"$out/isa"
}
if verbose && grep -q 'isa:.*AVX-512' "$out/isa"; then
    verbose --isa avx2
    grep -q 'isa:.*AVX2' "$out/isa" || { echo "--isa avx2: $(grep isa: "$out/isa")"; failed=1; }
fi

: >"$out/empty"
"$QKV" bench tokenize --file "$out/empty" >/dev/null 2>"$out/err"
[ $? -eq 1 ] || { echo "an empty file is no failure"; failed=1; }
grep -qF "$out/empty: the file is empty" "$out/err" || { echo "no sentence on it"; failed=1; }
"$QKV" bench nothing >/dev/null 2>"$out/err"
[ $? -eq 2 ] || { echo "an unknown bench is no usage error"; failed=1; }

# The table of make bench, of qkv alone: Python and peers are no part of qkv.
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    compare() {
        LLMC="$out/nothing" python3 "$QKV_SOURCE/bench/compare.py" --qkv "$QKV" --rounds 2 \
            --quick --threads 1 --folder "$out/peers" --out "$out/table" "$@" >"$out/shown" 2>&1
    }
    compare --peers llm.c --rows attention-2048-fo* ||
        { echo "no table: $(cat "$out/shown")"; failed=1; }
    fields "$out/table" rounds limit median min max memory_bytes
    grep -qF "missing: llm.c: LLMC: no file $out/nothing" "$out/shown" ||
        { echo "what is missing is not named: $(cat "$out/shown")"; failed=1; }
    ! compare --peers none --rows nothing || { echo "an unknown row is no failure"; failed=1; }
    grep -qF 'no row "nothing"' "$out/shown" || { echo "no sentence on it"; failed=1; }
fi
exit "$failed"
