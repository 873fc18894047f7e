#!/bin/sh
# test_words.sh - `qkv train mlm`, `fill`, `train classify`, `classify` and `eval`: what they learn,
# say and write, going on from one to the next, and what they refuse.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

# Colours that go with animals; texts whose label is told by one word.
awk 'BEGIN {
    split("cat dog fox owl", animal); split("black brown red white", colour)
    split("in on at by", at); split("night noon dusk dawn", when)
    split("good fine great nice", good); split("bad poor awful weak", bad)
    for (i = 0; i < 400; i++) {
        a = 1 + i % 4; b = 1 + int(i / 4) % 4; c = 1 + int(i / 16) % 4
        print "the " colour[a] " " animal[a] " sat there " at[b] " " when[c] >"text"
        yes = int(i / 64) % 2
        word = yes ? good[b] : bad[b]
        label = yes ? "yes" : "no way"
        print label "\tthe " animal[a] " was " word " " at[c] " home" >"texts.tsv"
        # the label of a pair: is it the same animal?
        d = i % 3 ? a : 1 + a % 4
        print (a == d) "\tthe " animal[a] " sat\ta " animal[d] " sat" >"pairs.tsv"
    }
}'
common="--threads 1 --json --set hidden_dropout_prob=0 --set attention_probs_dropout_prob=0"
model="--model nano --vocab 80 --length 16"

# Hidden words. (Options are words: they are split on purpose.)
# shellcheck disable=SC2086
"$QKV" train mlm --data text --lines $model $common --tokens 128 --batch 4 --steps 150 --lr 3e-3 \
    --out words >answer 2>notes || fail "train mlm: $(cat notes)"
above "$(field accuracy answer)" 0.4 || fail "mlm: accuracy $(cat answer)"
for file in config.json model.safetensors vocab.txt tokenizer.json \
    train/valid-records.safetensors; do
    [ -s "words/$file" ] || fail "words/$file is missing"
done
"$QKV" eval words --json --threads 1 >evaluated || fail "eval words"
[ "$(field loss evaluated)" = "$(field loss answer)" ] || fail "eval says $(cat evaluated)"
"$QKV" eval words --file text --lines --json --threads 1 >evaluated || fail "eval words --file"
above "$(field accuracy evaluated)" 0.4 || fail "eval words --file: $(cat evaluated)"

# Filling in: an object a mask, the likeliest first, probabilities that add up to 1.
"$QKV" fill words "the black [MASK] sat there [MASK] noon" --top-k 80 --json >fills || fail "fill"
[ "$(wc -l <fills)" -eq 2 ] || fail "fill: not two lines: $(cat fills)"
head -1 fills | grep -q '^{"fills": \[{"token": "cat", "prob": 0\.' ||
    fail "fill: $(head -1 fills)"
head -1 fills | grep -o '"prob": [0-9.e-]*' |
    awk '{ s += $2; if (NR > 1 && $2 > p) exit 1; p = $2 }
        END { exit !(s > 0.999 && s < 1.001) }' ||
    fail "fill: odd probabilities: $(head -1 fills)"
[ "$("$QKV" fill words "the red [MASK]" --top-k 3 | wc -l)" -eq 3 ] || fail "fill --top-k 3"

# Classes from scratch, from the model of hidden words, and on from a classifier.
# shellcheck disable=SC2086
"$QKV" train classify --data texts.tsv $model $common --steps 150 --lr 3e-3 --batch 16 \
    --out classes >answer 2>notes || fail "train classify: $(cat notes)"
[ "$(field accuracy answer)" = 1.0 ] || fail "classify: $(cat answer)"
grep -q '"1": "yes"' classes/config.json || fail "no label in config.json"
# shellcheck disable=SC2086
"$QKV" train classify --data texts.tsv --init words $common --steps 60 --lr 3e-3 --batch 16 \
    --vocab 99 --out tuned >answer 2>notes || fail "train classify --init: $(cat notes)"
