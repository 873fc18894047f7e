/* test_checkpoint.c - taming-transformers' checkpoints of VQGAN, made models, under random changes:
 * whatever their shapes claim, what is taken stays small. */
#include "fuzz.h"
#include "qkv/hub.h"

enum { MOST_BYTES = 256 << 20 };

static qkv_status read_checkpoint(qkv_context *c, const char *path)
{
    const qkv_hub_import_options o = {.skip_objects = true};
    qkv_model *m;
    qkv_status status = qkv_hub_import(&m, c, path, &o);
    qkv_model_destroy(m);
    if (qkv_context_memory(c).peak_bytes > MOST_BYTES)
        abort();
    return status;
}

#define GOLDEN(name) QKV_SOURCE_DIR "/tests/golden/taming/" name

const fuzz_target fuzz = {
    .read = read_checkpoint, .seeds = {GOLDEN("last.ckpt"), GOLDEN("last-legacy.ckpt")},
};
