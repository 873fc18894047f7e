/* spm.c - SentencePiece's model files: a protocol buffer with pieces, scores, kinds of
 * pieces, and the rules by which text is made ready. Read, and written for what is trained here;
 * a file that was read is written as it was. */
#include "tokenizer/spm.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "io/protobuf.h"
#include "qkv/tokenizer.h"
#include "tokenizer/bytes.h"

/* Field numbers of sentencepiece_model.proto. */
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_TYPE = 3, TRAINER_VOCAB = 4, TRAINER_COVERAGE = 10, TRAINER_SUFFIX = 24,
       TRAINER_FALLBACK = 35, TRAINER_UNK = 40, TRAINER_BOS = 41, TRAINER_EOS = 42,
       TRAINER_PAD = 43, TRAINER_SURFACE = 44 };
enum { NORMALIZER_NAME = 1, NORMALIZER_MAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SPACES = 4,
       NORMALIZER_ESCAPE = 5 };

typedef struct {
    qkv__spm *m;
    const char *name;
    qkv__proto file;
} reader;

static qkv_status bad_message(const reader *r, const qkv__proto *p, const char *what)
{
    return qkv_fail(r->m->ctx, QKV_E_FORMAT, "%s: no SentencePiece model: %s breaks off at byte "
                    "%zu of %zu", r->name, what, (size_t)(p->at - p->start),
                    (size_t)(r->file.end - r->file.start));
}

static qkv_status spm_read_piece(reader *r, const qkv__proto_field *at)
{
    qkv__spm *m = r->m;
    qkv__proto p = qkv__proto_begin(at->data, at->len, &r->file);
    qkv__proto_field f, text = {0};
    struct qkv__spm_piece piece = {0, QKV__PIECE_NORMAL};
    size_t id = m->pieces.count;
    while (qkv__proto_next(&p, &f)) {
        if (f.number == PIECE_TEXT && f.type == QKV__PROTO_BYTES)
            text = f;
        else if (f.number == PIECE_SCORE && f.type == QKV__PROTO_32)
            piece.score = qkv__proto_float(&f);
        else if (f.number == PIECE_TYPE && f.type == QKV__PROTO_VARINT)
            piece.type = f.value <= QKV__PIECE_BYTE ? (int)f.value : 0;
    }
    if (p.bad)
        return bad_message(r, &p, "a piece");
    if (!text.data || !text.len || text.len > 65535 || memchr(text.data, 0, text.len))
        return qkv_fail(m->ctx, QKV_E_FORMAT, "%s: piece %zu has no text", r->name, id);
    if (!piece.type || isnan(piece.score))
        return qkv_fail(m->ctx, QKV_E_FORMAT, "%s: piece %zu has no type or score known to qkv",
                        r->name, id);
    if (qkv__vocab_find(&m->pieces, text.data, text.len) >= 0)
        return qkv_fail(m->ctx, QKV_E_FORMAT, "%s: piece %zu: \"%.*s\" stands there twice",
                        r->name, id, text.len < 60 ? (int)text.len : 60, text.data);
    return qkv__spm_add(m, text.data, text.len, piece.score, piece.type);
}

static qkv_status read_trainer(reader *r, const qkv__proto_field *at)
{
    qkv__spm *m = r->m;
    qkv__proto p = qkv__proto_begin(at->data, at->len, &r->file);
    qkv__proto_field f;
    while (qkv__proto_next(&p, &f)) {
        if (f.number == TRAINER_SURFACE && f.type == QKV__PROTO_BYTES) {
            qkv_str_clear(&m->unk_surface);
            qkv_str_add(&m->unk_surface, f.data, f.len);
        }
        if (f.type != QKV__PROTO_VARINT)
            continue;
        if (f.number == TRAINER_TYPE)
            m->kind = f.value < 100 ? (int)f.value : 0;
        else if (f.number == TRAINER_SUFFIX)
            m->suffix = f.value != 0;
        else if (f.number == TRAINER_FALLBACK)
            m->byte_fallback = f.value != 0;
    }
    return p.bad ? bad_message(r, &p, "the trainer's part") : QKV_OK;
}

static qkv_status spm_read_normalizer(reader *r, const qkv__proto_field *at)
{
    qkv__spm *m = r->m;
    qkv__proto p = qkv__proto_begin(at->data, at->len, &r->file);
    qkv__proto_field f;
    qkv_status status = QKV_OK;
    while (!status && qkv__proto_next(&p, &f)) {
        if (f.number == NORMALIZER_MAP && f.type == QKV__PROTO_BYTES) {
            qkv__charsmap_free(&m->map, m->ctx);
            status = qkv__charsmap_init(&m->map, m->ctx, r->name, f.data, f.len);
        }
        if (f.type != QKV__PROTO_VARINT)
            continue;
        if (f.number == NORMALIZER_PREFIX)
            m->prefix = f.value != 0;
        else if (f.number == NORMALIZER_SPACES)
            m->trim = f.value != 0;
        else if (f.number == NORMALIZER_ESCAPE)
            m->escape = f.value != 0;
    }
    return status || !p.bad ? status : bad_message(r, &p, "the normalizer's part");
}

