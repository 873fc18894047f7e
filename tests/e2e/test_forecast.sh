#!/bin/sh
# test_forecast.sh - train forecast, forecast and eval: columns by name, CSV in and out, rolling
# out, the naive forecasts beaten on a series that is easy, resuming; and what is refused, with
# exit 1, one sentence and nothing written.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bad_input.sh
. "$QKV_SOURCE/tests/support/bad_input.sh"

awk 'BEGIN { print "\"day\",\"wave\",load"
    for (i = 0; i < 300; i++)
        printf "d%d,%.4f,%.4f\n", i, 5 * sin(i / 3), 50 + 10 * sin(i / 4) + 3 * cos(i / 3) }' \
    >data.csv
cut -d, -f2,3 data.csv >numbers.csv
tail -n +2 numbers.csv >bare.csv
small="--context 24 --horizon 6 --patch 3 --set d_model=16 --set encoder_layers=1 --batch 16 \
    --threads 1"
quick="$small --steps 5 --quiet"

# ---- what it is for ----------------------------------------------------------------------------

# shellcheck disable=SC2086 # several words
"$QKV" train forecast --data data.csv --columns wave,load $small --steps 150 --out both \
    --json >both.json 2>errors || fail "train forecast: $(cat errors)"
grep -q '240 rows of 2 to learn from\|270 rows of 2 to learn from, 30 held out' errors ||
    fail "rows: $(head -1 errors)"
"$QKV" eval both --threads 1 --json >eval.json || fail "eval both"
above 0.5 "$(field ratio eval.json)" || fail "ratio to the naive forecasts: $(cat eval.json)"
for key in loss mse mae persistence ratio windows; do
    grep -q "\"$key\": [0-9]" eval.json || fail "eval: no $key in $(cat eval.json)"
done
mse=$(field mse eval.json)
grep -q "\"mse\": $mse," both.json || fail "eval says $(cat eval.json), training $(cat both.json)"
# Files that other versions wrote have these names.
"$QKV" info both | grep -q " series.deviation (2)" || fail "info: $("$QKV" info both)"

# The names come back; without a line of names the columns are in the model's order.
"$QKV" forecast both --horizon 6 --threads 1 <data.csv >named || fail "forecast both <data.csv"
"$QKV" forecast both --threads 1 --file bare.csv >unnamed || fail "forecast both <bare.csv"
[ "$(head -1 named)" = wave,load ] || fail "names: $(head -1 named)"
tail -n +2 named | cmp - unnamed || fail "another forecast without names"
[ "$(wc -l <unnamed)" -eq 6 ] || fail "6 rows expected: $(cat unnamed)"
awk -F, '{ i = 299 + NR; d = $2 - (50 + 10 * sin(i / 4) + 3 * cos(i / 3))
    if (d < -6 || d > 6) exit 1 }' unnamed || fail "far off: $(cat unnamed)"
"$QKV" forecast both --horizon 2 --json --threads 1 <data.csv >answer
grep -q '^{"columns": \["wave", "load"\], "rows": \[\[[-0-9.e]*, [-0-9.e]*\], \[.*\]\]}$' answer ||
    fail "json: $(cat answer)"

# Rolled out: the rows after the first horizon are those forecast from it.
"$QKV" forecast both --horizon 10 --threads 1 <bare.csv >long || fail "forecast --horizon 10"
head -6 long | cmp - unnamed || fail "a longer horizon begins differently"
cat bare.csv unnamed | "$QKV" forecast both --horizon 4 --threads 1 >rest || fail "forecast on"
tail -4 long | paste -d, - rest | awk -F, '{ if ($1 - $3 > 1e-3 || $3 - $1 > 1e-3 ||
    $2 - $4 > 1e-3 || $4 - $2 > 1e-3) exit 1 }' || fail "rolled out: $(cat long rest)"

"$QKV" forecast both --plot --threads 1 <data.csv >answer 2>image || fail "forecast --plot"
cmp answer named || fail "forecast --plot prints other rows"
[ "$(grep -c ┤ image)" -eq 16 ] || fail "--plot: $(cat image)"

# A causal decoder: its kind is in the directory, which forecasts, beyond its horizon too.
# shellcheck disable=SC2086
"$QKV" train forecast --data numbers.csv --causal $quick --out causal >answer 2>errors ||
    fail "train --causal: $(cat errors)"
