#!/bin/sh
# test_embed.sh - `qkv train embed`, `embed` and `eval` of vectors: what they learn, write and say,
# going on to the same bits, from a model of hidden words, and what is refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

# Sentences and their word-for-word translations: 256, each another one.
awk 'BEGIN {
    split("cat dog fox owl", animal); split("Katze Hund Fuchs Eule", tier)
    split("black brown red white", colour); split("schwarze braune rote weisse", farbe)
    split("runs sleeps eats sings", does); split("rennt schlaeft frisst singt", tut)
    split("noon dusk night dawn", when); split("mittags abends nachts morgens", wann)
    for (i = 0; i < 256; i++) {
        n = (i * 37) % 256
        a = 1 + n % 4; b = 1 + int(n / 4) % 4; c = 1 + int(n / 16) % 4; d = 1 + int(n / 64)
        print "the " colour[a] " " animal[b] " " does[c] " at " when[d] >"en"
        print "die " farbe[a] " " tier[b] " " tut[c] " " wann[d] >"de"
    }
}'
paste en de >tsv
head -192 en >train.en
head -192 de >train.de
tail -64 en >held.en
tail -64 de >held.de
model="--model nano --vocab 120 --length 16 --threads 1"
# shellcheck disable=SC2086 # several words
{
    "$QKV" train embed --source train.en --target train.de --valid-source held.en \
        --valid-target held.de $model --batch 64 --steps 150 --lr 5e-3 --json --out vectors \
        >answer 2>notes || fail "train embed: $(cat notes)"
}
above "$(field recall_1 answer)" 0.9 || fail "recall at 1 among 64: $(cat answer)"
for file in config.json model.safetensors vocab.txt modules.json sentence_bert_config.json \
    1_Pooling/config.json train/valid-records.safetensors; do
    [ -s "vectors/$file" ] || fail "vectors/$file is missing"
done
grep -q BertModel vectors/config.json || fail "$(cat vectors/config.json)"

# Held-out pairs again, the same from files, from one file, and pairs it learnt from.
"$QKV" eval vectors --json --threads 1 >evaluated || fail "eval"
[ "$(field recall_1 evaluated)" = "$(field recall_1 answer)" ] || fail "eval: $(cat evaluated)"
"$QKV" eval vectors --source held.en --target held.de --json --threads 1 >files || fail "eval files"
cmp evaluated files || fail "eval of files: $(cat files)"
paste held.en held.de >held.tsv
"$QKV" eval vectors --file held.tsv --json --threads 1 >files || fail "eval --file"
cmp evaluated files || fail "eval --file: $(cat files)"
for name in recall_5 to_target_1 to_target_5 to_source_1 to_source_5; do
    above "$(field $name evaluated)" 0.85 || fail "eval: $name: $(cat evaluated)"
done

# Neighbours: the translation of a sentence is the first of all.
"$QKV" embed vectors --file held.en --nearest de --top-k 1 --json --threads 1 >near || fail embed
[ "$(wc -l <near)" -eq 64 ] || fail "not a line for every text"
sed 's/.*"nearest": \[{"line": [0-9]*, "text": "\([^"]*\)".*/\1/' near >found
[ "$(paste -d'|' found held.de | awk -F'|' '$1 == $2' | wc -l)" -ge 45 ] || fail "$(head -3 near)"
"$QKV" embed vectors "the red fox eats at dusk" --nearest de --top-k 2 --threads 1 >near ||
    fail embed
[ "$(wc -l <near)" -eq 3 ] || fail "a text and its two nearest: $(cat near)"
sed -n 2p near | grep -q '^  0\.[0-9]*  die rote Fuchs frisst abends$' || fail "$(cat near)"

# Vectors: of length 1, the same as numbers, as JSON and in a file, whatever stands beside a text.
"$QKV" embed vectors "the red fox" "a" --threads 1 >numbers || fail "embed"
awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i * $i
    if (NF != 64 || (s - 1) ^ 2 > 1e-6) exit 1 }' numbers || fail "not of length 1: $(cat numbers)"
