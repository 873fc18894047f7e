# shellcheck shell=sh
# bars.sh - small images for tests of the command: files in idx format.

# byte NUMBER : as it stands in a file.
byte() {
    # shellcheck disable=SC2059 # the format is what is written
    printf "\\$(printf %03o "$1")"
}

# draw_bars SEED COUNT FILE : images of 16 x 16, a bar up and down or across in turn, somewhere,
# in a colour of its own on the opposite one.
draw_bars() {
    {
        printf '\000\000\010\004\000\000\000'
        byte "$2"
        printf '\000\000\000\020\000\000\000\020\000\000\000\003'
    } >"$3"
    LC_ALL=C awk -v seed="$1" -v count="$2" 'BEGIN {
        srand(seed)
        for (i = 0; i < count; i++) {
            top = int(rand() * 12); r = rand(); across = i % 2
            for (y = 0; y < 16; y++)
                for (x = 0; x < 16; x++) {
                    v = across ? y : x
                    on = v >= top && v < top + 5
                    printf "%c%c%c", 1 + int(120 * (on ? r : 1 - r)),
                           1 + int(120 * (on ? 1 - r : r)), on ? 110 : 10
                }
        }
    }' >>"$3"
}

# label_bars COUNT FILE : which way each of them goes, 0 or 1.
label_bars() {
    {
        printf '\000\000\010\001\000\000\000'
        byte "$1"
    } >"$2"
    LC_ALL=C awk -v count="$1" 'BEGIN { for (i = 0; i < count; i++) printf "%d", i % 2 }' |
        tr '01' '\000\001' >>"$2"
}
