# every_kind.sh - sourced after commands.sh and bars.sh, in the test's folder: small data of every
# kind, which commands in a folder below find as ../NAME, and the smallest models' settings.
# shellcheck shell=sh disable=SC2034 # the variables are the tests'

head -c 6000 "$QKV_SOURCE/README.md" >text
yes 'the cat sat on a mat' | head -40 >en
yes 'die Katze sass auf der Matte' | head -40 >de
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%s\t%s\n", i % 2 ? "good" : "bad",
    i % 2 ? "what a film" : "what a bore" }' >labelled.tsv
awk 'BEGIN { print "a,b"; for (i = 0; i < 120; i++) print sin(i / 3) "," cos(i / 5) }' >rows.csv
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