static qkv_status spm_read_model(reader *r)
{
    qkv_status status = QKV_OK;
    qkv__proto_field f;
    while (!status && qkv__proto_next(&r->file, &f)) {
        if (f.type != QKV__PROTO_BYTES)
            continue;
        if (f.number == MODEL_PIECES)
            status = spm_read_piece(r, &f);
        else if (f.number == MODEL_TRAINER)
            status = read_trainer(r, &f);
        else if (f.number == MODEL_NORMALIZER)
            status = spm_read_normalizer(r, &f);
        else if (f.number == MODEL_DENORMALIZER && f.len)
            r->m->denormalizes = true;
    }
    return status || !r->file.bad ? status : bad_message(r, &r->file, "a field");
}

/* ---- public -------------------------------------------------------------------------- */

qkv__spm *qkv__spm_new(qkv_context *ctx)
{
    qkv__spm *m = qkv_calloc(ctx, 1, sizeof *m);
    if (!m)
        return NULL;
    m->ctx = ctx;
    m->kind = QKV__SPM_UNIGRAM;
    m->prefix = m->trim = m->escape = true;
    m->unk = -1;
    qkv__vocab_init(&m->pieces, ctx);
    qkv_str_init(&m->unk_surface, ctx);
    qkv_str_init(&m->file, ctx);
    qkv_str_puts(&m->unk_surface, " \xe2\x81\x87 ");
    return m;
}

void qkv__spm_destroy(qkv__spm *m)
{
    if (!m)
        return;
    qkv__vocab_free(&m->pieces);
    qkv_free(m->ctx, m->info);
    qkv__charsmap_free(&m->map, m->ctx);
    qkv__trie_free(&m->fixed, m->ctx);
    qkv_str_free(&m->unk_surface);
    qkv_str_free(&m->file);
    qkv_free(m->ctx, m);
}

qkv_status qkv__spm_add(qkv__spm *m, const char *text, size_t len, float score, int type)
{
    size_t id = m->pieces.count;
    if (id >= QKV_TOKENIZER_ID_LIMIT)
        return qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "a model of more than %d pieces",
                        QKV_TOKENIZER_ID_LIMIT);
    if (!qkv__grow(m->ctx, &m->info, &m->info_cap, id + 1, sizeof *m->info))
        return QKV_E_MEMORY;
    m->info[id] = (struct qkv__spm_piece){score, type};
    return qkv__vocab_add(&m->pieces, text, len, (int32_t)id);
}

qkv_status qkv__spm_finish(qkv__spm *m, const char *name)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->pieces.count && !status; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&m->pieces, (int32_t)i, &len);
        if (m->info[i].type == QKV__PIECE_UNKNOWN && m->unk < 0)
            m->unk = (int32_t)i;
        else if (m->info[i].type == QKV__PIECE_UNKNOWN)
            status = qkv_fail(m->ctx, QKV_E_FORMAT, "%s: two pieces stand for what is unknown",
                              name);
        if (m->info[i].type == QKV__PIECE_BYTE && qkv__fallback_byte(text, len) < 0)
            status = qkv_fail(m->ctx, QKV_E_FORMAT, "%s: piece %zu, \"%.40s\", is no byte", name,
                              i, text);
        if (m->info[i].type == QKV__PIECE_USER)
            status = qkv__trie_add(&m->fixed, m->ctx, text, len, (int32_t)i);
    }
    if (!status && m->unk < 0)
        status = qkv_fail(m->ctx, QKV_E_FORMAT, "%s: no SentencePiece model: none of %zu pieces "
                          "stands for what is unknown", name, m->pieces.count);
    if (!status && m->kind != QKV__SPM_UNIGRAM && m->kind != QKV__SPM_BPE)
        status = qkv_fail(m->ctx, QKV_E_UNSUPPORTED,
                          "%s: a model of type %d: qkv reads unigram (1) and BPE (2)", name,
                          m->kind);
    if (!status && m->denormalizes)
        status = qkv_fail(m->ctx, QKV_E_UNSUPPORTED, "%s: rules for decoded text are not "
                          "supported", name);
    return status;
}

qkv_status qkv__spm_parse(qkv__spm **out, qkv_context *ctx, const char *name, const char *data,
                          size_t size)
{
    *out = NULL;
    qkv__spm *m = qkv__spm_new(ctx);
    if (!m)
        return QKV_E_MEMORY;
    reader r = {m, name, qkv__proto_begin(data, size, NULL)};
    qkv_status status = spm_read_model(&r);
    if (!status)
        status = qkv__spm_finish(m, name);
    qkv_str_add(&m->file, data, size);
    if (!status && (m->file.failed || m->unk_surface.failed))
        status = QKV_E_MEMORY;
    if (status)
        qkv__spm_destroy(m);
    else
        *out = m;
    return status;
}

