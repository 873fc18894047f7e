#!/bin/sh
# test_fill.sh - train fill, fill and eval of series: gaps in training data, columns by name, CSV in
# and out, linear interpolation beaten on a series that is easy, resuming to the same bits, looking
# inside; and what is refused, with one sentence.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1

bad() {
    echo "$*"
    failed=1
}

awk 'BEGIN { print "day,wave,load"
    for (i = 0; i < 600; i++) {
        wave = sprintf("%.4f", 5 * sin(i / 3))
        load = sprintf("%.4f", 50 + 10 * sin(i / 2.5))
        if (i % 97 == 5) wave = ""
        if (i % 83 > 80) load = "NA"
        printf "d%d,%s,%s\n", i, wave, load } }' >data.csv
small="--context 24 --patch 2 --set d_model=16 --batch 16 --lr 3e-3 --threads 1"

# shellcheck disable=SC2086 # several words
"$QKV" train fill --data data.csv --columns wave,load $small --steps 400 --out both --json \
    >both.json 2>errors || bad "train fill: $(cat errors)"
grep -q '540 rows of 2 to learn from, 60 held out' errors || bad "rows: $(head -1 errors)"
"$QKV" eval both --threads 1 --json >eval.json || bad "eval both"
for key in loss mse mae interpolation last ratio values; do
    grep -q "\"$key\": [0-9]" eval.json || bad "eval: no $key in $(cat eval.json)"
done
ratio=$(sed 's/.*"ratio": \([^,]*\),.*/\1/' eval.json)
awk "BEGIN { exit !($ratio < 0.5) }" || bad "ratio to the lines: $(cat eval.json)"
mse=$(sed 's/.*"mse": \([^,]*\),.*/\1/' eval.json)
grep -q "\"mse\": $mse," both.json || bad "eval says $(cat eval.json), training $(cat both.json)"

# Known values are as they were; the others are numbers, whatever the file calls its columns' order.
"$QKV" fill both data.csv --threads 1 --quiet >filled.csv || bad "fill both data.csv"
[ "$(head -1 filled.csv)" = wave,load ] || bad "names: $(head -1 filled.csv)"
[ "$(wc -l <filled.csv)" -eq 601 ] || bad "601 lines expected: $(wc -l <filled.csv)"
paste -d, data.csv filled.csv | awk -F, 'NR > 1 { i = NR - 2
    if ($2 != "" && $2 != $4 + 0 || $3 != "NA" && $3 != $5 + 0) exit 1
    a = $4 - 5 * sin(i / 3); b = $5 - 50 - 10 * sin(i / 2.5)
    if (a * a > 9 || b * b > 36) exit 1 }' || bad "filled.csv: other values, or far off"
awk -F, '{ print $3 "," $2 "," $1 }' data.csv >turned.csv
"$QKV" fill both turned.csv --threads 1 --out written.csv 2>note || bad "fill both turned.csv"
cmp filled.csv written.csv || bad "another order of columns, another answer"
grep -q '21 of 1200 values filled in' note || bad "note: $(cat note)"
printf 'wave,load\n1,\n2,60\n' >two.csv
"$QKV" fill both two.csv --threads 1 --json >answer || bad "fill both two.csv"
grep -q '^{"columns": \["wave", "load"\], "rows": \[\[1.0, [0-9.]*\], \[2.0, 60' answer ||
    bad "json: $(cat answer)"
grep -q '"filled": \[\[0, 1\]\]}$' answer || bad "filled: $(cat answer)"

# Resuming.
run="train fill --data data.csv --columns load $small --steps 60 --eval-every 20 --seed 3 --quiet"
# shellcheck disable=SC2086
"$QKV" $run --out whole || bad "60 steps"
# shellcheck disable=SC2086
"$QKV" $run --out parts &
pid=$!
while kill -0 $pid 2>errors && ! [ -s parts/train/metrics.jsonl ]; do sleep 0.02; done
kill -INT $pid 2>errors
wait $pid
# shellcheck disable=SC2086
"$QKV" $run --out parts --resume || bad "resume"
cmp whole/model.safetensors parts/model.safetensors || bad "resumed to other bits"

# Looking inside: the curve, its weights, what was filled in.
"$QKV" look both data.csv --out page.html --quiet --threads 1 || bad "look --out"
grep -q encoder_attentions page.html || bad "page.html has no attention"
"$QKV" look both data.csv --threads 1 --quiet >shown || bad "look"
grep -q '^   weights |' shown || bad "look: $(cat shown)"

# A name that separates and quotes comes out as it went in; the last token has two of its four rows.
printf '"sun, ""daily"""\n' >names.csv
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 10 == 3 ? "" : i % 7 }' >>names.csv
"$QKV" train fill --data names.csv --context 12 --valid-last 20 --steps 2 --threads 1 --quiet \
    --out named >shown || bad "train fill"
head -n 11 names.csv >short.csv
"$QKV" fill named short.csv --out again.csv --quiet || bad "fill"
[ "$(head -n 1 again.csv)" = '"sun, ""daily"""' ] || bad "names: $(head -n 1 again.csv)"
"$QKV" fill named again.csv --quiet >shown || bad "fill what fill wrote"
"$QKV" look named short.csv --json --quiet >shown || bad "look"
grep -q '"labels": \["rows 1-4", "rows 5-8", "rows 9-10"\]' shown || bad "$(head -c 400 shown)"

# refuse SENTENCE WORDS... : exit 1, and the sentence.
refuse() {
    sentence=$1
    shift
    "$QKV" "$@" >answer 2>errors
    [ $? -eq 1 ] || bad "$*: exit 1 expected"
    grep -q -- "$sentence" errors || bad "$*: \"$sentence\" expected, found $(cat errors)"
}
refuse "fewer than the context's 96" \
    train fill --data data.csv --columns load --out new
refuse 'no column "nope"' train fill --data data.csv --columns nope --out new
refuse 'line 2, column 1 (day): expected a number, found "d0"' \
    train fill --data data.csv --out new
refuse 'both.json: expected rows of numbers, found none' fill both both.json
"$QKV" fill both data.csv --top-k 3 >answer 2>errors
[ $? -eq 2 ] || bad "--top-k: exit 2 expected"
grep -q 'top-k is for words; both fills in numbers' errors || bad "--top-k: $(cat errors)"
refuse 'a qkv_series_filler model does not forecast' forecast both --file data.csv
[ ! -e new ] || bad "something was written"
exit $failed
