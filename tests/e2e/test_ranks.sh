#!/bin/sh
# test_ranks.sh - training on several ranks: with the same number of shards every kind of model has
# the same bits on 1, 2 and 4 ranks and with every MPI; a run whose rank is killed goes on with
# other ranks; what one rank cannot do ends all, with one sentence.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/ranks.sh
. "$QKV_SOURCE/tests/support/ranks.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"
# shellcheck source=tests/support/every_kind.sh
. "$QKV_SOURCE/tests/support/every_kind.sh"
mkdir one two four
first=${launchers# }
last=${launchers##* }
first=${first%% *}

# train THREADS ARGUMENT... : on 1, 2 and 4 ranks.
train() {
    threads=$1
    shift
    (cd one && "$QKV" train "$@" --threads "$threads" </dev/null >>answers 2>notes) ||
        fail "$*: $(cat one/notes)"
    (cd two && ranks "$first" 2 "$QKV" train "$@" --threads "$threads" </dev/null >>answers \
        2>notes) || fail "2 ranks: $*: $(cat two/notes)"
    (cd four && ranks "$last" 4 "$QKV" train "$@" --threads "$threads" </dev/null >>answers \
        2>notes) || fail "4 ranks: $*: $(cat four/notes)"
}
run="--steps 3 --batch 8 --shards 4 --ema 0.5 --quiet --dtype f32"
# shellcheck disable=SC2086
train_every_kind 1 $run
# A table that is a large part of the model: a token's row lies in two ranks' parts.
# shellcheck disable=SC2086
train 1 lm --data ../text --vocab 660 $nano --layout gpt2 --set n_layer=1 --set n_head=2 \
    --set n_embd=64 --length 32 $run --out table
# In several passes a rank keeps its gradients, and those of embeddings with the others.
run="$run --accumulation-steps 2"
# shellcheck disable=SC2086
train 1 lm --data ../text --tokenizer char $nano --length 16 $run --optimizer muon --recompute \
    --capture-step 2 --out muon
# shellcheck disable=SC2086
train 1 vqgan --images $bars $coder --set n_embed=32 --disc-start 0 --perceptual-steps 2 $run \
    --out passes
(cd one && find . -name '*model.safetensors' -o -name 'capture-*.safetensors') >made
[ "$(wc -l <made)" -ge 25 ] || fail "only $(wc -l <made) files to compare"
while read -r file; do
    for n in two four; do
        cmp "one/$file" "$n/$file" || fail "$n ranks: $file differs"
    done
done <made

# rank_of NUMBER FOLDER : the process of that rank, which works there.
rank_of() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd")" = "$2" ] && [ "$(readlink "$p/exe")" = "$program" ] &&
            tr '\0' '\n' <"$p/environ" | grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1$" &&
            echo "${p#/proc/}" && return
    done
}
program=$(readlink -f "$QKV")

# until_saved FOLDER : waits for the first checkpoint of $child's run.
until_saved() {
    while kill -0 $child 2>/dev/null && ! [ -s "$1/train/state.safetensors" ]; do
        sleep 0.05
    done
}

# A rank is killed; other ranks go on, to the same bits.
common="train lm --data text --tokenizer char $nano --length 16 --batch 8 --steps 300 --threads 1
    --shards 4 --quiet --dtype f32"
# shellcheck disable=SC2086
"$QKV" $common --out straight || fail "a straight run"
for mpi in $launchers; do
    rm -rf killed
    # shellcheck disable=SC2086
    ranks "$mpi" 4 "$QKV" $common --save-every 5 --out killed >answer 2>notes &
    child=$!
    until_saved killed
    kill -9 "$(rank_of 1 "$PWD")"
    wait $child && fail "$mpi: exit 0 although a rank was killed"
    # shellcheck disable=SC2086
    ranks "$mpi" 2 "$QKV" $common --out killed --resume >answer 2>notes ||
        fail "$mpi: resume: $(cat notes)"
    cmp straight/model.safetensors killed/model.safetensors || fail "$mpi: other bits"
