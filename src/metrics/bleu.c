/* bleu.c - BLEU of a corpus with one reference: sacrebleu's with 13a tokens, multi-bleu's of
 * tokenised text. It counts; the formula is in qkv_bleu_result. */
#include <math.h>
#include <string.h>

#include "base/vocab.h"
#include "metrics/score.h"

struct qkv_bleu {
    qkv_context *ctx;
    qkv_bleu_options options;
    qkv__vocab words;     /* of the references so far */
    qkv_ids hyp, ref;     /* a line's words; -1: in no reference */
    qkv_str line, other; /* scratch: a line, and what becomes of it */
    qkv__overlap overlap;
    size_t correct[QKV_BLEU_ORDERS], total[QKV_BLEU_ORDERS];
    size_t hyp_words, ref_words;
};

/* ---- 13a: the tokens of mteval-v13a.pl as sacrebleu has them ----------------------------- */

/* Every place of `from` becomes `to`, which is no longer, from left to right. */
static void bleu_replace(qkv_str *s, const char *from, const char *to)
{
    size_t from_len = strlen(from), to_len = strlen(to), put = 0;
    if (!memchr(s->data, from[0], s->len))
        return;
    for (size_t i = 0; i < s->len;) {
        if (s->len - i >= from_len && memcmp(s->data + i, from, from_len) == 0) {
            memcpy(s->data + put, to, to_len);
            put += to_len;
            i += from_len;
        } else {
            s->data[put++] = s->data[i++];
        }
    }
    s->len = put;
    s->data[put] = 0;
}

/* Bytes do where the definition has characters: a byte of a longer character is neither a digit
 * nor a mark, and spaces are put around whole matches. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool no_digit(char c) { return !is_digit(c); }
static bool is_dash(char c) { return c == '-'; }
static bool is_point(char c) { return c == '.' || c == ','; }

/* ASCII that is neither letter nor digit nor one of ' , - . */
static bool is_mark(char c)
{
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* Two neighbours a b become " a b" or "a b ", spaced in between. The next search starts behind
 * them: b is not the a of another match. */
typedef struct {
    bool (*first)(char c), (*second)(char c);
    bool space_before; /* else after */
} pair_rule;

static const pair_rule pair_rules[] = {
    {no_digit, is_point, false}, {is_point, no_digit, true}, {is_digit, is_dash, false}};

static void space_marks(qkv_str *out, const qkv_str *in)
{
    size_t kept = 0;
    qkv_str_clear(out);
    for (size_t i = 0; i < in->len; i++) {
        if (!is_mark(in->data[i]))
            continue;
        const char spaced[3] = {' ', in->data[i], ' '};
        qkv_str_add(out, in->data + kept, i - kept);
        qkv_str_add(out, spaced, sizeof spaced);
        kept = i + 1;
    }
    qkv_str_add(out, in->data + kept, in->len - kept);
}

static void space_pairs(qkv_str *out, const qkv_str *in, const pair_rule *rule)
{
    size_t kept = 0;
    qkv_str_clear(out);
    for (size_t i = 0; i + 1 < in->len; i++) {
        const char a = in->data[i], b = in->data[i + 1];
        if (!rule->first(a) || !rule->second(b))
            continue;
        const char before[4] = {' ', a, ' ', b}, after[4] = {a, ' ', b, ' '};
        qkv_str_add(out, in->data + kept, i - kept);
        qkv_str_add(out, rule->space_before ? before : after, sizeof before);
        kept = i + 2;
        i++;
    }
    qkv_str_add(out, in->data + kept, in->len - kept);
}

static void strip_end(qkv_str *s)
{
    int32_t cp;
    while (s->len) {
        size_t before = qkv__utf8_before(s->data, s->len, &cp);
        if (!qkv__is_blank(cp))
            break;
        s->len = before;
    }
}

static void swap(qkv_str *a, qkv_str *b)
{
    qkv_str t = *a;
    *a = *b;
    *b = t;
}

/* b->line to tokens with blanks between. */
static qkv_status tokenize_13a(qkv_bleu *b)
{
    static const char *const replacements[][2] = {{"<skipped>", ""}, {"-\n", ""}, {"\n", " "},
                                                  {"&quot;", "\""}, {"&amp;", "&"},
                                                  {"&lt;", "<"}, {"&gt;", ">"}};
    strip_end(&b->line);
    qkv_str_clear(&b->other);
    qkv_str_puts(&b->other, " ");
    qkv_str_add(&b->other, b->line.data, b->line.len);
    qkv_str_puts(&b->other, " ");
    if (b->other.failed)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < sizeof replacements / sizeof *replacements; i++)
        bleu_replace(&b->other, replacements[i][0], replacements[i][1]);
    space_marks(&b->line, &b->other);
    for (size_t i = 0; i < sizeof pair_rules / sizeof *pair_rules && !b->line.failed; i++) {
        space_pairs(&b->other, &b->line, &pair_rules[i]);
        swap(&b->line, &b->other);
    }
    return b->line.failed || b->other.failed ? QKV_E_MEMORY : QKV_OK;
}

/* ---- words ------------------------------------------------------------------------------ */

