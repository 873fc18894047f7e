#!/bin/sh
# test_lora.sh - adapters: trained, killed at any moment and resumed to the same bytes; put on their
# model, merged, stacked and left out; a new head beside one; and what is refused.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
say() { echo "lora: $*"; failed=1; }
cat "$QKV_SOURCE"/docs/*.md | head -c 40000 >text
cat "$QKV_SOURCE"/src/train/*.c | head -c 20000 >other
cat "$QKV_SOURCE"/tools/*.py | head -c 20000 >third
small="--model nano --length 16 --batch 4 --threads 1 --quiet"
# shellcheck disable=SC2086
qkv() { "$QKV" "$@" 2>errors || say "$*: $(cat errors)"; }

# shellcheck disable=SC2086
qkv train lm --data text --vocab 300 --steps 40 $small --out base
echo "{{ messages[0].content }}" >base/chat_template.jinja
common="train lm --data other --init base --lora r=4,dropout=0.1 --steps 60 --batch 4 --length 16 \
    --save-every 1 --eval-every 20 --ema 0.9 --threads 1 --quiet
    --dtype f32" # the fastest kind may not be the same one each time
# shellcheck disable=SC2086
qkv $common --out straight
cmp base/chat_template.jinja straight/chat_template.jinja || say "the chat template was not kept"
[ "$(qkv chat straight --message ab --show-text)" ] || say "no chat with an adapter"
[ -f straight/model.safetensors ] && say "frozen weights were saved"
grep -q '"base_model_name_or_path": "/.*/base"' straight/adapter_config.json ||
    say "the model beneath is not named: $(cat straight/adapter_config.json)"

# Killed three times at other places.
for line in 1 4 6; do
    # shellcheck disable=SC2086
    "$QKV" $common --out killed --resume 2>errors &
    pid=$!
    while kill -0 "$pid" 2>null; do
        [ -f killed/train/metrics.jsonl ] &&
            [ "$(wc -l <killed/train/metrics.jsonl)" -ge "$line" ] && break
        sleep 0.02
    done
    kill -s KILL "$pid" 2>null
    wait "$pid" 2>null
done
# shellcheck disable=SC2086
qkv $common --out killed --resume
cmp straight/adapter_model.safetensors killed/adapter_model.safetensors ||
    say "killed and resumed: another adapter"
for d in straight killed; do
    sed -e '/^{"kind": "machine"/d' -e 's/"seconds": [^,]*, //' $d/train/metrics.jsonl >$d.log
done
cmp straight.log killed.log || say "killed and resumed: another log"

# On its model, from its own directory, and merged, it is the same; in halves that add up too.
loss() { "$QKV" eval "$@" --file other --json 2>errors | sed 's/.*"loss": \([0-9.]*\).*/\1/'; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-4 && -d < 1e-4) }'; }
qkv convert straight merged --merge --quiet
qkv convert base both --merge --adapter straight=0.5 --adapter straight=0.5 --quiet
qkv convert straight again --quiet
cmp straight/adapter_model.safetensors again/adapter_model.safetensors ||
    say "converting changed the adapter"
a=$(loss straight) plain=$(loss base)
near "$a" "$plain" && say "the adapter makes no difference: $a"
for what in merged both again "base --adapter straight" \
    "base --adapter straight=0.25 --adapter straight=0.75"; do
    # shellcheck disable=SC2086
    b=$(loss $what)
    near "$a" "$b" || say "$what: loss $b, of the adapter's directory $a"
done
b=$(loss base --adapter straight=0)
[ "$b" = "$plain" ] || say "none of the adapter: loss $b, of the model beneath $plain"
[ "$(qkv info merged | tail -1 | cut -d, -f1-2)" = "$(qkv info base | tail -1 | cut -d, -f1-2)" ] ||
    say "merged: $(qkv info merged | tail -1), base: $(qkv info base | tail -1)"
head=$(qkv generate straight --prompt ab --tokens 9 --greedy)
[ "$head" = "$(qkv generate base --adapter straight --prompt ab --tokens 9 --greedy)" ] ||
    say "generate says something else with --adapter"

qkv look base "ab ab" --adapter straight --adapter straight=0.5 --out seen.html --quiet >/dev/null
grep -q "model with straight, straight=0.5<" seen.html || say "the page names no adapters"
qkv look straight "ab ab" --json | grep -q '"adapters": *"straight"' || say "look names no adapter"

