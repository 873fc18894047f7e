/* test_records.c - record files under random changes; of those that are accepted, every sequence
 * is walked and packs are made. */
#include "fuzz.h"

#include "qkv/records.h"

static qkv_status read_records(qkv_context *ctx, const char *path)
{
    qkv_records *r;
    qkv_packs *packs;
    const uint64_t *members;
    uint64_t sum = 0;
    qkv_status status = qkv_records_open(&r, ctx, path);
    if (status)
        return status;
    for (size_t f = 0; f < qkv_records_fields(r); f++) {
        sum += (uint64_t)qkv_records_max(r, f) + qkv_records_ids(r, f);
        for (size_t i = 0; i < qkv_records_count(r); i++) {
            const int32_t *ids;
            size_t n = qkv_records_get(r, i, f, &ids);
            while (n--) {
                if (ids[n] < 0)
                    abort();
                sum += (uint64_t)ids[n];
            }
        }
    }
    if (sum == UINT64_MAX) /* or else nobody needs the sum */
        puts("");
    if (qkv_records_count(r) && !qkv_packs_create(&packs, ctx, r, 8, 1)) {
        for (uint64_t pack = 0; pack < 5; pack++)
            for (size_t n = qkv_packs_get(packs, pack, &members); n--;)
                if (members[n] >= qkv_records_count(r))
                    abort();
        qkv_packs_destroy(packs);
    }
    qkv_records_close(r);
    return QKV_OK;
}

const fuzz_target fuzz = {.read = read_records,
                          .seeds = {QKV_SOURCE_DIR "/tests/golden/io/pairs.records"}};
