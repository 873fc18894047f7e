#!/bin/sh
# test_bad_images.sh - every command that takes images, and images that are missing, empty,
# cut short, huge, of another kind or hostile: exit 1, one sentence on the standard error that names
# the file, nothing written or lost.
set -u
failed=0
out=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$out"; rm -rf "$out"' EXIT
cd "$out" || exit 1
# shellcheck source=tests/support/bad_input.sh
. "$QKV_SOURCE/tests/support/bad_input.sh"
images=$QKV_SOURCE/tests/golden/images

# Two classes, masks of the same names, and a model of each kind.
mkdir -p set/a set/b masks none broken/a broken/b small odd grey some
for i in 0 1 2 3; do
    cp "$images/type2-8bit.png" set/a/$i.png
    cp "$images/type2-16bit.png" set/b/$i$i.png
    cp "$images/type0-1bit.png" masks/$i.png
    cp "$images/type0-1bit.png" masks/$i$i.png
done
fast="--out new --model nano --size 8 --batch 2 --steps 2 --valid-last 2 --threads 1 --quiet"
# shellcheck disable=SC2086 # several words
{
    "$QKV" train classify --data set $fast && mv new label &&
        "$QKV" train segment --images set --masks masks $fast && mv new mask &&
        "$QKV" train reconstruct --images set $fast && mv new fill &&
        "$QKV" train colorize --images set $fast && mv new color
} || exit 1

# Images.
: >nothing.png
echo 'no image at all' >text.png
cp text.png broken/a/0.png
cp text.png broken/b/1.png
cp text.png some/text.png
head -c 300 "$images/type2-8bit.png" >cut.png
head -c 500 "$images/colour-444.jpg" >cut.jpg
head -c 400 "$images/print.jpg" >print.jpg
printf '%b' '\0211PNG\r\n\0032\n\0000\0000\0000\0015IHDR\0000\0000\0165\0060\0000\0000\0165\0060' \
    '\0010\0002\0000\0000\0000\0351Eo\0355\0000\0000\0000\0020IDAT' >giant.png # 30,000 x 30,000
mkfifo pipe.png
ln -s /dev/zero endless.png
# Sets of images.
# shellcheck disable=SC2059 # bytes, some of which have a name
{
    header='\000\000\010\003'
    printf "$header"'\000\000\000\005\000\000\000\004\000\000\000\003' >cut.idx
    printf "$header"'\377\377\377\377\377\377\377\377\377\377\377\377' >over.idx
    {
        printf "$header"'\000\000\000\001\000\001\000\001\000\000\000\001'
        head -c 65537 /dev/zero
    } >giant.idx
    printf "$header"'\000\000\000\002\000\000\000\001\000\000\000\001ab' >x-images-idx3-ubyte
    printf '\000\000\010\001\000\000\000\003\000\001\000' >x-labels-idx1-ubyte
    printf '\000\000\015\003\000\000\000\001\000\000\000\001\000\000\000\001abcd' >real.idx
    {
        printf "$header"'\000\000\000\002\000\000\000\001\000\000\000\001'
        head -c 30000000 /dev/zero
    } | gzip -9 >bomb.idx.gz
}
head -c 40 bomb.idx.gz >cut.idx.gz
head -c 500 "$QKV_SOURCE/tests/golden/io/emoji.ttf" >cut.ttf
(cd set && tar -cf ../set.tar a b)
head -c 1000 set.tar >cut.tar
(head -c 148 set.tar && printf '000000' && tail -c +155 set.tar) >sum.tar
ln -s "$out/set/a/0.png" none/0.txt
tar -cf links.tar none
tar -cf empty.tar -T /dev/null
gzip -c set.tar >set.tar.gz
printf 'PK\003\004' >set.zip
mkdir -p deep/part
cp -r set/a set/b deep/part
# Masks.
cp masks/0.png small/0.png
cp "$images/grey.jpg" odd/0.png
cp "$images/type0-8bit.png" grey/0.png

{
    # An image, as such.
    for file in no-such.png nothing.png text.png cut.png cut.jpg print.jpg giant.png pipe.png \
        endless.png; do
        for command in "segment mask" "reconstruct fill" "colorize color"; do
            echo "$file: |$command $file --out new.png"
        done
    done
    # What holds images; and the ways to name some.
    for file in no-such none broken nothing.png text.png cut.png endless.png cut.idx over.idx \
        giant.idx real.idx x-labels-idx1-ubyte bomb.idx.gz cut.idx.gz cut.ttf cut.tar sum.tar \
        links.tar; do
        data=$file
        case $file in x-labels*) data=x-images-idx3-ubyte ;; esac
        echo "$file|train reconstruct --images $data FAST"
        echo "$file|classify label $data --quiet"
    done
    for file in none broken cut.idx cut.tar bomb.idx.gz; do
        echo "$file|train classify --data $file FAST"
        echo "$file|train classify --data set --valid $file FAST"
        echo "$file|train segment --images $file --masks masks FAST"
        echo "$file|train segment --images set --masks $file FAST"
        echo "$file|train colorize --images $file FAST"
        echo "$file|eval label --file $file --quiet"
        echo "$file|eval fill --file $file --quiet"
        echo "$file|eval color --file $file --quiet"
        echo "$file|eval mask --images $file --masks masks --quiet"
    done
    cat <<'TABLE'
there is no mask "|train segment --images set --masks small FAST
odd/0.png: 11 x 9 pixels expected|
    train segment --images set/a/0.png --masks odd FAST
no class of the model|eval mask --images set/a/0.png --masks grey
cut.idx|eval mask --images set --masks cut.idx
nothing.png: neither|classify label nothing.png
cut.png: the file is cut short|classify label cut.png
empty.tar: no PNG or JPEG images|train classify --data empty.tar FAST
an archive is read when it is a plain tar|train classify --data set.tar.gz FAST
set.zip: a PNG or JPEG image, a folder, a tar archive|train classify --data set.zip FAST
real.idx: bytes (type 8)|train classify --data real.idx FAST
deep/part/a is deeper|train classify --data deep FAST
2--out: images are written as PNG|colorize color set/a/0.png --out new.jpg
2--accumulation-steps: at most the batch|train colorize --images set FAST --accumulation-steps 3
found 30000 x 30000|segment mask giant.png --out new.png
TABLE
} >table
try_table table

# One that cannot be read among others: it is named, counted and left out.
wrong() {
    echo "$*"
    failed=1
}
cp text.png set/a/9.png
cp masks/0.png masks/9.png
cp text.png masks/1.png
loud=$(echo "$fast" | sed 's/ --quiet//; s/--out new//')
n=0
# shellcheck disable=SC2086
for command in "classify --data set" "reconstruct --images set" "colorize --images set" \
    "segment --images set --masks masks"; do
    n=$((n + 1))
    case $command in segment*) bad=2 ;; *) bad=1 ;; esac
    "$QKV" train $command $loud --out some$n >answer 2>errors || wrong "train $command: exit $?"
    grep -q '^set/a/9.png: .*: left out$' errors || wrong "train $command: it is not named"
    grep -q "^set: $bad of 9 images could not be read$" errors || wrong "train $command: count"
done
"$QKV" classify label set/a/0.png text.png set/a/1.png --json >answer 2>errors &&
    wrong "classify of a bad one among others: exit 0"
[ "$(wc -l <answer)" -eq 2 ] || wrong "classify of a bad one among others: $(cat answer errors)"
grep -q '^qkv: text.png: ' errors || wrong "classify does not name it: $(cat errors)"
grep -q '^1 of 3 could not be read$' errors || wrong "classify does not count it: $(cat errors)"
exit $failed
