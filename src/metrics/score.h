/* score.h - what BLEU and chrF share: text as Python's str has it, common n-grams, lines. */
#ifndef QKV_SRC_METRICS_SCORE_H
#define QKV_SRC_METRICS_SCORE_H

#include "base/utf8.h"
#include "qkv/score.h"

/* ---- score_text.c ----------------------------------------------------------------------- */

/* What str.split() splits at and str.strip() strips: str.isspace(). */
bool qkv__is_blank(int32_t cp);

/* Puts a line into *out, emptied before, in lower case if asked. Refuses what is not UTF-8 and
 * lines of 2^30 bytes; side ("hypothesis") is for the sentence. */
qkv_status qkv__score_line(qkv_str *out, const char *text, size_t len, bool lowercase,
                           const char *side);

/* Gives every pair of lines to add. */
typedef qkv_status qkv__add_fn(void *user, const char *hyp, size_t hyp_len, const char *ref,
                               size_t ref_len);
qkv_status qkv__score_texts(qkv_context *ctx, const qkv_text_span *hyp, const qkv_text_span *ref,
                            qkv__add_fn *add, void *user);

/* ---- score_ngrams.c --------------------------------------------------------------------- */

/* Scratch that grows. */
typedef struct {
    struct qkv__gram *slots; /* hash table: the reference's n-grams of one order */
    uint32_t *hyp, *ref;     /* by position: the n-gram that begins here, as its slot */
    size_t slot_cap, hyp_cap, ref_cap;
} qkv__overlap;

/* matches[n-1] = sum over n-grams of min(times in hyp, times in ref), n = 1 .. orders. Symbols
 * are >= 0, but for those of hyp that are in no reference: these may be -1. */
qkv_status qkv__overlap_count(qkv__overlap *o, qkv_context *ctx, const qkv_ids *hyp,
                              const qkv_ids *ref, size_t orders, size_t *matches);
void qkv__overlap_free(qkv__overlap *o, qkv_context *ctx);

/* n-grams of one order in a line. */
static inline size_t qkv__ngrams(size_t symbols, size_t n)
{
    return symbols < n ? 0 : symbols - n + 1;
}

#endif
