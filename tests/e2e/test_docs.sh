#!/bin/sh
# test_docs.sh - the documents say what is true: their C snippets are compiled, run, and print what
# stands below them; every file, name, command and flag they put in backticks exists.
#
# A block of ```c is the body of a function (qkv_context *ctx, qkv_tape *t) in front of
# tests/support/snippet.h, or a whole program if it has a main. What it prints is the block of
# ```text that follows; without one it prints nothing.
set -eu
! grep -q '^QKV_SANITIZE:[^=]*=.' "$QKV_BUILD/CMakeCache.txt" || exit 77
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1 # small sums; other tests run beside this one
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cd "$QKV_SOURCE"
failed=0
bad() { echo "docs: $*"; failed=1; }
documents=$(find README.md docs -name '*.md' | LC_ALL=C sort)

# ---- snippets ---------------------------------------------------------------------------------

# shellcheck disable=SC2086 # a list of files
awk -v work="$work" '
function finish() {
    if (code == "") return
    where = name ":" first
    if (code ~ /int main\(/) {
        file = work "/program" ++programs ".c"
        printf "#line %d \"%s\"\n%s", first, name, code >file
        print where >(work "/programs")
        printf "%s", text >(work "/program" programs ".expected")
    } else {
        n++
        body = body sprintf("static void snippet_%d(qkv_context *ctx, qkv_tape *t)\n{\n", n) \
            "    (void)ctx, (void)t;\n" sprintf("#line %d \"%s\"\n%s}\n", first, name, code)
        list = list sprintf("    {\"%s\", snippet_%d},\n", where, n)
        expected = expected "== " where "\n" text
    }
    code = text = ""
}
FNR == 1 { finish(); name = FILENAME; state = "" }
/^```/ {
    if (state != "") state = ""
    else if ($0 == "```c") { finish(); state = "c"; first = FNR + 1 }
    else if ($0 == "```text" && code != "") state = "text"
    else state = "other"
    next
}
state == "c" { code = code $0 "\n" }
state == "text" { text = text $0 "\n" }
END {
    finish()
    print body >(work "/bodies.h")
    print list >(work "/list.h")
    printf "%s", expected >(work "/expected")
}' $documents

cat >"$work/snippets.c" <<'END'
#include "snippet.h"
#include "bodies.h"
static const struct { const char *where; void (*run)(qkv_context *, qkv_tape *); } snippets[] = {
#include "list.h"
};
int main(void)
{
    qkv_context *ctx;
    qkv_tape *t;
    if (qkv_context_create(&ctx, &(qkv_context_options){.threads = 1, .isa = QKV_ISA_ALL}) ||
        qkv_tape_create(&t, ctx)) return 1;
    for (size_t i = 0; i < sizeof snippets / sizeof *snippets; i++) {
        printf("== %s\n", snippets[i].where);
        qkv_tape_reset(t);
        qkv_tape_mode(t, true, false);
        snippets[i].run(ctx, t);
        if (qkv_tape_status(t)) return printf("%s\n", qkv_context_message(ctx)), 1;
    }
    qkv_tape_destroy(t);
    if (qkv_context_memory(ctx).live_bytes) return printf("a snippet leaves memory\n"), 1;
    qkv_context_destroy(ctx);
    return 0;
}
END

# build_and_run NAME: $work/NAME.c, whose output goes to $work/NAME.out
build_and_run() {
    # shellcheck disable=SC2086 # a compiler and its flags
    $CC -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wvla -Werror -O0 -Iinclude -Itests/support \
        -o "$work/$1" "$work/$1.c" -L"$QKV_BUILD" -Wl,-rpath,"$QKV_BUILD" -lqkv -lm &&
        $QKV_RUN "$work/$1" >"$work/$1.out" 2>&1
}
build_and_run snippets || { tail -5 "$work/snippets.out" || true; bad "snippets fail"; }
diff -u "$work/expected" "$work/snippets.out" || bad "a snippet prints something else"
i=0
while read -r where; do
    i=$((i + 1))
    build_and_run "program$i" || bad "the program at $where fails"
    diff -u "$work/program$i.expected" "$work/program$i.out" || bad "$where prints something else"
