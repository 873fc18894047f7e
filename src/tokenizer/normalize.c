/* normalize.c - normalizers: steps from text to text, each under its name in
 * tokenizer.json. */
#include "tokenizer/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "tokenizer/bert.h"
#include "tokenizer/parts.h"
#include "tokenizer/pattern.h"

enum { MOST_NESTED = 8 }; /* lists of steps within each other */

typedef qkv__normal_step step;

/* Appends what becomes of a text. A pattern may fail, nothing else but memory. */
typedef qkv_status run_fn(const step *st, qkv_context *ctx, const char *in, size_t len,
                          qkv_str *out);

struct qkv__normal_step {
    run_fn *run;
    int form; /* of UTF8PROC_* */
    bool clean, ideographs, accents, lowercase, left, right;
    char *content;
    qkv__pattern *pattern;
    qkv__charsmap map;
    const qkv__spm *spm;
};

/* ---- steps --------------------------------------------------------------------------- */

/* Text that is not UTF-8 has no normal form and stays as it is. */
static qkv_status normal_form(const step *st, qkv_context *ctx, const char *in, size_t len,
                              qkv_str *out)
{
    utf8proc_uint8_t *text = NULL;
    (void)ctx;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)in, (utf8proc_ssize_t)len, &text,
                                      (utf8proc_option_t)(st->form | UTF8PROC_STABLE));
    if (n >= 0)
        qkv_str_add(out, (const char *)text, (size_t)n);
    else
        qkv_str_add(out, in, len);
    free(text);
    return QKV_OK;
}

static qkv_status normalize_lower(const step *st, qkv_context *ctx, const char *in, size_t len,
                                  qkv_str *out)
{
    int32_t cp;
    (void)st;
    (void)ctx;
    for (size_t i = 0, n; i < len; i += n) {
        n = qkv__utf8_next(in + i, len - i, &cp);
        if (cp < 0)
            qkv_str_add(out, in + i, n);
        else
            qkv__put_lower(out, cp);
    }
    return QKV_OK;
}

/* Leaves out the characters for which gone holds. */
static void filter(const char *in, size_t len, bool (*gone)(int32_t cp), qkv_str *out)
{
    int32_t cp;
    for (size_t i = 0, n; i < len; i += n) {
        n = qkv__utf8_next(in + i, len - i, &cp);
        if (cp < 0 || !gone(cp))
            qkv_str_add(out, in + i, n);
    }
}

static qkv_status strip_accents(const step *st, qkv_context *ctx, const char *in, size_t len,
                                qkv_str *out)
{
    (void)st;
    (void)ctx;
    filter(in, len, qkv__is_mark, out);
    return QKV_OK;
}

/* Controls and what is not UTF-8 go, all space is ' ', ideographs stand between spaces. */
static void bert_clean(const step *st, const char *in, size_t len, qkv_str *out)
{
    int32_t cp;
    for (size_t i = 0, n; i < len; i += n) {
        n = qkv__utf8_next(in + i, len - i, &cp);
        if (st->clean && (cp <= 0 || cp == 0xfffd || qkv__bert_control(cp)))
            continue;
        bool apart = st->ideographs && qkv__bert_ideograph(cp);
        bool space = st->clean && qkv__class_of(cp) == QKV__SPACE;
        if (apart)
            qkv_str_puts(out, " ");
        qkv_str_add(out, space ? " " : in + i, space ? 1 : n);
        if (apart)
            qkv_str_puts(out, " ");
    }
}

static qkv_status bert(const step *st, qkv_context *ctx, const char *in, size_t len,
                       qkv_str *out)
{
    const step decompose = {.form = UTF8PROC_DECOMPOSE};
    qkv_str a, b;
    qkv_str_init(&a, ctx);
    qkv_str_init(&b, ctx);
    bert_clean(st, in, len, &a);
    if (st->accents && a.len) {
        (void)normal_form(&decompose, ctx, a.data, a.len, &b);
        qkv_str_clear(&a);
        filter(b.data, b.len, qkv__bert_accent, &a);
    }
    if (st->lowercase)
        (void)normalize_lower(st, ctx, a.data, a.len, out);
    else
        qkv_str_add(out, a.data ? a.data : "", a.len);
    bool failed = a.failed || b.failed;
    qkv_str_free(&a);
    qkv_str_free(&b);
    return failed ? QKV_E_MEMORY : QKV_OK;
}

static qkv_status normalize_strip(const step *st, qkv_context *ctx, const char *in, size_t len,
                                  qkv_str *out)
{
    size_t start = 0, end = len;
    int32_t cp;
    (void)ctx;
    while (st->left && start < end) {
        size_t n = qkv__utf8_next(in + start, end - start, &cp);
        if (qkv__class_of(cp) != QKV__SPACE)
            break;
        start += n;
    }
    while (st->right && end > start) {
        size_t before = qkv__utf8_before(in, end, &cp);
        if (qkv__class_of(cp) != QKV__SPACE)
            break;
        end = before;
    }
    qkv_str_add(out, in + start, end - start);
    return QKV_OK;
}

