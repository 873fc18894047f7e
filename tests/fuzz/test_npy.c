/* test_npy.c - .npy files under random changes. */
#include "fuzz.h"

const fuzz_target fuzz = {
    .read = read_array,
    .seeds = {QKV_SOURCE_DIR "/tests/golden/io/f4.npy",
              QKV_SOURCE_DIR "/tests/golden/io/fortran.npy",
              QKV_SOURCE_DIR "/tests/golden/io/v3.npy",
              QKV_SOURCE_DIR "/tests/golden/io/i8.npy",
              QKV_SOURCE_DIR "/tests/golden/io/scalar.npy"},
};
