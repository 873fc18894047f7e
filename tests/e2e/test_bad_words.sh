#!/bin/sh
# test_bad_words.sh - sentence pairs, tsv texts, rows of numbers and the directories of the
# models that learn from them, when they are not what they should be: exit 1, one sentence that
# names the file, nothing written or lost.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
# shellcheck source=tests/support/bad_input.sh
. "$QKV_SOURCE/tests/support/bad_input.sh"

# ---- models: words, classes, mt, series -------------------------------------------------------

awk 'BEGIN { for (i = 0; i < 12; i++)
    print "the cat sat on the mat\na dog ran in the sun\nmy fox hid by a tree" }' >en
sed 's/the/le/g; s/cat/chat/' en >fr
awk '{ print (NR % 2 ? "yes" : "no") "\t" $0 }' en >tsv
awk 'BEGIN { print "wave,load"
    for (i = 0; i < 200; i++)
        printf "%.4f,%.4f\n", 5 * sin(i / 3), 50 + 10 * sin(i / 4) }' >rows.csv
fast="--steps 2 --threads 1 --quiet"
bert="--tokenizer wordpiece --vocab 100 --model nano --length 16"
# shellcheck disable=SC2086 # several words
{
    "$QKV" train mlm --data en --out words $bert $fast || exit 1
    "$QKV" train classify --data tsv --out classes $bert $fast || exit 1
    "$QKV" train translate --source en --target fr --out mt --vocab 60 --model nano \
        --set max_position_embeddings=32 $fast || exit 1
    "$QKV" train forecast --data rows.csv --out series --context 24 --horizon 6 --patch 3 \
        --set d_model=16 --set encoder_layers=1 $fast || exit 1
}

# ---- files ------------------------------------------------------------------------------------

mkdir folder
: >nothing
head -35 en >short
printf 'yes\tcaf\351 noir\nno\tb\n' >latin1
printf 'yes a\nno b\n' >no-tab
printf '\ta\nno\tb\n' >no-label
printf 'yes\ta\nyes\tb\n' >one-label
printf 'yes\ta\tb\tc\n' >four
{ printf 'yes\ta\nno\tb\n%.0s' 1 2 3 4 5 6 7 8 9; cat four; } >late
sed '10s/.*/1,two/' rows.csv >word.csv
sed '10s/.*/1,2,3/' rows.csv >ragged.csv
sed '10s/.*/1,nan/' rows.csv >nan.csv
sed '10s/.*/1,1e999/' rows.csv >huge.csv
sed '10s/.*/1,/' rows.csv >missing.csv
head -20 rows.csv >few.csv
head -1 rows.csv >names.csv
cut -d, -f2 rows.csv >load.csv

cat >table <<'TABLE'
en has 36 lines and short has 35|train translate --source en --target short --out new FAST
nothing: the file is empty|train translate --source nothing --target fr --out new FAST
no-such: cannot be opened|train translate --source en --target no-such --out new FAST
folder: expected a file|train translate --source folder --target fr --out new FAST
both or none|train translate --source en --target fr --valid-target fr --out new FAST
--init: an encoder-decoder expected|
    train translate --source en --target fr --init words --out new FAST
2--set encoder_layers: |train translate --source en --target fr --set encoder_layers=1e9 --out new
2--smoothing: |train translate --source en --target fr --smoothing 1 --out new
2--beam: expected an integer from 1 to 256, found "0"|translate mt --beam 0
--n-best: at most as many as there are beams, 2, expected, found 3|translate mt --beam 2 --n-best 3
2--length-penalty: |translate mt --length-penalty nan
mt: answers of 33 tokens|translate mt --max-length 34
folder: expected a file, found a folder|translate mt --file folder
words: a bert model does not translate|translate words
series: a qkv_forecast model does not translate|translate series
source.spm: |cut source.spm 100|translate @mt
source.spm: no SentencePiece model|empty source.spm|translate @mt
source.spm: no SentencePiece model|put source.spm junk|translate @mt
spoilt: no tokenizer|drop source.spm|translate @mt
target.spm: cannot be opened|drop target.spm|translate @mt
vocab.json: cannot be opened|drop vocab.json|translate @mt
vocab.json: tokens "a" and "b" both have id 0|put vocab.json {"a": 0, "b": 0}|translate @mt
vocab.json: token "a"|put vocab.json {"a": -1}|translate @mt
config.json: field "num_beams"|put generation_config.json {"num_beams": "4"}|translate @mt
config.json: field "num_beams"|put generation_config.json {"num_beams": 0}|translate @mt
config.json: field "max_length"|put generation_config.json {"max_length": -1}|translate @mt
spoilt: answers of 99998 tokens|put generation_config.json {"max_length": 99999}|translate @mt
config.json: field "length_penalty"|put generation_config.json {"length_penalty": 1e300}|
    translate @mt
config.json: field "early_stopping"|put generation_config.json {"early_stopping": 3}|translate @mt
"eos_token_id": a token below the vocabulary|put generation_config.json {"eos_token_id": 99}|
    translate @mt
_id": a token below|put generation_config.json {"decoder_start_token_id": 99}|translate @mt
config.json: field "bad_words_ids.0"|put generation_config.json {"bad_words_ids": [[1, 2]]}|
    translate @mt
config.json: field "num_beam_groups"|put generation_config.json {"num_beam_groups": 2}|translate @mt
generation_config.json: expected an object|put generation_config.json [1]|translate @mt
config.json: describes a model of|edit config.json s/"d_model": /&99/|translate @mt
config.json: describes a model of|edit config.json s/"encoder_layers": /&9999/|translate @mt
config.json: marian: 9999932 positions|edit config.json s/position_embeddings": /&99999/|
    translate @mt