static qkv_status prepend(const step *st, qkv_context *ctx, const char *in, size_t len,
                          qkv_str *out)
{
    (void)ctx;
    if (len)
        qkv_str_puts(out, st->content);
    qkv_str_add(out, in, len);
    return QKV_OK;
}

static qkv_status normalize_replace(const step *st, qkv_context *ctx, const char *in, size_t len,
                                    qkv_str *out)
{
    qkv_status status = QKV_OK;
    for (size_t at = 0, start, end; at < len && !status; at = end) {
        status = qkv__pattern_next(st->pattern, ctx, in, len, at, &start, &end);
        qkv_str_add(out, in + at, start - at);
        if (start < end)
            qkv_str_puts(out, st->content);
    }
    return status;
}

/* Bytes of the grapheme at s (len > 0). */
static size_t grapheme(const char *s, size_t len)
{
    int32_t cp, next, state = 0;
    size_t n = qkv__utf8_next(s, len, &cp);
    while (n < len) {
        size_t more = qkv__utf8_next(s + n, len - n, &next);
        if (cp < 0 || next < 0 || utf8proc_grapheme_break_stateful(cp, next, &state))
            break;
        n += more;
        cp = next;
    }
    return n;
}

/* Small graphemes are looked up whole, then characters alone; of rules the shortest that fits
 * the beginning counts: the reference's way, which is not quite SentencePiece's. */
static qkv_status precompiled(const step *st, qkv_context *ctx, const char *in, size_t len,
                              qkv_str *out)
{
    const char *to = NULL;
    (void)ctx;
    for (size_t i = 0, n; i < len; i += n) {
        n = grapheme(in + i, len - i);
        if (n < 6 && qkv__charsmap_find(&st->map, in + i, n, true, &to)) {
            qkv_str_puts(out, to);
            continue;
        }
        for (size_t k = 0, m; k < n; k += m) {
            int32_t cp;
            m = qkv__utf8_next(in + i + k, n - k, &cp);
            if (qkv__charsmap_find(&st->map, in + i + k, m, true, &to))
                qkv_str_puts(out, to);
            else
                qkv_str_add(out, in + i + k, m);
        }
    }
    return QKV_OK;
}

