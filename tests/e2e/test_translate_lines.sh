#!/bin/sh
# qkv translate: a line out for every line in, whatever the batch; what is in an answer; what a
# directory says of the search; what is refused.
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
failed=0
fail() { echo "$*"; failed=1; }
has() { grep -qF -- "$2" "$1" || fail "no \"$2\" in: $(head -5 "$1")"; }
t() { "$QKV" translate "$@" --threads 1 2>err || fail "translate $*: $(cat err)"; }

# shellcheck source=tests/support/digits.sh
. "$QKV_SOURCE/tests/support/digits.sh"
"$QKV" train translate --quiet --threads 1 --model nano --vocab 60 --warmup 5 --source s \
    --target t --valid-last 1 --steps 150 --set dropout=0 --lr 0.01 --out m 2>err ||
    fail "training: $(cat err)"

# What it learnt, in the order of the lines: empty ones, blank ones, no newline at the end.
t m <s >all
[ "$(paste -d'|' all t | awk -F'|' '$1 == $2' | wc -l)" -ge 38 ] || fail "learnt: $(head -3 all)"
sed 's/$/\r/' s | t m | cmp -s - all || fail "lines that end in CR LF are translated differently"
{ head -3 s; echo; echo '   '; head -30 s | tail -27; printf '4 4 4'; } >in
t m <in >out
[ "$(wc -l <out)" -eq 33 ] || fail "$(wc -l <out) lines for 33"
[ "$(sed -n 4,5p out | tr -d '\n')" = "" ] || fail "empty lines gave: $(sed -n 4,5p out)"
{ sed -n 1,3p out; sed -n 6,32p out; } >some
head -30 all | cmp -s - some || fail "other lines around it change a translation"
t m --batch 1 <in | cmp -s - out || fail "--batch 1 is another translation"
t m --batch 7 --file in | cmp -s - out || fail "--file is another translation"
printf '' >none
[ -z "$(t m --file none)" ] || fail "something for nothing"
t m --json <in >json
[ "$(wc -l <json)" -eq 33 ] || fail "$(wc -l <json) objects"
[ "$(sed -n 4p json)" = '{"text": ""}' ] || fail "an empty line: $(sed -n 4p json)"
[ "$(head -1 json)" = "{\"text\": \"$(head -1 out)\"}" ] || fail "$(head -1 json)"

# Several answers: the first is the one; scores fall.
t m --n-best 3 --json <in >hyps
[ "$(wc -l <hyps)" -eq 33 ] || fail "$(wc -l <hyps) objects with --n-best"
[ "$(sed -n 4p hyps)" = '{"hyps": [{"text": "", "score": 0.0}]}' ] || fail "$(sed -n 4p hyps)"
grep -qE '^\{"hyps": \[(\{"text": "[^"]*", "score": -?[0-9.]+\}(, )?){3}\]\}$' hyps ||
    fail "--n-best 3: $(head -1 hyps)"
t m --n-best 3 <in >moses
[ "$(grep -c '|||' moses)" -eq 95 ] || fail "31 lines of 3, 2 of 1: $(grep -c '|||' moses)"
[ "$(grep '^32 ' moses | head -1 | awk -F' [|][|][|] ' '{ print $2 }')" = "$(tail -1 out)" ] ||
    fail "the best of three: $(tail -3 moses)"
grep '^0 ' moses | awk -F' [|][|][|] ' 'NR > 1 && $3 > last { exit 1 } { last = $3 }' ||
    fail "scores rise: $(head -3 moses)"

# Several models choose together; one beside itself changes nothing.
few() {
    "$QKV" train translate --quiet --threads 1 --model nano --source s --target t --steps 2 "$@" \
        2>err || fail "train translate $*: $(cat err)"
}
t m --ensemble m <s | cmp -s - all || fail "--ensemble m is another translation"
few --tokenizer-from m --out second
t m --ensemble second m --json --n-best 2 <in >together
[ "$(wc -l <together)" -eq 33 ] || fail "$(wc -l <together) objects with --ensemble"
t m --json --n-best 2 <in | cmp -s - together && fail "--ensemble is not heeded"
few --vocab 40 --out other
refused "other: the tokenizer of m expected, found one with another token" translate m \
    --ensemble second other
refused "nowhere" translate m --ensemble nowhere
mv second/model.safetensors second/gone
refused "second" translate m --ensemble second

# A model that has learnt nothing repeats itself where long answers score well: at most 3 tokens for
# each of a line's 4, and 10 more.
few --vocab 60 --warmup 5 --set dropout=0 --lr 0.01 --valid-last 1 --out raw
longest() {
    t raw --length-penalty 20 "$@" <s >long
    words=$(awk 'NF > n { n = NF } END { print n + 0 }' long)
}
longest --max-length-factor 0
[ "$words" -gt 50 ] || fail "--max-length-factor 0: $words words"
longest --max-length-factor 1
few=$words
longest
{ [ "$few" -gt 0 ] && [ "$few" -le 14 ]; } || fail "--max-length-factor 1: $few words"
{ [ "$words" -gt "$few" ] && [ "$words" -le 22 ]; } || fail "$words words"