done <"$work/programs"

# ---- names ------------------------------------------------------------------------------------

find . -path ./.git -prune -o -path './build*' -prune -o -type f -print | sed 's|^\./||' \
    >"$work/files"
sed 's|.*/||' "$work/files" | sort -u >"$work/basenames"
grep -rohE '[A-Za-z_][A-Za-z0-9_]*' include src cmd examples tests/*/*.[ch] CMakeLists.txt tools \
    python | sort -u >"$work/words"
"$QKV" --help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p' >"$work/commands"
while read -r command; do
    # shellcheck disable=SC2086 # "train lm" is two words
    "$QKV" help $command | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u >"$work/flags.$command"
done <"$work/commands"
sort -u "$work"/flags.* >"$work/flags"

file_exists() { # a path, or a name alone; * as in the shell, KIND and NAME for any word
    set -- "$(echo "$1" | sed 's/KIND/*/g; s/NAME/*/g')"
    case $1 in
    */*) for path in $1; do [ ! -e "$path" ] || return 0; done; return 1 ;;
    *) grep -qx -- "$(echo "$1" | sed 's/\./\\./g; s/\*/.*/g')" "$work/basenames" ;;
    esac
}

# command_exists WHERE WORDS: qkv's command, and its flags
command_exists() {
    where=$1
    shift
    command=$2
    [ $# -lt 3 ] || ! grep -qx "$2 $3" "$work/commands" || command="$2 $3"
    case $command in --* | help | "" | COMMAND) return 0 ;; esac
    [ -e "$work/flags.$command" ] || { bad "$where: no command $command"; return 0; }
    for word; do
        case $word in
        --*) flag=${word%%=*}
            grep -qx -e "$flag" -e "--${flag#--no-}" "$work/flags.$command" || # --no-x: x off
            bad "$where: $command has no $word" ;;
        esac
    done
}

for document in $documents; do
    # Code spans outside of code blocks, one a line; they may go on over the end of a line.
    # shellcheck disable=SC2016 # the quotes are markdown's
    awk '/^```/ { on = !on; next } !on && !/^    /' "$document" | tr '\n' ' ' |
        grep -oE '`[^`]+`' | tr -d '`' | sort -u >"$work/spans" || true
    grep -hE '^    (build/)?qkv ' "$document" | sed 's/^ *//; s/ *[|>#].*//' >"$work/lines" || true
    while read -r span; do
        case $span in
        *' '*) ;;
        --[a-z]*) # --no-x turns x off
            grep -qx -e "$span" -e "--${span#--no-}" "$work/flags" ||
                bad "$document: no flag $span"
            ;;
        *.c | *.h | *.md | *.sh | *.py | src/* | docs/* | tests/* | tools/* | include/*)
            file_exists "$span" || bad "$document: no file $span" ;;
        *[!A-Za-z0-9_]*) ;;
        *_*) grep -qx "$span" "$work/words" || bad "$document: no name $span" ;;
        esac
        case $span in "qkv "*) echo "$span" >>"$work/lines" ;; esac
    done <"$work/spans"
    set -f
    while read -r line; do
        # shellcheck disable=SC2086 # words, and no file names
        command_exists "$document" $line
    done <"$work/lines"
    set +f
    # Links to files.
    grep -ohE '\]\([^)#:]+' "$document" | sed 's/^](//' >"$work/links" || true
    while read -r link; do
        [ -e "$(dirname "$document")/$link" ] || bad "$document: no $link"
    done <"$work/links"
done
[ "$failed" -eq 0 ] && echo "$(grep -c '^==' "$work/expected") snippets, $i programs"
exit "$failed"
