#!/bin/sh
# test_imagine.sh - `qkv train imagine`, `imagine` and `eval`: what they learn, sample and write,
# and what they refuse.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"

# Which way a bar goes is its class.
draw_bars 1 96 bars-images-idx3-ubyte
label_bars 96 bars-labels-idx1-ubyte
bars="bars-images-idx3-ubyte"
image=$QKV_SOURCE/tests/golden/images/colour-420.jpg
small="--set ch_mult=1,1 --set num_res_blocks=1 --set z_channels=16 --set embed_dim=16 --model nano"
# shellcheck disable=SC2086
"$QKV" train vqgan --images $bars --valid-last 16 --split last --threads 1 --batch 8 $small \
    --set n_embed=32 --perceptual 0 --adversarial 0 --steps 60 --lr 1e-3 --out codes --quiet \
    2>notes || fail "train vqgan: $(cat notes)"
# shellcheck disable=SC2086
"$QKV" train vqgan --images $bars --valid-last 16 --split last --threads 1 --batch 8 $small \
    --set n_embed=40 --size 8 --perceptual 0 --adversarial 0 --steps 2 --out other --quiet \
    2>notes || fail "train vqgan: $(cat notes)"
run="--vqgan codes --images $bars --valid-last 16 --split last --threads 1 --model nano --json"

# Learns what the codes are like: better than counting neighbours.
# shellcheck disable=SC2086
"$QKV" train imagine $run --classes --views 3 --crop-pad 1 --steps 80 --batch 16 --out prior \
    >answer 2>notes || fail "train imagine: $(cat notes)"
grep -q '^qkv_prior, .*, 8 x 8 of 32 codes, which hang on their classes; 240 grids .*, 16 held' \
    notes || fail "what it says: $(cat notes)"
bigram=$(field bits_bigram answer)
above "$bigram" "$(field bits_per_code answer)" || fail "neighbours tell more: $(cat answer)"
"$QKV" eval prior --json >again 2>notes || fail "eval: $(cat notes)"
[ "$(field bits_per_code again)" = "$(field bits_per_code answer)" ] ||
    fail "eval: $(cat again), not $(cat answer)"
[ "$(field bits_bigram again)" = "$bigram" ] || fail "eval: $(cat again), not $(cat answer)"
[ "$(field codes again)" = 1024 ] || fail "eval: $(cat again)"
"$QKV" eval prior --file $bars --json >again 2>notes || fail "eval of a file: $(cat notes)"
[ "$(field codes again)" = 6144 ] || fail "eval of a file: $(cat again)"

# Draws: the same seed, the same images; what is kept of an image is as its codes have it.
"$QKV" imagine prior --count 5 --seed 3 --json --out a.png >answer 2>notes ||
    fail "imagine: $(cat notes)"
[ "$(field count answer)" = 5 ] || fail "imagine: $(cat answer)"
"$QKV" imagine prior --count 5 --seed 3 --out b.png 2>notes || fail "imagine: $(cat notes)"
cmp a.png b.png || fail "the same seed, other images"
"$QKV" imagine prior --count 5 --seed 4 --out c.png 2>notes || fail "imagine: $(cat notes)"
cmp a.png c.png >/dev/null && fail "another seed, the same images"
"$QKV" imagine prior --count 1 --class 1 --complete "$image" --keep 0.5 --json --out half.png \
    >answer 2>notes || fail "imagine --complete: $(cat notes)"
"$QKV" imagine prior --count 1 --class 1 --complete "$image" --keep 0.99 --temperature 0 \
    --json --out most.png >most 2>notes || fail "imagine --keep: $(cat notes)"
first() { sed 's/.*"codes": \[\[//' "$1" | cut -d, -f1-32; }
[ "$(first answer)" = "$(first most)" ] || fail "what is kept: $(cat answer), $(cat most)"
"$QKV" imagine prior --count 2 --width 24 --height 20 --json --out wide.png >answer 2>notes ||
    fail "imagine --width: $(cat notes)"
[ "$(field rows answer),$(field columns answer)" = 10,12 ] || fail "imagine --width: $(cat answer)"
"$QKV" imagine prior --count 2 --show-next 4 --at 3,2 --out next.png >answer 2>notes ||
    fail "imagine --show-next: $(cat notes)"
[ "$(grep -c '^row 3, column 2:  [*]*[0-9.]*% [0-9]*  [*]*[0-9.]*% ' answer)" = 2 ] ||
    fail "imagine --show-next: $(cat answer)"
[ "$(tr -cd '*' <answer | wc -c)" = 2 ] || fail "imagine --show-next: none drawn: $(cat answer)"
"$QKV" imagine prior --count 1 --show-next 2 --temperature 0 --json --out next.png >answer \
    2>notes || fail "imagine --show-next --json: $(cat notes)"
case $(cat answer) in *'"drawn": true'*) ;; *) fail "none drawn: $(cat answer)" ;; esac
case $(cat answer) in *'"prob": 1,'*) fail "the sampler's: $(cat answer)" ;; esac