printf 'the red fox\n\na\n' | "$QKV" embed vectors --threads 1 >three || fail "embed < lines"
[ "$(wc -l <three)" -eq 3 ] || fail "an empty line is a text too"
sed 2d three | tr ' ' '\n' >some
tr ' ' '\n' <numbers | paste - some | awk '($1 - $2) ^ 2 > 1e-10 { exit 1 }' || fail "other numbers"
"$QKV" embed vectors "the red fox" --json --threads 1 >answer || fail "embed --json"
grep -q '^{"text": "the red fox", "vector": \[' answer || fail "embed --json: $(cat answer)"
"$QKV" embed vectors --file en --out all.npy --threads 1 || fail "embed --out"
[ "$(wc -c <all.npy)" -eq $((128 + 256 * 64 * 4)) ] || fail "all.npy: $(wc -c <all.npy) bytes"

# From a model of hidden words; dropout, hidden words and a batch in parts; to the same bits again.
# shellcheck disable=SC2086
"$QKV" train mlm --data en --lines $model --steps 5 --out words 2>notes || fail "$(cat notes)"
goes_on 5 straight stopped train embed --data tsv --valid-last 10% --init words --threads 1 \
    --batch 24 --accumulation-steps 2 --drop-words 0.2 --temperature 0.1 --steps 30 --quiet
goes_on 5 again stopped-again train embed --data tsv --init straight --threads 1 --batch 24 \
    --steps 20 --quiet
sed 's/.*/yes\tthe &/; 2~2s/yes/no/' en >labelled
"$QKV" train classify --data labelled --init vectors --threads 1 --steps 2 --out classes 2>notes ||
    fail "classify --init vectors: $(cat notes)"

# What is refused.
run="--steps 1 --threads 1 --out none"
# shellcheck disable=SC2086
{
    refused 2 "--data, or --source and --target, expected" train embed $run
    refused 2 "one of them expected, found both" train embed --data tsv --source en --target de $run
    refused 2 "both or none expected, found one" train embed --source en $run
    refused 2 "both or none expected" train embed --source en --target de --valid-source en $run
    refused 2 "--valid expected with --data" \
        train embed --data tsv --valid-source en --valid-target de $run
    refused 1 "en has 256 lines and train.de has 192" \
        train embed --source en --target train.de $run
    refused 1 "en: line 1: a text, a tab and the text that belongs to it expected" \
        train embed --data en --valid-last 0 --vocab 99 $run
    refused 1 "--valid-last: 256 lines to hold out, there are only 256" \
        train embed --data tsv --valid-last 256 $run
    refused 2 "--temperature" train embed --data tsv --temperature 0 $run
}
refused 1 "does not embed texts" embed words "the cat"
refused 1 "does not guess hidden words" fill vectors "the [MASK]"
refused 1 "nowhere: cannot be opened" embed vectors --file nowhere
refused 1 "nowhere: cannot be opened" embed vectors a --nearest nowhere
refused 2 "one of them expected, found both" embed vectors text --file en
refused 1 "--file, or --source and --target, expected, found --images" eval vectors --images x
printf 'a\n\377\n' >latin
refused 1 "latin: text 2: UTF-8 expected, found the byte 0xff" embed vectors --file latin

# spoilt WORDS FILE SED : a directory with such a file is refused.
spoilt() {
    rm -rf bad
    cp -r vectors bad
    sed -i "$3" "bad/$2"
    refused 1 "$1" embed bad "a"
}
spoilt 'Transformer, Pooling or Normalize expected, found "sentence_transformers.models.Dense"' \
    modules.json 's/models.Normalize/models.Dense/'
spoilt 'field "1.path": "1_Pooling" expected, found "../x"' modules.json 's,1_Pooling,../x,'
spoilt '"pooling_mode_max_tokens": true is not supported' 1_Pooling/config.json \
    's/\(max_tokens": \)false/\1true/'
spoilt 'expected to be true, and not both' 1_Pooling/config.json 's/\(cls_token": \)false/\1true/'
spoilt "the model's width, 64, expected, found 65" 1_Pooling/config.json 's/64/65/'
spoilt '"max_seq_length"' sentence_bert_config.json 's/16/-1/'
spoilt "true is not supported: the tokenizer decides" sentence_bert_config.json 's/false/true/'
rm bad/1_Pooling/config.json
refused 1 "1_Pooling/config.json" embed bad "a"
[ ! -e none ] || fail "a refused run left something behind"
exit $failed
