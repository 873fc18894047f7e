/* pairs.c - two files of sentences become records of ids. */
#include "text/pairs.h"

qkv_status qkv__pairs_open(qkv__pairs *p, qkv_context *ctx, const char *source,
                           const char *target)
{
    const char *const paths[] = {source, target};
    size_t lines[QKV__SIDES] = {0};
    p->ctx = ctx;
    for (int i = 0; i < QKV__SIDES; i++) {
        qkv_status status = qkv_texts_open_one(&p->text[i], ctx, paths[i]);
        if (status)
            return status;
        lines[i] = qkv__count_lines(&p->text[i].spans[0]);
    }
    p->lines = lines[QKV__SOURCE];
    if (lines[QKV__SOURCE] != lines[QKV__TARGET])
        return qkv_fail(ctx, QKV_E_FORMAT, "%s has %zu lines and %s has %zu: as many expected, "
                        "each the translation of the same line", source, lines[QKV__SOURCE],
                        target, lines[QKV__TARGET]);
    return QKV_OK;
}

void qkv__pairs_close(qkv__pairs *p)
{
    for (int i = 0; i < QKV__SIDES; i++)
        qkv_texts_close(&p->text[i]);
}

qkv_text_span qkv__pairs_text(const qkv__pairs *p, int side, size_t lines)
{
    qkv_text_span part = p->text[side].spans[0];
    const char *at = part.data;
    qkv_line l;
    for (size_t i = 0; i < lines; i++)
        qkv_next_line(&at, part.data + part.len, &l);
    part.len = (size_t)(at - part.data);
    return part;
}

/* ---- records ------------------------------------------------------------------------------ */

typedef struct {
    qkv_context *ctx;
    qkv__pairs_coding coding;
    qkv_records_writer *out;
    qkv_ids ids[QKV__SIDES];
    size_t kept, empty, longer; /* pairs; left out for an empty side; for a side too long */
} encoder;

/* The ids of one side's line and the token that ends it. */
static qkv_status pairs_encode(encoder *e, const qkv__pairs *p, int side, const qkv_line *line,
                               size_t number)
{
    qkv_ids *ids = &e->ids[side];
    ids->count = 0;
    qkv_status status = qkv_tokenizer_encode(e->coding.tokenizer, line->data, line->len,
                                             side == QKV__TARGET ? QKV_ENCODE_TARGET : 0, ids);
    if (status)
        return qkv_fail(e->ctx, status, "%s, line %zu: %s", p->text[side].spans[0].name,
                        number, qkv_context_message(e->ctx));
    return qkv_ids_add(ids, e->ctx, e->coding.eos);
}

static qkv_status pairs_add(encoder *e)
{
    const qkv_ids *s = &e->ids[QKV__SOURCE], *t = &e->ids[QKV__TARGET];
    size_t most = e->coding.positions;
    if (s->count < 2 || t->count < 2) {
        e->empty++;
        return QKV_OK;
    }
    if (s->count > most || t->count > most) {
        e->longer++;
        return QKV_OK;
    }
    e->kept++;
    qkv_status status = qkv_records_add(e->out, s->data, s->count);
    return status ? status : qkv_records_add(e->out, t->data, t->count);
}

static qkv_status add_lines(encoder *e, const qkv__pairs *p, size_t from, size_t to)
{
    const char *at[QKV__SIDES], *end[QKV__SIDES];
    qkv_status status = QKV_OK;
    for (int i = 0; i < QKV__SIDES; i++) {
        qkv_text_span before = qkv__pairs_text(p, i, from);
        at[i] = before.data + before.len;
        end[i] = before.data + p->text[i].spans[0].len;
    }
    for (size_t k = from; k < to && !status; k++) {
        for (int i = 0; i < QKV__SIDES && !status; i++) {
            qkv_line line;
            qkv_next_line(&at[i], end[i], &line);
            status = pairs_encode(e, p, i, &line, k + 1);
        }
        if (!status)
            status = pairs_add(e);
    }
    return status;
}

qkv_status qkv__pairs_records(qkv_records **out, const qkv__pairs *p,
                              const qkv__pairs_coding *coding, size_t from, size_t to,
                              const char *path)
{
    encoder e = {.ctx = p->ctx, .coding = *coding};
    const char *name = p->text[QKV__SOURCE].spans[0].name;
    qkv_status status = qkv_records_create(&e.out, p->ctx, path, QKV__SIDES);
    if (!status)
        status = add_lines(&e, p, from, to);
    if (!status && !e.kept)
        status = qkv_fail(p->ctx, QKV_E_FORMAT, "%s: no pair of 1 to %zu tokens a side is left",
                          name, coding->positions - 1);
    if (status)
        qkv_records_abandon(e.out);
    else
        status = qkv_records_finish(e.out, out);
    for (int i = 0; i < QKV__SIDES; i++)
        qkv_ids_free(&e.ids[i], p->ctx);
    if (!status && e.empty + e.longer)
        qkv__note(p->ctx, "%s: %zu pairs with an empty side and %zu of more than %zu tokens are "
                  "left out", name, e.empty, e.longer, coding->positions);
    return status;
}