grep -q -- '--vocab has no effect: with --init it is as in words' notes || fail "$(cat notes)"
above "$(field accuracy answer)" 0.9 || fail "classify --init words: $(cat answer)"
# Neither the mark of UTF-8 in front nor another end of lines makes another class.
{ printf '\357\273\277'; sed 's/$/\r/' texts.tsv; } >marked.tsv
"$QKV" eval classes --file texts.tsv --json --threads 1 >plain || fail "eval"
"$QKV" eval classes --file marked.tsv --json --threads 1 >marked 2>notes || fail "$(cat notes)"
cmp plain marked || fail "marked: $(cat plain marked)"

# shellcheck disable=SC2086
"$QKV" train classify --data texts.tsv --init classes $common --steps 5 --out on >answer 2>notes ||
    fail "train classify --init classes: $(cat notes)"
head -1 on/train/metrics.jsonl | grep -q '"accuracy": 1[,.}]' || fail "it did not go on"
"$QKV" eval classes --file texts.tsv --json >evaluated || fail "eval classes"
for name in accuracy f1; do
    [ "$(field $name evaluated)" = 1.0 ] || fail "eval classes: $(cat evaluated)"
done
[ -n "$(field loss evaluated)" ] || fail "eval classes: no loss"

# A run that is interrupted and resumed ends as the one that is not, also with dropout, words that
# are hidden, and a batch in parts.
# shellcheck disable=SC2086
goes_on 10 straight-pairs stopped-pairs train classify --data pairs.tsv $model --valid-last 50 \
    --steps 60 --accumulation-steps 3 --drop-words 0.2 --threads 1 --quiet
# shellcheck disable=SC2086
goes_on 10 straight-words stopped-words train mlm --data text $model --tokens 64 --batch 3 \
    --accumulation-steps 2 --steps 60 --threads 1 --quiet

# Labels of texts: arguments, a file, standard input; a line out for every line in.
"$QKV" classify classes "the cat was great at home" "the dog was awful on home" --json >labels ||
    fail "classify"
probs='"probs": {"no way": [0-9.e-]*, "yes": [0-9.e-]*}'
sed -n 1p labels | grep -q '^{"label": "yes", '"$probs}\$" ||
    fail "classify: $(cat labels)"
sed -n 2p labels | grep -q '^{"label": "no way"' || fail "classify: $(cat labels)"
cut -f2 texts.tsv >lines
cut -f1 texts.tsv >expected
"$QKV" classify classes --file lines | cut -f1 | cmp -s - expected || fail "classify --file"
printf 'the cat was great\n\nthe\tcat\n' | "$QKV" classify classes | wc -l | grep -qx 3 ||
    fail "classify: not a line for every line"

# What is refused.
printf 'yes\ta\nno\tb\n\nno b\n' >bad.tsv
refused 1 "bad.tsv: line 4: 2 or 3 columns (label, text, second text) with tabs between expected" \
    train classify --data bad.tsv --valid-last 0 --steps 1 --out none
printf 'yes\ta\nno\tb\tc\n' >bad.tsv
refused 1 "bad.tsv: line 2: 2 columns as before expected, found 3" \
    train classify --data bad.tsv --valid-last 0 --steps 1 --out none
printf 'yes\ta\nyes\tb\n' >bad.tsv
refused 1 "bad.tsv: at least 2 labels expected to learn from, found 1" \
    train classify --data bad.tsv --valid-last 0 --steps 1 --out none
printf 'yes\ta\nno way\tb\nwhat\tc\n' >bad.tsv
refused 1 'bad.tsv: line 3: the label "what" is none of the model' eval classes --file bad.tsv
refused 1 'the label "what" is none of the model' \
    train classify --data texts.tsv --valid bad.tsv --steps 1 --out none
refused 1 "--valid-last: 400 lines to hold out, there are only 400" \
    train mlm --data text --valid-last 400 --steps 1 --out none
refused 1 '--model: no preset "huge"' train mlm --data text --model huge --steps 1 --out none
refused 1 "--tokenizer: wordpiece, bpe or char expected" \
    train mlm --data text --tokenizer unigram --vocab 80 --steps 1 --out none
refused 1 "the text has no [MASK] to fill in" fill words "the cat"
refused 1 "does not guess hidden words" fill classes "the [MASK]"
refused 1 "does not classify texts" classify words "the cat"
refused 1 "nowhere: cannot be opened" classify classes --file nowhere
refused 2 "one of them expected, found both" classify classes text --file lines
[ ! -e none ] || fail "a refused run left something behind"
exit $failed
