#!/bin/sh
# test_embed_images.sh - `qkv train embed`, `embed` and `eval` on images: what two views of an image
# teach, going on to the same bits, beginning a classifier with it, and what is refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"

draw_bars 1 120 bars-images-idx3-ubyte
label_bars 120 bars-labels-idx1-ubyte
bars="bars-images-idx3-ubyte"
model="--model nano --no-flip --threads 1"
# shellcheck disable=SC2086 # several words
"$QKV" train embed --data $bars --valid-last 30 $model --batch 30 --steps 60 --lr 2e-3 --json \
    --crop-scale 0.5 --out views >answer 2>notes || fail "train embed: $(cat notes)"
above "$(field knn answer)" 0.5 || fail "knn: $(cat answer)"
grep -q QkvCompactEncoder views/config.json || fail "$(cat views/config.json)"
grep -q projection views/model.safetensors && fail "the projection is in the directory"
"$QKV" eval views --json --threads 1 >evaluated 2>notes || fail "eval: $(cat notes)"
for name in knn probe; do
    above "$(field $name evaluated)" 0.6 || fail "eval: $name: $(cat evaluated)"
done
above "$(field recall_1 evaluated)" 0.1 || fail "eval: recall_1: $(cat evaluated)"
[ -n "$(field probe_pixels evaluated)" ] || fail "eval: no probe of pixels"
# Another file: its classes are those of the model.
"$QKV" eval views --file $bars --json --threads 1 >evaluated 2>notes || fail "$(cat notes)"
above "$(field probe evaluated)" 0.6 || fail "eval --file: $(cat evaluated)"

# Vectors, and neighbours: an image is the nearest to itself.
"$QKV" embed views --file $bars --out all.npy --threads 1 || fail "embed"
[ "$(wc -c <all.npy)" -eq $((128 + 120 * 64 * 4)) ] || fail "all.npy: $(wc -c <all.npy) bytes"
"$QKV" embed views --file $bars --nearest $bars --top-k 1 --json --threads 1 >near || fail "nearest"
[ "$(wc -l <near)" -eq 120 ] || fail "not a line for every image"
grep -c '"cosine": \(1\.0\|0\.9999\)' near | awk '$1 < 115 { exit 1 }' || fail "$(head -3 near)"

# To the same bits, with patches; from an encoder, and a classifier from it.
# shellcheck disable=SC2086
goes_on 5 straight stopped train embed --data $bars --type vit $model --batch 12 \
    --accumulation-steps 2 --jitter 0.8 --steps 20 --quiet
grep -q '"ViTModel"' straight/config.json || fail "$(cat straight/config.json)"
"$QKV" train embed --data $bars --init straight --threads 1 --steps 2 --out on 2>notes ||
    fail "--init: $(cat notes)"
"$QKV" train classify --data $bars --init straight --threads 1 --steps 2 --out classes 2>notes ||
    fail "classify --init: $(cat notes)"
grep -q ViTForImageClassification classes/config.json || fail "$(cat classes/config.json)"

# Images without classes: what finds itself, no more.
mkdir plain
cp "$QKV_SOURCE"/tests/golden/images/type2-*.png plain
cp plain/type2-8bit.png plain/again.png
"$QKV" train embed --data plain --size 16 --valid-last 1 --model nano --batch 2 --steps 2 \
    --threads 1 --json --out unlabelled >answer 2>notes || fail "without classes: $(cat notes)"
[ -n "$(field loss answer)" ] || fail "no loss: $(cat answer)"
[ -z "$(field knn answer)" ] || fail "classes of images without any: $(cat answer)"
"$QKV" eval unlabelled --json --threads 1 >evaluated || fail "eval without classes"
[ -z "$(field probe evaluated)" ] || fail "a probe without classes: $(cat evaluated)"

# What is refused.
run="--steps 1 --threads 1 --out none"
# shellcheck disable=SC2086
{
    refused 1 "nowhere" train embed --data $bars --init nowhere $run
    refused 2 "--temperature" train embed --data $bars --temperature 0 $run
    refused 2 "cutmix" train embed --data $bars --cutmix 1 $run
    refused 1 '--model: qkv_cct has no size "huge"' train embed --data $bars --model huge $run
}
refused 2 "embeds images: none is named" embed views
refused 1 "nowhere" embed views nowhere.png
refused 1 "does not embed" embed classes "$QKV_SOURCE/tests/golden/images/type2-8bit.png"
refused 1 "--file expected, found --source and --target" eval views --source a --target b
[ ! -e none ] || fail "a refused run left something behind"
exit $failed