# On the codes of another model. A run that stops and goes on ends with the same bits.
# shellcheck disable=SC2086
goes_on 2 d e train imagine $run --condition-vqgan other --pkeep 0.9 --steps 24
"$QKV" imagine d --count 2 --condition "$image" --out f.png 2>notes ||
    fail "imagine --condition: $(cat notes)"

"$QKV" convert d copy --quiet || fail "convert of a prior"
for part in . vqgan condition; do
    cmp d/$part/model.safetensors copy/$part/model.safetensors || fail "$part: not copied"
done

# To a file of taming-transformers and back, with both models that code: of images of one side, as
# nothing in the file tells.
if [ "$QKV_PYTORCH" = 1 ]; then
    "$QKV" convert d d.ckpt --to taming 2>notes || fail "convert --to taming: $(cat notes)"
    "$QKV" convert d.ckpt back --set num_attention_heads=2 --set resolution=16 \
        --set condition_length=16 2>notes || fail "convert: $(cat notes)"
    grep -q 'taken to be 8 x 8 behind 16 others' notes || fail "convert: $(cat notes)"
    for part in . vqgan condition; do
        cmp d/$part/model.safetensors back/$part/model.safetensors || fail "$part: not the same"
    done
    sed -i 's/"resolution": 16/"resolution": 8/' back/condition/config.json
    "$QKV" imagine back --count 2 --condition "$image" --out g.png 2>notes ||
        fail "imagine of what was converted: $(cat notes)"
    cmp f.png g.png || fail "other images"
fi

# shellcheck disable=SC2086
"$QKV" train imagine $run --condition-vqgan other --init d --steps 2 --out g >answer 2>notes ||
    fail "train --init: $(cat notes)"
grep -q 'of 40 codes, which hang on other codes' notes || fail "what it says: $(cat notes)"

# Classes of a model from elsewhere have no names: they go by number.
if [ "$QKV_PYTORCH" = 1 ]; then
    "$QKV" convert prior prior.ckpt --to taming 2>notes || fail "convert --to taming: $(cat notes)"
    "$QKV" convert prior.ckpt nameless --set num_attention_heads=2 --set resolution=16 --quiet ||
        fail "convert of classes"
    for class in 0 1; do
        "$QKV" imagine prior --count 2 --class $class --out named$class.png --quiet ||
            fail "by name"
        "$QKV" imagine nameless --count 2 --class $class --out numbered$class.png --quiet ||
            fail "by number"
        cmp named$class.png numbered$class.png || fail "class $class by number: other images"
    done
    cmp -s numbered0.png numbered1.png && fail "both classes alike"
    refused 1 'a number from 0 to 31 expected, found "one"' imagine nameless --class one --out o.png
    refused 1 'a number from 0 to 31 expected, found "32"' imagine nameless --class 32 --out o.png
fi

# What cannot be.
mkdir alone
cp prior/config.json prior/model.safetensors alone
# shellcheck disable=SC2086
{
    refused 1 'no preset "giant"' train imagine $run --model giant --out new --quiet
    refused 1 'one of them expected' train imagine $run --classes --condition-vqgan other \
        --out new --quiet
    mkdir flat
    cp "$image" flat/a.png
    cp "$image" flat/b.png
    refused 1 'flat: at least 2 classes' train imagine --vqgan codes --images flat --classes \
        --valid-last 1 --out new --quiet
    refused 1 'multiples of 2 expected' train imagine $run --size 15 --out new --quiet
    refused 1 'no codes for images' train imagine $run --vqgan prior --out new --quiet
    refused 1 '--classes expected: what prior makes' train imagine $run --init prior --out new \
        --quiet
    refused 1 'after 1 tokens expected' train imagine $run --init d --out new --quiet
    refused 2 'pkeep' train imagine $run --pkeep 0 --out new
}
[ ! -e new ] || fail "something was written"
refused 1 'alone/vqgan' imagine alone --out o.png
refused 1 'samples no images' imagine codes --out o.png
refused 1 'knows no "9"; "0", say' imagine prior --class 9 --out o.png
refused 1 'knows no classes' imagine d --class 1 --condition "$image" --out o.png
refused 1 '--keep: --complete expected beside it' imagine prior --keep 0.3 --out o.png
refused 1 '--at: --show-next expected beside it' imagine prior --at 0,0 --out o.png
refused 1 'codes a side' imagine prior --width 65536 --height 65536 --out o.png
refused 1 'those of this model hang on one' imagine d --out o.png
refused 1 'hang on no other' imagine prior --condition "$image" --out o.png
refused 1 'multiples of 2' imagine prior --width 25 --out o.png
refused 1 'at least the trained 8' imagine prior --width 14 --out o.png
refused 1 'from 0,0 to 7,7' imagine prior --show-next 3 --at 8,0 --out o.png
refused 1 'answer' imagine prior --complete answer --out o.png
refused 2 '--out' imagine prior
[ ! -e o.png ] || fail "something was written"
printf '1,2\n' >prior/train/valid.npy
refused 1 'valid.npy' eval prior
exit $failed
