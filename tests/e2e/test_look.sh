#!/bin/sh
# test_look.sh - `qkv look`: a model of each kind that has attention is trained for a moment and
# looked into; rows are distributions, captures have their tensors, wrong uses are refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/models.sh
. "$QKV_SOURCE/tests/support/models.sh"

learning_files 300
awk '{ print (NR % 2 ? "odd" : "even") "\t" $0 }' text >labels.tsv
image=$QKV_SOURCE/tests/golden/images/colour-420.jpg
train lm lm --data text --vocab 300
train mlm mlm --data text --vocab 300
train classes classify --data labels.tsv --vocab 300
train tr translate --source text --target german --vocab 300
for kind in reconstruct colorize; do
    train $kind $kind --images bars-images-idx3-ubyte --size 8 --set patch_size=2
done
train vit classify --data bars-images-idx3-ubyte --size 64
train cct classify --data bars-images-idx3-ubyte
train views embed --data bars-images-idx3-ubyte --batch 8
train vectors embed --source text --target german --vocab 300 --batch 8
mkdir photos masks
for name in a b; do
    cp "$QKV_SOURCE/tests/golden/images/type2-8bit.png" photos/$name.png
    cp "$QKV_SOURCE/tests/golden/images/type0-1bit.png" masks/$name.png
done
printf 'file,caption\na.png,a bar\nb.png,the bar\n' >captions.csv
train captions embed --data photos --captions captions.csv --size 16 --valid-last 1 --vocab 100 \
    --batch 1
train segment segment --images photos --masks masks --size 8 --set patch_size=2 --valid-last 1
train vqgan vqgan --images bars-images-idx3-ubyte --size 16 --perceptual 0 --disc-start 0 \
    --set in_channels=3
train prior imagine --vqgan vqgan --images bars-images-idx3-ubyte

# look WORDS... : succeeds.
look() {
    "$QKV" look "$@" >answer 2>notes || fail "look $*: $(cat notes)"
}
# sums_to_one : the row of the answer in JSON is a distribution, but for weights left out.
sums_to_one() {
    sed 's/.*"weights": \[\([^]]*\)\].*/\1/' answer | tr ',' '\n' |
        awk '{ sum += $1 } END { exit !(sum > 0.97 && sum < 1.001) }' ||
        fail "$*: a row that does not sum to 1: $(tail -c 300 answer)"
}
for model in lm mlm classes tr vectors; do
    look $model "the cat sat"
    grep -q 'the' answer || fail "$model: no tokens: $(cat answer)"
    look $model "the cat sat" --json --head 0 --at 1
    sums_to_one $model
done
# Relative positions: a row of the table for each range of offsets, a value of every head.
"$QKV" train translate --quiet --threads 1 --model nano --tokenizer char --vocab 60 --source text \
    --target text --steps 1 --out chars 2>notes || fail "chars: $(cat notes)"