grep -q '"causal_decoder": true' causal/config.json || fail "--causal: $(cat causal/config.json)"
grep -q '"decoder_layers": 1' causal/config.json || fail "--causal: $(cat causal/config.json)"
"$QKV" forecast causal --horizon 19 --file numbers.csv >answer 2>errors ||
    fail "forecast of a causal decoder: $(cat errors)"
[ "$(wc -l <answer)" = 20 ] || fail "forecast of a causal decoder: $(cat answer)"
"$QKV" eval causal >answer 2>errors || fail "eval of a causal decoder: $(cat errors)"

# A target, an encoder-decoder, and data held out in a file of its own.
# shellcheck disable=SC2086
"$QKV" train forecast --data data.csv --columns wave --target load --decoder --normalize window \
    --valid numbers.csv $quick --out one 2>errors || fail "--target: $(cat errors)"
"$QKV" forecast one --threads 1 <data.csv >answer || fail "forecast one"
[ "$(head -1 answer)" = load ] || fail "--target: $(cat answer)"
grep -q '"decoder_layers": 1' one/config.json || fail "--decoder: $(cat one/config.json)"
# shellcheck disable=SC2086
"$QKV" train forecast --data bare.csv --target 2 --valid-last 0 $quick --out two 2>errors ||
    fail "--target 2: $(cat errors)"
"$QKV" forecast two --threads 1 <data.csv >answer 2>errors && fail "forecast two: no such columns"
"$QKV" forecast two --threads 1 <bare.csv >answer || fail "forecast two"

# ---- stopped and resumed ------------------------------------------------------------------------

# shellcheck disable=SC2086
goes_on 20 straight stopped train forecast --data numbers.csv $small --steps 60 \
    --eval-every 20 --seed 3 --quiet
# shellcheck disable=SC2086
"$QKV" train forecast --data data.csv --init both --steps 3 --threads 1 --quiet --out tuned ||
    fail "--init"
"$QKV" forecast tuned --threads 1 <data.csv >answer || fail "forecast tuned"

# ---- refused ------------------------------------------------------------------------------------

sed '5s/,[^,]*$/,/' data.csv >missing.csv
sed '7s/,[^,]*$/,nan/' data.csv >nan.csv
sed '9s/,[^,]*$/,NA/' data.csv >words.csv
sed '4s/$/,1/' data.csv >ragged.csv
head -20 data.csv >few.csv
: >nothing
sed "1s/wave/other/" data.csv >few-names.csv
fast="$quick --out new"
cat >table <<'TABLE'
data.csv: line 2, column 1 (day): expected a number, found "d0"|train forecast --data data.csv FAST
missing.csv: line 5, column 3 (load): expected a number|
    train forecast --data missing.csv --columns wave,load FAST
nan.csv: line 7, column 3 (load): expected a finite number|
    train forecast --data nan.csv --columns wave,load FAST
line 9, column 3 (load): expected a number, found "NA"|
    train forecast --data words.csv --columns load FAST
ragged.csv: line 4: expected 3 columns, found 4|train forecast --data ragged.csv --columns load FAST
no column "price", there are 3: day, wave, load|train forecast --data data.csv --columns price FAST
--target: numbers.csv has no column "price"|train forecast --data numbers.csv --target price FAST
column "load" is named twice|train forecast --data data.csv --columns load,load FAST
few.csv: |train forecast --data few.csv --columns load --valid-last 0 FAST
--valid-last: |train forecast --data few.csv --columns load FAST
--valid-last: |train forecast --data numbers.csv --valid-last 300 FAST
few.csv: the held-out series has 19 rows|train forecast --data numbers.csv --valid few.csv FAST
cannot be cut into patches of 5|train forecast --data numbers.csv FAST --patch 5
nothing: |train forecast --data nothing FAST
no-such: |train forecast --data no-such FAST
not empty|train forecast --data numbers.csv --out both --steps 5
no-such/config.json|train forecast --data numbers.csv --init no-such FAST
the model forecasts from 24 rows, the history has only 19|forecast both --file few.csv
line 5, column 3 (load)|forecast both --file missing.csv
nan.csv: line 7|forecast both --file nan.csv
no column "wave"|forecast both --file few-names.csv
no-such: |forecast both --file no-such
nothing: |forecast both --file nothing
no-such/config.json|forecast no-such
the model forecasts 6 rows, not 7|forecast one --file data.csv --horizon 7
the held-out series has 19 rows; at least 30|eval both --file few.csv
holds no held-out data|eval two
TABLE
try_table table
exit $failed
