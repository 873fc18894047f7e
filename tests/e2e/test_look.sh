#!/bin/sh
# test_look.sh - `qkv look`: a model of each kind that has attention is trained for a moment and
# looked into; rows are distributions, captures have their tensors, wrong uses are refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"

i=0
while [ $i -lt 300 ]; do
    echo "the cat number $i sat on mat $((i * 7 % 31)) and it ran"
    i=$((i + 1))
done >text
sed 's/the/die/; s/cat/katze/; s/sat/sass/' text >german
awk '{ print (NR % 2 ? "odd" : "even") "\t" $0 }' text >labels.tsv
draw_bars 1 64 bars-images-idx3-ubyte
label_bars 64 bars-labels-idx1-ubyte
image=$QKV_SOURCE/tests/golden/images/colour-420.jpg
short="--model nano --steps 2 --threads 1 --quiet"
# train NAME KIND WORDS... : a model directory.
train() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$QKV" train "$@" --out "$name" $short >answer 2>notes || fail "train $*: $(cat notes)"
}
train lm lm --data text --vocab 300
train mlm mlm --data text --vocab 300
train classes classify --data labels.tsv --vocab 300
train tr translate --source text --target german --vocab 300
for kind in reconstruct colorize; do
    train $kind $kind --images bars-images-idx3-ubyte --size 8 --set patch_size=2
done
train vit classify --data bars-images-idx3-ubyte --size 64
train cct classify --data bars-images-idx3-ubyte
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
for model in lm mlm classes tr; do
    look $model "the cat sat"
    grep -q 'the' answer || fail "$model: no tokens: $(cat answer)"
    look $model "the cat sat" --json --head 0 --at 1
    sums_to_one $model
done
for model in reconstruct colorize vit cct; do
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

# A capture's tensors have the names that Hugging Face gives them.
look lm "the cat sat" --capture inside.safetensors --places '*.attn.z'
"$QKV" info inside.safetensors >answer
for name in attentions.0 hidden_states.0 hidden_states.1 h.0.attn.z; do
    grep -qF " $name " answer || fail "the capture has no $name: $(cat answer)"
done
look tr "the cat sat" --capture inside.safetensors --store f16
"$QKV" info inside.safetensors >answer
grep -q 'F16 *cross_attentions.0 ' answer || fail "no cross-attention: $(cat answer)"

refused 1 "lm: the text has no tokens" look lm ""
refused 1 "layer: attentions have" look lm "the cat" --layer 99
refused 1 "head: attentions have" look lm "the cat" --head 99
refused 1 "position: there are" look lm "the cat" --at 99
refused 1 "--attention: a llama model has no cross" look lm "the cat" --attention cross
refused 1 "nowhere.png: cannot be opened" look vit nowhere.png
refused 1 "nowhere/inside: " look lm "the cat" --capture nowhere/inside
refused 2 "--least" look lm "the cat" --least 2
exit $failed
