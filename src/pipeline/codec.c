/* codec.c - opening VQGANs; grids of codes in files. */
#include "pipeline/codec.h"

#include <math.h>

#include "qkv/hub.h"
#include "qkv/image_file.h"
#include "qkv/npy.h"

qkv_status qkv__codec_check(const qkv_model *m, const char *dir)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    return type == qkv_vqgan_type()
               ? QKV_OK
               : qkv_fail(qkv_model_context(m), QKV_E_UNSUPPORTED,
                          "%s: a %s has no codes for images", dir, qkv_model_type_name(type));
}

qkv_status qkv__codec_load(qkv_model **out, qkv_context *ctx, const char *dir)
{
    qkv_status status = qkv_hub_load(out, ctx, dir);
    if (!status)
        status = qkv__codec_check(*out, dir);
    if (status) {
        qkv_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

const qkv_vqgan_config *qkv__codec_config(const qkv_model *m) { return qkv_model_config(m); }

/* Convolutions of larger images take memory beside them, and attention over as many places
 * minutes. */
qkv_status qkv__codec_size(const qkv_model *vqgan, qkv_context *ctx, const char *what, size_t rows,
                           size_t columns)
{
    enum { MOST_SIDE = 65536 }; /* as qkv_image_read has it */
    size_t factor = qkv_vqgan_factor(vqgan);
    size_t most = MOST_SIDE / factor, all = qkv_image_defaults().most / factor / factor;
    if (rows <= most && columns <= most && rows <= all / columns)
        return QKV_OK;
    return qkv_fail(ctx, QKV_E_FORMAT, "%s: at most %zu codes a side and %zu in all expected, "
                    "found %zu x %zu", what, most, all, rows, columns);
}

qkv_status qkv__codes_load(int32_t **out, qkv_context *ctx, const char *path, size_t *rows,
                           size_t *columns)
{
    qkv_array a = {0};
    qkv_status status = qkv_array_load(&a, ctx, path);
    if (!status && (a.ndim != 2 || !a.count))
        status = qkv_fail(ctx, QKV_E_FORMAT, "%s: rows x columns of codes expected, found an "
                          "array of %d axes and %zu numbers", path, a.ndim, a.count);
    *out = status ? NULL : qkv_calloc(ctx, a.count, sizeof **out);
    if (!status && !*out)
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < a.count && !status; i++) {
        double v = (double)a.data[i];
        if (!(v >= 0 && v <= INT32_MAX) || v != floor(v))
            status = qkv_fail(ctx, QKV_E_FORMAT, "%s: number %zu is %g; codes are whole numbers "
                              "from 0 on", path, i, v);
        else
            (*out)[i] = (int32_t)v;
    }
    *rows = status ? 0 : a.shape[0];
    *columns = status ? 0 : a.shape[1];
    qkv_array_free(&a);
    if (!status)
        return QKV_OK;
    qkv_free(ctx, *out);
    *out = NULL;
    return status;
}

qkv_status qkv__codes_save(qkv_context *ctx, const char *path, const int32_t *codes, size_t rows,
                           size_t columns)
{
    const size_t shape[] = {rows, columns};
    qkv_real *numbers = qkv_calloc(ctx, rows, columns * sizeof *numbers);
    for (size_t i = 0; numbers && i < rows * columns; i++)
        numbers[i] = (qkv_real)codes[i];
    qkv_status status = numbers ? qkv_npy_save(ctx, path, 2, shape, numbers, QKV_STORE_I32)
                                : QKV_E_MEMORY;
    qkv_free(ctx, numbers);
    return status;
}