config.json: marian: eos_token_id 9990|edit config.json s/"eos_token_id": /&999/|translate @mt
train-records.safetensors: expected a header|put train/train-records.safetensors junk|
    train translate --source en --target fr --out @mt --resume FAST
train-records.safetensors: |cut train/train-records.safetensors 1200|
    train translate --source en --target fr --out @mt --resume FAST
train-records.safetensors is missing|drop train/train-records.safetensors|
    train translate --source en --target fr --out @mt --resume FAST
train-records.safetensors: records of 2 fields expected, found 1|
    copy train/train-records.safetensors ../words/train/train-records.safetensors|
    train translate --source en --target fr --out @mt --resume FAST
holds a BertForMaskedLM|train translate --source en --target fr --out words --resume FAST
valid-records.safetensors: records of 2 fields expected|
    copy train/valid-records.safetensors ../words/train/valid-records.safetensors|
    eval @mt
--source and --target expected, found --file|eval mt --file en
--file expected, found --source|eval classes --source en --target fr
en has 36 lines and short has 35|eval mt --source en --target short
no-tab: line 1: 2 or 3 columns|train classify --data no-tab --out new FAST
no-label: line 1: a label|train classify --data no-label --valid-last 0 --out new FAST
late: line 19: 2 or 3 columns|train classify --data late --valid-last 3 --out new FAST
four: line 1: 2 or 3 columns|train classify --data four --valid-last 0 --out new FAST
latin1: line 1: text in UTF-8 expected, found the byte 0xe9|
    train classify --data latin1 --valid-last 0 --out new FAST
latin1: line 1: text in UTF-8 expected|train classify --data tsv --valid latin1 --out new FAST
one-label: at least 2 labels|train classify --data one-label --valid-last 0 --out new FAST
nothing: the file is empty|train classify --data nothing --out new FAST
--init: a BERT, RoBERTa or DistilBERT expected, mt holds a marian|
    train classify --data tsv --init mt --out new FAST
--length: at most 16 expected|train mlm --data en --init words --length 17 --out new FAST
--length: at most 16 expected|train classify --data tsv --init words --length 17 --out new FAST
--init: a BERT, RoBERTa or DistilBERT expected, series|
    train mlm --data en --init series --out new FAST
--init: a BERT, RoBERTa or DistilBERT expected, mt holds a marian|
    train mlm --data en --init mt --out new FAST
latin1: line 1: text in UTF-8 expected|eval classes --file latin1
config.json: field "id2label.0"|edit config.json s/"0": "no"/"0": 7/|classify @classes x
config.json: field "id2label.1"|edit config.json s/"1": "yes"/"9": "yes"/|classify @classes x
config.json: describes a model of|edit config.json s/"vocab_size": /&9999/|classify @classes x
records of 3 fields expected|
    copy train/train-records.safetensors ../mt/train/train-records.safetensors|
    train classify --data tsv --out @classes --resume FAST
words: a BertForMaskedLM does not classify|classify words x
series: a QkvForecaster does not classify|classify series x
mt: a MarianMTModel does not guess|fill mt x
series: a QkvForecaster does not guess|fill series x
2--top-k: |fill words [MASK] --top-k 0
config.json: describes a model of|edit config.json s/position_embeddings": /&99999/|
    fill @words [MASK]
config.json: field "hidden_act"|edit config.json s/"hidden_act": "[a-z_]*"/"hidden_act": 3/|
    fill @words [MASK]
valid-records.safetensors: records of 1 fields expected, found 2|
    copy train/valid-records.safetensors ../mt/train/valid-records.safetensors|
    eval @words
word.csv: line 10, column 2 (load): expected a number, found "two"|
    train forecast --data word.csv --out new FAST
ragged.csv: line 10: expected 2 columns, found 3|train forecast --data ragged.csv --out new FAST
nan.csv: line 10, column 2 (load): expected a finite number|
    train forecast --data nan.csv --out new FAST
huge.csv: line 10, column 2 (load): expected a finite number|
    train forecast --data huge.csv --out new FAST
missing.csv: line 10, column 2 (load): expected a number|
    train forecast --data missing.csv --out new FAST
few.csv|train forecast --data few.csv --out new FAST
names.csv: expected rows of numbers, found none|train forecast --data names.csv --out new FAST
no column "nope"|train forecast --data rows.csv --columns wave,nope --out new FAST
a context of 24 rows cannot be cut into patches of 7|
    train forecast --data rows.csv --context 24 --horizon 6 --patch 7 --out new FAST
a qkv_forecast model expected, words holds a bert|
    train forecast --data rows.csv --init words --out new FAST
load.csv: no column "wave"|forecast series --file load.csv
few.csv: the model forecasts from 24 rows|forecast series --file few.csv
mt: a marian model does not forecast|forecast mt
2--horizon: |forecast series --horizon -1
config.json: describes a model of|edit config.json s/"context_length": 24/&000/|
    forecast @series --file rows.csv
config.json: describes a model of|edit config.json s/"input_size": /&9999/|
    forecast @series --file rows.csv
config.json: field "season"|edit config.json s/"season": /&-/|forecast @series --file rows.csv
train.npy: expected an .npy file|put train/train.npy junk|
    train forecast --data rows.csv --out @series --resume FAST
valid.npy: |cut train/valid.npy 300|eval @series
series: a qkv_forecast model does not continue text|generate series --prompt x
TABLE
try_table table

# vocab.txt alone, as older directories have it.
rm words/tokenizer.json
cat >table <<'TABLE'
the token "[UNK]" stands in line|edit vocab.txt $a[UNK]|fill @words [MASK]
vocab.txt: there is no token in it|empty vocab.txt|fill @words [MASK]
TABLE
try_table table
exit $failed
