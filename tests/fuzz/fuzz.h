/* fuzz.h - one reader under random bytes.
 *
 * A fuzzer defines fuzz_read, the file's name and its seeds, and includes this. Built as it is,
 * it replays the same few thousand mutations of its seeds each time (in `make test`). Built with
 *     clang -fsanitize=fuzzer,address,undefined -DQKV_LIBFUZZER ... tests/fuzz/test_NAME.c
 * it is a libFuzzer program. A failure is a crash, a leak or a sentence without the file's name. */
#ifndef QKV_TESTS_FUZZ_H
#define QKV_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "readers.h"

/* What a fuzzer defines before it calls fuzz_main or has libFuzzer call it. */
typedef struct {
    qkv_status (*read)(qkv_context *ctx, const char *path);
    const char *seeds[8]; /* files, NULL at the end; then texts */
    const char *texts[8];
    size_t rounds; /* 0: FUZZ_ROUNDS */
} fuzz_target;

extern const fuzz_target fuzz;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a file of this process; its path. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/qkv-fuzz-%ld", (long)getpid());
    unlink(path);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qkv_context *ctx;
    qkv_context_options options = qkv_context_defaults();
    const char *path = fuzz_file(data, size);
    options.threads = 1;
    if (qkv_context_create(&ctx, &options))
        abort();
    if (fuzz.read(ctx, path) && !strstr(qkv_context_message(ctx), path))
        abort();
    if (qkv_context_memory(ctx).live_bytes)
        abort();
    qkv_context_destroy(ctx);
    unlink(path);
    return 0;
}

#ifndef QKV_LIBFUZZER

enum { FUZZ_ROUNDS = 2000, FUZZ_BYTES = 1 << 16 };

/* Fills bytes with seed number i; 0 when there is none. */
static inline size_t fuzz_seed(size_t i, uint8_t *bytes)
{
    size_t files = 0;
    while (fuzz.seeds[files])
        files++;
    if (i >= files) {
        const char *text = fuzz.texts[i - files];
        size_t size = text ? strlen(text) : 0;
        memcpy(bytes, text ? text : "", size);
        return size;
    }
    FILE *f = fopen(fuzz.seeds[i], "rb");
    if (!f)
        abort();
    size_t size = fread(bytes, 1, FUZZ_BYTES / 2, f);
    fclose(f);
    return size;
}

/* Changes, removes, repeats or inserts a few bytes; most changes fall into the first 600, where
 * headers are. */
static inline size_t fuzz_mutate(qkv_rng *rng, uint8_t *bytes, size_t size)
{
    static const char words[] = "0123456789{}[]\",:-.eE()'\\ \n";
    uint32_t changes = 1 + qkv_rng_below(rng, 4);
    while (changes-- && size) {
        size_t reach = qkv_rng_below(rng, 4) && size > 600 ? 600 : size;
        size_t at = qkv_rng_below(rng, (uint32_t)reach);
        size_t length = 1 + qkv_rng_below(rng, 16);
        length = length < size - at ? length : size - at;
        switch (qkv_rng_below(rng, 6)) {
        case 0: bytes[at] = (uint8_t)qkv_rng_u32(rng); break;
        case 1: bytes[at] ^= (uint8_t)(1u << qkv_rng_below(rng, 8)); break;
        case 2: bytes[at] = (uint8_t)words[qkv_rng_below(rng, sizeof words - 1)]; break;
        case 3:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        case 4:
            if (size + length <= FUZZ_BYTES) {
                memmove(bytes + at + length, bytes + at, size - at);
                size += length;
            }
            break;
        default: size = at; break;
        }
    }
    return size;
}

int main(void)
{
    static uint8_t bytes[FUZZ_BYTES];
    size_t seeds = 0;
    qkv_rng rng;
    qkv_rng_init(&rng, 1, 0);
    while (fuzz_seed(seeds, bytes))
        seeds++;
    size_t rounds = fuzz.rounds ? fuzz.rounds : FUZZ_ROUNDS;
    for (size_t i = 0; i < rounds; i++) {
        size_t size = fuzz_seed(i % seeds, bytes);
        if (i >= seeds)
            size = fuzz_mutate(&rng, bytes, size);
        LLVMFuzzerTestOneInput(bytes, size);
    }
    printf("%zu inputs\n", rounds);
    return 0;
}

#endif
#endif
