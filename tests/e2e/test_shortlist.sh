#!/bin/sh
# qkv shortlist: a lexicon of sentence pairs in Marian's lines, what translating with it gives, and
# what is refused.
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
failed=0
fail() { echo "$*"; failed=1; }
has() { grep -qF -- "$2" "$1" || fail "no \"$2\" in: $(head -5 "$1")"; }
q() { "$QKV" "$@" --threads 1 2>err || fail "qkv $*: $(cat err)"; }

# shellcheck source=tests/support/digits.sh
. "$QKV_SOURCE/tests/support/digits.sh"
q train translate --quiet --model nano --vocab 60 --warmup 5 --source s --target t --valid-last 1 \
    --steps 150 --set dropout=0 --lr 0.01 --out m

# Lines are "target source probability"; the most probable word is the right one; again: the same.
q shortlist m --source s --target t --out lex.s2t
has err "lex.s2t: "
has err "from 40 pairs"
awk 'NF != 3 || !($3 > 0 && $3 <= 1) { exit 1 }' lex.s2t || fail "lines: $(head -3 lex.s2t)"
i=0
for word in null eins zwei drei vier; do
    best=$(awk -v s="▁$i" '$2 == s { print $1; exit }' lex.s2t)
    case ▁$word in "$best"*) ;; *) fail "$i is $word, found $best" ;; esac
    i=$((i + 1))
done
q shortlist m --source s --target t --json --out again >json
cmp -s lex.s2t again || fail "two equal calls differ"
sources=$(awk '{ print $2 }' lex.s2t | sort -u | wc -l)
[ "$(cat json)" = "{\"entries\": $(wc -l <lex.s2t), \"sources\": $sources, \"pairs\": 40}" ] ||
    fail "the answer: $(cat json)"
q shortlist m --source s --target t --pairs 7 --iterations 1 --most 2 --least 0.1 --out few
has err "the first 7 of 40 pairs are read"
[ "$(awk '{ n[$2]++ } END { for (s in n) if (n[s] > 2) print s }' few)" = "" ] || fail "$(cat few)"

# It serves a search; a list of all tokens changes nothing.
q translate m --file s >all
q translate m --file s --shortlist lex.s2t --shortlist-first 0 --shortlist-best 5 >some
has err "the shortlist left "
cmp -s all some || fail "with a shortlist: $(head -3 some)"
q translate m --file s --shortlist lex.s2t --shortlist-first 1000 --n-best 3 >listed
q translate m --file s --n-best 3 | cmp -s - listed || fail "all tokens: $(head -3 listed)"
for weights in bf16 int8 int4; do
    q translate m --file s --shortlist lex.s2t --weights $weights --beam 1 >small
    [ "$(paste -d'|' all small | awk -F'|' '$1 == $2' | wc -l)" -ge 38 ] || fail "$weights"
done

# Words of no list cannot be said.
grep -v '^▁n' lex.s2t >without
q translate m --file s --shortlist without --shortlist-first 0 --shortlist-best 5 >lacking
grep -q 'null' all || fail "no null: $(head -3 all)"
cmp -s all lacking && fail "words that are not in the list were said"

# Lines of others are skipped; those that are none are not.
{ cat lex.s2t; echo 'Hund dog 0.5'; echo 'NULL ▁1 0.5'; } >others
q translate m --file s --shortlist others >answer
has err "others: 1 of $(($(wc -l <lex.s2t) + 1)) lines have tokens that the model does not have"
{ head -2 lex.s2t; echo "▁1 0.5"; } >bad
refused "bad, line 3: 3 fields expected" translate m --shortlist bad
{ cat lex.s2t; head -1 lex.s2t; } >bad
refused "one line expected, found two" translate m --shortlist bad
echo 'Hund dog 0.5' >bad
refused "bad: a shortlist of the model's tokens expected, found 1 lines, none" translate m \
    --shortlist bad
refused "nothing" translate m --shortlist nothing
refused "a translator expected, found a gpt2 model" shortlist \
    "$QKV_SOURCE/tests/golden/models/gpt2" --source s --target t --out new
head -9 t >short
refused "as many expected" shortlist m --source s --target short --out new
refused "nowhere/new: cannot be written" shortlist m --source s --target short --out nowhere/new
refused "nowhere/config.json" shortlist nowhere --source s --target t --out new
"$QKV" shortlist m --source s --out new >answer 2>err
[ $? -eq 2 ] || fail "no --target is not a usage error"
exit "$failed"
