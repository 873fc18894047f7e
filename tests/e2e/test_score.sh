#!/bin/sh
# test_score.sh - qkv score: the goldens' figures as the command prints them, and what it says of
# bad input: exit 1, one sentence, nothing on the standard output.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
golden=$QKV_SOURCE/tests/golden/score

# says EXPECTED ARGUMENT... : what is printed for the goldens' hypotheses.
says() {
    expected=$1
    shift
    answer=$("$QKV" score "$@" 2>errors <"$golden/hyp.txt") || { cat errors; failed=1; }
    case $answer in
    *"$expected"*) ;;
    *) echo "qkv score $*: no \"$expected\" in: $answer"; failed=1 ;;
    esac
}

# fails WORDS ARGUMENT... : one sentence; the input is the file "input".
fails() {
    words=$1
    shift
    "$QKV" score "$@" >answer 2>errors <input
    code=$?
    if [ $code -ne 1 ] || [ -s answer ] || [ "$(wc -l <errors)" -ne 1 ] ||
        ! grep -qF -- "$words" errors; then
        echo "qkv score $*: exit $code, expected \"$words\": $(head -3 errors)"
        failed=1
    fi
}

version=$("$QKV" --version | sed 's/ /-/')
bleu="BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:$version"
chrf="chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:$version"
says "$bleu = 51.71 68.4/54.5/46.4/41.4 (BP = 1.000 ratio = 1.033 hyp_len = 12691 \
ref_len = 12282)" bleu "$golden/ref.txt"
says '|case:lc|eff:no|tok:13a|smooth:exp|' bleu "$golden/ref.txt" --lowercase
says ' = 56.40 71.5/59.5/51.4/46.3 (' bleu "$golden/ref.txt" --lowercase
says 'BLEU = 45.95, 66.7/50.0/40.2/34.1 (BP=0.994, ratio=0.994, hyp_len=9090, ref_len=9145)' \
    bleu "$golden/ref.txt" --tokenized
says "$chrf = 70.89" chrf "$golden/ref.txt"
says '|case:lc|eff:yes|nc:6|nw:0|space:no|' chrf "$golden/ref.txt" --lowercase --tokenized
says '{"bleu": 51.714290657840' bleu "$golden/ref.txt" --json
says '"hyp_len": 12691, "ref_len": 12282, "correct": [8678, 5788, 4057, 2928]' \
    bleu "$golden/ref.txt" --json
says '|tok:none|smooth:none|' bleu "$golden/ref.txt" --tokenized --json
says '{"chrf": 76.07763125300' chrf "$golden/ref.txt" --json --lowercase

# Files with CRLF score the same.
sed 's/$/\r/' "$golden/ref.txt" >crlf
[ "$("$QKV" score bleu crlf <"$golden/hyp.txt")" = \
    "$("$QKV" score bleu "$golden/ref.txt" --file "$golden/hyp.txt")" ] ||
    { echo "CRLF changes the score"; failed=1; }

printf 'a\nb\nc' >input
printf 'a\nb\n' >two
printf 'a\n\351\nc\n' >latin1
: >nothing
fails 'expected a line for every reference, found 3 in the standard input and 2 in two' bleu two
fails 'expected a line for every reference, found 2 in two and 3 in input' chrf input --file two
fails 'found 3 in the standard input and 0 in nothing' bleu nothing
fails 'nothing and nothing are empty' chrf nothing --file nothing
fails 'latin1: line 2 is not UTF-8' bleu latin1
fails 'latin1: line 2 is not UTF-8' chrf input --file latin1 --json
fails 'no-such: cannot be opened' bleu no-such
fails 'no-such: cannot be opened' bleu input --file no-such
fails '.: expected a file, found a folder' bleu .

"$QKV" score rouge two --file input >answer 2>errors
if [ $? -ne 2 ] || ! grep -qF 'expected bleu or chrf, found "rouge"' errors; then
    echo "qkv score rouge: $(cat errors)"
    failed=1
fi
"$QKV" score bleu <input >answer 2>errors
[ $? -eq 2 ] || { echo "qkv score bleu: $(cat errors)"; failed=1; }

i=0
while [ $i -lt 100 ]; do
    echo 'a b .'
    i=$((i + 1))
done >tokens.txt
"$QKV" score bleu tokens.txt --file tokens.txt >answer 2>errors
grep -qF 'wants --tokenized' errors || { echo "no note on tokenised text"; failed=1; }
"$QKV" score bleu tokens.txt --file tokens.txt --tokenized >answer 2>errors
[ ! -s errors ] || { echo "--tokenized: $(cat errors)"; failed=1; }
exit $failed
