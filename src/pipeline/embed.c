/* embed.c - vectors of a user's texts and images. */
#include "base/utf8.h"
#include "pipeline/image.h"
#include "pipeline/image_set.h"
#include "qkv/infer.h"
#include "qkv/npy.h"
#include "qkv/pipeline_embed.h"
#include "task/vectors.h"
#include "text/texts.h"

#include <string.h>

enum { BATCH = 1024 }; /* texts between two reports of progress */

void qkv_vectors_free(qkv_vectors *v)
{
    for (size_t i = 0; i < v->count && v->names; i++)
        qkv_free(v->ctx, v->names[i]);
    qkv_free(v->ctx, v->names);
    qkv_free(v->ctx, v->data);
    *v = (qkv_vectors){0};
}

/* Room for the vectors of `count` things. */
static qkv_status vectors_create(qkv_vectors *v, qkv_context *ctx, size_t count, size_t width)
{
    *v = (qkv_vectors){.ctx = ctx, .count = count, .width = width};
    v->data = qkv_calloc(ctx, count, width * sizeof *v->data);
    v->names = qkv_calloc(ctx, count, sizeof *v->names);
    return v->data && v->names ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status name_texts(qkv_vectors *v, const qkv_line *texts)
{
    for (size_t i = 0; i < v->count; i++) {
        v->names[i] = qkv_malloc(v->ctx, texts[i].len + 1);
        if (!v->names[i])
            return QKV_E_MEMORY;
        memcpy(v->names[i], texts[i].data, texts[i].len);
        v->names[i][texts[i].len] = 0;
    }
    return QKV_OK;
}

/* That every text is UTF-8. */
static qkv_status check_texts(qkv_context *ctx, const qkv_line *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t valid = qkv__utf8_valid(texts[i].data, texts[i].len);
        if (valid < texts[i].len)
            return qkv_fail(ctx, QKV_E_FORMAT, "text %zu: UTF-8 expected, found the byte 0x%02x",
                            i + 1, (unsigned char)texts[i].data[valid]);
    }
    return QKV_OK;
}

/* path: of the file that they are the lines of; NULL: there is none. */
static qkv_status embed_lines(qkv_pipeline *p, const qkv_line *texts, size_t count,
                              const char *path, qkv_vectors *out)
{
    size_t width = qkv__vector_width(p->model), cut = 0;
    qkv_status status = check_texts(p->ctx, texts, count);
    if (!status)
        status = vectors_create(out, p->ctx, count, width);
    if (!status)
        status = name_texts(out, texts);
    for (size_t done = 0; done < count && !status; done += BATCH) {
        size_t n = count - done < BATCH ? count - done : BATCH, shorter = 0;
        status = qkv_embed_texts(p->model, p->tokenizer, texts + done, n,
                                 out->data + done * width, &shorter);
        cut += shorter;
        if (!status)
            status = qkv__progress(p->ctx, "embedding", "texts", done + n, count);
    }
    if (status && path && status != QKV_E_CANCELLED)
        status = qkv_fail_prefix(p->ctx, path);
    if (!status && cut)
        qkv__note(p->ctx, "texts longer than the model reads, whose ends were not read: %zu",
                  cut);
    if (status)
        qkv_vectors_free(out);
    return status;
}

static qkv_status embed_begin(const qkv_pipeline *p, qkv_vectors *out)
{
    *out = (qkv_vectors){0};
    if (!qkv_model_can(p->model, QKV_CAN_EMBED_TEXT | QKV_CAN_EMBED_BOTH))
        return qkv__pipeline_refuse_head(p, "embed texts");
    return qkv__pipeline_text(p);
}

qkv_status qkv_pipeline_embed_texts(qkv_pipeline *p, const char *const *texts, size_t count,
                                    qkv_vectors *out)
{
    qkv_status status = embed_begin(p, out);
    if (status)
        return status;
    qkv_line *lines = qkv_calloc(p->ctx, count + 1, sizeof *lines);
    for (size_t i = 0; i < count && lines; i++)
        lines[i] = (qkv_line){texts[i], strlen(texts[i])};
    if (!lines)
        status = QKV_E_MEMORY;
    else if (!count)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "there is no text to embed");
    else
        status = embed_lines(p, lines, count, NULL, out);
    qkv_free(p->ctx, lines);
    return status;
}

/* ---- images ------------------------------------------------------------------------------ */

