/* import_source.c - files with other libraries' names: opening them, and what their shapes tell. */
#include "hub/import_source.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "model/model.h"

enum { NAME = QKV__IMPORT_NAME };

/* ---- opening -------------------------------------------------------------------------------- */

static bool import_source_ends_in(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

qkv_status qkv__import_open(qkv__import_source *f, const qkv_hub_import_options *o)
{
    qkv_status status;
    if (import_source_ends_in(f->path, strlen(f->path), ".safetensors")) {
        status = qkv_safetensors_open(&f->tensors, f->ctx, f->path);
    } else {
        qkv__pytorch_options options = {.under = o->under, .skip_objects = o->skip_objects};
        status = qkv__pytorch_open(&f->pytorch, f->ctx, f->path, &options);
        if (!status)
            status = qkv__pytorch_view(&f->tensors, f->pytorch);
    }
    for (size_t i = 0; !status && i < qkv_safetensors_count(f->tensors); i++)
        f->parameter_count += qkv_safetensors_at(f->tensors, i)->count;
    return status;
}

void qkv__import_close(qkv__import_source *f)
{
    qkv_safetensors_close(f->tensors);
    qkv__pytorch_close(f->pytorch);
}

const qkv_safetensor *qkv__import_tensor(const qkv__import_source *f, const char *name)
{
    char whole[2 * NAME];
    snprintf(whole, sizeof whole, "%s%s", f->under, name);
    return qkv_safetensors_find(f->tensors, whole);
}

/* Whether the n bytes are a place that names stand beneath: whole words, with a dot behind. */
static bool is_place(const char *name, size_t n, const char *within, const char *part)
{
    size_t m = within ? strlen(within) : 0, k = part ? strlen(part) + 1 : 0;
    if ((n && name[n - 1] != '.') ||
        (m && (n <= m || strncmp(name, within, m) != 0 || name[m] != '.')))
        return false;
    return !k || (n >= k && strncmp(name + n - k, part, k - 1) == 0 &&
                  (n == k || name[n - k - 1] == '.'));
}

qkv_status qkv__import_find(qkv__import_source *f, const char *end, const char *beside,
                            const char *within, const char *part, bool *found)
{
    char place[NAME];
    *found = false;
    f->under[0] = 0;
    for (size_t i = 0; i < qkv_safetensors_count(f->tensors); i++) {
        const char *name = qkv_safetensors_at(f->tensors, i)->name;
        size_t n = strlen(name);
        if (n >= NAME || !import_source_ends_in(name, n, end))
            continue;
        n -= strlen(end);
        if (!is_place(name, n, within, part))
            continue;
        snprintf(place, sizeof place, "%.*s", (int)n, name);
        if (*found)
            return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: two models, beneath \"%s\" and \"%s\": "
                            "one must be named", f->path, f->under, place);
        snprintf(f->under, sizeof f->under, "%s", place);
        *found = qkv__import_tensor(f, beside) != NULL;
    }
    return QKV_OK;
}

/* ---- measuring ------------------------------------------------------------------------------ */

qkv_status qkv__import_size(const qkv__import_source *f, const char *name, int ndim, int axis,
                            size_t *out)
{
    const qkv_safetensor *t = qkv__import_tensor(f, name);
    if (!t || t->ndim != ndim || t->count == 0)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: tensor \"%s%s\": expected %d axes, found %s",
                        f->path, f->under, name, ndim, t ? "another shape" : "no such tensor");
    *out = t->shape[axis];
    return QKV_OK;
}

size_t qkv__import_count(const qkv__import_source *f, const char *stem, size_t first, size_t step,
                         const char *end)
{
    char name[NAME];
    for (size_t n = 0;; n++) {
        snprintf(name, sizeof name, "%s.%zu.%s", stem, first + n * step, end);
        if (!qkv__import_tensor(f, name))
            return n;
    }
}

qkv_status qkv__import_heads(const qkv__import_source *f, size_t width, size_t head,
                             const char *key, size_t given, size_t *out)
{
    *out = given ? given : width / head;
    if (*out && width % *out == 0 && (given || width % head == 0))
        return QKV_OK;
    if (given)
        return qkv_fail(f->ctx, QKV_E_ARGUMENT, "%s: %s: %zu heads do not divide the width %zu",
                        f->path, key, given, width);
    return qkv_fail(f->ctx, QKV_E_ARGUMENT, "%s: %s: shapes do not tell it, and the width %zu is "
                    "no multiple of %zu: it must be given", f->path, key, width, head);
}

qkv_status qkv__import_make(qkv_model **out, const qkv__import_source *f,
                            const qkv_model_type *type, const void *config)
{
    double parameter_count = type->parameter_count(type, config);
    if (parameter_count > (double)f->parameter_count)
        return qkv_fail(f->ctx, QKV_E_FORMAT, "%s: shapes of a model of %.0f numbers or more, "
                        "the file has %zu", f->path, parameter_count, f->parameter_count);
    return qkv_model_create(out, f->ctx, type, config) ? qkv_fail_prefix(f->ctx, f->path)
                                                       : QKV_OK;
}
