#!/bin/sh
# test_classify_series.sh - train classify, classify and eval of series: two channels, unequal
# lengths, missing values; an easy problem is learnt; resuming to the same bits; what is refused.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"

# Slow and quick waves of 12 to 23 steps of two values; the length says nothing of the class.
awk 'BEGIN { for (i = 0; i < 400; i++) {
        quick = i % 2; printf quick ? "quick" : "slow"
        for (t = 0; t < 12 + i * 7 % 12; t++) {
            x = sin((quick ? 1.5 : 0.5) * t + i)
            if (t == 4 && i % 5 == 0) printf ",,"
            else printf ",%.3f,%.3f", 30 + 4 * x, i * 13 % 10 }
        print "" } }' >waves.csv
head -n 4 waves.csv | cut -d, -f2- >bare.csv
small="--channels 2 --patch 2 --set d_model=16 --set encoder_layers=1 --batch 16 --threads 1"

# shellcheck disable=SC2086 # several words
"$QKV" train classify --data waves.csv $small --lr 3e-3 --steps 300 --out model --json \
    >train.json 2>errors || fail "train classify: $(cat errors)"
grep -q '2 classes; 360 series to learn from, 40 held out' errors || fail "$(head -1 errors)"
"$QKV" eval model --threads 1 --json >eval.json || fail "eval"
above "$(field accuracy eval.json)" 0.9 || fail "accuracy: $(cat eval.json)"
"$QKV" eval model --threads 1 --json --file waves.csv >whole.json || fail "eval --file"
grep -q '"series": 400' whole.json || fail "eval --file: $(cat whole.json)"
"$QKV" classify model bare.csv --threads 1 >labels || fail "classify"
[ "$(cut -f1 labels | tr '\n' ' ')" = "slow quick slow quick " ] || fail "labels: $(cat labels)"
"$QKV" classify model bare.csv --threads 1 --json >answer || fail "classify --json"
grep -q '^{"label": "slow", "probs": {"slow": [0-9.e-]*, "quick": [0-9.e-]*}}$' answer ||
    fail "json: $(head -1 answer)"

# Looking inside: what is printed of the first series.
"$QKV" look model bare.csv --threads 1 --quiet >shown || fail "look"
grep -q '^   weights |' shown || fail "look: $(cat shown)"
"$QKV" look model bare.csv --threads 1 --json >shown || fail "look --json"
grep -q '"classes": \[{"label": "slow"' shown || fail "look --json: $(cat shown)"

# shellcheck disable=SC2086
goes_on 20 whole parts train classify --data waves.csv $small --steps 60 \
    --eval-every 20 --seed 3 --quiet

printf 'a,1,2\nb,3,x\n' >word.csv
printf 'a,1,2\nb,3\n' >odd.csv
printf 'a,1,2\na,3,4\n' >one.csv
printf 'other,1,2\n' >other.csv
refused 1 'word.csv: line 2, value 2: expected a finite number, found "x"' \
    train classify --data word.csv --out new
refused 1 'odd.csv: line 2: expected values of steps of 2 each, found 1' \
    train classify --data odd.csv --channels 2 --out new
printf '7,1,2,3,4\n' >labelled.csv
refused 1 'labelled.csv: line 1: expected values of steps of 2 each without a label, found 5' \
    classify model labelled.csv
refused 1 'at least 2 labels expected' train classify --data one.csv --valid-last 0 --out new
refused 1 'the model has no class "other"' eval model --file other.csv
refused 1 'begin anew' train classify --data waves.csv --init model --out new
[ ! -e new ] || fail "something was written"
exit $failed
