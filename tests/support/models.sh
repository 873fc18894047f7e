# shellcheck shell=sh disable=SC2034
# models.sh - files to learn from and models of a few steps, for tests of what is done with them.
# shellcheck source=tests/support/bars.sh
. "$QKV_SOURCE/tests/support/bars.sh"

# sentences COUNT : lines of text, no two alike.
sentences() {
    awk -v count="$1" 'BEGIN { for (i = 0; i < count; i++)
        printf "the cat number %d sat on mat %d and it ran\n", i, i * 7 % 31 }'
}

# learning_files COUNT : text, of so many lines, and german, the same in other words;
# bars-images-idx3-ubyte and bars-labels-idx1-ubyte, 64 images and their labels.
learning_files() {
    sentences "$1" >text
    sed 's/the/die/; s/cat/katze/; s/sat/sass/' text >german
    draw_bars 1 64 bars-images-idx3-ubyte
    label_bars 64 bars-labels-idx1-ubyte
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
