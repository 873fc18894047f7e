#!/bin/sh
# test_vqgan.sh - `qkv train vqgan`, `encode`, `decode` and `eval`: what they learn, say and write,
# and what they refuse.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"

draw_bars 1 96 bars
image=$QKV_SOURCE/tests/golden/images/colour-420.jpg
run="--images bars --valid-last 16 --threads 1 --batch 8 --json --set n_embed=64"
small="--set ch_mult=1,1 --set num_res_blocks=1 --set z_channels=16 --set embed_dim=16 --model nano"

# Learns what images look like, then codes for them.
# shellcheck disable=SC2086
"$QKV" train vqgan $run $small --steps 60 --perceptual-steps 10 --disc-start 40 --lr 1e-3 --out a \
    >answer 2>notes || fail "train vqgan: $(cat notes)"
grep -q 'a network that learnt their colours' notes || fail "what it says: $(cat notes)"
grep -q '^qkv_vqgan, .* of 16 x 16 as 8 x 8 of 64 codes; 80 .*, 16 held out$' notes ||
    fail "what it says: $(cat notes)"
above "$(field psnr answer)" 15 || fail "nothing was learnt: $(cat answer)"
above "$(field codes_used answer)" 0.3 || fail "codes: $(cat answer)"
"$QKV" eval a --json >answer 2>notes || fail "eval: $(cat notes)"
[ "$(field images answer)" = 16 ] || fail "eval: $(cat answer)"
above "$(field ssim answer)" 0.3 || fail "eval: $(cat answer)"
above "$(field perplexity answer)" 5 || fail "eval: $(cat answer)"
"$QKV" eval a --file bars --json >answer 2>notes || fail "eval of a file: $(cat notes)"
[ "$(field images answer)" = 96 ] || fail "eval of a file: $(cat answer)"

# What a network says of decoded images, and how well it says it.
"$QKV" eval a --lpips a/train/perceptual --json >answer 2>notes || fail "eval --lpips: $(cat notes)"
grep -q '"network": "a/train/perceptual"' answer || fail "eval --lpips: $(cat answer)"
above "$(field lpips answer)" 0 || fail "eval --lpips: $(cat answer)"
above "$(field frechet answer)" 0 || fail "eval --lpips: $(cat answer)"
"$QKV" eval a/train/perceptual --json >answer 2>notes ||
    fail "eval of the network: $(cat notes)"
[ "$(field images answer)" = 16 ] || fail "eval of looks: $(cat answer)"
above "$(field ranks_noise answer)" 0.9 || fail "eval of looks: $(cat answer)"
above "$(field ranks_blur answer)" 0.5 || fail "eval of looks: $(cat answer)"
"$QKV" eval a/train/perceptual --file bars --json >answer 2>notes ||
    fail "eval of the network: $(cat notes)"
[ "$(field images answer)" = 96 ] || fail "eval of looks: $(cat answer)"
refused 1 'a model that codes images expected' eval a/train/perceptual --lpips a/train/perceptual
refused 1 'a: a perceptual network for images of 3 channels expected' eval a --lpips a
refused 1 'new' eval a --lpips new

# To codes and back. What comes back has codes too, mostly the same.
"$QKV" encode a "$image" --out codes.npy --json >answer 2>notes || fail "encode: $(cat notes)"
rows=$(field rows answer) columns=$(field columns answer)
[ "$(wc -c <codes.npy)" -eq $((128 + 4 * rows * columns)) ] || fail "encode: $(cat answer)"
"$QKV" decode a codes.npy --out back.png --json >answer 2>notes || fail "decode: $(cat notes)"
[ "$(cat answer)" = "{\"out\": \"back.png\", \"rows\": $rows, \"columns\": $columns}" ] ||
    fail "decode: $(cat answer)"
"$QKV" encode a back.png --out again.npy --json >answer 2>notes || fail "encode: $(cat notes)"
[ "$(field rows answer)" = "$rows" ] || fail "encode of what was decoded: $(cat answer)"
printf '1,2,3\n4,5,63\n' >codes.csv
"$QKV" decode a codes.csv --out six.png 2>notes || fail "decode of text: $(cat notes)"

# A run that stops and goes on ends with the same bits, whichever phase it is in.
# shellcheck disable=SC2086
goes_on 2 b c train vqgan $run $small --steps 14 --perceptual-steps 4 --disc-start 5 --disc-ramp 3