/* Appends the word's number; grow: words not seen before get one, else -1. */
static qkv_status bleu_add_word(qkv_bleu *b, qkv_ids *out, const char *word, size_t len, bool grow)
{
    int32_t id = qkv__vocab_find(&b->words, word, len);
    if (id < 0 && grow) {
        if (b->words.count == INT32_MAX)
            return qkv_fail(b->ctx, QKV_E_UNSUPPORTED, "the references have too many words");
        id = (int32_t)b->words.count;
        if (qkv__vocab_add(&b->words, word, len, id))
            return QKV_E_MEMORY;
    }
    return qkv__ids_push(b->ctx, out, id) ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status bleu_words_of(qkv_bleu *b, qkv_ids *out, const char *text, size_t len, bool grow)
{
    qkv_status status = qkv__score_line(&b->line, text, len, b->options.lowercase,
                                        grow ? "reference" : "hypothesis");
    if (!status && !b->options.tokenized)
        status = tokenize_13a(b);
    size_t word = 0;
    out->count = 0;
    for (size_t i = 0; i < b->line.len && !status;) {
        int32_t cp;
        size_t n = qkv__utf8_next(b->line.data + i, b->line.len - i, &cp);
        if (qkv__is_blank(cp)) {
            if (i > word)
                status = bleu_add_word(b, out, b->line.data + word, i - word, grow);
            word = i + n;
        }
        i += n;
    }
    if (!status && b->line.len > word)
        status = bleu_add_word(b, out, b->line.data + word, b->line.len - word, grow);
    return status;
}

/* ---- public ----------------------------------------------------------------------------- */

qkv_status qkv_bleu_create(qkv_bleu **out, qkv_context *ctx, const qkv_bleu_options *options)
{
    qkv_bleu *b = *out = qkv_calloc(ctx, 1, sizeof *b);
    if (!b)
        return QKV_E_MEMORY;
    b->ctx = ctx;
    if (options)
        b->options = *options;
    qkv__vocab_init(&b->words, ctx);
    qkv_str_init(&b->line, ctx);
    qkv_str_init(&b->other, ctx);
    return QKV_OK;
}

void qkv_bleu_destroy(qkv_bleu *b)
{
    if (!b)
        return;
    qkv__vocab_free(&b->words);
    qkv_ids_free(&b->hyp, b->ctx);
    qkv_ids_free(&b->ref, b->ctx);
    qkv_str_free(&b->line);
    qkv_str_free(&b->other);
    qkv__overlap_free(&b->overlap, b->ctx);
    qkv_free(b->ctx, b);
}

qkv_status qkv_bleu_add(qkv_bleu *b, const char *hyp, size_t hyp_len, const char *ref,
                        size_t ref_len)
{
    size_t matches[QKV_BLEU_ORDERS];
    qkv_status status = bleu_words_of(b, &b->ref, ref, ref_len, true);
    if (!status)
        status = bleu_words_of(b, &b->hyp, hyp, hyp_len, false);
    if (!status)
        status = qkv__overlap_count(&b->overlap, b->ctx, &b->hyp, &b->ref, QKV_BLEU_ORDERS,
                                    matches);
    if (status)
        return status;
    for (size_t n = 0; n < QKV_BLEU_ORDERS; n++) {
        b->correct[n] += matches[n];
        b->total[n] += qkv__ngrams(b->hyp.count, n + 1);
    }
    b->hyp_words += b->hyp.count;
    b->ref_words += b->ref.count;
    return QKV_OK;
}

static qkv_status bleu_add_pair(void *user, const char *hyp, size_t hyp_len, const char *ref,
                                size_t ref_len)
{
    return qkv_bleu_add(user, hyp, hyp_len, ref, ref_len);
}

qkv_status qkv_bleu_add_texts(qkv_bleu *b, const qkv_text_span *hyp, const qkv_text_span *ref)
{
    return qkv__score_texts(b->ctx, hyp, ref, bleu_add_pair, b);
}

void qkv_bleu_result(const qkv_bleu *b, qkv_bleu_score *out)
{
    double logs = 0, smooth = 1;
    bool whole = true; /* no precision is 0 */
    *out = (qkv_bleu_score){.brevity = 1, .hyp_words = b->hyp_words, .ref_words = b->ref_words};
    memcpy(out->correct, b->correct, sizeof b->correct);
    memcpy(out->total, b->total, sizeof b->total);
    double hyp = (double)b->hyp_words, ref = (double)b->ref_words;
    if (b->ref_words)
        out->ratio = hyp / ref;
    if (b->hyp_words < b->ref_words)
        out->brevity = b->hyp_words ? exp(1 - ref / hyp) : 0;
    if (b->correct[0] == 0)
        return; /* nothing is right: smoothing would still find something */
    for (size_t n = 0; n < QKV_BLEU_ORDERS; n++) {
        double correct = (double)b->correct[n], total = (double)b->total[n];
        if (b->correct[n] == 0 && !b->options.tokenized)
            correct = 1 / (smooth *= 2); /* the k-th order that is never right counts 2^-k */
        if (b->total[n])
            out->precisions[n] = 100 * correct / total;
        whole = whole && out->precisions[n] > 0;
        if (whole)
            logs += log(out->precisions[n]);
    }
    if (whole)
        out->bleu = out->brevity * exp(logs / QKV_BLEU_ORDERS);
}