# A translator of the other direction rescores what was found: its mean log p of the line's tokens
# is added, and the best sum comes first.
"$QKV" train translate --quiet --threads 1 --model nano --source t --target s --steps 20 \
    --out back 2>err || fail "train translate, the other direction: $(cat err)"
rescored() { t m --n-best 4 --reverse back --reverse-weight "$1" --json <in; }
t m --n-best 4 --json <in >hyps
rescored 0 | cmp -s - hyps || fail "--reverse-weight 0 changes something"
rescored 1 >once
rescored 2 >twice
one=$(sed -n 1p out)
head -1 in >line
printf '%s\n' "$one" >found
"$QKV" eval back --source found --target line --json --threads 1 >loss 2>err || fail "$(cat err)"
python3 - "$one" <<'END' || fail "--reverse: what is added"
import json, sys
best = sys.argv[1]
names = ("hyps", "once", "twice")
rows = [[json.loads(line)["hyps"] for line in open(name)] for name in names]
moved = 0
for plain, once, twice in zip(*rows):
    scores = [{h["text"]: h["score"] for h in hyps} for hyps in (plain, once, twice)]
    assert scores[0].keys() == scores[1].keys() == scores[2].keys()
    for text, score in scores[0].items():
        added = scores[1][text] - score
        assert not plain[0]["text"] or added < 0
        assert abs(scores[2][text] - score - 2 * added) < 1e-9, (text, added)
    assert [h["score"] for h in twice] == sorted((h["score"] for h in twice), reverse=True)
    moved += [h["text"] for h in plain] != [h["text"] for h in twice]
assert moved > 3, moved
added = {h["text"]: h["score"] for h in rows[1][0]}[best] - rows[0][0][0]["score"]
assert abs(added + json.load(open("loss"))["loss"]) < 1e-4, added
END
t m --reverse back --reverse-weight 2 --n-best 2 --json <in >two
[ "$(head -1 two)" = "$(head -1 twice | sed 's/\(, {[^}]*}\)\{2\}]}$/]}/')" ] ||
    fail "the best two of four: $(head -1 two)"
t m --reverse back --reverse-weight 2 <in >first
[ "$(head -1 twice | sed 's/^{"hyps": [[]{"text": "\([^"]*\).*/\1/')" = "$(head -1 first)" ] ||
    fail "the best of one: $(head -1 first)"
t m --ensemble m --reverse back --reverse-weight 2 --batch 5 <in | cmp -s - first ||
    fail "--reverse depends on the batch"
refused "nowhere" translate m --reverse nowhere
cp -r "$QKV_SOURCE/tests/golden/models/t5" t5
cp m/*.spm m/vocab.json m/*tokens* t5
refused "no t5 rescores" translate m --reverse t5
refused "is rescored by another" translate t5 --reverse m
mv back/model.safetensors back/gone
refused "back" translate m --reverse back

# The directory says how long, the command line says otherwise.
sed -i 's/"max_length": 512/"max_length": 3/' m/generation_config.json
t m <s >short
cmp -s short all && fail "max_length of the directory is not heeded"
t m --max-length 512 <s | cmp -s - all || fail "--max-length is not heeded"
printf '{"num_beams": 1, "decoder_start_token_id": 42}' >m/generation_config.json
refused "--n-best: at most as many as there are beams, 1, expected, found 2" translate m --n-best 2
printf '{"num_beams": "many"}' >m/generation_config.json
refused 'generation_config.json: field "num_beams"' translate m
rm m/generation_config.json

# Too long for the model: cut, and said so. Not a translator; nothing there; nonsense.
awk 'BEGIN { for (i = 0; i < 600; i++) printf "1 "; print "" }' >long
"$QKV" translate m --threads 1 --beam 1 --max-length 9 --file long >out 2>err || fail "$(cat err)"
has err "1 lines were longer"
[ "$(wc -l <out)" -eq 1 ] || fail "a long line gave $(wc -l <out)"
refused "nowhere/config.json" translate nowhere
refused "nothing: cannot be opened" translate m --file nothing
refused "answers of 599 tokens" translate m --max-length 600
refused "a gpt2 model does not translate" translate "$QKV_SOURCE/tests/golden/models/gpt2"
"$QKV" translate m --beam 0 <in >answer 2>err
[ $? -eq 2 ] || fail "--beam 0 is not a usage error"
exit "$failed"
