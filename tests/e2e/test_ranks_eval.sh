#!/bin/sh
# test_ranks_eval.sh - eval, translate and classify on several ranks of every MPI that there is: the
# answers are those of one rank, to the byte, though ranks share the parts of the work.
# shellcheck source=tests/support/commands.sh
. "$QKV_SOURCE/tests/support/commands.sh"
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"
# shellcheck source=tests/support/every_kind.sh
. "$QKV_SOURCE/tests/support/every_kind.sh"

# More threads than cores: none is to wait for another by spinning. UCX (of MPICH) warns on stdout.
export OMP_WAIT_POLICY=passive UCX_LOG_LEVEL=error

# launcher MPI : the program that starts ranks of it, if there is one.
launcher() {
    command -v "mpirun.$1" && return
    case $1:$(mpirun --version 2>/dev/null) in
    openmpi:*"Open MPI"* | mpich:*HYDRA*) command -v mpirun ;;
    esac
}

found=
for mpi in openmpi mpich; do
    [ -e "$QKV_BUILD/libqkv-$mpi.so" ] && launcher $mpi >where && found="${found:+$found }$mpi"
done
[ -n "$found" ] || {
    echo "skipped: no MPI, or qkv was built without it"
    exit 77
}

# on MPI RANKS COMMAND...
on() {
    by=$(launcher "$1") as=
    [ "$1" = mpich ] || as="--allow-run-as-root --oversubscribe"
    shift
    # shellcheck disable=SC2086 # several words
    "$by" $as -n "$@"
}

# same INPUT COMMAND... : 2 ranks of the first MPI and 4 of the last, which may be the same one,
# answer as one rank does, and end with its exit code.
same() {
    input=$1
    shift
    "$QKV" "$@" --threads 1 <"$input" >one 2>notes
    code=$?
    [ -s one ] || fail "$*: no answer: $(cat notes)"
    for ranks in 2 4; do
        [ $ranks -eq 2 ] && mpi=${found%% *} || mpi=${found##* }
        on "$mpi" $ranks "$QKV" "$@" --threads 1 <"$input" >several 2>notes
        [ $? -eq $code ] || fail "$mpi, $ranks ranks: $*: $(cat notes)"
        cmp one several || fail "$mpi, $ranks ranks: $*: another answer"
    done
}

# Data of several parts for each rank.
words() {
    awk -v n="$1" -v most="$2" 'BEGIN { srand(3)
        split("the cat sat on a mat while dogs run far away home", w, " ")
        for (i = 0; i < n; i++) {
            s = w[1 + int(rand() * 12)]
            for (k = int(rand() * most); k > 0; k--) s = s " " w[1 + int(rand() * 12)]
            print s } }'
}
words 1200 24 >en
tr 'aeiou' 'eioua' <en >de
awk '{ print (NR % 3 ? "good" : "bad") "\t" $0 }' en >labelled.tsv
words 700 8 >lines
awk 'BEGIN { print "a,b"; for (i = 0; i < 1200; i++) print sin(i / 3) "," cos(i / 5) }' >rows.csv
awk 'BEGIN { for (i = 0; i < 300; i++) {
        printf i % 2 ? "quick" : "slow"
        for (t = 0; t < 12 + i * 7 % 12; t++) printf ",%.3f", sin((i % 2 ? 1.5 : 0.5) * t + i)
        print "" } }' >waves.csv
cut -d, -f2- waves.csv >bare.csv
draw_bars 2 150 bars-images-idx3-ubyte
label_bars 150 bars-labels-idx1-ubyte

mkdir run
cd run || exit 1
train() {
    "$QKV" train "$@" --batch 4 --quiet --dtype f32 --threads 1 </dev/null >answer 2>notes ||
        fail "train $*: $(cat notes)"
}
# shellcheck disable=SC2086 # several words
{
    train lm --data ../en --tokenizer char $nano --length 64 --steps 2 --out gpt
    train mlm --data ../en $words --steps 2 --valid-last 50% --out bert
    train classify --data ../labelled.tsv --init bert --steps 2 --valid-last 50% --out texts
    train embed --source ../en --target ../de $words --steps 2 --valid-last 50% --out vectors
    train translate --source ../en --target ../de $words --tokens 512 --steps 20 \
        --valid-last 20 --out mt
    train forecast --data ../rows.csv --context 24 --horizon 6 --patch 3 --steps 2 --out series
    train fill --data ../rows.csv --context 24 --patch 3 --steps 2 --out filler
    train classify --data ../waves.csv --steps 2 --valid-last 50% --out waves
    train classify --data $bars --size 48 $nano --steps 2 --out cct
    train embed --data $bars $nano --steps 2 --valid-last 140 --out views
    train reconstruct --images $bars $nano --steps 2 --valid-last 100 --out mae
    train vqgan --images $bars $coder --set n_embed=32 --disc-start 0 --perceptual-steps 2 \
        --steps 2 --valid-last 40 --out codes
    train imagine --vqgan codes --images $bars $nano --steps 2 --valid-last 100 --out prior
}

for model in gpt bert texts vectors series filler waves views mae prior; do
    same /dev/null eval $model --json
done
same /dev/null eval cct --file $bars --json
same /dev/null eval codes --lpips codes/train/perceptual --json
same /dev/null eval mt --json --beam 1

# A standard input is rank 0's alone. MPICH's launcher takes no more of it than a pipe holds.
same ../lines translate mt --max-length 8 --batch 16 --n-best 2 --beam 2
same ../lines translate mt --max-length 8 --batch 16 --n-best 2 --beam 3 --reverse mt
same /dev/null translate mt --file ../de --max-length 6 --beam 1 --json
same ../lines classify texts --json
same /dev/null classify waves ../bare.csv
same /dev/null classify cct ../bars-images-idx3-ubyte --json
same /dev/null classify cct ../set/1.png nothing.png ../set "$image" ../text ../set/3.png --json
exit $failed
