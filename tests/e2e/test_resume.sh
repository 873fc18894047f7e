#!/bin/sh
# test_resume.sh - a run that is stopped (a signal, kill -9 at any moment, even while it saves) and
# resumed with the same command ends with the same bytes as one that never stopped.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cat "$QKV_SOURCE"/src/train/*.c | head -c 36000 >"$out/text" # tokens of 100 kB at most, see below
seed=${QKV_TEST_SEED:-7}

# A number from LOW to HIGH; each call another.
random() {
    seed=$((seed * 1103515245 % 2147483648 + 12345))
    echo $(($1 + seed / 8 % ($2 - $1 + 1)))
}

# One thread: other tests may run beside this one. Products in f32: runs that begin anew would each
# time the kinds that there are, and on a busy machine not all would choose the same one.
common="train lm --data $out/text --tokenizer char --model nano --length 16 --batch 2 \
    --eval-units 64 --threads 1 --seed 3 --dtype f32"

# shellcheck disable=SC2086 # several words
train() {
    "$QKV" $common "$@" 2>"$out/errors" && return
    echo "qkv $common $*: $(cat "$out/errors")"
    failed=1
}

# after_lines DIR N : waits until the log has N lines or $pid has ended.
after_lines() {
    while kill -0 "$pid" 2>"$out/null"; do
        [ -f "$1/train/metrics.jsonl" ] &&
            [ "$(wc -l <"$1/train/metrics.jsonl")" -ge "$2" ] && return
        sleep 0.02
    done
}

# until_heard : waits until $pid has said what it trains, or has ended. Before it does, a signal
# ends it as any program.
until_heard() {
    while kill -0 "$pid" 2>"$out/null" && [ ! -s "$out/errors" ]; do
        sleep 0.01
    done
}

# same NAME DIR : the model, its checkpoint's weights, the samples and all of the log but seconds,
# speed and memory are those of the straight run.
same() {
    if ! cmp "$out/straight/model.safetensors" "$2/model.safetensors"; then
        echo "$1: another model than that of the straight run"
        failed=1
    fi
    for d in "$out/straight" "$2"; do
        sed -e '/^{"kind": "machine"/d' -e 's/"seconds": [^,]*, //' "$d/train/metrics.jsonl" \
            >"$d.log"
    done
    if ! cmp "$out/straight.log" "$2.log"; then
        echo "$1: another log than that of the straight run"
        failed=1
    fi
    diff -r "$out/straight/train/samples" "$2/train/samples" || failed=1
}

# stopped NAME OPTION... : straight, then stopped by each signal at random moments.
stopped() {
    name=$1
    shift
    rm -rf "$out/straight"
    train --out "$out/straight" "$@"
    for signal in INT TERM KILL; do
        dir="$out/$name-$signal"
        rm -rf "$dir"
        stops=0
        while [ "$stops" -lt 3 ]; do
            : >"$out/errors"
            # shellcheck disable=SC2086
            "$QKV" $common --out "$dir" --resume "$@" 2>"$out/errors" &
            pid=$!
            [ "$signal" = KILL ] || until_heard
            after_lines "$dir" "$(random $((6 * stops)) $((6 * stops + 5)))"
            sleep "0.0$(random 0 9)"
            kill -s "$signal" "$pid" 2>"$out/null"
            wait "$pid" 2>"$out/null"
            code=$?
            if [ "$signal" != KILL ] && [ "$code" -ne 0 ] && [ -f "$dir/train/state.safetensors" ]
            then
                echo "$name: exit $code after SIG$signal: $(tail -1 "$out/errors")"
                failed=1
            fi
            stops=$((stops + 1))
        done
        train --out "$dir" --resume "$@"
        same "$name, SIG$signal" "$dir"
    done
}

# start DIR OPTION... : in the background, up to the second line of its log.
start() {
    # shellcheck disable=SC2086
    "$QKV" $common --out "$@" 2>"$out/errors" &
    pid=$!
    after_lines "$1" 2
}

stopped all --steps 72 --eval-every 12 --save-every 1 --ema 0.9 --accumulation-steps 2 \
    --patience 3 --layout gpt2 --set resid_pdrop=0.1
plain="--steps 120 --eval-every 30 --save-every 7"
# shellcheck disable=SC2086
stopped plain $plain

# limited BLOCKS OPTION... : no file may become larger than so many blocks of 512 bytes.
limited() (
    # shellcheck disable=SC3045 # the shells there are know it; a killed run leaves no core
    ulimit -c 0
    ulimit -f "$1"
    shift
    # shellcheck disable=SC2086
    exec "$QKV" $common "$@" 2>"$out/errors"
)

# expect_full FILE CODE : the run that has just ended with CODE could not write FILE.
expect_full() {
    if [ "$2" -ne 1 ] || ! grep -q "^qkv: .*$1: cannot be written" "$out/errors"; then
        echo "a full disk: exit $2, $(cat "$out/errors")"
        failed=1
    fi
}

