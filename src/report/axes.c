/* axes.c - what the positions of a pass are, its images, and what is predicted at them. */
#include "report/looking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qkv_status name_positions(qkv__looking *l, qkv_look_axis *a, const char *name, size_t count)
{
    a->name = name;
    a->count = count;
    a->labels = qkv_calloc(l->p->ctx, count + 1, sizeof *a->labels);
    l->out->axes_count += a->labels != NULL;
    return a->labels ? QKV_OK : QKV_E_MEMORY;
}

char *qkv__look_token_text(const qkv_pipeline *p, int32_t id)
{
    qkv_text text = {0};
    const char *spelled = NULL;
    char *copy = NULL;
    qkv_status status = qkv_tokenizer_decode(p->tokenizer, &id, 1, QKV_DECODE_VALID, &text);
    if (status || !text.len)
        spelled = qkv_tokenizer_token(p->tokenizer, id, NULL);
    if (status != QKV_E_MEMORY && (spelled || !text.len))
        copy = qkv_strdup(p->ctx, spelled ? spelled : "");
    else if (!status && (copy = qkv_malloc(p->ctx, text.len + 1)) != NULL) {
        memcpy(copy, text.data, text.len);
        copy[text.len] = 0;
    }
    qkv_text_free(&text, p->ctx);
    return copy;
}

qkv_status qkv__look_tokens(qkv__looking *l, size_t axis, const char *name)
{
    const qkv_ids *ids = &l->ids[axis];
    qkv_look_axis *a = &l->out->axes[axis];
    qkv_status status = name_positions(l, a, name, ids->count);
    for (size_t i = 0; i < ids->count && !status; i++)
        status = (a->labels[i] = qkv__look_token_text(l->p, ids->data[i])) ? QKV_OK : QKV_E_MEMORY;
    return status;
}

qkv_status qkv__look_patches(qkv__looking *l, size_t axis, const char *name, size_t lead,
                             size_t grid_rows, size_t columns, const int32_t *cells, size_t count)
{
    qkv_look_axis *a = &l->out->axes[axis];
    qkv_status status = name_positions(l, a, name, lead + count);
    a->lead = lead;
    a->rows = grid_rows;
    a->columns = columns;
    if (!status && cells && !(a->cells = qkv_malloc(l->p->ctx, (count + 1) * sizeof *a->cells)))
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < count && a->cells && !status; i++)
        a->cells[i] = cells[i];
    for (size_t i = 0; i < lead + count && !status; i++) {
        char label[48];
        size_t cell = i < lead ? 0 : a->cells ? (size_t)a->cells[i - lead] : i - lead;
        if (i < lead)
            (void)snprintf(label, sizeof label, "[CLS]");
        else
            (void)snprintf(label, sizeof label, "%zu,%zu", cell / columns, cell % columns);
        status = (a->labels[i] = qkv_strdup(l->p->ctx, label)) ? QKV_OK : QKV_E_MEMORY;
    }
    return status;
}

qkv_status qkv__look_steps(qkv__looking *l, size_t axis, const char *name, size_t from, size_t span,
                           size_t count)
{
    const qkv_look_series *s = &l->out->series;
    qkv_look_axis *a = &l->out->axes[axis];
    qkv_status status = name_positions(l, a, name, count);
    a->from = from;
    a->span = span;
    for (size_t i = 0; i < count && !status; i++) {
        char label[64];
        size_t behind = s->read + s->made, last = from + (i + 1) * span;
        size_t first = s->first + from + i * span + 1;
        last = s->first + (last < behind ? last : behind); /* the last token may be padded */
        if (first == last)
            (void)snprintf(label, sizeof label, "row %zu", first);
        else
            (void)snprintf(label, sizeof label, "rows %zu-%zu", first, last);
        status = (a->labels[i] = qkv_strdup(l->p->ctx, label)) ? QKV_OK : QKV_E_MEMORY;
    }
    return status;
}

qkv_status qkv__look_add_image(qkv__looking *l, const char *name, const qkv_image *image)
{
    qkv_look_image *to = &l->out->images[l->out->images_count];
    qkv_status status = qkv_image_create(&to->image, l->p->ctx, image->width, image->height,
                                         image->channels);
    if (status)
        return status;
    memcpy(to->image.data, image->data, image->width * image->height * image->channels);
    to->name = name;
    l->out->images_count++;
    return QKV_OK;
}

qkv_status qkv__look_guesses(qkv__looking *l, size_t axis, size_t layers)
{
    qkv_look *out = l->out;
    size_t n = layers * out->axes[axis].count;
    if (!l->o.top)
        return QKV_OK;
    out->guesses = qkv_calloc(l->p->ctx, n + 1, l->o.top * sizeof *out->guesses);
    out->predicted = axis;
    out->lens_layers = layers;
    out->top = out->guesses ? l->o.top : 0;
    return out->guesses ? QKV_OK : QKV_E_MEMORY;
}

static int more_likely(const void *a, const void *b)
{
    const qkv_look_guess *x = a, *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

qkv_status qkv__look_classes(qkv__looking *l, const qkv_real *probabilities, size_t count)
{
    qkv_look *out = l->out;
    out->classes = qkv_calloc(l->p->ctx, count + 1, sizeof *out->classes);
    if (!out->classes)
        return QKV_E_MEMORY;
    out->class_count = count;
    for (size_t i = 0; i < count; i++)
        out->classes[i] = (qkv_look_guess){(int32_t)i, (float)probabilities[i]};
    qsort(out->classes, count, sizeof *out->classes, more_likely);
    return QKV_OK;
}

static int look_by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

qkv_status qkv__look_name_words(qkv__looking *l)
{
    qkv_look *out = l->out;
    size_t n = out->top ? out->lens_layers * out->axes[out->predicted].count * out->top : 0;
    size_t all = n + out->class_count, kept = 0;
    out->word_ids = qkv_calloc(l->p->ctx, all + 1, sizeof *out->word_ids);
    out->words = qkv_calloc(l->p->ctx, all + 1, sizeof *out->words);
    if (!out->word_ids || !out->words)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < all; i++)
        out->word_ids[i] = i < n ? out->guesses[i].id : out->classes[i - n].id;
    qsort(out->word_ids, all, sizeof *out->word_ids, look_by_id);
    for (size_t i = 0; i < all; i++)
        if (out->word_ids[i] >= 0 && (!kept || out->word_ids[i] != out->word_ids[kept - 1]))
            out->word_ids[kept++] = out->word_ids[i];
    for (; out->word_count < kept; out->word_count++) {
        int32_t id = out->word_ids[out->word_count];
        char *word = l->kind && l->kind->word ? l->kind->word(l, id)
                     : out->class_count
                         ? qkv_strdup(l->p->ctx, qkv_pipeline_label(l->p, (size_t)id))
                         : qkv__look_token_text(l->p, id);
        if (!word)
            return QKV_E_MEMORY;
        out->words[out->word_count] = word;
    }
    return QKV_OK;
}

const char *qkv_look_word(const qkv_look *l, int32_t id)
{
    const int32_t *at = NULL;
    if (l->word_count)
        at = bsearch(&id, l->word_ids, l->word_count, sizeof id, look_by_id);
    return at ? l->words[at - l->word_ids] : "";
}

