#!/bin/sh
# test_gguf.sh - `qkv convert` to GGUF and back: weights bit-equal, ids of odd text and the chat
# template the same, the same text made; fewer bits, what `qkv quantize` wrote, `qkv info`, and what
# is refused.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM
fail() { echo "gguf: $*"; exit 1; }
number() { sed 's/.*"loss": \([0-9.]*\).*/\1/'; }
# near A B SHARE: they differ by no more than that share of A.
near() { awk -v a="$1" -v b="$2" -v s="$3" 'BEGIN { d = a - b; exit !(d < s * a && -d < s * a) }'; }
# refused CODE SENTENCE ARGUMENTS... : it fails with the code and says so in one line.
refused() {
    code=$1 sentence=$2
    shift 2
    found=0
    "$QKV" "$@" --quiet >"$out/note" 2>&1 || found=$?
    [ "$found" -eq "$code" ] || fail "$*: exit $found: $(cat "$out/note")"
    [ "$(wc -l <"$out/note")" -eq 1 ] || fail "$*: not one line: $(cat "$out/note")"
    grep -qF -- "$sentence" "$out/note" || fail "$*: expected \"$sentence\": $(cat "$out/note")"
}
convert() { "$QKV" convert "$@" --quiet; }

cat "$QKV_SOURCE"/docs/*.md | head -c 60000 >"$out/text"
printf 'odd \303\251\344\270\255 \360\237\230\200 <|endoftext|>\tx  1234\n' >"$out/odd"
tail -c 2000 "$out/text" >>"$out/odd"
for layout in llama gpt2 qwen3; do
    "$QKV" train lm --data "$out/text" --model nano --vocab 400 --layout $layout --steps 20 \
        --threads 1 --quiet --out "$out/$layout"
    printf '{%% for m in messages %%}{{ m["content"] ~ eos_token }} %s\n{%% endfor %%}' $layout \
        >"$out/$layout/chat_template.jinja"
    convert "$out/$layout" "$out/$layout.gguf" --to gguf
    convert "$out/$layout.gguf" "$out/$layout-back"
    cmp "$out/$layout/model.safetensors" "$out/$layout-back/model.safetensors" ||
        fail "$layout: other weights"
    for at in "" -back .gguf; do
        "$QKV" tokenize "$out/$layout$at" --file "$out/odd" >"$out/ids$at"
        "$QKV" generate "$out/$layout$at" --prompt "The " --tokens 20 --greedy >"$out/said$at"
    done
    for at in -back .gguf; do # a file in a directory's place, too
        cmp "$out/ids" "$out/ids$at" || fail "$layout$at: other ids"
        cmp "$out/said" "$out/said$at" || fail "$layout$at: another text"
    done
    # The file's own template, which has its end token, makes the text of a conversation.
    echo '{"messages": [{"role": "user", "content": "Hi"}]}' >"$out/hi.jsonl"
    for at in "" .gguf; do
        "$QKV" chat "$out/$layout$at" --file "$out/hi.jsonl" --show-text >"$out/talk$at"
    done
    grep -q "^Hi<.*> $layout" "$out/talk.gguf" || fail "$layout.gguf: $(cat "$out/talk.gguf")"
    cmp "$out/talk" "$out/talk.gguf" || fail "$layout.gguf: another text of a conversation"
    grep -q "\"chat_template\": \".* $layout\\\\n{% endfor %}\"" \
        "$out/$layout-back/tokenizer_config.json" || fail "$layout: the template is lost"
    # From tokenizer_config.json, too.
    convert "$out/$layout-back" "$out/$layout-2.gguf" --to gguf
    "$QKV" info "$out/$layout-2.gguf" | grep -q "^tokenizer.chat_template = .* $layout" ||
        fail "$layout: the template is not in tokenizer_config.json"
done

whole=$("$QKV" eval "$out/llama" --file "$out/text" --json | number)
for dtype in f16 bf16 q8_0 q4_0; do
    convert "$out/llama" "$out/$dtype.gguf" --to gguf --dtype $dtype
    convert "$out/$dtype.gguf" "$out/$dtype"
    loss=$("$QKV" eval "$out/$dtype" --file "$out/text" --json | number)
    near "$whole" "$loss" 0.01 || fail "$dtype: loss $loss, in f32 $whole"
done
[ "$(wc -c <"$out/q8_0.gguf")" -lt $(($(wc -c <"$out/llama.gguf") / 3)) ] || fail "q8_0 is large"
"$QKV" info "$out/q8_0.gguf" >"$out/info"
grep -q '^general.architecture = "llama"$' "$out/info" || fail "info: no architecture"
grep -q '^Q8_0  blk.0.attn_q.weight (64, 64)$' "$out/info" || fail "info: no Q8_0"
"$QKV" info "$out/q8_0.gguf" --json | grep -q '"tokenizer.ggml.pre": "\\"gpt-2\\""' ||
    fail "info --json"

# Integers of `qkv quantize` are kept: of 4 bits the same numbers, of 8 their scales are halves.
for bits in 4 8; do
    type=$([ $bits = 4 ] && echo Q4_0 || echo Q8_0)
    "$QKV" quantize "$out/llama" --to int$bits --out "$out/int$bits" --quiet
    convert "$out/int$bits" "$out/int$bits.gguf" --to gguf
    "$QKV" info "$out/int$bits.gguf" | grep -q "^$type  blk.1.ffn_down.weight" || fail "no $type"
    convert "$out/int$bits.gguf" "$out/int$bits-back"
    a=$("$QKV" eval "$out/int$bits" --weights f32 --file "$out/text" --json | number)
    b=$("$QKV" eval "$out/int$bits-back" --file "$out/text" --json | number)
    near "$a" "$b" 0.0005 || fail "int$bits: loss $a, of the GGUF file $b"
done

a=$("$QKV" eval "$out/llama" --weights int8 --file "$out/text" --json | number)
b=$("$QKV" eval "$out/llama.gguf" --weights int8 --file "$out/text" --json | number)
[ "$a" = "$b" ] || fail "--weights int8: loss $a, of the GGUF file $b"

# A unigram model in Marian's folder becomes one list of tokens.
"$QKV" train tokenizer --data "$out/text" --tokenizer unigram --vocab 300 --quiet \
    --out "$out/tokens"
"$QKV" train lm --data "$out/text" --model nano --tokenizer-from "$out/tokens" --steps 2 \
    --threads 1 --quiet --out "$out/unigram"
convert "$out/unigram" "$out/unigram.gguf" --to gguf
convert "$out/unigram.gguf" "$out/unigram-back"
for at in "" .gguf -back; do
    "$QKV" tokenize "$out/unigram$at" --file "$out/odd" >"$out/ids$at"
    cmp "$out/ids" "$out/ids$at" || fail "unigram$at: other ids"
done
grep -q '"tokenizer_class": "PreTrainedTokenizerFast"' "$out/unigram-back/tokenizer_config.json" ||
    fail "unigram: no tokenizer.json"

# What has no place, or is no model.
"$QKV" train lm --data "$out/text" --model nano --tokenizer char --steps 1 --threads 1 --quiet \
    --out "$out/char"
refused 1 'no place for a WordLevel tokenizer' convert "$out/char" "$out/x.gguf" --to gguf
refused 1 'no place for a bert (BertForMaskedLM)' \
    convert "$QKV_SOURCE/tests/golden/models/bert" "$out/x.gguf" --to gguf
refused 1 'field "hidden_act": expected "silu"' \
    convert "$QKV_SOURCE/tests/golden/models/llama-tied" "$out/x.gguf" --to gguf
refused 1 'is there already' convert "$out/llama" "$out/llama.gguf" --to gguf
refused 2 '--dtype q8_0: expected --to gguf' convert "$out/llama" "$out/x" --dtype q8_0
refused 2 '--shard' convert "$out/llama" "$out/x.gguf" --to gguf --shard 1
refused 2 'is no model directory' convert "$out/llama.gguf" "$out/x.gguf" --to gguf
refused 2 'is a GGUF file' convert "$out/llama.gguf" "$out/x" --under model
head -c 5000 "$out/llama.gguf" >"$out/cut.gguf"
echo text >"$out/text.gguf"
refused 1 'text.gguf: expected a file that begins with GGUF' info "$out/text.gguf"
refused 1 'none.gguf: cannot be opened' generate "$out/none.gguf" --prompt a
refused 1 'expected a model directory, found' quantize "$out/llama.gguf" --to int8 --out "$out/x"
refused 1 'cut.gguf' convert "$out/cut.gguf" "$out/x"
refused 1 'cut.gguf' info "$out/cut.gguf"
LC_ALL=C sed 's/tokenizer.ggml.pre\(.\{12\}\)gpt-2/tokenizer.ggml.pre\1gpt-3/' "$out/llama.gguf" \
    >"$out/pre.gguf"
refused 1 '"gpt-3" is no pre-tokenizer' convert "$out/pre.gguf" "$out/x"
for path in "$out/x" "$out/x.gguf"; do
    [ ! -e "$path" ] || fail "$path was written"
done
