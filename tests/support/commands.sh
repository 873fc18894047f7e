# shellcheck shell=sh disable=SC2034,SC2154
# commands.sh - for tests of the command: a folder of their own, which is gone afterwards, and what
# they say about answers. Each test ends with `exit $failed`.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1

# fail WORDS : shows what went wrong and goes on.
fail() {
    echo "$*"
    failed=1
}

# field NAME FILE : the number of that name in the last line of JSON.
field() {
    tail -1 "$2" | sed -n 's/.*"'"$1"'": \([-+0-9.e]*\).*/\1/p'
}

# above A B : is A > B?
above() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > b + 0) }'
}

# refused CODE SENTENCE COMMAND... : it fails with the code and says so in one line.
refused() {
    code=$1 sentence=$2
    shift 2
    "$QKV" "$@" >answer 2>notes </dev/null
    [ $? -eq "$code" ] || fail "$*: another exit code than $code"
    [ ! -s answer ] || fail "$*: an answer"
    [ "$(wc -l <notes)" -eq 1 ] || fail "$*: not one line: $(cat notes)"
    grep -qF -- "$sentence" notes || fail "$*: expected \"$sentence\", found: $(cat notes)"
}

# log_of DIR : the log of its training without times and what was said of the machine.
log_of() {
    sed -e '/^{"kind": "machine"/d' -e 's/"seconds": [^,]*, //' -e 's/, "data_wait": [^,}]*//' \
        "$1/train/metrics.jsonl"
}

# products_of DIR : what products its training has, and those before it. Runs time them, and where
# two kinds are about as fast, not all choose the same one: their bits are then others.
products_of() {
    (cd "$1" && for state in train/state.safetensors train/*/train/state.safetensors; do
        [ ! -f "$state" ] || head -c 4000 "$state" | grep -ao 'products[^,]*'
    done)
}

# goes_on EVERY STRAIGHT STOPPED COMMAND... : a run into STRAIGHT ends with the same bits, and
# the same log, as one into STOPPED that saves its state every so many steps, stops after the first
# time and goes on. A run that ends before it is stopped, or has other products, shows nothing: both
# are started again, in the end with one kind of products. What goes on takes the options in $later
# too.
goes_on() {
    every=$1 straight=$2 stopped=$3
    shift 3
    for kind in auto auto auto f32 f32; do
        rm -rf "$straight" "$stopped"
        "$QKV" "$@" --out "$straight" --dtype $kind >answer 2>notes || fail "$*: $(cat notes)"
        last=$(field step "$straight/train/metrics.jsonl")
        "$QKV" "$@" --out "$stopped" --dtype $kind --save-every "$every" >answer 2>notes &
        child=$!
        while kill -0 $child 2>/dev/null && ! [ -s "$stopped/train/state.safetensors" ]; do
            sleep 0.01
        done
        kill -INT $child 2>/dev/null
        wait $child
        at=$(field step "$stopped/train/metrics.jsonl")
        [ "$at" = "$last" ] || [ "$(products_of "$straight")" != "$(products_of "$stopped")" ] ||
            break
    done
    [ "$at" != "$last" ] || fail "$*: ended before it was stopped"
    # shellcheck disable=SC2086
    "$QKV" "$@" --out "$stopped" --dtype $kind --save-every "$every" --resume ${later:-} \
        >answer 2>notes || fail "resume: $(cat notes)"
    cmp "$straight/model.safetensors" "$stopped/model.safetensors" ||
        fail "stop and resume: other bits"
    log_of "$straight" >"$straight.log"
    log_of "$stopped" >"$stopped.log"
    cmp "$straight.log" "$stopped.log" || fail "stop and resume: another log"
}
