#!/bin/sh
# test_terminal.sh - what training shows on a terminal: curves, a sample and one line, drawn over in
# place; a small one, one without colours or UTF-8, COLUMNS, ^C. Into a file go plain lines.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/models.sh
. "$QKV_SOURCE/tests/support/models.sh"
# shellcheck disable=SC2086 # a compiler and its flags
$CC -std=c11 -D_DEFAULT_SOURCE -o terminal "$QKV_SOURCE/tests/support/terminal.c" || exit 1
export OMP_WAIT_POLICY=passive TERM=xterm LC_ALL=C.UTF-8
unset COLUMNS LINES NO_COLOR

sentences 400 >text
common="train lm --data text --tokenizer char --model nano --length 64 --batch 8 --threads 1
    --eval-units 64"

# on COLUMNS ROWS WORD OPTION... : the screen in the end is in the file screen.
on() {
    columns=$1 rows=$2 word=$3
    shift 3
    rm -rf out
    # shellcheck disable=SC2086 # several words
    $QKV_RUN ./terminal "$columns" "$rows" "$word" "$QKV" $common --out out "$@" >screen 2>errors
    code=$?
    [ $code = 77 ] && { echo "no terminal to be had: skipped"; exit 77; }
    [ $code = 0 ] || fail "$columns x $rows: exit $code: $(cat errors screen)"
}
braille() { LC_ALL=C grep -c "$(printf '\342[\240-\243]')" screen; }

on 80 24 "" --steps 120 --eval-every 30
[ "$(braille)" = 5 ] || fail "five rows of curves expected: $(cat screen)"
[ "$(grep -c '^training ' screen)" = 1 ] || fail "one line expected: $(cat screen)"
[ "$(grep -c '^step .*held out loss' screen)" = 5 ] || fail "five evaluations: $(cat screen)"
grep -q '^training  120/120 steps  loss' screen || fail "the last line: $(cat screen)"
grep -q '^step 120: ' screen || fail "no sample: $(cat screen)"
grep -q '^ *training  held out$' screen || fail "no legend: $(cat screen)"

on 80 12 "" --steps 60
[ "$(braille)" = 0 ] || fail "curves on a small terminal: $(cat screen)"
[ "$(grep -c '^training ' screen)" = 1 ] || fail "small: one line expected: $(cat screen)"

COLUMNS=50 on 80 24 "" --steps 60
[ "$(braille)" = 5 ] || fail "COLUMNS: curves expected: $(cat screen)"
LC_ALL=C sed "s/[$(printf '\300-\377')][$(printf '\200-\277')]*/x/g" screen |
    grep -E '^ |^training|^step [0-9]+: ' | grep -E '.{50}' && fail "wider than COLUMNS"

NO_COLOR=1 LC_ALL=C on 80 24 "" --steps 60
[ "$(braille)" = 0 ] || fail "braille without UTF-8: $(cat screen)"
grep -q '^ *[0-9.]* [*o ]*[*o]' screen || fail "no curves without UTF-8: $(cat screen)"
TERM=dumb on 80 24 "" --steps 60
[ "$(braille)" = 0 ] || fail "curves on a dumb terminal: $(cat screen)"

# ^C saves; the terminal is left on a line of its own.
on 80 24 "held out loss" --steps 1000000
tail -1 screen | grep -q '^stopped at step .* and saved' || fail "^C: $(cat screen)"
[ "$(grep -c '^training ' screen)" -le 1 ] || fail "^C: one line expected: $(cat screen)"

# shellcheck disable=SC2086
"$QKV" $common --steps 60 --out plain 2>plain.notes || fail "plain: $(cat plain.notes)"
LC_ALL=C grep -q "$(printf '[\033\r]')" plain.notes && fail "escapes in a file: $(cat plain.notes)"
[ "$(LC_ALL=C grep -c "$(printf '\342[\240-\243]')" plain.notes)" = 0 ] || fail "curves in a file"
exit $failed
