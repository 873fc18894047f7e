# every_kind.sh - sourced after commands.sh and bars.sh, in the test's folder: small data of every
# kind, which commands in a folder below find as ../NAME, and the smallest models' settings.
# shellcheck shell=sh disable=SC2034 # the variables are the tests'

head -c 6000 "$QKV_SOURCE/README.md" >text
yes 'the cat sat on a mat' | head -40 >en
yes 'die Katze sass auf der Matte' | head -40 >de
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%s\t%s\n", i % 2 ? "good" : "bad",
    i % 2 ? "what a film" : "what a bore" }' >labelled.tsv
awk 'BEGIN { print "a,b"; for (i = 0; i < 120; i++) print sin(i / 3) "," cos(i / 5) }' >rows.csv
awk 'BEGIN { for (w = 0; w < 12; w++) { printf w % 2 ? "up" : "down"
    for (i = 0; i < 16; i++) printf ",%g", (w % 2 ? i : -i) + sin(i); print "" } }' >walks.csv
draw_bars 1 24 bars-images-idx3-ubyte
label_bars 24 bars-labels-idx1-ubyte
mkdir set masks
awk 'BEGIN { for (i = 1; i <= 6; i++) print i ".png,number " i }' >captions.csv
images=$QKV_SOURCE/tests/golden/images
for i in 1 2 3 4 5 6; do
    cp "$images/type2-8bit.png" set/$i.png
    cp "$images/type0-1bit.png" masks/$i.png
done
bars=../bars-images-idx3-ubyte
image=$images/type2-8bit.png
nano="--model nano"
words="--model nano --vocab 80"
coder="--set ch_mult=1,1 --set num_res_blocks=1 --set z_channels=16 --set embed_dim=16 --model nano"

# train_every_kind N [ARGUMENT...] : calls train N KIND ARGUMENT... for every kind of job; the test
# defines it. Runs end in NAME + N and get the further arguments.
gpt="--layout gpt2 --set resid_pdrop=0.1 --set attn_pdrop=0.1"
bert="--set hidden_dropout_prob=0.1 --set attention_probs_dropout_prob=0.1"
vit="$bert --set drop_path_rate=0.2"
# shellcheck disable=SC2086
train_every_kind() {
    n=$1
    shift
    run=$*
    train $n lm --data ../text --tokenizer char $nano $gpt --length 16 $run --out gpt$n
    train $n lm --data ../text --tokenizer char $nano --layout llama \
        --set attention_dropout=0.1 --set resid_pdrop=0.1 --length 16 $run --out llama$n
    train $n lm --data ../text --init gpt$n --lora r=4,dropout=0.1 --length 16 $run --out lora$n
    train $n mlm --data ../text $words $bert $run --out bert$n
    train $n classify --data ../labelled.tsv --init bert$n --rdrop 1 $run --out texts$n
    train $n embed --source ../en --target ../de $words $run --init bert$n --out vectors$n
    train $n translate --source ../en --target ../de $words $run --rdrop 1 --out mt$n
    train $n forecast --data ../rows.csv --context 24 --horizon 6 --patch 3 $run --out series$n
    train $n forecast --data ../rows.csv --context 24 --horizon 6 --decoder $run --out decoder$n
    train $n fill --data ../rows.csv --valid-last 48 --context 24 --patch 3 $run --out gaps$n
    train $n classify --data ../walks.csv --channels 1 $run --out steps$n
    train $n classify --data $bars --type vit $nano $vit $run --out vit$n
    train $n classify --data $bars $nano --set drop_path_rate=0.2 $run --out cct$n
    train $n embed --data $bars --type vit $nano $run --out patches$n
    train $n embed --data ../set --captions ../captions.csv --size 16 --valid-last 2 $words $run \
        --out captions$n
    train $n reconstruct --images $bars $nano $vit $run --out mae$n
    train $n segment --images ../set --masks ../masks --size 16 $nano $vit $run --out masks$n
    train $n colorize --images ../set --size 16 $nano $vit $run --out colors$n
    train $n vqgan --images $bars $coder --set n_embed=32 --disc-start 0 --perceptual-steps 2 \
        $run --out codes$n
    train $n imagine --vqgan codes$n --images $bars $nano $run --out prior$n
}
