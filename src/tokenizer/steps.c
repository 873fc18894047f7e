/* steps.c - decoders: steps from a token to its text, each under its name in
 * tokenizer.json. A token is seen alone, so that text can be shown while it is made: what the
 * reference does to the whole text behind "Fuse" is done to its beginning. */
#include "tokenizer/steps.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bytes.h"
#include "tokenizer/parts.h"

struct qkv__step {
    void (*run)(const qkv__step *st, qkv_str *token, bool first);
    char *text, *content; /* a prefix, a pattern, what replaces it */
    size_t start, stop;
    bool cleanup, fused;
    const qkv__spm *spm;
};

/* Replaces every occurrence of a text (from is not empty). */
static void replace_all(qkv_str *s, const char *from, const char *to)
{
    size_t n = strlen(from), at = 0;
    qkv_str out;
    if (s->failed || !s->data || !strstr(s->data, from))
        return;
    qkv_str_init(&out, s->ctx);
    while (at < s->len) {
        bool hit = s->len - at >= n && memcmp(s->data + at, from, n) == 0;
        qkv_str_add(&out, hit ? to : s->data + at, hit ? strlen(to) : 1);
        at += hit ? n : 1;
    }
    if (out.len == 0)
        qkv_str_puts(&out, "");
    out.failed = out.failed || s->failed;
    qkv_str_free(s);
    *s = out;
}

static void steps_drop(qkv_str *s, size_t count)
{
    if (!count)
        return;
    memmove(s->data, s->data + count, s->len - count);
    s->len -= count;
    s->data[s->len] = 0;
}

static bool steps_begins(const qkv_str *s, const char *text)
{
    size_t n = strlen(text);
    return s->len >= n && memcmp(s->data, text, n) == 0;
}

/* ---- steps --------------------------------------------------------------------------- */

/* Characters to the bytes they stand for; a token with a character that stands for none keeps
 * its own bytes, as in the reference. */
static void steps_byte_level(const qkv__step *st, qkv_str *token, bool first)
{
    (void)st;
    (void)first;
    int32_t cp;
    for (size_t i = 0; i < token->len;) {
        i += qkv__utf8_next(token->data + i, token->len - i, &cp);
        if (qkv__char_byte(cp) < 0)
            return;
    }
    size_t out = 0;
    for (size_t i = 0; i < token->len;) {
        i += qkv__utf8_next(token->data + i, token->len - i, &cp);
        token->data[out++] = (char)qkv__char_byte(cp);
    }
    token->len = out;
}

/* Tokens are joined anyway. */
static void fuse(const qkv__step *st, qkv_str *token, bool first)
{
    (void)st;
    (void)token;
    (void)first;
}

