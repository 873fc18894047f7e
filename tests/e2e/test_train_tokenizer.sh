#!/bin/sh
# train tokenizer: every kind, what models take from it with --tokenizer-from, what is refused.
set -u
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
fail() { echo "$*"; exit 1; }

for i in 1 2 3 4 5 6 7 8 9 10; do
    echo "the lower window $i is wider than the lowest window ."
    echo "a new widow , \"the newest\" , widens the window , no $i ."
done >text
sed 's/window/Fenster/g; s/widow/Witwe/g' text >texte
echo "A Widow 42" >line

# make KIND VOCAB OPTION... : into the folder of that name
make() {
    kind=$1 vocab=$2
    shift 2
    "$QKV" train tokenizer --data text texte --tokenizer "$kind" --vocab "$vocab" --out "$kind" \
        --json "$@" >answer 2>notes || fail "$kind: $(cat notes)"
    grep -q "$kind: .* tokens" notes || fail "$kind: nothing is said: $(cat notes)"
    "$QKV" tokenize "$kind" --file text --lines >ids 2>notes || fail "tokenize: $(cat notes)"
    [ "$(wc -l <ids)" = 20 ] || fail "$kind: not a line of ids for every line"
}
make char 60
make bpe 300
make wordpiece 80
make unigram 60 --for translate
make sentencepiece-bpe 80 --for translate
grep -q '"vocab": 80' answer || fail "not 80 tokens: $(cat answer)"
[ -s sentencepiece-bpe/source.spm ] || fail "no SentencePiece model"

# By what it is for.
"$QKV" train tokenizer --data text --vocab 80 --for mlm --out mlm --quiet || fail "mlm"
[ -s mlm/vocab.txt ] || fail "no WordPiece vocabulary"
"$QKV" train tokenizer --data text --vocab 80 --for mlm --keep-case --out cased --quiet ||
    fail "cased"
[ "$("$QKV" tokenize mlm a)" = "$("$QKV" tokenize mlm A)" ] || fail "case is kept"
[ "$("$QKV" tokenize cased a)" = "$("$QKV" tokenize cased A)" ] && fail "case is lost"

# Rare characters have no token: fewer are left.
"$QKV" train tokenizer --data text --vocab 80 --for translate --coverage 0.9 --out rare --quiet ||
    fail "coverage"
[ "$("$QKV" tokenize rare --file line)" = "$("$QKV" tokenize sentencepiece-bpe --file line)" ] &&
    fail "coverage changes nothing"

# Models that take one: its ids, and none is trained beside it.
"$QKV" train translate --source text --target texte --valid-last 2 --model nano --threads 1 \
    --steps 1 --tokenizer-from sentencepiece-bpe --vocab 99 --out translator 2>notes ||
    fail "translate: $(cat notes)"
grep -q -- '--vocab has no effect: with --tokenizer-from it is as in sentencepiece-bpe' notes ||
    fail "nothing is said of --vocab: $(cat notes)"
cmp -s sentencepiece-bpe/vocab.json translator/vocab.json || fail "another vocabulary"
"$QKV" train lm --data text --length 16 --model nano --threads 1 --steps 1 --tokenizer-from bpe \
    --out lm 2>notes || fail "lm: $(cat notes)"
[ "$("$QKV" tokenize lm --file text)" = "$("$QKV" tokenize bpe --file text)" ] || fail "other ids"
"$QKV" train lm --data text --length 16 --threads 1 --steps 1 --init lm --coverage 0.9 \
    --out tuned 2>notes || fail "init: $(cat notes)"
grep -q -- '--coverage has no effect: with --init' notes || fail "nothing said: $(cat notes)"

# refused WANT ARGUMENT... : exit 1, one sentence, nothing written
refused() {
    want=$1
    shift
    "$QKV" train "$@" --out new >answer 2>notes
    code=$?
    [ $code = 1 ] || fail "exit $code, not 1: $*"
    grep -q -- "$want" notes || fail "no \"$want\": $(cat notes)"
    [ "$(wc -l <notes)" = 1 ] || fail "more than a sentence: $(cat notes)"
    [ ! -e new ] || fail "something was written: $*"
}
refused "none: " tokenizer --data none
refused "from 256 to" tokenizer --data text --vocab 100
refused "bpe has no pad_token" translate --source text --target texte --tokenizer-from bpe
refused "none" lm --data text --tokenizer-from none
before=$(ls -l bpe)
"$QKV" train tokenizer --data text --out bpe 2>notes
[ $? = 1 ] || fail "a folder with something in it is taken"
grep -q 'bpe is not empty' notes || fail "no sentence: $(cat notes)"
[ "$before" = "$(ls -l bpe)" ] || fail "the folder was changed"
exit 0
