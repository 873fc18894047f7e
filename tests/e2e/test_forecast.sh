#!/bin/sh
# test_forecast.sh - train forecast, forecast and eval: columns by name, CSV in and out, rolling
# out, the naive forecasts beaten on a series that is easy, resuming; and what is refused, with
# exit 1, one sentence and nothing written.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1

bad() {
    echo "$*"
    failed=1
}

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
    --json >both.json 2>errors || bad "train forecast: $(cat errors)"
grep -q '240 rows of 2 to learn from\|270 rows of 2 to learn from, 30 held out' errors ||
    bad "rows: $(head -1 errors)"
"$QKV" eval both --threads 1 --json >eval.json || bad "eval both"
ratio=$(sed 's/.*"ratio": \([^,]*\),.*/\1/' eval.json)
awk "BEGIN { exit !($ratio < 0.5) }" || bad "ratio to the naive forecasts: $(cat eval.json)"
for key in loss mse mae persistence ratio windows; do
    grep -q "\"$key\": [0-9]" eval.json || bad "eval: no $key in $(cat eval.json)"
done
mse=$(sed 's/.*"mse": \([^,]*\),.*/\1/' eval.json)
grep -q "\"mse\": $mse," both.json || bad "eval says $(cat eval.json), training $(cat both.json)"
# Files that other versions wrote have these names.
"$QKV" info both | grep -q " series.deviation (2)" || bad "info: $("$QKV" info both)"

# The names come back; without a line of names the columns are in the model's order.
"$QKV" forecast both --horizon 6 --threads 1 <data.csv >named || bad "forecast both <data.csv"
"$QKV" forecast both --threads 1 --file bare.csv >unnamed || bad "forecast both <bare.csv"
[ "$(head -1 named)" = wave,load ] || bad "names: $(head -1 named)"
tail -n +2 named | cmp - unnamed || bad "another forecast without names"
[ "$(wc -l <unnamed)" -eq 6 ] || bad "6 rows expected: $(cat unnamed)"
awk -F, '{ i = 299 + NR; d = $2 - (50 + 10 * sin(i / 4) + 3 * cos(i / 3))
    if (d < -6 || d > 6) exit 1 }' unnamed || bad "far off: $(cat unnamed)"
"$QKV" forecast both --horizon 2 --json --threads 1 <data.csv >answer
grep -q '^{"columns": \["wave", "load"\], "rows": \[\[[-0-9.e]*, [-0-9.e]*\], \[.*\]\]}$' answer ||
    bad "json: $(cat answer)"

# Rolled out: the rows after the first horizon are those forecast from it.
"$QKV" forecast both --horizon 10 --threads 1 <bare.csv >long || bad "forecast --horizon 10"
head -6 long | cmp - unnamed || bad "a longer horizon begins differently"
cat bare.csv unnamed | "$QKV" forecast both --horizon 4 --threads 1 >rest || bad "forecast on"
tail -4 long | paste -d, - rest | awk -F, '{ if ($1 - $3 > 1e-3 || $3 - $1 > 1e-3 ||
    $2 - $4 > 1e-3 || $4 - $2 > 1e-3) exit 1 }' || bad "rolled out: $(cat long rest)"

"$QKV" forecast both --plot --threads 1 <data.csv >answer 2>image || bad "forecast --plot"
cmp answer named || bad "forecast --plot prints other rows"
[ "$(grep -c ┤ image)" -eq 16 ] || bad "--plot: $(cat image)"

# A causal decoder: its kind is in the directory, which forecasts, beyond its horizon too.
# shellcheck disable=SC2086
"$QKV" train forecast --data numbers.csv --causal $quick --out causal >answer 2>errors ||
    bad "train --causal: $(cat errors)"
grep -q '"causal_decoder": true' causal/config.json || bad "--causal: $(cat causal/config.json)"
grep -q '"decoder_layers": 1' causal/config.json || bad "--causal: $(cat causal/config.json)"
"$QKV" forecast causal --horizon 19 --file numbers.csv >answer 2>errors ||
    bad "forecast of a causal decoder: $(cat errors)"
[ "$(wc -l <answer)" = 20 ] || bad "forecast of a causal decoder: $(cat answer)"
"$QKV" eval causal >answer 2>errors || bad "eval of a causal decoder: $(cat errors)"

