#!/bin/sh
# test_look.sh - pages of `qkv look --out` in a real browser: a language model, a BERT, a
# translator, a Vision Transformer, a compact transformer, a masked autoencoder, a colourer, a
# VQGAN and its prior, and a forecaster.
set -eu
# shellcheck source=tests/support/browser.sh
. "$QKV_SOURCE/tests/support/browser.sh"
# shellcheck source=tests/support/models.sh
. "$QKV_SOURCE/tests/support/models.sh"
cd "$work"

learning_files 200
train lm lm --data text --vocab 300
train mlm mlm --data text --vocab 300
train tr translate --source text --target german --vocab 300
train mae reconstruct --images bars-images-idx3-ubyte --size 8 --set patch_size=2
train color colorize --images bars-images-idx3-ubyte --size 8 --set patch_size=2
train vit classify --data bars-images-idx3-ubyte --size 64
train cct classify --data bars-images-idx3-ubyte
train vqgan vqgan --images bars-images-idx3-ubyte --size 16 --perceptual 0 --disc-start 0 \
    --set in_channels=3
train prior imagine --vqgan vqgan --images bars-images-idx3-ubyte
awk 'BEGIN { print "up,down"
    for (i = 0; i < 300; i++) printf "%d,%d\n", i * i % 37, 40 - i % 24 }' >series.csv
head -n 291 series.csv >known.csv
"$QKV" train forecast --data series.csv --causal --context 24 --horizon 10 --steps 20 --threads 1 \
    --out forecast --quiet >answer
cd "$OLDPWD"
check_page check_look.py "$QKV" "$work" "$QKV_SOURCE/tests/golden/images/colour-420.jpg"