done

# ends SENTENCE ARGUMENT... : all ranks end, and one of them says why.
ends() {
    sentence=$1
    shift
    for mpi in $launchers; do
        rm -rf bad
        ranks "$mpi" 2 "$QKV" "$@" --out bad >answer 2>notes </dev/null &&
            fail "$mpi: $*: exit 0"
        [ "$(grep -c '^qkv: ' notes)" -eq 1 ] || fail "$mpi: $*: not one sentence: $(cat notes)"
        grep -qF -- "$sentence" notes || fail "$mpi: $*: expected $sentence: $(cat notes)"
    done
}
# shellcheck disable=SC2086
{
    small="train lm --data text --tokenizer char $nano --length 16 --threads 1 --quiet"
    ends 'a multiple of the 2 ranks expected, found 3' $small --batch 6 --shards 3
    ends 'a sample for each of the 4 shards' $small --batch 2 --shards 4
    ends 'absent' train lm --data absent $nano
    ends 'is not finite' $small --batch 4 --steps 50 --optimizer sgd --lr 1e6 --clip 0 --warmup 0
    ends 'does not run on several ranks' info
}

# Ctrl-C to the launcher, which sends its ranks SIGTERM: saved, or the last checkpoint is whole.
for mpi in $launchers; do
    rm -rf stopped
    # shellcheck disable=SC2086
    ranks "$mpi" 2 "$QKV" $common --save-every 5 --out stopped >answer 2>notes &
    child=$!
    until_saved stopped
    kill -INT $child
    wait $child
    # shellcheck disable=SC2086
    "$QKV" $common --out stopped --resume >answer 2>notes || fail "$mpi: $(cat notes)"
    cmp straight/model.safetensors stopped/model.safetensors || fail "$mpi: Ctrl-C: other bits"
done

# still MPI RANK: it stands still, as if its machine had vanished; the other one notices that.
still() {
    mpi=$1
    rm -rf silent
    # shellcheck disable=SC2086
    QKV_DIST_SILENCE=3 ranks "$mpi" 2 timeout 60 "$QKV" $common --steps 100000 --save-every 5 \
        --out silent >answer 2>notes &
    child=$!
    until_saved silent
    victim=$(rank_of "$2" "$PWD")
    kill -STOP "$victim"
    wait $child
    code=$?
    kill -9 "$victim" 2>/dev/null
    { [ $code -ne 0 ] && [ $code -ne 124 ]; } || fail "$mpi: a silent rank: exit $code"
    said="^qkv: (step [0-9]*: )?rank $2 has given no sign of life for [0-9]* seconds"
    [ "$(grep -Ec "$said" notes)" = 1 ] || # a rank that the launcher wakes up may repeat it
        fail "$mpi: a silent rank: $(cat notes)"
}
for launcher in $launchers; do
    still "$launcher" 1
    still "$launcher" 0
done

# A rank whose machine has another disk gets what it needs; the data lie with rank 0 alone.
cat >elsewhere <<'END'
#!/bin/sh
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then
    exec unshare -m sh -c 'mount -t tmpfs tmpfs "$0" && cd "$0" && "$@"' "$PWD/disk" "$@"
fi
cd disk && exec "$@"
END
chmod +x elsewhere
mkdir disk
cp text disk/
# shellcheck disable=SC2016,SC2086
if unshare -m sh -c 'mount -t tmpfs tmpfs "$0"' "$PWD/disk" 2>/dev/null; then
    for mpi in $launchers; do
        rm -rf disk/straight
        ranks "$mpi" 2 ./elsewhere "$QKV" $common --out straight >answer 2>notes ||
            fail "$mpi: another disk: $(cat notes)"
        cmp straight/model.safetensors disk/straight/model.safetensors ||
            fail "$mpi: another disk: other bits"
    done
else
    echo "left out: another disk (unshare and mount are not allowed here)"
fi
exit $failed
