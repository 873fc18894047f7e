#!/bin/sh
# test_command.sh - the command's frame: help, exit codes, sentences, man page, completion.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# expect CODE WORDS ARGUMENT... : the exit code, and a line of the answer that has the words.
expect() {
    code=$1 words=$2
    shift 2
    "$QKV" "$@" >"$out/answer" 2>&1 </dev/null
    got=$?
    if [ "$got" -ne "$code" ]; then
        echo "qkv $*: exit $got, expected $code"
        failed=1
    fi
    if ! grep -qF -- "$words" "$out/answer"; then
        echo "qkv $*: no \"$words\" in: $(head -3 "$out/answer")"
        failed=1
    fi
}

expect 0 'Usage: qkv COMMAND' --help
expect 2 'Usage: qkv COMMAND'
expect 0 'qkv 0.' --version
expect 0 'Usage: qkv info' help info
expect 0 'Usage: qkv info' info --help
expect 2 'did you mean qkv info?' inof
expect 2 'did you mean qkv train?' traim
expect 2 'did you mean qkv train lm?' traim lm
expect 2 'did you mean qkv bench train?' bnech train
expect 2 'expected after train: lm, ' train
expect 2 'no command "train lmm"; expected after train: lm, ' train lmm
expect 2 'expected after train: lm, ' help train
expect 2 'no command "xyzzy"' xyzzy
expect 2 'did you mean qkv help info?' help inof
expect 2 'did you mean --threads?' info --thread 2
expect 2 '--threads: expected an integer from 0 to 1024, found "-1"' info --threads -1
expect 2 'found 2 arguments' info a b
expect 1 'qkv: no-such-file: cannot be opened: No such file' info no-such-file
expect 1 'CMakeLists.txt: ' info "$QKV_SOURCE/CMakeLists.txt"
expect 0 '13 tensors' info "$QKV_SOURCE/tests/golden/io/types.safetensors"
expect 0 '{"name": "a.f32", "dtype": "F32", "shape": []}' \
    info --json "$QKV_SOURCE/tests/golden/io/types.safetensors"
expect 0 '"threads": 1' info --json --threads 1
expect 0 'kernels    plain C' info --isa reference

# --set reaches the fields that a preset sets.
"$QKV" train lm --data "$QKV_SOURCE/README.md" --tokenizer char --model nano --steps 1 \
    --set num_hidden_layers=1 --threads 1 --quiet --out "$out/m" >"$out/answer" 2>&1 ||
    { cat "$out/answer"; failed=1; }
if ! grep -q '"num_hidden_layers": 1,' "$out/m/config.json" ||
    ! grep -q '"hidden_size": 64,' "$out/m/config.json"; then
    echo "--set num_hidden_layers=1 --model nano: $(cat "$out/m/config.json")"
    failed=1
fi

# What is held out is the end of the text, however many files that is: 250 of 1000 characters.
awk 'BEGIN { for (i = 0; i < 80; i++) printf "abcdefghi\n" }' >"$out/1.txt"
head -c 100 "$out/1.txt" >"$out/2.txt"
head -c 100 "$out/1.txt" >"$out/3.txt"
expect 0 '750 tokens to learn from, 250 held out' train lm --data "$out"/[123].txt --model nano \
    --tokenizer char --valid-last 25% --steps 1 --length 16 --threads 1 --out "$out/held"
expect 1 '1000 bytes to hold out, there are only 1000' train lm --data "$out"/[123].txt \
    --valid-last 1000 --steps 1 --out "$out/none"

# Characters get their ids in the order of their codes: newline 0, a 1, b 2, ..
expect 0 '{"ids": [1, 2, 0, 3]}' tokenize "$out/held" "ab
c" --json
printf 'ab\nc\n' >"$out/abc"
expect 0 '{"ids": [1, 2, 0, 3, 0]}' tokenize "$out/held" --file "$out/abc" --json
expect 0 '{"ids": [[1, 2], [3]]}' tokenize "$out/held" --file "$out/abc" --json --lines
expect 2 'only one can be tokenised' tokenize "$out/held" ab --file "$out/abc"

# Every command's help fits 80 columns.
"$QKV" --help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p' >"$out/commands"
[ -s "$out/commands" ] || { echo "no commands in qkv --help"; failed=1; }
while read -r command; do
    # shellcheck disable=SC2086 # "train lm" is two words
    "$QKV" help $command >"$out/help" || { echo "qkv help $command failed"; failed=1; }
    if LC_ALL=C sed 's/[\x80-\xbf]//g' "$out/help" | grep -q '.\{81\}'; then
        echo "qkv help $command: more than 80 columns"
        failed=1
    fi
done <"$out/commands"

# A full disk is a failure.
if [ -w /dev/full ]; then
    "$QKV" info >/dev/full 2>/dev/null
    [ $? -eq 1 ] || { echo "qkv info >/dev/full did not exit with 1"; failed=1; }
fi

"$QKV" help --man >"$out/qkv.1" || failed=1
if command -v man >/dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$out/qkv.1" >/dev/null 2>"$out/warnings"
    [ -s "$out/warnings" ] && { cat "$out/warnings"; failed=1; }
fi
"$QKV" help --completion bash >"$out/bash" || failed=1
"$QKV" help --completion zsh >"$out/zsh" || failed=1
if command -v bash >/dev/null; then
    # shellcheck disable=SC2016 # bash's variables, not ours
    reply=$(bash -c '. "$0"; COMP_WORDS=(qkv info --thr); COMP_CWORD=2; _qkv
        echo "${COMPREPLY[@]}"' "$out/bash")
    [ "$reply" = --threads ] || { echo "bash completes --thr to \"$reply\""; failed=1; }
    # shellcheck disable=SC2016
    reply=$(bash -c '. "$0"; COMP_WORDS=(qkv inf); COMP_CWORD=1; _qkv
        echo "${COMPREPLY[@]}"' "$out/bash")
    [ "$reply" = info ] || { echo "bash completes inf to \"$reply\""; failed=1; }
fi
exit $failed
