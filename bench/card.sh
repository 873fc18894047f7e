#!/bin/sh
# card.sh - does training on a card learn what it learns on the processor? Five runs in f32, each
# on both from the same seed; a line for each with the largest difference of their training losses.
#
#   bench/card.sh TEXT [IMAGES]
#
# TEXT: UTF-8 text, for a GPT; its lines and the same with their words turned round, for a
# translator. IMAGES: labelled images, as qkv train classify --data has them, for a ViT, a MAE and a
# VQGAN; without them small ones are drawn.
#
#   QKV=build/qkv   DEVICE=cuda   STEPS=50   RUNS='gpt translator vit mae vqgan'   SIZE=tiny
#   TOGETHER=1: the processor's runs go on beside the card's; 0: one after the other
#   THREADS=2: of each of the processor's runs   KEEP=DIR: keeps the runs there
#
# Losses come from train/metrics.jsonl, whose running mean of the losses is turned back into them.
set -u
here=$(cd "$(dirname "$0")" && pwd)
QKV=${QKV:-$here/../build/qkv} DEVICE=${DEVICE:-cuda} STEPS=${STEPS:-50} SIZE=${SIZE:-tiny}
RUNS=${RUNS:-gpt translator vit mae vqgan} TOGETHER=${TOGETHER:-1} THREADS=${THREADS:-2}
[ $# -ge 1 ] || { sed -n 's/^# \{0,1\}//p' "$0" | sed 1d; exit 2; }
for file in "$@"; do
    [ -e "$file" ] || { echo "card.sh: no file $file" >&2; exit 2; }
done
text=$(realpath "$1") images=${2:+$(realpath "$2")} QKV=$(realpath "$QKV")
if [ -n "${KEEP-}" ]; then
    mkdir -p "$KEEP" && cd "$KEEP" || exit 2
else
    folder=$(mktemp -d) || exit 2
    trap 'rm -rf "$folder"' EXIT
    cd "$folder" || exit 2
fi

# ---- data ------------------------------------------------------------------------------------

# shellcheck disable=SC2094 # the file read lies elsewhere
head -c 200000 "$text" >text
awk 'NF > 2 && NF < 24' text | head -2000 >source
awk '{ for (i = NF; i > 0; i--) printf "%s%s", $i, (i > 1 ? " " : "\n") }' source >target
if [ -z "$images" ]; then
    # shellcheck source=tests/support/bars.sh
    . "$here/../tests/support/bars.sh"
    draw_bars 1 200 bars-images-idx3-ubyte
    label_bars 200 bars-labels-idx1-ubyte
    images=$PWD/bars-images-idx3-ubyte
fi

# ---- runs ------------------------------------------------------------------------------------

same="--seed 1 --dtype f32 --batch 8 --steps $STEPS --eval-every 1 --eval-units 1 --quiet
    --save-every 1000000"
coder="--set ch_mult=1,1 --set num_res_blocks=1 --set z_channels=16 --set embed_dim=16"

# what NAME : what qkv train is asked for.
what() {
    case $1 in
    gpt) echo "lm --data text --tokenizer char --layout gpt2 --model $SIZE --length 64" ;;
    translator) echo "translate --source source --target target --vocab 500 --model $SIZE
        --tokens 256" ;;
    vit) echo "classify --data $images --type vit --model $SIZE" ;;
    mae) echo "reconstruct --images $images --model $SIZE" ;;
    vqgan) echo "vqgan --images $images --model nano $coder --set n_embed=32 --disc-start 0
        --perceptual-steps 10" ;;
    *) echo "card.sh: no run $1" >&2 ;;
    esac
}

# run NAME DEVICE [OPTION...] : trains; NAME.DEVICE.took has the seconds, if it ended well.
run() {
    name=$1 device=$2 begun=$(date +%s.%N)
    shift 2
    rm -rf "$name.$device" "$name.$device.took"
    # shellcheck disable=SC2046,SC2086 # words
    "$QKV" train $(what "$name") $same --device "$device" "$@" --out "$name.$device" \
        >"$name.$device.said" 2>&1 </dev/null &&
        echo "$begun $(date +%s.%N)" | awk '{ print $2 - $1 }' >"$name.$device.took"
}

# losses DIR : of each update.
losses() {
    sed -n 's/.*"kind": "eval".*"train_loss": \([^,}]*\).*/\1/p' "$1/train/metrics.jsonl" | awk '
        { share = NR > 197 ? 0.02 : 4 / (3 + NR); printf "%.9g\n", mean + ($1 - mean) / share }
        { mean = $1 }'
}

for name in $RUNS; do
    if [ "$TOGETHER" = 1 ]; then
        run "$name" cpu --threads "$THREADS" &
    else
        run "$name" cpu --threads "$THREADS"
    fi
done
for name in $RUNS; do
    run "$name" "$DEVICE" --threads "$THREADS"
done
wait

# ---- the table -------------------------------------------------------------------------------

"$QKV" --version
printf '%-12s %6s %10s %10s %10s %12s %8s %8s %8s\n' run steps first last "$DEVICE's" difference \
    "at step" "CPU, s" "$DEVICE, s"
failed=0
for name in $RUNS; do
    for device in cpu "$DEVICE"; do
        if [ -e "$name.$device.took" ]; then
            losses "$name.$device" >"$name.$device.losses"
        else
            echo "$name on $device: $(tail -1 "$name.$device.said")"
            failed=1
        fi
    done
    if ! [ -e "$name.cpu.took" ] || ! [ -e "$name.$DEVICE.took" ]; then
        continue
    fi
    paste "$name.cpu.losses" "$name.$DEVICE.losses" | awk -v name="$name" \
        -v took="$(cat "$name.cpu.took") $(cat "$name.$DEVICE.took")" '
        function size(x) { return x < 0 ? -x : x }
        { d = size($1 - $2) / (size($1) > 1e-9 ? size($1) : 1e-9); if (NR == 1) first = $1 }
        d >= most { most = d; at = NR }
        END {
            split(took, s, " ")
            printf "%-12s %6d %10.5f %10.5f %10.5f %12.2e %8d %8.1f %8.1f\n", name, NR, first, $1,
                   $2, most, at, s[1], s[2]
            exit NR == 0
        }' || failed=1
done
exit "$failed"
