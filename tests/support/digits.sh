# digits.sh - sourced by tests of translators: the files s and t here, 40 pairs of a sentence of
# digits and the same digits as words, backwards; refused.
# shellcheck shell=sh

awk 'BEGIN {
    split("null eins zwei drei vier", w, " ")
    for (i = 0; i < 40; i++) {
        a = i % 5; b = int(i / 5) % 5; c = (i * 7) % 5
        print a, b, c > "s"
        print w[c + 1], w[b + 1], w[a + 1] > "t"
    }
}'

# refused WORDS ARGUMENT...: qkv reads the file s, ends with 1 and one line that has the words, and
# writes nothing.
refused() {
    words=$1
    shift
    "$QKV" "$@" --threads 1 >answer 2>err <s
    [ $? -eq 1 ] || fail "qkv $*: not exit 1"
    [ "$(wc -l <err)" -eq 1 ] || fail "qkv $*: not one line: $(cat err)"
    [ ! -s answer ] || fail "qkv $*: an answer"
    has err "$words"
    [ ! -e new ] || fail "qkv $*: wrote a file"
}
