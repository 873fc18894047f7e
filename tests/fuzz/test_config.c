/* test_config.c - config.json under random changes. */
#include "fuzz.h"

const fuzz_target fuzz = {
    .read = read_config,
    .texts = {sample_config, "{\"hidden_size\": 64, \"activation\": null}"},
};
