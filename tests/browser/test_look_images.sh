#!/bin/sh
# test_look_images.sh - the panels of `qkv look --out` on patches, in a real browser: a segmenter,
# a colourer, a masked autoencoder, a Vision Transformer and a compact transformer.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
# shellcheck source=tests/support/models.sh
. "$QKV_SOURCE/tests/support/models.sh"
cd "$work"

images=$QKV_SOURCE/tests/golden/images
mkdir photos masks set
cp "$images/type2-8bit.png" photos/a.png
cp "$images/type2-16bit.png" photos/b.png
cp "$images/type0-1bit.png" masks/a.png
cp "$images/type0-1bit.png" masks/b.png
cp "$images/type2-16bit.png" "$images/type0-8bit.png" set/
draw_bars 1 64 bars-images-idx3-ubyte
label_bars 64 bars-labels-idx1-ubyte
train parts segment --images photos --masks masks --size 16 --set patch_size=4 --valid-last 1
train color colorize --images bars-images-idx3-ubyte --size 16 --set patch_size=4
train mae reconstruct --images bars-images-idx3-ubyte --size 16 --set patch_size=4
train vit classify --data bars-images-idx3-ubyte --type vit --set patch_size=4
train cct classify --data bars-images-idx3-ubyte
cd "$OLDPWD"
check_page check_look_images.py "$QKV" "$work"
