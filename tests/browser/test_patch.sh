#!/bin/sh
# test_patch.sh - pages of `qkv look --patch --out` in a real browser: a language model, a
# translator, a Vision Transformer, a masked autoencoder, a VQGAN and its prior.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
# shellcheck source=tests/support/models.sh
. "$QKV_SOURCE/tests/support/models.sh"
cd "$work"

learning_files 200
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
