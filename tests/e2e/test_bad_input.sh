#!/bin/sh
# test_bad_input.sh - files that are missing, empty, cut short, of another kind or hostile: exit 1,
# one sentence on the standard error that names the file, nothing written or lost.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$out"; rm -rf "$out"' EXIT
cd "$out" || exit 1
# shellcheck source=tests/support/bad_input.sh
. "$QKV_SOURCE/tests/support/bad_input.sh"

head -c 6000 "$QKV_SOURCE/src/train/train.c" >text
fast="--tokenizer char --model nano --length 16 --batch 2 --steps 2 --threads 1 --quiet"
# shellcheck disable=SC2086 # several words
"$QKV" train lm --data text --out model $fast || exit 1

cat >table <<'TABLE'
no-such: cannot be opened|train lm --data no-such --out new FAST
nothing: the file is empty|train lm --data nothing --out new FAST
folder: expected a file, found a folder|train lm --data folder --out new FAST
latin1: |train lm --data latin1 --out new FAST
latin1: |train lm --data text --valid latin1 --out new FAST
no-such: cannot be opened|train lm --data text --valid no-such --out new FAST
nothing: the file is empty|train lm --data text --valid nothing --out new FAST
short: the training text has|train lm --data short --out new FAST
--valid-last: |train lm --data text --valid-last 100% --out new FAST
--valid-last: |train lm --data text --valid-last 9999999 --out new FAST
--valid-last: |train lm --data text --valid-last many --out new FAST
one: the held-out text has|train lm --data text --valid one --out new FAST
short: the training text has|train lm --data short --valid text --out new FAST
held-out text has|train lm --data text --valid-last 1 --out new FAST
no preset "huge"|train lm --data text --out new FAST --model huge
7 heads do not divide|train lm --data text --out new FAST --set num_attention_heads=7
not be made|train lm --data text --out text/new FAST
not be made|train lm --data text --out text FAST
is not empty|train lm --data text --out other FAST
is not empty|train lm --data text --out model FAST
other holds something else|train lm --data text --out other --resume FAST
bare holds something else|train lm --data text --out bare --resume FAST
no-such: |train lm --data text --out new --init no-such FAST
folder: no tokenizer|train lm --data text --out new --init folder FAST
--length: at most 16|train lm --data text --out new --init model FAST --length 17
greek|train lm --data greek --out new --init model FAST
state.safetensors: |cut train/state.safetensors 2000|train lm --data text --out @ --resume FAST
state.safetensors: |empty train/state.safetensors|train lm --data text --out @ --resume FAST
state.safetensors: |put train/state.safetensors junk|train lm --data text --out @ --resume FAST
train-tokens.safetensors is missing|drop train/train-tokens.safetensors|
    train lm --data text --out @ --resume FAST
train-tokens.safetensors: |cut train/train-tokens.safetensors 100|
    train lm --data text --out @ --resume FAST
train.tokens: written by an earlier version|put train/train.tokens qkvtoken|
    train lm --data text --out @ --resume FAST
train.pixels: written by an earlier version|put train/train.pixels qkvpixel|
    train lm --data text --out @ --resume FAST
tokenizer|drop tokenizer.json|train lm --data text --out @ --resume FAST
config.json|drop config.json|train lm --data text --out @ --resume FAST
no-such/config.json: |eval no-such
config.json|eval folder
config.json|drop config.json|eval @
config.json: |empty config.json|eval @
config.json: |cut config.json 30|eval @
config.json: |put config.json [1, 2]|eval @
config.json: |put config.json {"model_type": "swin"}|eval @
config.json: field "hidden_size"|edit config.json s/"hidden_size": 64/"hidden_size": "64"/|eval @
config.json: field "hidden_size"|edit config.json s/"hidden_size": 64/"hidden_size": -64/|eval @
model.safetensors: |edit config.json s/"hidden_size": 64/"hidden_size": 32/|eval @
config.json: field "num_hidden_layers"|edit config.json s/hidden_layers": 2/&000000000/|eval @
model.safetensors|drop model.safetensors|eval @
model.safetensors: |empty model.safetensors|eval @
model.safetensors: |cut model.safetensors 5000|eval @
model.safetensors: |cut model.safetensors 7|eval @
model.safetensors: |put model.safetensors ~~~~~~~~{}|eval @
model.safetensors: |dir model.safetensors|eval @
train.tokens: written by an earlier version|
    rename train/valid-tokens.safetensors train/train.tokens|eval @
