/* test_safetensors.c - safetensors files under random changes. */
#include "fuzz.h"

const fuzz_target fuzz = {
    .read = read_safetensors,
    .seeds = {QKV_SOURCE_DIR "/tests/golden/io/types.safetensors",
              QKV_SOURCE_DIR "/tests/golden/io/rounding.safetensors"},
};
