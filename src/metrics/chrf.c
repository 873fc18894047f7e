/* chrf.c - chrF2 of a corpus with one reference: F of character n-grams, blanks left out, as
 * sacrebleu has it (effective order, no words). */
#include "metrics/score.h"

struct qkv_chrf {
    qkv_context *ctx;
    bool lowercase;
    qkv_ids hyp, ref; /* a line's code points */
    qkv_str line;
    qkv__overlap overlap;
    qkv_chrf_score sums; /* the counts alone */
};

static qkv_status characters_of(qkv_chrf *c, qkv_ids *out, const char *text, size_t len,
                                const char *side)
{
    qkv_status status = qkv__score_line(&c->line, text, len, c->lowercase, side);
    out->count = 0;
    if (!status && !qkv__ids_reserve(c->ctx, out, c->line.len))
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < c->line.len && !status;) {
        int32_t cp;
        i += qkv__utf8_next(c->line.data + i, c->line.len - i, &cp);
        if (!qkv__is_blank(cp))
            out->data[out->count++] = cp;
    }
    return status;
}

qkv_status qkv_chrf_create(qkv_chrf **out, qkv_context *ctx, bool lowercase)
{
    qkv_chrf *c = *out = qkv_calloc(ctx, 1, sizeof *c);
    if (!c)
        return QKV_E_MEMORY;
    c->ctx = ctx;
    c->lowercase = lowercase;
    qkv_str_init(&c->line, ctx);
    return QKV_OK;
}

void qkv_chrf_destroy(qkv_chrf *c)
{
    if (!c)
        return;
    qkv_ids_free(&c->hyp, c->ctx);
    qkv_ids_free(&c->ref, c->ctx);
    qkv_str_free(&c->line);
    qkv__overlap_free(&c->overlap, c->ctx);
    qkv_free(c->ctx, c);
}

qkv_status qkv_chrf_add(qkv_chrf *c, const char *hyp, size_t hyp_len, const char *ref,
                        size_t ref_len)
{
    size_t matches[QKV_CHRF_ORDERS];
    qkv_status status = characters_of(c, &c->ref, ref, ref_len, "reference");
    if (!status)
        status = characters_of(c, &c->hyp, hyp, hyp_len, "hypothesis");
    if (!status)
        status = qkv__overlap_count(&c->overlap, c->ctx, &c->hyp, &c->ref, QKV_CHRF_ORDERS,
                                    matches);
    if (status)
        return status;
    for (size_t n = 0; n < QKV_CHRF_ORDERS; n++) {
        size_t in_ref = qkv__ngrams(c->ref.count, n + 1);
        c->sums.matches[n] += matches[n];
        c->sums.ref[n] += in_ref;
        if (in_ref)
            c->sums.hyp[n] += qkv__ngrams(c->hyp.count, n + 1);
    }
    return QKV_OK;
}

static qkv_status chrf_add_pair(void *user, const char *hyp, size_t hyp_len, const char *ref,
                                size_t ref_len)
{
    return qkv_chrf_add(user, hyp, hyp_len, ref, ref_len);
}

qkv_status qkv_chrf_add_texts(qkv_chrf *c, const qkv_text_span *hyp, const qkv_text_span *ref)
{
    return qkv__score_texts(c->ctx, hyp, ref, chrf_add_pair, c);
}

void qkv_chrf_result(const qkv_chrf *c, qkv_chrf_score *out)
{
    const double weight = 2 * 2; /* beta squared */
    double precision = 0, recall = 0;
    int orders = 0;
    *out = c->sums;
    for (size_t n = 0; n < QKV_CHRF_ORDERS; n++) {
        if (out->hyp[n] == 0 || out->ref[n] == 0)
            continue;
        precision += (double)out->matches[n] / (double)out->hyp[n];
        recall += (double)out->matches[n] / (double)out->ref[n];
        orders++;
    }
    if (orders == 0 || precision + recall == 0)
        return;
    precision /= orders;
    recall /= orders;
    out->precision = 100 * precision;
    out->recall = 100 * recall;
    double f = (1 + weight) * precision * recall;
    out->chrf = 100 * (f / (weight * precision + recall));
}