rm -f chars/*.safetensors chars/*config.json
cp "$QKV_SOURCE"/tests/golden/models/t5/*.* chars
look chars "the cat sat" --panel positions --json
grep -qF '"offsets":["..-4","-3..-2","-1","0","1","2..3","4.."]' answer ||
    fail "t5: other offsets: $(cat answer)"
grep -qE '"bias":\[\[-0.19392[0-9]*,0.17280[0-9]*,-1.11914[0-9]*,0.07025[0-9]*,-0.93753' answer ||
    fail "t5: other biases: $(cat answer)"
look chars "the cat sat" --panel decoder_positions --heat bias.svg
[ "$(grep -o '<title>[0-9], 0: ' bias.svg | wc -l)" = 3 ] || fail "t5: not 3 heads in bias.svg"
look captions "the bar" --json --head 0 --at 1
sums_to_one "captions, a text"
for model in reconstruct colorize segment vit cct views captions; do
    look $model "$image"
    [ "$(grep -c '^[ .:=+*#%@-]*$' answer)" -ge 4 ] || fail "$model: no grid: $(cat answer)"
    look $model "$image" --json --head 0
    sums_to_one $model
    look $model "$image" --rollout --json --at 1
    sums_to_one $model
done
look vqgan "$image"
[ "$(grep -c '^[ .:=+*#%@-]*$' answer)" -ge 4 ] || fail "vqgan: no grid: $(cat answer)"
look vqgan "$image" --attention encoder_attentions --json
sums_to_one vqgan
grep -qF '"names": ["encoder.mid.attn_1"]' answer || fail "a layer has no name: $(cat answer)"
look vqgan "$image" --among bars-images-idx3-ubyte --panel codes-usage
grep -q '"images":64,' answer || fail "no usage over the set: $(cat answer)"
look vqgan "$image" --panel codes-where --heat where.svg
grep -q '<image' where.svg || fail "no patches of codes"
look vqgan "$image" --capture inside.safetensors
"$QKV" info inside.safetensors >answer
grep -qF ' decoder.mid.attn_1.weights ' answer || fail "the capture has no attention of a VQGAN"
look prior "$image" --json
sums_to_one prior
grep -q '"text": "code ' answer || fail "prior: codes have no names: $(cat answer)"
look prior --seed 3 --panel prior-next --json
cp answer drawn
look prior --seed 3 --panel prior-next --json
cmp -s answer drawn || fail "a seed does not determine what a prior samples"
refused 1 "reads images: none was given" look vqgan
refused 1 "reads text: none was given" look lm
refused 1 "--patch: INPUT expected" look lm --patch "the cat"
look classes "the cat sat" --json
grep -q '"classes": \[{"label": "' answer || fail "no classes: $(cat answer)"
refused 1 "cross_attentions have no rollout" look tr "the cat" --second "die katze" --rollout

# Panels: numbers, drawings; what is asked of the wrong kind of model is refused.
for panel in segments source positions filters exciting nearest; do
    look segment photos/a.png --truth masks/a.png --panel $panel --json
    look segment photos/a.png --panel $panel --heat panel.svg --among photos
    grep -q '<svg' panel.svg || fail "$panel: no drawing"
done
look segment photos/a.png --truth masks/a.png --panel segments
grep -q '"miou":0\.' answer || fail "no IoU: $(cat answer)"
look colorize photos/a.png --hint 3,4,#c02040 --panel hints --heat panel.png
look reconstruct photos/a.png --panel reconstruction --heat panel.png
refused 1 "there is no panel \"hints\"; a vit model has: positions" look vit "$image" --panel hints
refused 1 "--truth: a vit model tells" look vit "$image" --truth masks/a.png --panel positions
refused 1 "--hint: a qkv_segmenter model colours no" look segment photos/a.png --hint 1,1,#000000
refused 1 "--pixel: for panels" look segment photos/a.png --pixel 1,1
refused 1 "no class of the model" look segment photos/a.png --truth photos/b.png --panel segments
refused 1 "nowhere" look vit "$image" --among nowhere --panel nearest
refused 1 "--among: a llama model reads no images" look lm "the cat" --among photos --panel stream
refused 1 "--class: a llama model samples no" look lm "the cat" --class 1
refused 1 "--hold-back: a llama model forecasts nothing" look lm "the cat" --hold-back 3
refused 1 "--mask: a vit model masks no patches" look vit "$image" --mask 0.5
refused 1 "--second: a llama model reads one text" look lm "the cat" --second "a dog"

# A capture's tensors have the names that Hugging Face gives them.
look lm "the cat sat" --capture inside.safetensors --places '*.attn.z'
"$QKV" info inside.safetensors >answer
for name in attentions.0 hidden_states.0 hidden_states.1 h.0.attn.z; do
    grep -qF " $name " answer || fail "the capture has no $name: $(cat answer)"
done
look tr "the cat sat" --capture inside.safetensors --store f16
"$QKV" info inside.safetensors >answer
grep -q 'F16 *cross_attentions.0 ' answer || fail "no cross-attention: $(cat answer)"

# Activation patching of every kind: a grid for each stack, on an answer that is named or found.
# patched MODEL CLEAN CORRUPT STACK WORDS... : the grids' stacks, and shares that differ from 0.
patched() {
    model=$1 stacks=$4
    look "$model" "$2" --patch "$3" --json
    [ "$(grep -o '"stack": "[a-z.]*"' answer | cut -d'"' -f4 | tr '\n' ' ')" = "$stacks " ] ||
        fail "$model: other grids than $stacks: $(head -c 300 answer)"
    look "$model" "$2" --patch "$3" --heat patch.png --out patch.html
    grep -q 'id="patch"' patch.html || fail "$model: no data on the page"
}
other=$QKV_SOURCE/tests/golden/images/turn1.jpg
patched lm "the cat sat" "the mat sat" h
patched mlm "the [MASK] sat on" "a [MASK] sat on" layer
patched classes "the cat sat" "the mat sat" layer
patched tr "the cat sat" "the mat sat" "encoder decoder"
patched reconstruct "$image" "$other" "layer decoder.layer"
for model in colorize vit cct; do
    patched $model "$image" "$other" layer
done
patched vectors "the cat sat" "the mat sat" layer
patched views "$image" "$other" layer
patched captions "a bar" "the bar" text
patched captions "$image" "$other" vision
patched prior "$image" "$other" h
patched vqgan "$image" "$other" "encoder decoder"
[ -s patch-decoder.png ] || fail "no drawing of the decoder"
look prior "$image" --patch "$other" --answer 3 --other "code 5" --pixel 1,0
grep -q '^code 3 - code 5 at place 1,0: clean' answer || fail "codes: $(cat answer)"
look vqgan "$image" --patch "$other" --answer blue --pixel 3,4 --place "mid.*"
grep -q '^blue at pixel 3,4: clean' answer || fail "a pixel: $(cat answer)"
grep -q '^encoder.mid.\*: ' answer || fail "layers: $(cat answer)"
look captions "$image" --patch "$other" --answer "a bar" --other "the bar"
grep -q '^cosine with a bar - cosine with the bar at the output: ' answer ||
    fail "texts of an image: $(cat answer)"
"$QKV" info captions --probes >answer
for place in vision.0.attn.z text.0.attn.z; do
    grep -qF " $place " answer || fail "captions: no place $place"
done
look lm "the cat sat" --patch "the mat sat" --place attn.z --heads
grep -q 'heads across' answer || fail "no heads: $(cat answer)"
refused 1 "the clean input has" look lm "the cat" --patch "the cat sat on the mat"
refused 1 "no common mask" look mlm "the cat" --patch "the mat"
refused 1 "--answer: one of 2 names" look classes "the cat" --patch "the mat" --answer none
refused 1 "--pixel: the model does not answer at pixels" look lm "the cat" --patch "the mat" \
    --pixel 1,2
refused 1 "--answer: --patch expected" look lm "the cat" --answer cat
refused 1 "--panel: not together with --patch" look lm "the cat" --patch "the mat" --panel stream
refused 1 "--layer: not together with --patch" look lm "the cat" --patch "the mat" --layer 1
refused 1 "--place: the model has no h.*.nowhere" look lm "the cat" --patch "the mat" \
    --place nowhere
refused 1 "--answer: a code below" look prior "$image" --patch "$other" --answer red
refused 1 "--pixel: X,Y in an image of" look prior "$image" --patch "$other" --pixel 99,0
refused 1 "--place: the model has no encoder.resid_pre" look vqgan "$image" --patch "$other" \
    --place resid_pre
refused 1 "two of a kind expected" look captions "$image" --patch "a bar"
refused 1 "--class: a llama model samples no images" look lm "the cat" --patch "the mat" --class a
refused 1 "--second: a bert model reads one text" look vectors "the cat" --second "a dog"
refused 1 "--among: a text has no patches" look captions "the bar" --among photos --json

# Changes: a head that is taken out, a vector that is made and added, in generation, too.
look lm "the cat sat" --change "h.0.attn.z head=1 zero" --change "h.1.ff.out at=1..2 mean"
grep -q '^before: ' answer || fail "no text: $(cat answer)"
look lm "I sat" --minus "I ran" --vector sat.npy --place h.0.resid_post
look lm "the cat" --change "h.0.resid_post add=sat.npy times=40" --json --continue 4
grep -q '"text_after"' answer || fail "no change: $(cat answer)"
"$QKV" generate lm --prompt "the cat" --tokens 4 --greedy --json --quiet >plain
"$QKV" generate lm --prompt "the cat" --tokens 4 --greedy --json --quiet \
    --change "*.resid_post scale=-1" >changed || fail "generate --change"
! cmp -s plain changed || fail "generation did not change: $(cat changed)"
look lm "the cat" --capture inside.safetensors
look lm "the cat" --change "h.0.resid_post add=inside.safetensors:hidden_states.1 times=-1"
look vit "$image" --change "layer.0.attn.out zero" --out changed.html
grep -q 'Before and after\|before' changed.html || fail "no page of a change"
look colorize "$image" --change "*.ff.out zero"
grep -q 'colours  *[1-9]' answer || fail "no other colours: $(cat answer)"
look vectors "the cat sat" --change "layer.0.attn.z zero"
grep -q '^cosine of the vectors before and after: ' answer || fail "no cosine: $(cat answer)"
refused 1 "no place of the pass is \"h.9.attn.z\"" look lm "the cat" --change "h.9.attn.z zero"
refused 1 "has 2 heads, found head=7" look lm "the cat" --change "h.0.attn.z head=7 zero"
refused 1 "a place, then zero" look lm "the cat" --change "h.0.attn.z"
refused 1 "nowhere.npy: cannot be opened" look lm "the cat" --change "h.0.ff.out add=nowhere.npy"
refused 1 "takes a vector of" look lm "the cat" --change "h.0.ff.act add=sat.npy"
refused 1 "--vector: --place expected beside it" look lm "the cat" --vector v.npy
refused 1 "no place of the pass is \"resid_pre\"" look lm "the cat" --vector v.npy \
    --place resid_pre
refused 1 "--minus: --vector expected" look lm "the cat" --minus "a cat"
refused 1 "not together with --patch" look lm "a" --patch "b" --change "norm zero"

refused 1 "lm: the text has no tokens" look lm ""
refused 1 "layer: attentions have" look lm "the cat" --layer 99
refused 1 "head: attentions have" look lm "the cat" --head 99
refused 1 "position: there are" look lm "the cat" --at 99
refused 1 "attention: a llama model has no cross" look lm "the cat" --attention cross
refused 1 "nowhere.png: cannot be opened" look vit nowhere.png
refused 1 "nowhere/inside: " look lm "the cat" --capture nowhere/inside
refused 2 "--least" look lm "the cat" --least 2
exit $failed
