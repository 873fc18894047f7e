/* pairs.c - two files of sentences become records of ids. */
#include "train/pairs.h"

#include "qkv/marian.h"

qkv_status cli_pairs_open(cli_pairs *p, cli *c, const char *source, const char *target)
{
    const char *const paths[] = {source, target};
    size_t lines[CLI_SIDES] = {0};
    for (int i = 0; i < CLI_SIDES; i++) {
        qkv_status status = qkv_texts_open_one(&p->text[i], c->ctx, paths[i]);
        if (status)
            return status;
        lines[i] = qkv__count_lines(&p->text[i].parts[0]);
    }
    p->lines = lines[CLI_SOURCE];
    if (lines[CLI_SOURCE] != lines[CLI_TARGET])
        return qkv_fail(c->ctx, QKV_E_FORMAT, "%s has %zu lines and %s has %zu: as many expected, "
                        "each the translation of the same line", source, lines[CLI_SOURCE],
                        target, lines[CLI_TARGET]);
    return QKV_OK;
}

void cli_pairs_close(cli_pairs *p)
{
    for (int i = 0; i < CLI_SIDES; i++)
        qkv_texts_close(&p->text[i]);
}

qkv_text_part cli_pairs_text(const cli_pairs *p, int side, size_t lines)
{
    qkv_text_part part = p->text[side].parts[0];
    const char *at = part.data;
    qkv_line l;
    for (size_t i = 0; i < lines; i++)
        qkv_next_line(&at, part.data + part.len, &l);
    part.len = (size_t)(at - part.data);
    return part;
}

/* ---- records ------------------------------------------------------------------------------ */

typedef struct {
    cli *c;
    const qkv_marian_config *config;
    qkv_tokenizer *tokenizer;
    qkv_records_writer *out;
    qkv_ids ids[CLI_SIDES];
    size_t kept, empty, longer; /* pairs; left out for an empty side; for a side too long */
} encoder;

/* The ids of one side's line and the token that ends it. */
static qkv_status encode(encoder *e, const cli_pairs *p, int side, const qkv_line *line,
                         size_t number)
{
    qkv_ids *ids = &e->ids[side];
    ids->count = 0;
    qkv_status status = qkv_tokenizer_encode(e->tokenizer, line->data, line->len,
                                             side == CLI_TARGET ? QKV_ENCODE_TARGET : 0, ids);
    if (status)
        return qkv_fail(e->c->ctx, status, "%s, line %zu: %s", p->text[side].parts[0].name,
                        number, qkv_context_message(e->c->ctx));
    return qkv_ids_add(e->c->ctx, ids, e->config->eos);
}

static qkv_status add(encoder *e)
{
    const qkv_ids *s = &e->ids[CLI_SOURCE], *t = &e->ids[CLI_TARGET];
    size_t most = e->config->positions;
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

static qkv_status add_lines(encoder *e, const cli_pairs *p, size_t from, size_t to)
{
    const char *at[CLI_SIDES], *end[CLI_SIDES];
    qkv_status status = QKV_OK;
    for (int i = 0; i < CLI_SIDES; i++) {
        qkv_text_part before = cli_pairs_text(p, i, from);
        at[i] = before.data + before.len;
        end[i] = before.data + p->text[i].parts[0].len;
    }
    for (size_t k = from; k < to && !status; k++) {
        for (int i = 0; i < CLI_SIDES && !status; i++) {
            qkv_line line;
            qkv_next_line(&at[i], end[i], &line);
            status = encode(e, p, i, &line, k + 1);
        }
        if (!status)
            status = add(e);
    }
    return status;
}

qkv_status cli_pairs_records(const cli_pairs *p, cli *c, const qkv_model *model,
                             qkv_tokenizer *tokenizer, size_t from, size_t to, const char *path,
                             qkv_records **out)
{
    encoder e = {.c = c, .config = qkv_model_config(model), .tokenizer = tokenizer};
    const char *name = p->text[CLI_SOURCE].parts[0].name;
    qkv_status status = qkv_records_create(&e.out, c->ctx, path, CLI_SIDES);
    if (!status)
        status = add_lines(&e, p, from, to);
    if (!status && !e.kept)
        status = qkv_fail(c->ctx, QKV_E_FORMAT, "%s: no pair of 1 to %zu tokens a side is left",
                          name, e.config->positions - 1);
    if (status)
        qkv_records_abandon(e.out);
    else
        status = qkv_records_finish(e.out, out);
    for (int i = 0; i < CLI_SIDES; i++)
        qkv_ids_free(c->ctx, &e.ids[i]);
    if (!status && e.empty + e.longer)
        cli_note(c, "%s: %zu pairs with an empty side and %zu of more than %zu tokens are left out",
                 name, e.empty, e.longer, e.config->positions);
    return status;
}
