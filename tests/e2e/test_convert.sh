#!/bin/sh
# test_convert.sh - `qkv convert` of a PyTorch file: the directory loads as the model that the same
# weights in safetensors are, in every number type and in shards; and models of images to the
# names of timm, facebookresearch/mae and taming-transformers and back.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM
golden=$QKV_SOURCE/tests/golden/pytorch
model=$golden/gpt2
fail() { echo "convert: $*"; exit 1; }
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors" || fail "$1 is not $2"; }
convert() { "$QKV" convert "$@" --quiet; }

if [ "$QKV_PYTORCH" = 1 ]; then
    convert "$model" "$out/expected"
    convert "$model/pytorch_model.bin" "$out/from-bin"
    cmp "$model/config.json" "$out/from-bin/config.json"
    convert "$out/from-bin" "$out/again"
    same again expected

    # A file beside which nothing else lies, named without a folder.
    cp "$model/pytorch_model.bin" "$model/config.json" "$out"
    (cd "$out" && convert pytorch_model.bin sharded --shard 0 --dtype f32)
    convert "$out/sharded" "$out/again2"
    same again2 expected

    convert "$model" "$out/expected16" --dtype bf16
    convert "$model/pytorch_model.bin" "$out/bin16" --dtype bf16
    convert "$out/bin16" "$out/again16" --dtype bf16
    same again16 expected16

    # Only what stands beneath a key; what was left out is told.
    "$QKV" convert "$golden/nested.pth" "$out/nested" --under state_dict 2>"$out/note"
    grep -q '7 tensors; [0-9]* other values left out' "$out/note" || fail "$(cat "$out/note")"
fi
"$QKV" convert "$model" "$out/none" --under x 2>"$out/note" && fail "--under of a directory"
grep -q 'is no file' "$out/note" || fail "$(cat "$out/note")"

# refused CODE SENTENCE ARGUMENTS... : it fails with the code and says so in one line.
refused() {
    code=$1 sentence=$2
    shift 2
    found=0
    "$QKV" convert "$@" 2>"$out/note" || found=$?
    [ "$found" -eq "$code" ] || fail "$*: exit $found"
    [ "$(wc -l <"$out/note")" -eq 1 ] || fail "$*: not one line: $(cat "$out/note")"
    grep -qF -- "$sentence" "$out/note" || fail "$*: expected \"$sentence\": $(cat "$out/note")"
}

# 60 images of 8 x 8, of any bytes, and their labels.
{ printf '\000\000\010\003\000\000\000\074\000\000\000\010\000\000\000\010'
  head -c 3840 "$QKV_SOURCE/src/hub/config.c"; } >"$out/images-idx3-ubyte"
{ printf '\000\000\010\001\000\000\000\074'
  printf '\000\001\002\000\001\002%.0s' 1 2 3 4 5 6 7 8 9 10
} >"$out/labels-idx1-ubyte"
train_small() {
    "$QKV" train "$@" --model nano --set patch_size=4 --steps 1 --threads 1 --quiet ||
        fail "train $*"
}
train_small classify --data "$out/images-idx3-ubyte" --type vit --out "$out/vit"
train_small reconstruct --images "$out/images-idx3-ubyte" --out "$out/mae" --set num_channels=1
convert "$out/vit" "$out/timm.safetensors" --to timm
convert "$out/timm.safetensors" "$out/vit2" --set num_attention_heads=2
same vit2 vit
convert "$out/mae" "$out/mae.safetensors" --to mae
convert "$out/mae.safetensors" "$out/mae2" --set num_attention_heads=2 \
    --set decoder_num_attention_heads=2
same mae2 mae
if [ "$QKV_PYTORCH" = 1 ]; then
    convert "$out/mae" "$out/mae.pth" --to mae
    convert "$out/mae.pth" "$out/mae4" --set num_attention_heads=2 \
        --set decoder_num_attention_heads=2
    same mae4 mae
    convert "$out/mae" "$out/half.pth" --to mae --dtype bf16
    convert "$out/half.pth" "$out/half" --set num_attention_heads=2 \
        --set decoder_num_attention_heads=2 --dtype bf16
    convert "$out/mae" "$out/expected-half" --dtype bf16
    same half expected-half