holds no held-out data|drop train/valid-tokens.safetensors|eval @
valid-tokens.safetensors: |cut train/valid-tokens.safetensors 40|eval @
valid-tokens.safetensors: |empty train/valid-tokens.safetensors|eval @
no-such: cannot be opened|eval model --file no-such
nothing: the file is empty|eval model --file nothing
folder: expected a file, found a folder|eval model --file folder
latin1: |eval model --file latin1
greek: |eval model --file greek
one: |eval model --file one
no-such/config.json: |generate no-such --prompt the
tokenizer|drop tokenizer.json|generate @ --prompt the
tokenizer.json: |cut tokenizer.json 200|generate @ --prompt the
tokenizer.json: |empty tokenizer.json|generate @ --prompt the
tokenizer.json: |put tokenizer.json {"model": {"type": "WordPiece"}}|generate @ --prompt the
spoilt: no tokenizer|dir tokenizer.json|generate @ --prompt the
model.safetensors: |cut model.safetensors 5000|generate @ --prompt the
no-such: cannot be opened|generate model --file no-such
latin1: |generate model --file latin1
no-such: |tokenize no-such --file text
no-such: cannot be opened|tokenize model --file no-such
folder: expected a file, found a folder|tokenize model --file folder
latin1: |tokenize model --file latin1
greek: |tokenize model --file greek
tokenizer.json: |cut tokenizer.json 200|tokenize @ --file text
no-such: cannot be opened|info no-such
nothing: |info nothing
text: |info text
model.safetensors: |cut model.safetensors 5000|info @
no-such: cannot be opened|explain --q no-such --k no-such --v no-such
nothing: |explain --q nothing --k nothing --v nothing
folder: expected a file, found a folder|explain --q folder --k folder --v folder
ragged.csv: |explain --q ragged.csv --k ragged.csv --v ragged.csv
words.csv: |explain --q words.csv --k words.csv --v words.csv
cut.npy: |explain --q cut.npy --k cut.npy --v cut.npy
hostile.npy: |explain --q hostile.npy --k hostile.npy --v hostile.npy
is not empty|convert code.pth other
no-such/config.json: |convert no-such new
TABLE
if [ "$QKV_PYTORCH" = 1 ]; then
    cat >>table <<'TABLE'
code.pth: refused: its pickle asks for posix.system|convert code.pth new
code-legacy.pth: refused: its pickle asks for posix.system|convert code-legacy.pth new
cut.pth: |convert cut.pth new
text: expected a PyTorch file|convert text new
nothing: expected a PyTorch file|convert nothing new
code.pth: refused|convert code.pth new --under weight --dtype f16
TABLE
else
    echo 'cut.pth: this qkv was built without files of PyTorch|convert cut.pth new' >>table
fi

golden=$QKV_SOURCE/tests/golden/pytorch
cp "$golden/refused-system.pth" code.pth
cp "$golden/refused-system-legacy.pth" code-legacy.pth
head -c 1500 "$golden/tensor.pth" >cut.pth
mkdir folder other bare
echo mine >other/notes
echo '{}' >bare/config.json
: >nothing
printf 'caf\351 au lait, caf\351 noir, and so on for more bytes than a window has\n' >latin1
printf 'the short text\n' >short
printf 't' >one
printf '\316\261\316\262\316\263\316\261\316\262\316\263 and then some more of the same\n' >greek
printf '1,2\n3\n' >ragged.csv
printf '1,2\n3,four\n' >words.csv
head -c 100 "$QKV_SOURCE/tests/golden/io/f4.npy" >cut.npy
printf '\223NUMPY\001\000\106\000%s\n' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }" >hostile.npy

try_table table

# A full disk: the sentence, and an exit code that says so.
if [ -w /dev/full ]; then
    for command in "eval model --json" "eval model" "tokenize model --file text --json" \
        "tokenize model --file text" "generate model --tokens 3 --prompt the" "info model" \
        "explain"; do
        # shellcheck disable=SC2086
        "$QKV" $command --threads 1 >/dev/full 2>errors </dev/null
        code=$?
        if [ $code -ne 1 ] || [ "$(wc -l <errors)" -ne 1 ]; then
            echo "qkv $command >/dev/full: exit $code: $(head -3 errors)"
            failed=1
        fi
    done
fi
exit $failed