/* Adds the images of a set behind those that v has. */
static qkv_status add_set(qkv_pipeline *p, const qkv_pixels *set, qkv_vectors *v)
{
    size_t n = qkv_pixels_count(set), width = v->width;
    qkv_vectors more;
    qkv_status status = vectors_create(&more, p->ctx, v->count + n, width);
    if (!status)
        status = qkv_embed_images(p->model, p->tape, set, NULL, n, true,
                                  more.data + v->count * width);
    for (size_t i = 0; i < n && !status; i++) {
        const char *name = qkv_pixels_name(set, i);
        more.names[v->count + i] = qkv_strdup(p->ctx, name ? name : "");
        status = more.names[v->count + i] ? QKV_OK : QKV_E_MEMORY;
    }
    if (status) {
        qkv_vectors_free(&more);
        return status;
    }
    for (size_t i = 0; i < v->count; i++) {
        more.names[i] = v->names[i];
        v->names[i] = NULL;
    }
    if (v->count)
        memcpy(more.data, v->data, v->count * width * sizeof *v->data);
    qkv_vectors_free(v);
    *v = more;
    return QKV_OK;
}

qkv_status qkv_pipeline_embed_images(qkv_pipeline *p, const char *const *paths, size_t count,
                                     qkv_vectors *out)
{
    *out = (qkv_vectors){0};
    if (!qkv_model_can(p->model, QKV_CAN_EMBED_IMAGES | QKV_CAN_EMBED_BOTH))
        return qkv__pipeline_refuse_head(p, "embed images");
    const qkv_image_format *f = qkv__image_format_of(p->model);
    qkv_vectors v = {.ctx = p->ctx, .width = qkv__vector_width(p->model)};
    qkv_status status = count ? QKV_OK : qkv_fail(p->ctx, QKV_E_ARGUMENT, "there is no image to "
                                                  "embed");
    for (size_t i = 0; i < count && !status; i++) {
        qkv_pixels *set = NULL;
        status = qkv__images_load(&set, p->ctx, paths[i], f);
        if (!status)
            status = add_set(p, set, &v);
        qkv_pixels_close(set);
    }
    if (status)
        qkv_vectors_free(&v);
    *out = v;
    return status;
}

/* ---- files ------------------------------------------------------------------------------- */

qkv_status qkv_pipeline_embed_file(qkv_pipeline *p, const char *path, qkv_vectors *out)
{
    qkv_texts x = {0};
    if (qkv_model_can(p->model, QKV_CAN_EMBED_IMAGES) ||
        (qkv_model_can(p->model, QKV_CAN_EMBED_BOTH) && qkv_is_image_list(path)))
        return qkv_pipeline_embed_images(p, &path, 1, out);
    qkv_status status = embed_begin(p, out);
    if (!status)
        status = qkv_texts_open_one(&x, p->ctx, path);
    if (status)
        return status;
    size_t count = qkv__count_lines(&x.spans[0]);
    qkv_line *lines = qkv_calloc(p->ctx, count + 1, sizeof *lines);
    const char *at = x.spans[0].data, *end = at + x.spans[0].len;
    for (size_t i = 0; i < count && lines; i++)
        (void)qkv_next_line(&at, end, &lines[i]);
    status = lines ? embed_lines(p, lines, count, path, out) : QKV_E_MEMORY;
    qkv_free(p->ctx, lines);
    qkv_texts_close(&x);
    return status;
}

/* ---- what is made of vectors ------------------------------------------------------------- */

qkv_status qkv_vectors_nearest(const qkv_vectors *queries, const qkv_vectors *among, size_t k,
                               int32_t *ids, qkv_real *cosines)
{
    qkv_tape *t = NULL;
    if (queries->width != among->width || !among->ctx)
        return qkv_fail(queries->ctx, QKV_E_ARGUMENT, "vectors of %zu and of %zu numbers have no "
                        "cosines", queries->width, among->width);
    qkv_status status = qkv_tape_create(&t, queries->ctx);
    if (!status)
        status = qkv_nearest(t, queries->data, queries->count, among->data, among->count,
                             among->width, k, ids, cosines);
    qkv_tape_destroy(t);
    return status;
}

qkv_status qkv_vectors_save(const qkv_vectors *v, const char *path)
{
    return qkv_npy_save(v->ctx, path, 2, (const size_t[]){v->count, v->width}, v->data,
                        QKV_STORE_F32);
}
