/* test_csv.c - matrices as text under random changes. */
#include "fuzz.h"

const fuzz_target fuzz = {
    .read = read_csv,
    .texts = {sample_csv, "1 2\n3 4\n", "1;2;3\r\n4;5;6\r\n", "x\ty\n1\t-2e5\n",
              "\"a,\"\"b\",c\n1,\"2\"\n"},
};