# Frozen weights in fewer bits; an adapter that is trained on.
for weights in bf16 int8 int4; do
    # shellcheck disable=SC2086
    qkv train lm --data other --init base --lora "targets=q_proj+v_proj,weights=$weights" \
        --steps 8 --batch 4 --length 16 --threads 1 --quiet --out $weights
    near "$(loss $weights --weights $weights)" "$plain" && say "$weights: nothing was learnt"
done
qkv train lm --data third --init straight --steps 40 --batch 4 --length 16 --threads 1 --quiet \
    --out on
[ -f on/adapter_model.safetensors ] || say "an adapter that is trained on is none"
cmp -s on/adapter_model.safetensors straight/adapter_model.safetensors && say "it learnt nothing"

# A classifier's new head is trained whole, and saved with the adapter.
printf '%s\n' "good	a fine film" "bad	a poor film" "good	fine work" "bad	poor work" >some
cat some some some some >labels.tsv
# shellcheck disable=SC2086
qkv train mlm --data text --vocab 300 --steps 4 $small --out words
qkv train classify --data labels.tsv --init words --lora r=2 --steps 60 --batch 8 --threads 1 \
    --quiet --out labels
grep -A3 modules_to_save labels/adapter_config.json | grep -q classifier ||
    say "the head is not saved: $(cat labels/adapter_config.json)"
[ "$(qkv classify labels --text "a fine film" | cut -f1)" ] || say "it labels nothing"

# refused SENTENCE ARGUMENTS... : one line, and nothing is written.
refused() {
    sentence=$1
    shift
    "$QKV" "$@" --quiet >note 2>&1 && say "$*: was not refused"
    [ "$(wc -l <note)" -eq 1 ] || say "$*: not one line: $(cat note)"
    grep -qF -- "$sentence" note || say "$*: expected \"$sentence\": $(cat note)"
    [ -e no ] && say "$*: left something behind"
    rm -rf no
}
lora() { refused "$1" train lm --data other --init base --lora "$2" --steps 1 --out no; }
refused "--lora: --init expected" train lm --data other --lora r=2 --steps 1 --out no
lora 'key=value expected, as in r=8,alpha=16, found "r"' r
lora 'key=value expected, as in r=8,alpha=16, found ""' ""
lora 'r: expected an integer from 1 to 65536, found "0"' r=0
lora 'unknown field rank' rank=2
lora 'r is given twice' r=2,alpha=3,r=4
lora 'targets=nothing: a linear layer of the llama expected' targets=nothing
lora 'modules=nothing: a module of the llama expected' modules=nothing
refused "straight is an adapter already" train lm --data other --init straight --lora r=2 \
    --steps 1 --out no
"$QKV" convert base base.gguf --to gguf --quiet || say "no GGUF file"
refused "--lora: a model directory expected, found base.gguf" train lm --data other \
    --init base.gguf --lora r=2 --steps 1 --out no
refused "base has no adapter, and --adapter gives none" convert base no --merge
refused "an adapter's directory expected" generate base --adapter text
refused "a number expected" generate base --adapter straight=nan
refused "merge them first" quantize straight --out no
cp -r straight spoilt
# spoil SENTENCE SED : a changed adapter_config.json
spoil() {
    sed "$2" straight/adapter_config.json >spoilt/adapter_config.json
    refused "$1" generate spoilt
}
spoil '"peft_type": "LORA" expected, found "IA3"' 's/LORA/IA3/'
spoil '"bias": "none" expected, found "all"' 's/"none"/"all"/'
spoil '"use_dora": not supported' 's/"use_rslora"/"use_dora": true, "use_rslora"/'
spoil '"alpha_pattern": alphas of single modules' 's/"r":/"alpha_pattern": {"q": 1}, "r":/'
spoil '"r": expected an integer from 1 to 65536, found 0' 's/"r": 4/"r": 0/'
spoil 'a model directory of this machine expected, found "/nowhere"' 's|"/.*base"|"/nowhere"|'
spoil 'a model directory expected, found none' 's|"/.*base"|null|'
spoil 'expected JSON, found an empty file' 'd'
cp straight/adapter_config.json spoilt
cp base/model.safetensors spoilt/adapter_model.safetensors
refused "no tensor is the lora_A of a linear layer" generate spoilt
head -c 900 straight/adapter_model.safetensors >spoilt/adapter_model.safetensors
refused "spoilt/adapter_model.safetensors" generate spoilt
rm spoilt/adapter_model.safetensors
refused "adapter_model.safetensors" generate spoilt
exit $failed
