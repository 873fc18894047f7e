#!/bin/sh
# test_patch.sh - pages of `qkv look --patch --out` in a real browser: a language model, a
# translator, a Vision Transformer, a masked autoencoder, a VQGAN and its prior.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"
cd "$work"

i=0
while [ $i -lt 200 ]; do
    echo "the cat number $i sat on mat $((i * 7 % 31)) and it ran"
    i=$((i + 1))
done >text
sed 's/the/die/; s/cat/katze/; s/sat/sass/' text >german
draw_bars 1 64 bars-images-idx3-ubyte
label_bars 64 bars-labels-idx1-ubyte
# train NAME WORDS... : a model directory.
train() {
    name=$1
    shift
    "$QKV" train "$@" --out "$name" --model nano --steps 2 --threads 1 --quiet >answer
}
train lm lm --data text --vocab 300
train tr translate --source text --target german --vocab 300
train mae reconstruct --images bars-images-idx3-ubyte --size 8 --set patch_size=2
train vit classify --data bars-images-idx3-ubyte --size 64
train codes vqgan --images bars-images-idx3-ubyte --size 16 --perceptual 0 --set in_channels=3
train prior imagine --vqgan codes --images bars-images-idx3-ubyte
cd "$OLDPWD"
images=$QKV_SOURCE/tests/golden/images
check_page check_patch.py "$QKV" "$work" "$images/colour-420.jpg" "$images/turn1.jpg" \
    "$images/type2-8bit.png"
