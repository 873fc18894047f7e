#!/bin/sh
# test_fill.sh - train fill, fill and eval of series: gaps in training data, columns by name, CSV in
# and out, linear interpolation beaten on a series that is easy, resuming to the same bits, looking
# inside; and what is refused, with one sentence.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

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
    >both.json 2>errors || fail "train fill: $(cat errors)"
grep -q '540 rows of 2 to learn from, 60 held out' errors || fail "rows: $(head -1 errors)"
"$QKV" eval both --threads 1 --json >eval.json || fail "eval both"
for key in loss mse mae interpolation last ratio values; do
    grep -q "\"$key\": [0-9]" eval.json || fail "eval: no $key in $(cat eval.json)"
done
above 0.5 "$(field ratio eval.json)" || fail "ratio to the lines: $(cat eval.json)"
mse=$(field mse eval.json)
grep -q "\"mse\": $mse," both.json || fail "eval says $(cat eval.json), training $(cat both.json)"

# Known values are as they were; the others are numbers, whatever the file calls its columns' order.
"$QKV" fill both data.csv --threads 1 --quiet >filled.csv || fail "fill both data.csv"
[ "$(head -1 filled.csv)" = wave,load ] || fail "names: $(head -1 filled.csv)"
[ "$(wc -l <filled.csv)" -eq 601 ] || fail "601 lines expected: $(wc -l <filled.csv)"
paste -d, data.csv filled.csv | awk -F, 'NR > 1 { i = NR - 2
    if ($2 != "" && $2 != $4 + 0 || $3 != "NA" && $3 != $5 + 0) exit 1
    a = $4 - 5 * sin(i / 3); b = $5 - 50 - 10 * sin(i / 2.5)
    if (a * a > 9 || b * b > 36) exit 1 }' || fail "filled.csv: other values, or far off"
awk -F, '{ print $3 "," $2 "," $1 }' data.csv >turned.csv
"$QKV" fill both turned.csv --threads 1 --out written.csv 2>note || fail "fill both turned.csv"
cmp filled.csv written.csv || fail "another order of columns, another answer"
grep -q '21 of 1200 values filled in' note || fail "note: $(cat note)"
printf 'wave,load\n1,\n2,60\n' >two.csv
"$QKV" fill both two.csv --threads 1 --json >answer || fail "fill both two.csv"
grep -q '^{"columns": \["wave", "load"\], "rows": \[\[1.0, [0-9.]*\], \[2.0, 60' answer ||
    fail "json: $(cat answer)"
grep -q '"filled": \[\[0, 1\]\]}$' answer || fail "filled: $(cat answer)"

# Resuming.
# shellcheck disable=SC2086
goes_on 20 whole parts train fill --data data.csv --columns load $small --steps 60 \
    --eval-every 20 --seed 3 --quiet

# Looking inside: the curve, its weights, what was filled in.
"$QKV" look both data.csv --out page.html --quiet --threads 1 || fail "look --out"
grep -q encoder_attentions page.html || fail "page.html has no attention"
"$QKV" look both data.csv --threads 1 --quiet >shown || fail "look"
grep -q '^   weights |' shown || fail "look: $(cat shown)"

# A name that separates and quotes comes out as it went in; the last token has two of its four rows.
printf '"sun, ""daily"""\n' >names.csv
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 10 == 3 ? "" : i % 7 }' >>names.csv
"$QKV" train fill --data names.csv --context 12 --valid-last 20 --steps 2 --threads 1 --quiet \
    --out named >shown || fail "train fill"
head -n 11 names.csv >short.csv
"$QKV" fill named short.csv --out again.csv --quiet || fail "fill"
[ "$(head -n 1 again.csv)" = '"sun, ""daily"""' ] || fail "names: $(head -n 1 again.csv)"
"$QKV" fill named again.csv --quiet >shown || fail "fill what fill wrote"
"$QKV" look named short.csv --json --quiet >shown || fail "look"
grep -q '"labels": \["rows 1-4", "rows 5-8", "rows 9-10"\]' shown || fail "$(head -c 400 shown)"

refused 1 "fewer than the context's 96" \
    train fill --data data.csv --columns load --out new
refused 1 'no column "nope"' train fill --data data.csv --columns nope --out new
refused 1 'line 2, column 1 (day): expected a number, found "d0"' \
    train fill --data data.csv --out new
refused 1 'both.json: expected rows of numbers, found none' fill both both.json
refused 2 'top-k is for words; both fills in numbers' fill both data.csv --top-k 3
refused 1 'a qkv_series_filler model does not forecast' forecast both --file data.csv
[ ! -e new ] || fail "something was written"
exit $failed
