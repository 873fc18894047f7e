#!/bin/sh
# test_models.sh - every kind of model trains, is evaluated, saved, resumed and used on the guarded
# device, and what comes out is what the CPU gives, to the bit.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"
# shellcheck source=tests/support/every_kind.sh
. "$QKV_SOURCE/tests/support/every_kind.sh"

mkdir cpu guarded

# both COMMAND... : the same on both devices.
both() {
    (cd cpu && "$QKV" "$@" --threads 1 </dev/null >>answers 2>notes) || fail "$*: $(cat cpu/notes)"
    (cd guarded && $QKV_RUN "$QKV_BUILD/tests/guarded_qkv" "$@" --threads 1 </dev/null >>answers \
        2>notes) ||
        fail "guarded: $*: $(cat guarded/notes)"
}
# The kind of products is chosen by timing, for each process anew.
run="--steps 2 --batch 4 --quiet --dtype f32"

# shellcheck disable=SC2086
{
    both train lm --data ../text --tokenizer char $nano --length 16 $run --ema 0.9 --out gpt
    both train lm --data ../text --tokenizer char $nano --layout llama --length 16 $run --out llama
    both train mlm --data ../text $words $run --out bert
    both train classify --data ../labelled.tsv --init bert $run --out texts
    both train embed --source ../en --target ../de $words $run --init bert --out vectors
    both train translate --source ../en --target ../de $words $run --out mt
    both train translate --source ../en --target ../de $words $run --recompute --out again
    both train forecast --data ../rows.csv --context 24 --horizon 6 --patch 3 $run --out series
    both train classify --data $bars --type vit $nano $run --out vit
    both train classify --data $bars $nano $run --out cct
    both train embed --data $bars --type vit $nano $run --out patches
    both train embed --data $bars $nano $run --out views
    both train embed --data ../set --captions ../captions.csv --size 16 --valid-last 2 $words $run \
        --out captions
    both train reconstruct --images $bars $nano $run --out mae
    both train segment --images ../set --masks ../masks --size 16 $nano $run --out masks
    both train colorize --images ../set --size 16 $nano $run --out colors
    both train vqgan --images $bars $coder --set n_embed=32 --disc-start 0 --perceptual-steps 2 \
        $run --out codes
    both train imagine --vqgan codes --images $bars $nano $run --out prior
    both generate gpt --prompt 'The ' --tokens 12 --temperature 0
    both generate llama --prompt 'The ' --tokens 12
    both fill bert 'the [MASK] sat'
    both classify texts 'what a film'
    both embed vectors --file ../en --out vectors.npy
    both embed vectors 'the cat' --nearest ../de
    both translate mt --beam 3 --file ../en
    both forecast series --horizon 4 --file ../rows.csv
    both classify vit "$image"
    both classify cct "$image"
    both embed patches "$image" --nearest $bars --top-k 3
    both embed views --file $bars --out views.npy
    both embed captions "$image" --nearest ../en --top-k 3
    both embed captions 'number 2' --nearest ../set
    both reconstruct mae "$image" --mask 75 --out filled.png
    both segment masks "$image" --out classes.png
    both colorize colors "$image" --hint 2,3,#e0a060 --out coloured.png
    both encode codes "$image" --out codes.npy
    both decode codes codes.npy --out again.png
    both imagine prior --count 2 --out grid.png
    for m in gpt bert vectors mt series vit patches views captions mae masks colors codes prior; do
        both eval $m --json
    done
}
(cd cpu && find . -name model.safetensors -o -name '*.png' -o -name '*.npy' -o -name answers) >made
[ "$(wc -l <made)" -ge 32 ] || fail "only $(wc -l <made) files to compare"
while read -r file; do
    cmp "cpu/$file" "guarded/$file" || fail "$file differs"
done <made
exit $failed
