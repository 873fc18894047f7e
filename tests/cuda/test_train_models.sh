#!/bin/sh
# test_train_models.sh - models whose blocks differ are trained on the CUDA device and on the CPU
# with products in bf16: a llama (gated units, rotary positions), a ViT, a translator (post-norm
# blocks, attention to a memory, dropout), a VQGAN (convolutions, group norms, its discriminator
# and what it looks at); activations are recomputed or not. The losses agree.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/losses.sh
. "$QKV_SOURCE/tests/support/losses.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"
head -c 3000 "$QKV_SOURCE/README.md" >text
awk 'NF > 3 && NF < 24' "$QKV_SOURCE/README.md" | head -60 >source
awk '{ for (i = NF; i > 0; i--) printf "%s%s", $i, (i > 1 ? " " : "\n") }' source >target
draw_bars 1 24 bars-images-idx3-ubyte
label_bars 24 bars-labels-idx1-ubyte
common="--steps 3 --eval-every 1 --eval-units 8 --threads 1 --seed 3 --quiet --dtype bf16"

# both SHARE NAME KIND OPTION... : trains on either device; losses are apart by at most that share.
both() {
    share=$1 name=$2
    shift 2
    for device in cpu cuda; do
        # shellcheck disable=SC2086
        "$QKV" train "$@" $common --device $device --out "$name-$device" 2>notes </dev/null ||
            fail "train $* on $device: $(cat notes)"
    done
    agree "$share" "$name-cpu" "$name-cuda"
}

lm="lm --data text --tokenizer char --model nano --length 32 --batch 2"
# shellcheck disable=SC2086
both 4e-3 llama $lm --layout llama
# shellcheck disable=SC2086
"$QKV" train $lm $common --layout llama --device cuda --recompute --out again 2>notes </dev/null ||
    fail "with --recompute: $(cat notes)"
cmp -s llama-cuda/model.safetensors again/model.safetensors || fail "--recompute gives other bits"
both 2e-2 vit classify --data bars-images-idx3-ubyte --type vit --batch 2 --eval-units 4 \
    --set num_hidden_layers=2 --set hidden_size=64 --set intermediate_size=96 \
    --set num_attention_heads=2
both 4e-3 translator translate --source source --target target --vocab 300 --tokens 64 \
    --set d_model=32 --set encoder_layers=1 --set decoder_layers=1 --set encoder_ffn_dim=64 \
    --set decoder_ffn_dim=64 --set encoder_attention_heads=2 --set decoder_attention_heads=2
# A small rate, so that the second step chooses the codes that the first did.
common="--steps 2 --eval-every 1 --valid-last 4 --threads 1 --seed 3 --quiet --dtype bf16"
both 1e-2 vqgan vqgan --images bars-images-idx3-ubyte --model nano --batch 2 --lr 1e-5 \
    --perceptual-steps 1 --disc-start 1 --set ch_mult=1,1 --set num_res_blocks=1 \
    --set z_channels=16 --set embed_dim=16 --set n_embed=64
exit $failed
