#!/bin/sh
# test_reconstruct.sh - `qkv train reconstruct`, `reconstruct` and `eval`: what they learn, say and
# write, and what they refuse.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"

# 160 images; which way a bar goes is its class.
draw_bars 1 160 train-images-idx3-ubyte
draw_bars 2 160 other-images-idx3-ubyte
label_bars 160 train-labels-idx1-ubyte
images='train-images-idx3-ubyte'
other='other-images-idx3-ubyte'
image=$QKV_SOURCE/tests/golden/images/colour-420.jpg
run="--model nano --threads 1 --batch 16 --lr 3e-3 --json"

# Learns what it sees. (Options are words: they are split on purpose.)
# shellcheck disable=SC2086
"$QKV" train reconstruct --images $images --valid-last 32 $run --crop-scale 0 \
    --steps 150 --out a >answer 2>notes || fail "train reconstruct: $(cat notes)"
grep -q '^vit_mae, .* of 16 x 16 in patches of 2, 75 % of them hidden; 128 .*, 32 held out$' \
    notes || fail "what it says: $(cat notes)"
grep -q '"model_type": "vit_mae"' a/config.json || fail "no vit_mae"
grep -q '"image_mean"' a/preprocessor_config.json || fail "no preprocessor_config.json"
grep -q '"CLIPImageProcessor"' a/preprocessor_config.json || fail "who cuts images to shape?"
grep -q '"data_wait": 0\.' a/train/metrics.jsonl || fail "no data_wait in the log"

# Evaluated on other data, and on what was held out; beside what takes no learning.
"$QKV" eval a --file $other --json >answer 2>notes || fail "eval: $(cat notes)"
[ "$(field images answer)" = 160 ] || fail "eval: images: $(cat answer)"
above "$(field psnr answer)" "$(field psnr_mean answer)" || fail "eval: $(cat answer)"
above "$(field psnr answer)" 16 || fail "eval: $(cat answer)"
above "$(field psnr_nearest answer)" 8 || fail "eval: $(cat answer)"
"$QKV" eval a --file $other --mask 0.98 --json >harder 2>notes || fail "eval: $(cat notes)"
"$QKV" eval a --file $other --mask 98 --json >percent 2>notes || fail "eval: $(cat notes)"
cmp harder percent || fail "98 per cent: $(cat percent)"
above "$(field psnr answer)" "$(field psnr harder)" || fail "98 % is no harder: $(cat harder)"
"$QKV" eval a >answer 2>notes || fail "eval of what was held out: $(cat notes)"
grep -q '^images *32$' answer || fail "eval: $(cat answer)"

# side FROM FILE : the number that a PNG has there.
side() {
    od -An -tu1 -j "$1" -N 4 "$2" | awk '{ print ($1 * 256 + $2) * 65536 + $3 * 256 + $4 }'
}

# Three images of 16 x 12 pixels a row; the same for the same seed; as it is when nothing is
# hidden.
"$QKV" reconstruct a "$image" --mask 25,75,90,98 --out four.png 2>notes ||
    fail "reconstruct: $(cat notes)"
[ "$(side 16 four.png)x$(side 20 four.png)" = 592x788 ] || fail "reconstruct: another size"
"$QKV" reconstruct a "$image" --mask 0.25 --mask 75 --mask 0.9 --mask 98 --out again.png --json \
    >answer 2>notes || fail "reconstruct: $(cat notes)"
[ "$(cat answer)" = '{"out": "again.png", "masks": [0.25, 0.75, 0.9, 0.98]}' ] ||
    fail "reconstruct: $(cat answer)"
cmp four.png again.png || fail "reconstruct: not the same"
"$QKV" reconstruct a "$image" four.png --mask 75 --paste --seed 2 --out two.png 2>notes ||
    fail "reconstruct: $(cat notes)"
[ "$(side 20 two.png)" = 396 ] || fail "reconstruct of two: another size"

# A run that stops and goes on ends with the same bits; one that is finished stays.
# shellcheck disable=SC2086
goes_on 5 b c train reconstruct --images $images --set norm_pix_loss=true $run --steps 30
"$QKV" reconstruct b "$image" --out normed.png 2>notes || fail "normed: $(cat notes)"

# From one model to the next; from its encoder to a classifier.
"$QKV" train reconstruct --images $other --init a --threads 1 --batch 8 --steps 2 \
    --out d >answer 2>notes || fail "train --init: $(cat notes)"
"$QKV" train classify --data $images --valid-last 32 --init a --threads 1 \
    --batch 16 --steps 4 --out e >answer 2>notes || fail "train classify --init: $(cat notes)"
grep -q '"model_type": "vit"' e/config.json || fail "no vit"
"$QKV" train classify --data $images --valid-last 32 --init a --threads 1 --batch 16 \
    --set drop_path_rate=0.125 --steps 1 --out f >answer 2>notes ||
    fail "train classify --init --set: $(cat notes)"
grep -q '"drop_path_rate": 0.125' f/config.json || fail "$(grep drop f/config.json)"
"$QKV" eval e >answer 2>notes || fail "eval of the classifier: $(cat notes)"

# What cannot be.
mkdir none
printf 'no image' >text.png
# shellcheck disable=SC2086
{
    refused 1 'none' train reconstruct --images none $run --out new --quiet
    refused 1 'text.png' train reconstruct --images text.png $run --out new --quiet
    refused 1 'cannot be cut' train reconstruct --images $images --set patch_size=5 $run \
        --out new --quiet
    # before an image is read
    refused 1 'no preset "giant"' train reconstruct --images text.png $run --model giant \
        --out new --quiet
    refused 1 'multiples of 4' train reconstruct --images $images --set hidden_size=34 $run \
        --out new --quiet
    refused 1 'num_channels' train reconstruct --images $images --set num_channels=2 $run \
        --out new --quiet
    refused 2 'unknown option --mixup' train reconstruct --images $images --mixup 1 $run --out new
    refused 2 'mask_ratio' train reconstruct --images $images --set mask_ratio=1 $run --out new
    refused 1 'no patch is hidden' train reconstruct --images $images --set mask_ratio=0 $run \
        --out new --quiet
}
[ ! -e new ] || fail "something was written"
refused 1 'text.png' reconstruct a text.png --out o.png
refused 1 '--mask' reconstruct a "$image" --mask 100 --out o.png
refused 1 '--mask' reconstruct a "$image" --mask 25,,75 --out o.png
refused 1 'nowhere' reconstruct nowhere "$image" --out o.png
refused 2 '--out' reconstruct a "$image"
refused 1 'nothing to evaluate' eval a --mask 0
[ ! -e o.png ] || fail "an image was written"
exit $failed