/* A negative number takes ten bytes. */
static void put_id(qkv_str *out, uint32_t number, const qkv__spm *m, const char *text)
{
    int32_t id = qkv__vocab_find(&m->pieces, text, strlen(text));
    qkv__proto_put_int(out, number, (uint64_t)(int64_t)id);
}

static void put_pieces(qkv__spm *m, qkv_str *part)
{
    for (size_t i = 0; i < m->pieces.count; i++) {
        size_t len;
        const char *text = qkv__vocab_text(&m->pieces, (int32_t)i, &len);
        qkv_str_clear(part);
        qkv__proto_put_bytes(part, PIECE_TEXT, text, len);
        qkv__proto_put_float(part, PIECE_SCORE, m->info[i].score);
        if (m->info[i].type != QKV__PIECE_NORMAL)
            qkv__proto_put_int(part, PIECE_TYPE, (uint64_t)m->info[i].type);
        qkv__proto_put_bytes(&m->file, MODEL_PIECES, part->data, part->len);
    }
}

qkv_status qkv__spm_write(qkv__spm *m)
{
    qkv_str part;
    qkv_str_init(&part, m->ctx);
    qkv_str_clear(&m->file);
    put_pieces(m, &part);
    qkv_str_clear(&part);
    qkv__proto_put_int(&part, TRAINER_TYPE, (uint64_t)m->kind);
    qkv__proto_put_int(&part, TRAINER_VOCAB, m->pieces.count);
    qkv__proto_put_float(&part, TRAINER_COVERAGE, (float)m->coverage);
    if (m->byte_fallback)
        qkv__proto_put_int(&part, TRAINER_FALLBACK, 1);
    qkv__proto_put_int(&part, TRAINER_UNK, (uint64_t)m->unk);
    put_id(&part, TRAINER_BOS, m, "<s>");
    put_id(&part, TRAINER_EOS, m, "</s>");
    put_id(&part, TRAINER_PAD, m, "<pad>");
    qkv__proto_put_bytes(&m->file, MODEL_TRAINER, part.data, part.len);
    qkv_str_clear(&part);
    qkv__proto_put_bytes(&part, NORMALIZER_NAME, m->map.len ? "nmt_nfkc" : "identity", 8);
    qkv__proto_put_bytes(&part, NORMALIZER_MAP, m->map.blob ? m->map.blob : "", m->map.len);
    qkv__proto_put_int(&part, NORMALIZER_PREFIX, m->prefix);
    qkv__proto_put_int(&part, NORMALIZER_SPACES, m->trim);
    qkv__proto_put_int(&part, NORMALIZER_ESCAPE, m->escape);
    qkv__proto_put_bytes(&m->file, MODEL_NORMALIZER, part.data, part.len);
    bool failed = part.failed || m->file.failed;
    qkv_str_free(&part);
    return failed ? QKV_E_MEMORY : QKV_OK;
}

/* ---- text ---------------------------------------------------------------------------- */

/* What the beginning of the text becomes (*to, *to_len) and its bytes; len > 0. */
static size_t normal_prefix(const qkv__spm *m, const char *s, size_t len, const char **to,
                            size_t *to_len)
{
    int32_t value, cp;
    size_t n = qkv__trie_longest(&m->fixed, s, len, &value);
    *to = s;
    *to_len = n;
    if (n)
        return n;
    n = qkv__charsmap_find(&m->map, s, len, false, to);
    if (n) {
        *to_len = strlen(*to);
        return n;
    }
    n = qkv__utf8_next(s, len, &cp);
    *to = cp < 0 ? "\xef\xbf\xbd" : s;
    *to_len = cp < 0 ? 3 : n;
    return n;
}

void qkv__spm_normalize(const qkv__spm *m, const char *s, size_t len, qkv_str *out)
{
    const char *space = m->escape ? QKV__SPACE_MARK : " ", *to;
    size_t at = 0, n, to_len, mark = strlen(space);
    for (; m->trim && at < len; at += n) {
        n = normal_prefix(m, s + at, len - at, &to, &to_len);
        if (to_len != 1 || *to != ' ')
            break;
    }
    if (at == len)
        return;
    if (m->prefix && !m->suffix)
        qkv_str_puts(out, space);
    for (bool spaced = m->trim; at < len; at += n) {
        n = normal_prefix(m, s + at, len - at, &to, &to_len);
        while (spaced && to_len && *to == ' ') {
            to++;
            to_len--;
        }
        for (size_t i = 0; i < to_len; i++)
            qkv_str_add(out, to[i] == ' ' ? space : to + i, to[i] == ' ' ? mark : 1);
        if (to_len)
            spaced = to[to_len - 1] == ' ';
        spaced = spaced && m->trim;
    }
    while (m->trim && out->len >= mark && memcmp(out->data + out->len - mark, space, mark) == 0)
        out->len -= mark;
    if (m->prefix && m->suffix)
        qkv_str_puts(out, space);
}
