#!/bin/sh
# test_classify_images.sh - `qkv train classify`, `classify` and `eval` on images: what they learn,
# say and write, going on from one to the next, and what they refuse.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

# 240 grey images of 12 x 12: rows, columns or squares of light, moved and dimmed at random.
draw() {
    LC_ALL=C awk -v seed="$1" -v part="$2" 'BEGIN {
        srand(seed)
        for (i = 0; i < 240; i++) {
            kind = i % 3; dx = int(rand() * 4); dy = int(rand() * 4); light = 60 + rand() * 60
            if (part == "labels") { printf "%c", kind + 48; continue }
            for (y = 0; y < 12; y++)
                for (x = 0; x < 12; x++) {
                    a = int((x + dx) / 2) % 2; b = int((y + dy) / 2) % 2
                    on = kind == 0 ? a : kind == 1 ? b : (a + b) % 2
                    printf "%c", 1 + int(on * light + rand() * 6)
                }
        }
    }' >"$3.body"
    if [ "$2" = labels ]; then
        printf '\000\000\010\001\000\000\000\360' >"$3"
        tr '012' '\000\001\002' <"$3.body" >>"$3"
    else
        printf '\000\000\010\003\000\000\000\360\000\000\000\014\000\000\000\014' >"$3"
        cat "$3.body" >>"$3"
    fi
}
draw 1 images train-images-idx3-ubyte
draw 1 labels train-labels-idx1-ubyte
draw 2 images other-images-idx3-ubyte
draw 2 labels other-labels-idx1-ubyte
images=train-images-idx3-ubyte
run="--model nano --threads 1 --batch 16 --steps 60 --lr 2e-3 --json"

# Learns what it sees. (Options are words: they are split on purpose.)
# shellcheck disable=SC2086
"$QKV" train classify --data $images --valid-last 30 $run --out a >answer 2>notes ||
    fail "train classify: $(cat notes)"
grep -q '^qkv_cct, .* images of 12 x 12, 3 classes; 210 images to learn from, 30 held out' \
    notes || fail "what it says: $(cat notes)"
above "$(field accuracy answer)" 0.9 || fail "accuracy: $(cat answer)"
grep -q '"data_wait": 0\.' a/train/metrics.jsonl || fail "no data_wait in the log"
grep -q '"image_mean"' a/preprocessor_config.json || fail "no preprocessor_config.json"

# Evaluated on other data, and on what was held out.
"$QKV" eval a --file other-images-idx3-ubyte --json >answer 2>notes || fail "eval: $(cat notes)"
above "$(field accuracy answer)" 0.9 || fail "eval: $(cat answer)"
[ "$(field images answer)" = 240 ] || fail "eval: images: $(cat answer)"
"$QKV" eval a >answer 2>notes || fail "eval of what was held out: $(cat notes)"
grep -q '^images *30$' answer || fail "eval: $(cat answer)"

# Labels: one line an image, in order.
"$QKV" classify a $images --json >answer 2>notes || fail "classify: $(cat notes)"
[ "$(wc -l <answer)" -eq 240 ] || fail "classify: $(wc -l <answer) lines"
head -1 answer | grep -q '^{"file": ".*", "label": "[012]", "probs": {"0": .*, "1": .*, "2": ' ||
    fail "classify: $(head -1 answer)"
photos=$QKV_SOURCE/tests/golden/images
"$QKV" classify a "$photos/grey.jpg" "$photos/print.jpg" >answer 2>notes ||
    fail "classify: $(cat notes)"
[ "$(wc -l <answer)" -eq 2 ] || fail "classify: $(cat answer)"
awk -F '\t' 'NF != 4 { exit 1 }' answer || fail "classify: not three labels: $(cat answer)"

# A run that stops and goes on ends with the same bits.
# shellcheck disable=SC2086
goes_on 5 b c train classify --data $images --valid-last 30 $run --crop-pad 1 --mixup 0.8

# Patches, on images of another size; then from that model to these classes.
# shellcheck disable=SC2086
"$QKV" train classify --data $images --type vit --size 16 --valid-last 30 $run --out v \
    >answer 2>notes || fail "train vit: $(cat notes)"
grep -q '"model_type": "vit"' v/config.json || fail "no vit"
above "$(field accuracy answer)" 0.6 || fail "vit: accuracy: $(cat answer)"
"$QKV" train classify --data other-images-idx3-ubyte --init v --threads 1 --batch 16 --steps 2 \
    --valid-last 60 --out w >answer 2>notes || fail "train --init: $(cat notes)"
"$QKV" eval w >answer || fail "eval of the tuned one"

# config.json's name for --size.
for size in "--size 16" "--set image_size=16"; do
    # shellcheck disable=SC2086
    "$QKV" train classify --data $images --valid-last 30 $run --steps 1 --dtype f32 $size \
        --out "z$size" >answer 2>notes || fail "$size: $(cat notes)"
done
cmp "z--size 16/model.safetensors" "z--set image_size=16/model.safetensors" ||
    fail "--set image_size is not --size"
# shellcheck disable=SC2086
refused 2 'one of them expected, found both' train classify --data $images $run --size 16 \
    --set image_size=16 --out new --quiet

# Classes are held out alike, although one image has none.
mkdir -p stray/cat stray/dog
for i in 1 2 3 4; do
    cp "$photos/grey.jpg" stray/cat/$i.jpg
    cp "$photos/print.jpg" stray/dog/$i.jpg
done
cp "$photos/grey.jpg" stray/0.jpg
"$QKV" train classify --data stray --size 16 --valid-last 2 --threads 1 --steps 1 --batch 2 \
    --out s >answer 2>notes || fail "train with a stray image: $(cat notes)"
grep -q '^1 of 9 images have no class' notes || fail "the stray image: $(cat notes)"
tr '\0' '\n' <s/train/valid-images.safetensors | grep -a -o 'stray/[a-z]*' | sort -u >held
[ "$(wc -l <held)" -eq 2 ] || fail "held out: $(cat held)"

# What cannot be.
mkdir -p one/cat two/cat two/dog none broken/cat broken/dog
cp "$photos/grey.jpg" one/cat
cp "$photos/grey.jpg" two/cat
cp "$photos/print.jpg" two/dog
printf 'no image' >broken/cat/a.png
printf 'no image' >broken/dog/b.png
# shellcheck disable=SC2086
{
    refused 1 'at least 2 classes' train classify --data one $run --out new --quiet
    refused 1 'none' train classify --data none $run --out new --quiet
    refused 1 'broken/' train classify --data broken $run --out new --quiet
    refused 1 'the model has no class "cat"' train classify --data $images --valid two $run \
        --out new --quiet
    refused 1 'qkv_cct has no size "giant"' train classify --data two --size 16 --valid-last 0 \
        --model giant --out new --quiet
    refused 1 'the model has no class "cat"' eval a --file two --quiet
    refused 1 'nowhere' classify a nowhere --quiet
    refused 2 'a labels images: none is named' classify a
}
[ ! -e new ] || fail "something was written"
exit $failed
