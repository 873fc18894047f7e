#!/bin/sh
# test_image_families.sh - directories of DeiT and DINOv2 that transformers saved: labels, vectors,
# attention, training on from them, images cut as they say, and what is refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

models=$QKV_SOURCE/tests/golden/models images=$QKV_SOURCE/tests/golden/images
mkdir photos photos/turned photos/coloured
cp "$images"/turn[1-6].jpg photos/turned
cp "$images"/colour-4*.jpg "$images"/grey.jpg "$images"/print.jpg photos/coloured

# A family and the architecture that training a classifier makes of it.
begin() {
    rm -rf model
    cp -r "$models/$1" model
    cat >model/preprocessor_config.json <<EOF
{"do_center_crop": true, "size": {"shortest_edge": 14}, "crop_size": 12, "resample": 3,
 "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
EOF
}
learn() {
    "$QKV" train classify --data photos --init model --steps 2 --batch 4 --valid-last 2 \
        --out "run-$1" >answer 2>notes || fail "$1: train classify: $(cat notes)"
    grep -q "\"$2\"" "run-$1/config.json" || fail "$1: $(head -4 "run-$1/config.json")"
    grep -A1 '"size"' "run-$1/preprocessor_config.json" | grep -q '"shortest_edge": 14' ||
        fail "$1: $(cat "run-$1/preprocessor_config.json")"
    "$QKV" classify "run-$1" "$images/turn1.jpg" >answer 2>notes || fail "$1: $(cat notes)"
    grep -q 'turned 0\.' answer || fail "$1: classify: $(cat answer)"
}

registers='"\[REG 1\]", "\[REG 2\]", "\[REG 3\]"'
while read -r name architecture tokens; do
    begin "$name"
    learn "$name" "$architecture"
    "$QKV" look model "$images/turn1.jpg" --json >answer 2>notes || fail "$name: $(cat notes)"
    grep -q "\"labels\": \[$tokens, \"0,0\", \"0,1\"" answer ||
        fail "$name: look: $(head -c 300 answer)"
    "$QKV" look model "$images/turn1.jpg" --out page.html --heat map.svg >answer 2>notes ||
        fail "$name: look: $(cat notes)"
done <<EOF
deit DeiTForImageClassification "\[CLS\]", "\[DIST\]"
deit-teacher DeiTForImageClassificationWithTeacher "\[CLS\]", "\[DIST\]"
deit-encoder DeiTForImageClassification "\[CLS\]", "\[DIST\]"
dinov2 Dinov2ForImageClassification "\[CLS\]"
dinov2-encoder Dinov2ForImageClassification "\[CLS\]"
dinov2-registers Dinov2WithRegistersForImageClassification "\[CLS\]", $registers
vit-encoder-bare ViTForImageClassification "\[CLS\]"
EOF

# Vectors, of encoders alone; training them goes on as an encoder.
begin dinov2-registers-encoder
"$QKV" embed model "$images/turn1.jpg" >answer 2>notes || fail "embed: $(cat notes)"
[ "$(wc -w <answer)" -eq 24 ] || fail "embed: $(cat answer)"
"$QKV" train embed --data photos --init model --steps 2 --batch 4 --valid-last 2 --out alike \
    >answer 2>notes || fail "train embed: $(cat notes)"
grep -q '"Dinov2WithRegistersModel"' alike/config.json || fail "$(cat alike/config.json)"
begin deit
refused 1 "a DeiTForImageClassification does not embed" embed model "$images/turn1.jpg"

# A segmenter begins with DeiT's blocks.
mkdir set masks
for i in 1 2 3 4; do
    cp "$images/type2-8bit.png" set/$i.png
    cp "$images/type0-1bit.png" masks/$i.png
done
"$QKV" train segment --images set --masks masks --init model --steps 1 --batch 2 --out pixels \
    >answer 2>notes || fail "train segment: $(cat notes)"
grep -q '"hidden_size": 24' pixels/config.json || fail "$(cat pixels/config.json)"

# Another size: positions are interpolated, and what is resized before the cut goes with it.
begin dinov2
"$QKV" train classify --data photos --init model --size 24 --steps 1 --batch 4 --valid-last 2 \
    --out larger >answer 2>notes || fail "train classify --size: $(cat notes)"
grep -q '"image_size": 24' larger/config.json || fail "$(cat larger/config.json)"
grep -A1 '"size"' larger/preprocessor_config.json | grep -q '"shortest_edge": 28' ||
    fail "$(cat larger/preprocessor_config.json)"

# Refused in a sentence, and nothing written.
refused 1 "vit, deit or vit_mae model of images in colour expected, model holds a dinov2" \
    train segment --images photos --masks photos --init model --out parts
sed -i 's/"crop_size": 12/"crop_size": 16/' model/preprocessor_config.json
refused 1 '"crop_size": a crop larger than the resized image (14) is not supported' \
    classify model "$images/turn1.jpg"
begin dinov2
sed -i 's/"hidden_size"/"head_mask_type": "some", "hidden_size"/' model/config.json
refused 1 '"head_mask_type": "some" has no place in a dinov2 model here' \
    classify model "$images/turn1.jpg"
[ ! -e parts ] || fail "something was written"
exit $failed
