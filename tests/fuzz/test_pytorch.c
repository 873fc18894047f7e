/* test_pytorch.c - what torch.save wrote, both formats, under random changes. */
#include "fuzz.h"

#define GOLDEN(name) QKV_SOURCE_DIR "/tests/golden/pytorch/" name

const fuzz_target fuzz = {
    .read = read_pytorch,
    .seeds = {GOLDEN("types.pth"), GOLDEN("views-legacy.pth"), GOLDEN("nested.pth"),
              GOLDEN("nested-legacy-p4.pth"), GOLDEN("newer-legacy.pth"), GOLDEN("python2.pth"),
              GOLDEN("objects.pth")},
};
