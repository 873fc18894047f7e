# losses.sh - losses of two training runs beside each other. After commands.sh.
# shellcheck shell=sh disable=SC2154 # fail

# losses DIR : of all evaluations, in training and held out, and of the model that is kept.
losses() {
    grep '"loss"' "$1/train/metrics.jsonl" | sed -n 's/.*"step": \([0-9]*\)/\1/p' |
        sed 's/"[a-z_]*loss": /=/g; s/[^=]*=\([0-9.]*\)[^=]*/\1 /g'
}

# agree SHARE A B : the losses of two runs are apart by at most that share.
agree() {
    losses "$2" >"$2.losses"
    losses "$3" >"$3.losses"
    paste -d ' ' "$2.losses" "$3.losses" | awk -v most="$1" '{
        for (i = 1; i <= NF / 2; i++) {
            d = $i / $(i + NF / 2) - 1; n++; if (d < -most || d > most) exit 1 }
    } END { if (n < 4 || NF % 2) exit 1 }' ||
        fail "$2 and $3 disagree: $(cat "$2.losses" "$3.losses")"
}
