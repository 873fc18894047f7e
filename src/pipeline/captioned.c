/* captioned.c - images with captions, from files into sets. */
#include "pipeline/captioned.h"

#include <string.h>

#include "qkv/corpus.h"
#include "qkv/file.h"

void qkv__captioned_close(qkv__captioned *c)
{
    qkv_pixels_close(c->images);
    qkv__captions_close(&c->captions);
    qkv_free(c->ctx, c->begins);
    qkv_free(c->ctx, c->ends);
    *c = (qkv__captioned){0};
}

/* The name of an image in the folder; else all of it. */
static const char *captioned_name(const char *name, const char *folder)
{
    size_t n = strlen(folder);
    while (n && folder[n - 1] == '/')
        n--;
    return strncmp(name, folder, n) == 0 && name[n] == '/' ? name + n + strspn(name + n, "/")
                                                           : name;
}

static qkv_status read_captions(qkv__captioned *c, const char *images, const char *captions)
{
    if (!qkv_dir_exists(captions))
        return qkv__captions_read(&c->captions, c->ctx, captions);
    size_t count = qkv_pixels_count(c->images);
    const char **names = qkv_calloc(c->ctx, count, sizeof *names);
    for (size_t i = 0; i < count && names; i++)
        names[i] = captioned_name(qkv_pixels_name(c->images, i), images);
    qkv_status status = names ? qkv__captions_beside(&c->captions, c->ctx, captions, names, count)
                              : QKV_E_MEMORY;
    qkv_free(c->ctx, names);
    return status;
}

/* What no image has. */
static void captioned_note(const qkv__captioned *c, const char *captions)
{
    const qkv__caption *first = NULL;
    size_t unused = 0;
    for (size_t i = 0; i < c->captions.count; i++)
        if (!c->captions.items[i].used) {
            first = first && first->line < c->captions.items[i].line ? first
                                                                    : &c->captions.items[i];
            unused++;
        }
    if (unused)
        qkv__note(c->ctx, "%s: %zu of %zu captions are left out, whose images are not there: %s "
                  "in line %zu is the first", captions, unused, c->captions.count, first->file,
                  first->line);
    if (c->captions.blank)
        qkv__note(c->ctx, "%s: %zu captions are empty and left out", captions, c->captions.blank);
}

/* Leaves the images (count) that have captions. */
static qkv_status keep_images(qkv__captioned *c, const size_t *kept, size_t count,
                              const char *images)
{
    qkv_pixels *all = c->images;
    size_t had = qkv_pixels_count(all);
    if (count == had)
        return QKV_OK;
    size_t missing = 0;
    while (missing < count && kept[missing] == missing)
        missing++;
    qkv_status status = qkv__pixels_copy(&c->images, c->ctx, NULL, all, kept, count, NULL, images);
    qkv__note(c->ctx, "%s: %zu of %zu images are left out, which have no caption: %s is the first",
              images, had - count, had, qkv_pixels_name(all, missing));
    qkv_pixels_close(all);
    return status;
}

static qkv_status give_captions(qkv__captioned *c, const char *images, const char *captions)
{
    size_t all = qkv_pixels_count(c->images), count = 0;
    size_t *kept = qkv_calloc(c->ctx, all, sizeof *kept);
    c->begins = qkv_calloc(c->ctx, all, sizeof *c->begins);
    c->ends = qkv_calloc(c->ctx, all, sizeof *c->ends);
    qkv_status status = kept && c->begins && c->ends ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < all && !status; i++) {
        status = qkv__captions_of(&c->captions, qkv_pixels_name(c->images, i), &c->begins[count],
                                  &c->ends[count]);
        kept[count] = i;
        count += !status && c->ends[count] > c->begins[count];
    }
    if (status && status != QKV_E_MEMORY)
        status = qkv_fail_prefix(c->ctx, captions);
    if (!status && !count)
        status = qkv_fail(c->ctx, QKV_E_FORMAT, "%s: no caption of an image of %s is there%s%s",
                          captions, images, c->captions.count ? ", but one of " : "",
                          c->captions.count ? c->captions.items[0].file : "");
    if (!status) {
        captioned_note(c, captions);
        status = keep_images(c, kept, count, images);
    }
    qkv_free(c->ctx, kept);
    return status;
}

qkv_status qkv__captioned_load(qkv__captioned *c, qkv_context *ctx, const char *images,
                               const char *captions, const qkv_image_format *format)
{
    *c = (qkv__captioned){.ctx = ctx};
    qkv_status status = qkv__images_load(&c->images, ctx, images, format);
    if (!status)
        status = read_captions(c, images, captions);
    return status ? status : give_captions(c, images, captions);
}

/* ---- records ------------------------------------------------------------------------------ */

static qkv_status add_record(qkv_records_writer *w, qkv_context *ctx, qkv_tokenizer *t,
                             const char *text, size_t length, int32_t image, qkv_ids *ids,
                             size_t *cut)
{
    const qkv_text_pair alone = {.text = text, .len = strlen(text)};
    size_t second;
    bool shorter = false;
    qkv_status status = qkv_corpus_encode(t, ctx, &alone, length, ids, &second, &shorter);
    *cut += shorter;
    if (!status)
        status = qkv_records_add(w, ids->data, ids->count);
    if (!status)
        status = qkv_records_add(w, NULL, 0);
    return status ? status : qkv_records_add(w, &image, 1);
}

qkv_status qkv__captioned_records(qkv_records **out, const qkv__captioned *c, qkv_tokenizer *t,
                                  size_t length, const size_t *numbers, size_t count,
                                  const char *path)
{
    enum { FIELDS = 3 };
    qkv_records_writer *w = NULL;
    qkv_ids ids = {0};
    size_t cut = 0, total = 0;
    *out = NULL;
    qkv_status status = qkv_records_create(&w, c->ctx, path, FIELDS);
    for (size_t i = 0; i < count && !status; i++) {
        size_t image = numbers ? numbers[i] : i;
        for (size_t k = c->begins[image]; k < c->ends[image] && !status; k++, total++)
            status = add_record(w, c->ctx, t, c->captions.items[k].text, length, (int32_t)i, &ids,
                                &cut);
    }
    qkv_ids_free(&ids, c->ctx);
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    if (cut)
        qkv__note(c->ctx, "%zu of %zu captions have more than %zu tokens: their ends are not read",
                  cut, total, length);
    return qkv_records_finish(w, out);
}
