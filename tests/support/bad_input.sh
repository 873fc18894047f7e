# shellcheck shell=sh disable=SC2001,SC2034,SC2154
# bad_input.sh - for tests of what is refused: rows of a table, each a command that must end with
# exit 1 and one sentence on the standard error, and leave every file as it was.
#
# A row: WORDS that the sentence has | COMMAND. In it @NAME stands for a copy of the model directory
# NAME (@ alone: model), which the row may spoil first with one of
#   cut FILE BYTES   drop FILE   empty FILE   put FILE TEXT   dir FILE   edit FILE SED
#   copy FILE FROM   rename FILE TO
# before a second |. WORDS that begin with 2: the command line is at fault, the exit code is 2.
# A row goes on in the next line after a |.

spoil() {
    what=$1 file=$2
    shift 2
    case $what in
    cut) head -c "$1" "$file" >part && mv part "$file" ;;
    drop) rm "$file" ;;
    empty) : >"$file" ;;
    put) echo "$*" >"$file" ;;
    dir) rm "$file" && mkdir "$file" ;;
    edit) sed -i "$*" "$file" ;;
    copy) cp "$1" "$file" ;;
    rename) mv "$file" "$1" ;;
    esac
}

# Names, sizes and bytes of all there is.
state() {
    find . -type f ! -name answer ! -name errors ! -path ./before ! -path ./after \
        -exec cksum {} + | sort
    find . -type d | sort
}

# try_row WORDS COMMAND, or WORDS SPOIL COMMAND: says what is wrong, and failed becomes 1.
try_row() {
    words=$1 command=${3:-$2} expected=1
    if [ -n "${3:-}" ]; then
        name=$(echo "$command" | sed 's/.*@\([a-z]*\).*/\1/')
        rm -rf spoilt
        cp -r "${name:-model}" spoilt
        # shellcheck disable=SC2086 # several words
        (cd spoilt && set -f && spoil $2)
    fi
    case $words in 2*) expected=2 words=${words#2} ;; esac
    command=$(echo "$command" | sed "s/@[a-z]*/spoilt/; s/FAST/$fast/")
    state >before
    # shellcheck disable=SC2086
    "$QKV" $command --threads 1 >answer 2>errors </dev/null
    code=$?
    state >after
    if [ $code -ne $expected ] || [ "$(wc -l <errors)" -ne 1 ] || ! grep -qF -- "$words" errors
    then
        echo "${3:+$2: }qkv $command: exit $code, expected \"$words\": $(head -3 errors)"
        failed=1
    fi
    if ! cmp -s before after; then
        echo "${3:+$2: }qkv $command: changed files:"
        diff before after
        rm -rf new
        failed=1
    fi
}

# try_table FILE, with $fast in place of FAST in commands.
try_table() {
    rm -rf before after
    sed -e :a -e '/|$/N; s/|\n */|/; ta' "$1" >"$1.rows"
    while IFS='|' read -r words first second; do
        try_row "$words" "$first" "$second"
    done <"$1.rows"
}