static bool nmt_gone(int32_t cp)
{
    return (cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
           cp == 0x8f || cp == 0x9f;
}

static qkv_status nmt(const step *st, qkv_context *ctx, const char *in, size_t len, qkv_str *out)
{
    int32_t cp;
    (void)st;
    (void)ctx;
    for (size_t i = 0, n; i < len; i += n) {
        n = qkv__utf8_next(in + i, len - i, &cp);
        if (nmt_gone(cp))
            continue;
        bool space = cp == 9 || cp == 10 || cp == 12 || cp == 13 || cp == 0x1680 ||
                     (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 ||
                     cp == 0x2581 || cp == 0xfeff || cp == 0xfffd;
        qkv_str_add(out, space ? " " : in + i, space ? 1 : n);
    }
    return QKV_OK;
}

static qkv_status normalize_sentencepiece(const step *st, qkv_context *ctx, const char *in,
                                          size_t len, qkv_str *out)
{
    (void)ctx;
    qkv__spm_normalize(st->spm, in, len, out);
    return QKV_OK;
}

/* ---- reading ------------------------------------------------------------------------- */

static qkv_status normalize_read_bert(step *st, const qkv__json *at)
{
    st->clean = st->ideographs = st->lowercase = true;
    qkv_status status = qkv__json_opt_bool(at, "clean_text", &st->clean);
    if (!status)
        status = qkv__json_opt_bool(at, "handle_chinese_chars", &st->ideographs);
    if (!status)
        status = qkv__json_opt_bool(at, "lowercase", &st->lowercase);
    st->accents = st->lowercase;
    return status ? status : qkv__json_opt_bool(at, "strip_accents", &st->accents);
}

static qkv_status normalize_read_strip(step *st, const qkv__json *at)
{
    st->left = st->right = true;
    qkv_status status = qkv__json_opt_bool(at, "strip_left", &st->left);
    return status ? status : qkv__json_opt_bool(at, "strip_right", &st->right);
}

static qkv_status read_content(step *st, const qkv__json *at, const char *key)
{
    const char *text = NULL;
    qkv_status status = qkv__json_get_string(at, key, &text);
    if (status)
        return status;
    st->content = qkv_strdup(at->ctx, text);
    return st->content ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status read_prepend(step *st, const qkv__json *at)
{
    return read_content(st, at, "prepend");
}

static qkv_status normalize_read_replace(step *st, const qkv__json *at)
{
    const char *text = NULL;
    bool literal = false;
    qkv_status status = qkv__pattern_read(at, &text, &literal);
    if (!status)
        status = read_content(st, at, "content");
    return status ? status : qkv__pattern_create(&st->pattern, at, text, literal);
}

static qkv_status read_precompiled(step *st, const qkv__json *at)
{
    const char *text = NULL;
    qkv_str blob;
    qkv_status status = QKV_OK;
    if (!qkv__json_has(at, "precompiled_charsmap"))
        return QKV_OK;
    status = qkv__json_get_string(at, "precompiled_charsmap", &text);
    if (status)
        return status;
    qkv_str_init(&blob, at->ctx);
    if (!qkv__base64_take(&blob, text))
        status = blob.failed ? QKV_E_MEMORY
                             : qkv__json_fail(at, "precompiled_charsmap", "this is not base64");
    if (!status)
        status = qkv__charsmap_init(&st->map, at->ctx, at->file, blob.data, blob.len);
    qkv_str_free(&blob);
    return status;
}

static const struct {
    const char *name;
    run_fn *run;
    int form;
    qkv_status (*read)(step *st, const qkv__json *at); /* NULL: there are no fields */
} kinds[] = {
    {"NFC", normal_form, UTF8PROC_COMPOSE, NULL},
    {"NFD", normal_form, UTF8PROC_DECOMPOSE, NULL},
    {"NFKC", normal_form, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, NULL},
    {"NFKD", normal_form, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, NULL},
    {"BertNormalizer", bert, 0, normalize_read_bert},
    {"Lowercase", normalize_lower, 0, NULL},
    {"StripAccents", strip_accents, 0, NULL},
    {"Strip", normalize_strip, 0, normalize_read_strip},
    {"Replace", normalize_replace, 0, normalize_read_replace},
    {"Prepend", prepend, 0, read_prepend},
    {"Precompiled", precompiled, 0, read_precompiled},
    {"Nmt", nmt, 0, NULL},
};

static step *add_step(qkv__normalizer *n, qkv_context *ctx)
{
    if (!qkv__grow(ctx, &n->steps, &n->capacity, n->count + 1, sizeof *n->steps))
        return NULL;
    n->steps[n->count] = (step){0};
    return &n->steps[n->count++];
}

static qkv_status normalize_read_step(void *normalizer, const qkv__json *at, const char *type)
{
    if (strcmp(type, "Sequence") == 0)
        return qkv__json_fail(at, NULL, "sequences within sequences: at most %d", MOST_NESTED);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].name) != 0)
            continue;
        step *st = add_step(normalizer, at->ctx);
        if (!st)
            return QKV_E_MEMORY;
        st->run = kinds[i].run;
        st->form = kinds[i].form;
        return kinds[i].read ? kinds[i].read(st, at) : QKV_OK;
    }
    return qkv__json_fail(at, "type", "\"%.40s\" is no normalizer that qkv knows", type);
}

/* ---- public -------------------------------------------------------------------------- */

qkv_status qkv__normalizer_read(qkv__normalizer *n, const qkv__json *at)
{
    return qkv__parts_read(n, at, "normalizers", MOST_NESTED, normalize_read_step);
}

qkv_status qkv__normalizer_add_spm(qkv__normalizer *n, qkv_context *ctx, const qkv__spm *spm)
{
    step *st = add_step(n, ctx);
    if (!st)
        return QKV_E_MEMORY;
    st->run = normalize_sentencepiece;
    st->spm = spm;
    return QKV_OK;
}

void qkv__normalizer_free(qkv__normalizer *n, qkv_context *ctx)
{
    for (size_t i = 0; i < n->count; i++) {
        qkv_free(ctx, n->steps[i].content);
        qkv__pattern_destroy(n->steps[i].pattern, ctx);
        qkv__charsmap_free(&n->steps[i].map, ctx);
    }
    qkv_free(ctx, n->steps);
    *n = (qkv__normalizer){0};
}

qkv_status qkv__normalize(const qkv__normalizer *n, qkv_context *ctx, const char *text, size_t len,
                          qkv_str *out)
{
    qkv_str before;
    qkv_status status = QKV_OK;
    qkv_str_init(&before, ctx);
    qkv_str_add(out, text, len);
    for (size_t i = 0; i < n->count && !status; i++) {
        const qkv_str swap = before;
        before = *out;
        *out = swap;
        qkv_str_clear(out);
        if (before.len)
            status = n->steps[i].run(&n->steps[i], ctx, before.data, before.len, out);
    }
    if (out->failed || before.failed)
        status = QKV_E_MEMORY;
    qkv_str_free(&before);
    return status;
}