static void wordpiece(const qkv__step *st, qkv_str *token, bool first)
{
    static const char *const joined[][2] = {
        {" .", "."},     {" ?", "?"},   {" !", "!"},           {" ,", ","},
        {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"},       {" do not", " don't"},
        {" 's", "'s"},   {" 've", "'ve"}, {" 're", "'re"}};
    if (!first && steps_begins(token, st->text)) {
        steps_drop(token, strlen(st->text));
    } else if (!first) {
        qkv_str spaced;
        qkv_str_init(&spaced, token->ctx);
        qkv_str_puts(&spaced, " ");
        qkv_str_add(&spaced, token->data, token->len);
        qkv_str_free(token);
        *token = spaced;
    }
    for (size_t i = 0; st->cleanup && i < sizeof joined / sizeof *joined; i++)
        replace_all(token, joined[i][0], joined[i][1]);
}

static void metaspace(const qkv__step *st, qkv_str *token, bool first)
{
    replace_all(token, st->text, first && st->start ? "" : " ");
}

/* <0xC3> is a byte. */
static void byte_fallback(const qkv__step *st, qkv_str *token, bool first)
{
    (void)st;
    (void)first;
    int byte = qkv__fallback_byte(token->data, token->len);
    if (byte < 0)
        return;
    token->data[0] = (char)byte;
    token->len = 1;
    token->data[1] = 0;
}

static void steps_replace(const qkv__step *st, qkv_str *token, bool first)
{
    (void)first;
    replace_all(token, st->text, st->content);
}

static void steps_strip(const qkv__step *st, qkv_str *token, bool first)
{
    size_t n = strlen(st->text);
    if (st->fused && !first)
        return;
    for (size_t i = 0; i < st->start && steps_begins(token, st->text); i++)
        steps_drop(token, n);
    for (size_t i = 0; i < st->stop && token->len >= n; i++) {
        if (memcmp(token->data + token->len - n, st->text, n) != 0)
            break;
        token->len -= n;
    }
}

/* A piece by its kind; the text's leading space goes. */
static void steps_sentencepiece(const qkv__step *st, qkv_str *token, bool first)
{
    const qkv__spm *m = st->spm;
    int32_t id = qkv__vocab_find(&m->pieces, token->data, token->len);
    int type = id < 0 ? QKV__PIECE_NORMAL : m->info[id].type;
    if (type == QKV__PIECE_BYTE) {
        byte_fallback(st, token, first);
    } else if (type == QKV__PIECE_CONTROL) {
        qkv_str_clear(token);
    } else if (type == QKV__PIECE_UNKNOWN) {
        qkv_str_clear(token);
        qkv_str_add(token, m->unk_surface.data, m->unk_surface.len);
    } else {
        if (first && (m->prefix || m->trim) && steps_begins(token, QKV__SPACE_MARK))
            steps_drop(token, strlen(QKV__SPACE_MARK));
        replace_all(token, QKV__SPACE_MARK, " ");
    }
}

/* ---- reading ------------------------------------------------------------------------- */

static qkv_status take_text(char **out, const qkv__json *at, const char *key, const char *initial)
{
    const char *text = initial;
    qkv_status status = qkv__json_opt_string(at, key, &text);
    if (!status && !*text)
        status = qkv__json_fail(at, key, "expected some text");
    if (status)
        return status;
    *out = qkv_strdup(at->ctx, text);
    return *out ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status read_wordpiece(qkv__step *st, const qkv__json *at)
{
    st->cleanup = true;
    qkv_status status = take_text(&st->text, at, "prefix", "##");
    return status ? status : qkv__json_opt_bool(at, "cleanup", &st->cleanup);
}

static qkv_status steps_read_metaspace(qkv__step *st, const qkv__json *at)
{
    const char *scheme = NULL;
    bool prefix = true;
    qkv_status status = take_text(&st->text, at, "replacement", QKV__SPACE_MARK);
    if (!status)
        status = qkv__json_opt_bool(at, "add_prefix_space", &prefix);
    if (!status)
        status = qkv__json_opt_string(at, "prepend_scheme", &scheme);
    st->start = scheme ? strcmp(scheme, "never") != 0 : prefix;
    return status;
}

static qkv_status steps_read_replace(qkv__step *st, const qkv__json *at)
{
    qkv__json pattern;
    const char *content = "";
    qkv_status status = qkv__json_get_object(at, "pattern", &pattern);
    if (!status && !qkv__json_has(&pattern, "String"))
        status = qkv__json_fail(&pattern, NULL, "a decoder replaces a \"String\" only");
    if (!status)
        status = take_text(&st->text, &pattern, "String", "");
    if (!status)
        status = qkv__json_get_string(at, "content", &content);
    if (status)
        return status;
    st->content = qkv_strdup(at->ctx, content);
    return st->content ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status steps_read_strip(qkv__step *st, const qkv__json *at)
{
    int64_t start = 0, stop = 0;
    qkv_status status = take_text(&st->text, at, "content", " ");
    if (!status)
        status = qkv__json_opt_int(at, "start", 0, 1000, &start);
    if (!status)
        status = qkv__json_opt_int(at, "stop", 0, 1000, &stop);
    if (!status && st->fused && stop)
        status = qkv__json_fail(at, "stop", "the end of the whole text cannot be stripped");
    st->start = (size_t)start;
    st->stop = (size_t)stop;
    return status;
}

static const struct {
    const char *name;
    void (*run)(const qkv__step *st, qkv_str *token, bool first);
    qkv_status (*read)(qkv__step *st, const qkv__json *at); /* NULL: there are no fields */
} kinds[] = {
    {"ByteLevel", steps_byte_level, NULL},
    {"Fuse", fuse, NULL},
    {"WordPiece", wordpiece, read_wordpiece},
    {"Metaspace", metaspace, steps_read_metaspace},
    {"ByteFallback", byte_fallback, NULL},
    {"Replace", steps_replace, steps_read_replace},
    {"Strip", steps_strip, steps_read_strip},
};

static qkv_status steps_read_step(void *decoder, const qkv__json *at, const char *type)
{
    qkv__decoder *d = decoder;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].name) != 0)
            continue;
        if (!qkv__grow(at->ctx, &d->steps, &d->capacity, d->count + 1, sizeof *d->steps))
            return QKV_E_MEMORY;
        qkv__step *st = &d->steps[d->count++];
        *st = (qkv__step){.run = kinds[i].run, .fused = d->fused};
        d->fused = d->fused || kinds[i].run == fuse;
        return kinds[i].read ? kinds[i].read(st, at) : QKV_OK;
    }
    return qkv__json_fail(at, "type", "\"%.40s\" is no decoder that qkv knows", type);
}

/* ---- public -------------------------------------------------------------------------- */

qkv_status qkv__decoder_read(qkv__decoder *d, const qkv__json *at)
{
    return qkv__parts_read(d, at, "decoders", 1, steps_read_step);
}

qkv_status qkv__decoder_add_spm(qkv__decoder *d, qkv_context *ctx, const qkv__spm *spm)
{
    if (!qkv__grow(ctx, &d->steps, &d->capacity, d->count + 1, sizeof *d->steps))
        return QKV_E_MEMORY;
    d->steps[d->count++] = (qkv__step){.run = steps_sentencepiece, .spm = spm};
    d->leading = spm->trim; /* else only the first space goes, be it a piece alone */
    return QKV_OK;
}

void qkv__decoder_free(qkv__decoder *d, qkv_context *ctx)
{
    for (size_t i = 0; i < d->count; i++) {
        qkv_free(ctx, d->steps[i].text);
        qkv_free(ctx, d->steps[i].content);
    }
    qkv_free(ctx, d->steps);
    *d = (qkv__decoder){0};
}

qkv_status qkv__decoder_run(const qkv__decoder *d, qkv_str *token, bool first)
{
    for (size_t i = 0; i < d->count && !token->failed; i++)
        d->steps[i].run(&d->steps[i], token, first);
    return token->failed ? QKV_E_MEMORY : QKV_OK;
}