# A target, an encoder-decoder, and data held out in a file of its own.
# shellcheck disable=SC2086
"$QKV" train forecast --data data.csv --columns wave --target load --decoder --normalize window \
    --valid numbers.csv $quick --out one 2>errors || bad "--target: $(cat errors)"
"$QKV" forecast one --threads 1 <data.csv >answer || bad "forecast one"
[ "$(head -1 answer)" = load ] || bad "--target: $(cat answer)"
grep -q '"decoder_layers": 1' one/config.json || bad "--decoder: $(cat one/config.json)"
# shellcheck disable=SC2086
"$QKV" train forecast --data bare.csv --target 2 --valid-last 0 $quick --out two 2>errors ||
    bad "--target 2: $(cat errors)"
"$QKV" forecast two --threads 1 <data.csv >answer 2>errors && bad "forecast two: no such columns"
"$QKV" forecast two --threads 1 <bare.csv >answer || bad "forecast two"

# ---- stopped and resumed ------------------------------------------------------------------------

run="train forecast --data numbers.csv $small --steps 60 --eval-every 20 --seed 3 --quiet"
# shellcheck disable=SC2086
"$QKV" $run --out straight || bad "straight"
# shellcheck disable=SC2086
"$QKV" $run --out stopped &
pid=$!
while kill -0 $pid 2>errors && ! [ -s stopped/train/metrics.jsonl ]; do sleep 0.02; done
kill -INT $pid 2>errors
wait $pid
# shellcheck disable=SC2086
"$QKV" $run --out stopped --resume || bad "resume"
cmp straight/model.safetensors stopped/model.safetensors || bad "resumed: another model"
# shellcheck disable=SC2086
"$QKV" train forecast --data data.csv --init both --steps 3 --threads 1 --quiet --out tuned ||
    bad "--init"
"$QKV" forecast tuned --threads 1 <data.csv >answer || bad "forecast tuned"

# ---- refused ------------------------------------------------------------------------------------

sed '5s/,[^,]*$/,/' data.csv >missing.csv
sed '7s/,[^,]*$/,nan/' data.csv >nan.csv
sed '9s/,[^,]*$/,NA/' data.csv >words.csv
sed '4s/$/,1/' data.csv >ragged.csv
head -20 data.csv >few.csv
: >nothing
sed "1s/wave/other/" data.csv >few-names.csv
before=$(find . | sort | cksum)
while IFS='|' read -r words command; do
    command=$(echo "$command" | sed "s/FAST/$quick --out new/; s/^TRAIN/train forecast --data/")
    # shellcheck disable=SC2086
    "$QKV" $command --threads 1 >answer 2>errors </dev/null
    code=$?
    if [ $code -ne 1 ] || [ "$(wc -l <errors)" -ne 1 ] || ! grep -qF -- "$words" errors; then
        bad "qkv $command: exit $code, expected \"$words\": $(head -3 errors)"
    fi
    [ "$before" = "$(find . | sort | cksum)" ] || bad "qkv $command: files came or went"
done <<'TABLE'
data.csv: line 2, column 1 (day): expected a number, found "d0"|TRAIN data.csv FAST
missing.csv: line 5, column 3 (load): expected a number|TRAIN missing.csv --columns wave,load FAST
nan.csv: line 7, column 3 (load): expected a finite number|TRAIN nan.csv --columns wave,load FAST
line 9, column 3 (load): expected a number, found "NA"|TRAIN words.csv --columns load FAST
ragged.csv: line 4: expected 3 columns, found 4|TRAIN ragged.csv --columns load FAST
no column "price", there are 3: day, wave, load|TRAIN data.csv --columns price FAST
--target: numbers.csv has no column "price"|TRAIN numbers.csv --target price FAST
column "load" is named twice|TRAIN data.csv --columns load,load FAST
few.csv: |TRAIN few.csv --columns load --valid-last 0 FAST
--valid-last: |TRAIN few.csv --columns load FAST
--valid-last: |TRAIN numbers.csv --valid-last 300 FAST
few.csv: the held-out series has 19 rows|TRAIN numbers.csv --valid few.csv FAST
cannot be cut into patches of 5|TRAIN numbers.csv FAST --patch 5
nothing: |TRAIN nothing FAST
no-such: |TRAIN no-such FAST
not empty|TRAIN numbers.csv --out both --steps 5
no-such/config.json|TRAIN numbers.csv --init no-such FAST
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
exit $failed