# The limit on a file's size kills it in the middle of a checkpoint; the earlier one stays. Killed
# so while it saves the untrained model, it begins again.
# shellcheck disable=SC2086
start "$out/limit" $plain
kill -s TERM "$pid"
wait "$pid"
cp "$out/limit/train/state.safetensors" "$out/state"
for blocks in 1200 200; do
    # shellcheck disable=SC2086
    if limited "$blocks" --out "$out/limit" --resume $plain; then
        echo "a file-size limit of $blocks was not met"
        failed=1
    fi
    cmp "$out/state" "$out/limit/train/state.safetensors" || failed=1
    # shellcheck disable=SC2086
    limited "$blocks" --out "$out/limit-$blocks" $plain && failed=1
    # shellcheck disable=SC2086
    train --out "$out/limit-$blocks" --resume $plain
    same "killed at the first save" "$out/limit-$blocks"
done
# shellcheck disable=SC2086
train --out "$out/limit" --resume $plain
same "killed while saving" "$out/limit"

# The same limit as a full disk: the sentence, and the earlier checkpoint stays; a run that cannot
# even begin leaves nothing.
# shellcheck disable=SC2086
start "$out/full" $plain
kill -s TERM "$pid"
wait "$pid"
cp "$out/full/train/state.safetensors" "$out/state"
trap '' XFSZ
# shellcheck disable=SC2086
limited 1200 --out "$out/full" --resume $plain
expect_full state.safetensors $?
cmp "$out/state" "$out/full/train/state.safetensors" || failed=1
# shellcheck disable=SC2086
limited 200 --out "$out/full-new" $plain
expect_full model.safetensors $?
trap - XFSZ
[ ! -e "$out/full-new" ] || { ls -R "$out/full-new"; failed=1; }
# shellcheck disable=SC2086
train --out "$out/full" --resume $plain
same "a full disk" "$out/full"

# Another setting is told.
# shellcheck disable=SC2086
start "$out/other" $plain
kill -s TERM "$pid"
wait "$pid"
# shellcheck disable=SC2086
train --out "$out/other" --resume $plain --batch 3 --lr 0.002 --length 12 --seed 4 --eval-units 48
if ! grep -a -q 'eval_units[^,0-9]*48,' "$out/other/train/state.safetensors"; then
    echo "--eval-units 48: $(grep -a -o 'eval_units[^,]*' "$out/other/train/state.safetensors")"
    failed=1
fi
if ! grep -q 'note: --batch is 3, was 2' "$out/errors" ||
    ! grep -q 'note: --length is 12, was 16' "$out/errors" ||
    ! grep -q 'note: --seed is 4, was 3' "$out/errors" ||
    [ "$(grep -c '^note:' "$out/errors")" -ne 5 ]; then
    cat "$out/errors"
    failed=1
fi

# Resumed without --length, it goes on with the length that it had, and nothing is told.
# shellcheck disable=SC2086
start "$out/short" $plain
kill -s TERM "$pid"
wait "$pid"
all=$common
common=$(echo "$common" | sed 's/--length 16//')
# shellcheck disable=SC2086
train --out "$out/short" --resume $plain
common=$all
grep '^note:' "$out/errors" && failed=1
same "resumed without its length" "$out/short"

# Two runs in one folder: the second is refused.
# shellcheck disable=SC2086
start "$out/two" $plain --batch 64
# shellcheck disable=SC2086
if "$QKV" $common --out "$out/two" --resume $plain 2>"$out/second" ||
    ! grep -q 'another process is at work there' "$out/second"; then
    echo "two runs at once: $(cat "$out/second")"
    failed=1
fi
kill -s KILL "$pid"
wait "$pid" 2>"$out/null"

# Plans of a time budget are stored: from the last one on, what follows is settled. A stop after
# it (TERM saves; the copy is what kill -9 would have left) and the resumed runs end alike.
budget="--minutes 0.04"
# shellcheck disable=SC2086
"$QKV" $common --out "$out/time" $budget 2>"$out/errors" &
pid=$!
until grep -q '^plan:' "$out/errors" || ! kill -0 "$pid" 2>"$out/null"; do
    sleep 0.02
done
kill -s TERM "$pid"
wait "$pid"
grep -q 'stopped at step' "$out/errors" || { echo "not stopped: $(cat "$out/errors")"; failed=1; }
plans=$(head -c 4000 "$out/time/train/state.safetensors" | grep -ao 'plans[^]]*]')
# shellcheck disable=SC2086
train --out "$out/time" --resume $budget
case $(head -c 4000 "$out/time/train/state.safetensors" | grep -ao 'plans[^]]*') in
    "${plans%]}"*) ;;
    *) echo "the resumed run has other plans than $plans"; failed=1 ;;
esac
grep -q 'steps in' "$out/errors" || failed=1

# A run that was killed during its last evaluation has all but the last line of its log.
cp -r "$out/straight" "$out/last"
sed -i '$d' "$out/last/train/metrics.jsonl"
# shellcheck disable=SC2086
train --out "$out/last" --resume $plain
same "killed during the last evaluation" "$out/last"

# A finished run is left as it is.
cp -r "$out/straight" "$out/copy"
# shellcheck disable=SC2086
train --out "$out/straight" --resume $plain
grep -q 'is finished (.*nothing was changed' "$out/errors" || { cat "$out/errors"; failed=1; }
diff -r "$out/straight" "$out/copy" || failed=1
exit $failed
