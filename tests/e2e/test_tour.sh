#!/bin/sh
# test_tour.sh - the tour at its smallest: every chapter runs, says what it learnt, and its folder
# is made anew, but no other folder is.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# has FILE WORDS
has() {
    grep -qF -- "$2" "$1" || { echo "no \"$2\" in: $(head -20 "$1")"; failed=1; }
}

"$QKV" tour --minutes 0.1 --threads 1 --source "$QKV_SOURCE" --out "$out/t" \
    >"$out/text" 2>"$out/err" ||
    { echo "qkv tour failed: $(cat "$out/err")"; failed=1; }
has "$out/text" 'The cat sat on the mat'
awk '/mean of -log of the diagonal/ { a = $NF } /^ *qkv_infonce_loss/ { b = $NF }
    END { exit !(a > 0 && (a - b) * (a - b) < 1e-10) }' "$out/text" ||
    { echo "the loss of attention's rows is not qkv_infonce_loss"; failed=1; }
has "$out/text" 'not yet which texts are of one day' # in a tenth of a second
has "$out/text" 'reads dates'
has "$out/text" 'reads numbers'
[ "$(grep -c 'What was learnt:' "$out/text")" -eq 12 ] ||
    { echo "not every chapter says what it learnt"; failed=1; }
if LC_ALL=C sed 's/[\x80-\xbf]//g' "$out/text" | grep -q '.\{81\}'; then
    echo "more than 80 columns"
    failed=1
fi
"$QKV" generate "$out/t/gpt" --prompt 'int' --tokens 3 --json >"$out/made" 2>&1
has "$out/made" '"ids"'
"$QKV" fill "$out/t/bert/words" 'the [MASK] of it' --json >"$out/made" 2>&1
has "$out/made" '"token"'
"$QKV" forecast "$out/t/forecast" --horizon 3 <"$out/t/forecast/past.csv" >"$out/made" 2>&1
has "$out/made" 'load'
"$QKV" classify "$out/t/classify" "$out/t/classify/image.png" --json >"$out/made" 2>&1
has "$out/made" '"probs"'
for verb in segment reconstruct colorize; do
    "$QKV" "$verb" "$out/t/$verb" "$out/t/$verb/image.png" --out "$out/$verb.png" \
        >"$out/made" 2>&1
    [ -s "$out/$verb.png" ] || { echo "no image of $verb: $(cat "$out/made")"; failed=1; }
done
"$QKV" imagine "$out/t/imagine" --count 2 --out "$out/two.png" >"$out/made" 2>&1
[ -s "$out/two.png" ] || { echo "nothing imagined: $(cat "$out/made")"; failed=1; }
for sheet in classify/said segment/masks reconstruct/filled colorize/coloured \
    imagine/vqgan/decoded imagine/imagined; do
    [ -s "$out/t/$sheet.png" ] || { echo "no $sheet.png"; failed=1; }
done
# The page of all chapters: its links lead to files, of most models to what they attend to.
[ "$(grep -o '<h2 id=' "$out/t/index.html" | wc -l)" -eq 12 ] ||
    { echo "not every chapter is on the page"; failed=1; }
grep -o '<p><a href="[^"]*"' "$out/t/index.html" | cut -d'"' -f2 >"$out/links"
while read -r link; do
    [ -s "$out/t/$link" ] || { echo "the page links $link, which is not there"; failed=1; }
done <"$out/links"
[ "$(grep -c 'look.*html' "$out/links")" -ge 8 ] ||
    { echo "the page links: $(cat "$out/links")"; failed=1; }
echo 'march 3, 1998' | "$QKV" translate "$out/t/dates" --beam 1 >"$out/made" 2>&1
[ "$(wc -l <"$out/made")" -eq 1 ] || { echo "no line for a line: $(cat "$out/made")"; failed=1; }

# Without source text: the command's own help. The folder is a tour's, so it is used again.
mkdir "$out/empty"
"$QKV" tour gpt --minutes 0.05 --threads 1 --source "$out/empty" --out "$out/t" --json \
    >"$out/json" 2>"$out/err"
has "$out/json" '"uniform"'
has "$out/json" '"pair"'

# Images of the reader's: an emoji font with hardly any; one that is none.
"$QKV" tour classify --minutes 0.02 --images "$QKV_SOURCE/tests/golden/io/emoji.ttf" \
    --out "$out/t" >"$out/text" 2>"$out/err"
[ $? -eq 1 ] || { echo "three images are enough: $(cat "$out/text")"; failed=1; }
has "$out/err" 'at least 8 images'

# A folder of someone else stays as it is.
mkdir "$out/mine" && echo mine >"$out/mine/file"
"$QKV" tour --minutes 0.05 --out "$out/mine" >/dev/null 2>"$out/err"
[ $? -eq 1 ] || { echo "another folder was not refused"; failed=1; }
has "$out/err" 'no tour made it'
has "$out/mine/file" 'mine'

"$QKV" tour nowhere >/dev/null 2>"$out/err"
[ $? -eq 2 ] || { echo "an unknown chapter is no usage error"; failed=1; }
has "$out/err" 'attention, contrastive, dates, numbers, bert, forecast, classify, segment'
has "$out/err" 'reconstruct, colorize, imagine, gpt'
exit "$failed"
