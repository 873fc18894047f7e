/* resegment.c - ids of a text become other ids of the same text, drawn at random. The text is
 * what the ids decode to, so nobody has to keep it. */
#include <string.h>

#include "tokenizer/object.h"

static bool is_special(const qkv_tokenizer *t, int32_t id)
{
    for (size_t role = 0; role < QKV_TOKEN_ROLES; role++)
        if (t->special[role] == id)
            return true;
    return qkv_tokenizer_is_special(t, id);
}

static qkv_status resegment_append(qkv_context *ctx, qkv_ids *out, const int32_t *ids, size_t count)
{
    if (!qkv__grow(ctx, &out->data, &out->capacity, out->count + count, sizeof *out->data))
        return QKV_E_MEMORY;
    if (count)
        memcpy(out->data + out->count, ids, count * sizeof *ids);
    out->count += count;
    return QKV_OK;
}

/* *same: ids are the text's best cut. They need not be, where something is unknown. */
static qkv_status gives_back(qkv_tokenizer *t, const qkv_text *text, unsigned flags,
                             const int32_t *ids, size_t count, qkv_ids *scratch, bool *same)
{
    size_t before = scratch->count;
    *same = false;
    qkv_status status = qkv_tokenizer_encode(t, text->data, text->len, flags, scratch);
    if (status)
        return status;
    *same = scratch->count - before == count &&
            memcmp(scratch->data + before, ids, count * sizeof *ids) == 0;
    scratch->count = before;
    return QKV_OK;
}

qkv_status qkv_tokenizer_resegment(qkv_tokenizer *t, const int32_t *ids, size_t count,
                                   unsigned flags, double amount, uint64_t seed, qkv_ids *out)
{
    size_t before = out->count, begin = 0, end = count;
    qkv_text text = {0};
    bool same = false;
    flags = (flags & ~(unsigned)QKV_ENCODE_ADD_SPECIAL) | QKV_ENCODE_PLAIN;
    while (begin < end && is_special(t, ids[begin]))
        begin++;
    while (end > begin && is_special(t, ids[end - 1]))
        end--;
    qkv_status status = resegment_append(t->ctx, out, ids, begin);
    if (!status && end > begin)
        status = qkv_tokenizer_decode(t, ids + begin, end - begin, 0, &text);
    if (!status && end > begin)
        status = gives_back(t, &text, flags, ids + begin, end - begin, out, &same);
    if (!status && same) {
        status = qkv_tokenizer_sample(t, amount, seed);
        if (!status)
            status = qkv_tokenizer_encode(t, text.data, text.len, flags, out);
        (void)qkv_tokenizer_sample(t, 0, 0);
    } else if (!status) {
        status = resegment_append(t->ctx, out, ids + begin, end - begin);
    }
    if (!status)
        status = resegment_append(t->ctx, out, ids + end, count - end);
    if (status)
        out->count = before;
    qkv_text_free(&text, t->ctx);
    return status;
}
