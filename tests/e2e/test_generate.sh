#!/bin/sh
# test_generate.sh - a model trained for a moment: qkv generate in all its forms, qkv convert to
# every number type and to shards, eval of what came out, and directories that are broken.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

fail() { echo "$*"; failed=1; }
# has FILE WORDS
has() { grep -qF -- "$2" "$1" || fail "no \"$2\" in: $(head -5 "$1")"; }
q() { "$QKV" "$@" --threads 1 2>"$out/err" || fail "qkv $*: $(cat "$out/err")"; }

# refused WORDS ARGUMENT...: exit 1, one line, that has the words.
refused() {
    words=$1
    shift
    "$QKV" "$@" --threads 1 >"$out/answer" 2>"$out/err" </dev/null
    [ $? -eq 1 ] || fail "qkv $*: not exit 1"
    [ "$(wc -l <"$out/err")" -eq 1 ] || fail "qkv $*: not one line: $(cat "$out/err")"
    has "$out/err" "$words"
}

q train lm --data "$QKV_SOURCE/LICENSE" "$QKV_SOURCE/README.md" --tokenizer char --model nano \
    --length 32 --batch 2 --steps 3 --out "$out/m" >/dev/null

# One object: the continuation alone, and as many ids as tokens were asked for.
q generate "$out/m" --prompt 'The ' --tokens 7 --greedy --json >"$out/greedy"
grep -qE '^\{"text": "[^"]*", "ids": \[([0-9]+, ){6}[0-9]+\]\}$' "$out/greedy" ||
    fail "generate --json: $(cat "$out/greedy")"
q generate "$out/m" --prompt 'The ' --tokens 7 --temperature 0 --json >"$out/cold"
cmp -s "$out/greedy" "$out/cold" || fail "temperature 0 is not greedy"

# As many as asked for, one a line; each its own; the same seed, the same text.
q generate "$out/m" --prompt 'The ' --tokens 20 --count 3 --seed 5 --json >"$out/three"
q generate "$out/m" --prompt 'The ' --tokens 20 --count 3 --seed 5 --json >"$out/again"
q generate "$out/m" --prompt 'The ' --tokens 20 --count 2 --seed 6 --json >"$out/other"
[ "$(wc -l <"$out/three")" -eq 3 ] || fail "--count 3 gave $(wc -l <"$out/three") lines"
[ "$(sort -u "$out/three" | wc -l)" -eq 3 ] || fail "--count repeats itself"
cmp -s "$out/three" "$out/again" || fail "the same seed, another text"
[ "$(head -1 "$out/three")" != "$(head -1 "$out/other")" ] || fail "another seed, the same text"

# Plain text begins with the prompt; from a file too; a reader that goes away ends it.
q generate "$out/m" --prompt 'The ' --tokens 20 --seed 5 >"$out/text"
has "$out/text" 'The '
printf 'The ' >"$out/prompt"
q generate "$out/m" --file "$out/prompt" --tokens 20 --seed 5 >"$out/filed"
cmp -s "$out/text" "$out/filed" || fail "--file is not --prompt"
"$QKV" generate "$out/m" --prompt 'The ' --tokens 1000000 --threads 1 2>/dev/null | head -c 40 \
    >"$out/head"
[ "$(wc -c <"$out/head")" -eq 40 ] || fail "nothing streamed into a pipe"

# A prompt on each line, several at once: what each gives alone, in the order of the lines.
printf 'The \nThe library\nA\nThe libs\nThe \n' >"$out/lines"
while read -r line; do
    q generate "$out/m" --prompt "$line" --tokens 20 --greedy --json
done <"$out/lines" >"$out/singly"
for batch in 1 2 8; do
    q generate "$out/m" --lines "$out/lines" --tokens 20 --greedy --json --batch $batch \
        >"$out/lined"
    [ "$(wc -l <"$out/lined")" -eq 5 ] || fail "--lines --batch $batch: $(cat "$out/lined")"
    [ "$(sed -n 2,4p "$out/lined")" = "$(sed -n 2,4p "$out/singly")" ] ||
        fail "--lines --batch $batch is not each line: $(diff "$out/lined" "$out/singly")"
    [ "$(head -1 "$out/lined")" = "$(tail -1 "$out/lined")" ] || fail "a line twice is two texts"
done
q generate "$out/m" --lines "$out/lines" --tokens 9 --count 2 --batch 3 >"$out/lined"
[ "$(grep -c '^The ' "$out/lined")" -ge 6 ] || fail "--lines --count 2: $(cat "$out/lined")"
printf 'The \n\nA\n' >"$out/gap"
refused 'gap: line 2: the prompt has no tokens' generate "$out/m" --lines "$out/gap"
: >"$out/empty"
refused 'empty: no lines' generate "$out/m" --lines "$out/empty"
"$QKV" generate "$out/m" --lines "$out/lines" --file "$out/prompt" >/dev/null 2>"$out/err"
[ $? -eq 2 ] || fail "--lines and --file: not exit 2"
has "$out/err" 'found both'

