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