fi
"$QKV" convert "$out/mae.safetensors" "$out/mae3" 2>"$out/note"
grep -q 'num_attention_heads is taken to be 1, hidden_size / 64' "$out/note" ||
    fail "$(cat "$out/note")"
"$QKV" classify "$out/vit2" "$out/images-idx3-ubyte" --json >/dev/null || fail "classify vit2"

if [ "$QKV_PYTORCH" = 1 ]; then
    # What PyTorch Lightning saved of a VQGAN, in either format; and back.
    taming=$QKV_SOURCE/tests/golden/taming
    "$QKV" convert "$taming/last.ckpt" "$out/vq" --skip-objects 2>"$out/note"
    grep -q '3 tensors of the file are no part of it' "$out/note" || fail "$(cat "$out/note")"
    grep -q 'resolution is taken to be 256' "$out/note" || fail "$(cat "$out/note")"
    convert "$taming/last-legacy.ckpt" "$out/vq2" --skip-objects --set resolution=64
    same vq2 vq
    grep -q '"resolution": 64' "$out/vq2/config.json" || fail "$(cat "$out/vq2/config.json")"
    convert "$out/vq" "$out/vq.ckpt" --to taming
    convert "$out/vq.ckpt" "$out/vq3"
    same vq3 vq
    convert "$out/vq" "$out/half.ckpt" --to taming --dtype f16
    convert "$out/half.ckpt" "$out/vq4" --dtype f16
    convert "$out/vq" "$out/vq5" --dtype f16
    same vq4 vq5
    "$QKV" encode "$out/vq3" "$QKV_SOURCE/tests/golden/images/type2-8bit.png" \
        --out "$out/codes.npy" || fail "encode vq3"
    "$QKV" decode "$out/vq3" "$out/codes.npy" --out "$out/again.png" || fail "decode vq3"

    refused 1 'asks for __main__.ModelCheckpoint' "$taming/last.ckpt" "$out/x"
    head -c 9000 "$taming/last.ckpt" >"$out/cut.ckpt"
    refused 1 'cut.ckpt: ' "$out/cut.ckpt" "$out/x" --skip-objects
    head -c 9000 "$taming/last-legacy.ckpt" >"$out/cut.ckpt"
    refused 1 'cut.ckpt: ' "$out/cut.ckpt" "$out/x" --skip-objects
    refused 2 'is to be called otherwise' "$out/vq" "$out/x.safetensors" --to taming
    refused 1 'vq: --to timm writes a vit, found a qkv_vqgan' "$out/vq" "$out/x" --to timm
    refused 1 'vq.ckpt: the names of VGG16 (features.0.weight) expected' "$out/vq.ckpt" "$out/x" \
        --lpips "$taming/last.ckpt"
    refused 2 'is no file' "$out/vq" "$out/x" --lpips "$taming/last.ckpt"
fi
refused 1 'vit: --to taming writes a qkv_vqgan or qkv_prior, found a vit' "$out/vit" "$out/x" \
    --to taming
refused 1 'vit: --to mae writes a vit_mae, found a vit' "$out/vit" "$out/x.safetensors" --to mae
refused 1 'mae: --to timm writes a vit, found a vit_mae' "$out/mae" "$out/x.safetensors" --to timm
refused 1 'timm.safetensors is there already' "$out/vit" "$out/timm.safetensors" --to timm
refused 2 'is no model directory' "$out/timm.safetensors" "$out/x" --to timm
refused 1 'expected the names of timm' "$out/vit/model.safetensors" "$out/x"
refused 1 '3 heads do not divide the width 64' "$out/timm.safetensors" "$out/x" \
    --set num_attention_heads=3
if [ -e "$out/x" ] || [ -e "$out/x.safetensors" ]; then fail "what was refused was written"; fi