# As the authors' code has it; from one model to the next.
# shellcheck disable=SC2086
"$QKV" train vqgan $run --init b --steps 2 --perceptual 0 --legacy --second-forward --clip 0 \
    --ema 0 --disc-start 0 --disc-ramp 0 --disc-loss vanilla --no-revive --code-decay 0 --out d \
    >answer 2>notes ||
    fail "train --init: $(cat notes)"

# Its codes stay what they are in a step that moves nothing; the newest model is kept.
# shellcheck disable=SC2086
"$QKV" train vqgan $run --init a --steps 1 --perceptual 0 --disc-start 0 --lr 1e-9 --quiet \
    --out stays >answer 2>notes || fail "train --init: $(cat notes)"
for run_dir in a stays; do
    "$QKV" encode $run_dir "$image" --out $run_dir.npy --quiet || fail "encode with $run_dir"
done
differ=$(cmp -l a.npy stays.npy | wc -l)
[ "$differ" -le $((rows * columns / 10)) ] || fail "$differ of $((rows * columns)) codes changed"

# The authors' settings in one word; an option beside it holds.
short="--images bars --valid-last 16 --threads 1 --quiet --steps 3 --perceptual-steps 2"
short="$short --set n_embed=64"
# shellcheck disable=SC2086
{
    "$QKV" train vqgan $short $small --recipe taming --out t1 2>notes || fail "taming: $(cat notes)"
    "$QKV" train vqgan $short $small --batch 5 --lr 2.25e-5 --schedule constant --warmup 0 \
        --clip 0 --no-flip --dtype f32 --legacy --no-revive --code-decay 0 --adversarial 0.8 \
        --disc-start 10000 --disc-ramp 0 --beta1 0.5 --beta2 0.9 \
        --second-forward --lpips t1/train/perceptual --out t2 2>notes ||
        fail "as taming: $(cat notes)"
    "$QKV" train vqgan $short $small --recipe taming --no-legacy --out t3 2>notes ||
        fail "taming, not legacy: $(cat notes)"
}
"$QKV" help train vqgan | tr '\n' ' ' | tr -s ' ' >notes
grep -q 'Recipe taming: --model f16 .*--adversarial 0.8, --disc-start 10000, ' notes ||
    fail "help: $(cat notes)"
cmp t1/model.safetensors t2/model.safetensors || fail "the recipe sets something else"
cmp -s t1/model.safetensors t3/model.safetensors && fail "the recipe is not overruled"
[ "$(products_of t1 | grep -c f32)" -eq 2 ] || fail "the perceptual network: $(products_of t1)"

# What cannot be.
printf '1,2\n3,64\n' >beyond.csv
printf '1,2.5\n' >half.csv
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "%s7", i ? "," : ""; print "" }' >wide.csv
# shellcheck disable=SC2086
{
    refused 1 'no preset "giant"' train vqgan $run --model giant --out new --quiet
    refused 1 'ch: a multiple of 32' train vqgan $run --model nano --set ch=40 --out new --quiet
    refused 2 'ch_mult' train vqgan $run --model nano --set ch_mult=1,,2 --out new --quiet
    refused 1 'cannot be halved' train vqgan $run --model nano --set resolution=6 --out new --quiet
    refused 1 'no discriminator' train vqgan $run --model nano --set disc_num_layers=0 \
        --out new --quiet
    refused 1 'images of 1 channel' train vqgan $run --model nano --set in_channels=1 \
        --out new --quiet
    refused 1 '--lpips: a qkv_perceptual expected, a holds a qkv_vqgan' train vqgan $run \
        --lpips a --out new --quiet
    refused 1 'lpips/config.json' train vqgan $run --lpips lpips --out new --quiet
    refused 1 '24 cannot be halved' train vqgan $run --recipe taming --set resolution=24 \
        --out new --quiet
    refused 1 '--optimizer: muon' train vqgan $run --model nano --optimizer muon --out new --quiet
    refused 2 'unknown option --mixup' train vqgan $run --mixup 1 --out new
}
[ ! -e new ] || fail "something was written"
refused 1 'row 1, column 1: code 64; 0 to 63 expected' decode a beyond.csv --out o.png
refused 1 'whole numbers' decode a half.csv --out o.png
refused 1 'wide.csv: at most 32768 codes a side' decode a wide.csv --out o.png
refused 1 'bars' decode a bars --out o.png
refused 1 'codes.csv' encode a codes.csv --out o.npy
refused 1 'no codes' encode a/train/perceptual "$image" --out o.npy
refused 2 '--out' encode a "$image"
{ [ ! -e o.png ] && [ ! -e o.npy ]; } || fail "something was written"
exit $failed
