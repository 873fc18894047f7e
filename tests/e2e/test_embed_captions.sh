#!/bin/sh
# test_embed_captions.sh - `qkv train embed`, `embed` and `eval` on images with captions: what they
# teach, tables and text files, going on to the same bits, and what is refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

mkdir pictures
n=0
printf 'file,caption\n' >names.csv
for png in "$QKV_SOURCE"/tests/golden/images/type*-8bit.png; do
    n=$((n + 1))
    cp "$png" pictures/p$n.png
    printf 'p%d.png,"picture, number %d"\np%d.png,the %dth\n' $n $n $n $n >>names.csv
    printf 'picture, number %d\nthe %dth\n' $n $n >pictures/p$n.txt
done
[ $n -ge 3 ] || fail "$n images"
run="--data pictures --size 16 --valid-last 1 --model nano --vocab 200 --batch 2 --threads 1"

# A table and text files beside the images say the same.
# shellcheck disable=SC2086
"$QKV" train embed $run --captions names.csv --steps 4 --out table --json >answer 2>notes ||
    fail "a table: $(cat notes)"
[ -n "$(field recall_1 answer)" ] || fail "no recall: $(cat answer)"
grep -q '"CLIPModel"' table/config.json || fail "$(cat table/config.json)"
# shellcheck disable=SC2086
"$QKV" train embed $run --captions pictures --steps 4 --out beside --quiet 2>notes ||
    fail "text files: $(cat notes)"
cmp table/model.safetensors beside/model.safetensors || fail "text files are not the table"

# To the same bits.
# shellcheck disable=SC2086
goes_on 5 straight stopped train embed $run --captions names.csv --accumulation-steps 2 \
    --steps 12 --quiet

# Vectors of both kinds, and recall.
"$QKV" embed table "picture, number 1" --nearest pictures --top-k 1 --threads 1 >near ||
    fail "images of a text"
grep -q 'pictures/p' near || fail "$(cat near)"
"$QKV" embed table pictures/p1.png --nearest names.csv --top-k 1 --threads 1 >near ||
    fail "texts of an image"
grep -q 'p[0-9].png,\|file,caption' near || fail "$(cat near)"
"$QKV" eval table --file pictures --captions names.csv --threads 1 --json >answer 2>notes ||
    fail "eval: $(cat notes)"
[ -n "$(field to_image_1 answer)" ] || fail "$(cat answer)"

# From a model that is there: it begins with what that one knows, and keeps its tokenizer.
# shellcheck disable=SC2086
"$QKV" train embed --data pictures --captions names.csv --valid-last 1 --batch 2 --threads 1 \
    --init table --seed 1 --steps 1 --lr 1e-9 --out further --quiet 2>notes ||
    fail "--init: $(cat notes)"
cmp table/tokenizer.json further/tokenizer.json || fail "--init: another tokenizer"
for m in table further; do
    "$QKV" embed $m "picture, number 1" --nearest names.csv --threads 1 >near.$m || fail "embed $m"
done
cmp near.table near.further || fail "--init: other vectors: $(cat near.further)"

# What is refused.
refused() { # WORDS ARGUMENTS: a sentence with these words, and no directory
    words=$1
    shift
    "$QKV" "$@" >/dev/null 2>notes && fail "not refused: $*"
    grep -q "$words" notes || fail "\"$words\" expected: $(cat notes)"
    [ ! -e none ] || fail "$* left a directory"
}
printf 'file,caption\np1.png,one, two\n' >bad.csv
# shellcheck disable=SC2086
refused "line 2: 2 columns expected, found 3" train embed $run --captions bad.csv --out none
printf 'p1.png,"one\n' >bad.csv
# shellcheck disable=SC2086
refused "the quotes are not closed" train embed $run --captions bad.csv --out none
printf 'file,caption\nother.png,one\n' >bad.csv
# shellcheck disable=SC2086
refused "no caption of an image" train embed $run --captions bad.csv --out none
printf 'file,caption\np1.png,\377\n' >bad.csv
# shellcheck disable=SC2086
refused "UTF-8 expected" train embed $run --captions bad.csv --out none
refused "one of them expected" embed table pictures/p1.png words
exit $failed
