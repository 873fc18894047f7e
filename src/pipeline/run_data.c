/* run_data.c - telling data that an earlier version kept. */
#include "pipeline/run_data.h"

#include "io/file.h"

qkv_status qkv__run_data_readable(qkv_context *ctx, const char *dir, const char *advice)
{
    static const char *const old[] = {"train/train.tokens", "train/train.records",
                                      "train/train.pixels"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        const qkv_path path = qkv_path_in(dir, old[i]);
        if (qkv_file_exists(path.text))
            return qkv_fail(ctx, QKV_E_UNSUPPORTED, "%s: written by an earlier version of qkv, "
                            "in a format that this one does not read: %s", path.text, advice);
    }
    return QKV_OK;
}