# A line a token, the likeliest first, one of them marked: greedy is no certainty.
q generate "$out/m" --prompt 'The ' --tokens 4 --show-next 3 --greedy >"$out/next"
[ "$(wc -l <"$out/next")" -eq 4 ] || fail "--show-next: $(cat "$out/next")"
[ "$(grep -c '^\*[ 0-9.]*% "' "$out/next")" -eq 4 ] || fail "--show-next: $(cat "$out/next")"
grep -q '100.0%' "$out/next" && fail "--show-next shows the sampler: $(cat "$out/next")"
q generate "$out/m" --prompt 'The ' --tokens 2 --show-next 3 --greedy --json >"$out/next.json"
[ "$(grep -o '"drawn": true' "$out/next.json" | wc -l)" -eq 2 ] || fail "$(cat "$out/next.json")"
[ "$(grep -o '"prob": 0' "$out/next.json" | wc -l)" -eq 6 ] || fail "$(cat "$out/next.json")"
"$QKV" generate "$out/m" --prompt 'The ' --file "$out/next" 2>"$out/err" && fail "one is lost"
grep -q 'one of them expected, found both' "$out/err" || fail "$(cat "$out/err")"
[ "$(head -1 "$out/next" | grep -o '% "' | wc -l)" -eq 3 ] ||
    fail "--show-next 3: $(cat "$out/next")"
refused "no tokens" generate "$out/m" --prompt '' --tokens 4

# A text ends at whichever of the model's ends comes first: here the fourth token that was made.
q generate "$out/m" --prompt 'The ' --tokens 7 --seed 5 --json >"$out/whole"
ids=$(sed 's/.*"ids": \[//; s/\].*//' "$out/whole")
end=$(echo "$ids" | awk -F', ' '{ print $4 }')
kept=$(echo "$ids" | awk -F', ' '{ for (i = 1; $i != $4; i++) { printf "%s%s", s, $i; s = ", " } }')
cp -r "$out/m" "$out/ends"
grep -v '"eos_token_id"' "$out/m/config.json" | sed "1s/{/{ \"eos_token_id\": [60, $end],/" \
    >"$out/ends/config.json"
q generate "$out/ends" --prompt 'The ' --tokens 7 --seed 5 --json >"$out/ended"
has "$out/ended" "\"ids\": [$kept]}"

# Converted: there and back the same bytes, in shards the same text, and tokenizer files as well.
q convert "$out/m" "$out/bf16" --dtype bf16 >/dev/null
q convert "$out/bf16" "$out/wide" >/dev/null
q convert "$out/wide" "$out/narrow" --dtype bf16 >/dev/null
cmp -s "$out/bf16/model.safetensors" "$out/narrow/model.safetensors" || fail "bf16 is not kept"
q convert "$out/m" "$out/f32" >/dev/null
cmp -s "$out/m/model.safetensors" "$out/f32/model.safetensors" || fail "f32 is not the same file"
cmp -s "$out/m/config.json" "$out/f32/config.json" || fail "config.json changed"
cmp -s "$out/m/tokenizer.json" "$out/f32/tokenizer.json" || fail "tokenizer.json was not copied"
q generate "$out/f32" --prompt 'The ' --tokens 7 --greedy --json >"$out/again"
cmp -s "$out/greedy" "$out/again" || fail "converted, it writes something else"
has "$out/bf16/config.json" '"bfloat16"'
q convert "$out/m" "$out/f16" --dtype f16 >/dev/null
q eval "$out/f16" --file "$QKV_SOURCE/LICENSE" --json >"$out/eval"
has "$out/eval" '"bits_per_byte"'

# Refused, and nothing written.
refused "is not empty" convert "$out/m" "$out/f32"
refused "nowhere/config.json: cannot be opened" convert "$out/nowhere" "$out/new"
[ "$QKV_PYTORCH" = 0 ] ||
    refused "LICENSE: expected a PyTorch file" convert "$QKV_SOURCE/LICENSE" "$out/new"
cp -r "$out/f32" "$out/bad"
printf '{"model_type": "gpt5"}' >"$out/bad/config.json"
refused 'bad/config.json: field "model_type"' convert "$out/bad" "$out/new"
refused 'bad/config.json: field "model_type"' generate "$out/bad" --prompt a
refused 'bad/config.json: field "model_type"' eval "$out/bad" --file "$QKV_SOURCE/LICENSE"
refused 'bad/config.json: field "model_type"' train lm --data "$QKV_SOURCE/LICENSE" --steps 1 \
    --init "$out/bad" --out "$out/new"
cp "$out/f32/config.json" "$out/bad/config.json"
head -c 1000 "$out/f32/model.safetensors" >"$out/bad/model.safetensors"
refused 'bad/model.safetensors' convert "$out/bad" "$out/new"
cp "$out/f32/model.safetensors" "$out/bad/model.safetensors"
printf '{"model": 3}' >"$out/bad/tokenizer.json"
refused 'bad/tokenizer.json' generate "$out/bad" --prompt a
rm "$out/bad/tokenizer.json"
refused 'tokenizer.json' generate "$out/bad" --prompt a
refused '--model: no preset "huge"' train lm --data "$QKV_SOURCE/LICENSE" --steps 1 --model huge \
    --out "$out/new"
[ ! -e "$out/new" ] || fail "something was written: $(ls "$out/new")"
exit "$failed"
