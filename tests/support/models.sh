# shellcheck shell=sh disable=SC2034
# models.sh - sentences to learn from and models of a few steps, for tests of what is done with
# them.

# sentences COUNT : lines of text, no two alike.
sentences() {
    awk -v count="$1" 'BEGIN { for (i = 0; i < count; i++)
        printf "the cat number %d sat on mat %d and it ran\n", i, i * 7 % 31 }'
}

# train NAME WORDS... : a model directory. On failure it says why, and failed becomes 1.
train() {
    name=$1
    shift
    "$QKV" train "$@" --out "$name" --model nano --steps 2 --threads 1 --quiet >answer 2>notes &&
        return
    echo "train $*: $(cat notes)"
    failed=1
    return 1
}
