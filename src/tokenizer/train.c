/* train.c - training a tokenizer: what all kinds share. Each kind is a qkv__trainer_kind of its own
 * file, under the name that QKV_TOKENIZER_KINDS has for it. */
#include <string.h>

#include "base/utf8.h"
#include "io/file.h"
#include "tokenizer/object.h"
#include "tokenizer/spm.h"
#include "tokenizer/trainers.h"

#define DECLARE(kind, name, trainer) extern const qkv__trainer_kind qkv__trainer_##trainer;
QKV_TOKENIZER_KINDS(DECLARE)
#undef DECLARE

/* By qkv_tokenizer_kind. */
static const qkv__trainer_kind *const kinds[] = {
#define ENTRY(kind, name, trainer) &qkv__trainer_##trainer,
    QKV_TOKENIZER_KINDS(ENTRY)
#undef ENTRY
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const qkv__trainer_kind *qkv__trainer_kind_of(qkv_tokenizer_kind kind) { return kinds[kind]; }

qkv_tokenizer_options qkv_tokenizer_defaults(qkv_tokenizer_kind kind)
{
    qkv_tokenizer_options o = {.kind = kind, .vocab = 8192, .coverage = 1};
    if ((size_t)kind < KINDS && kinds[kind]->defaults)
        kinds[kind]->defaults(&o);
    return o;
}

static qkv_status train_add_specials(const qkv_tokenizer_trainer *tr, qkv__vocab *v)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++)
        if (tr->options.special[i])
            status = qkv__train_add(v, tr->options.special[i], strlen(tr->options.special[i]));
    return status;
}

static qkv_status train_check_options(qkv_context *ctx, const qkv_tokenizer_options *o)
{
    if ((size_t)o->kind >= KINDS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "tokenizer kind %d: there are 0 to %d",
                        (int)o->kind, KINDS - 1);
    size_t least = kinds[o->kind]->least;
    bool fixed = kinds[o->kind]->own_special;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && fixed; i++)
        if (o->special[i])
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: this kind has special tokens of its own",
                            qkv__role_keys[i]);
    if (least && (o->vocab < least || o->vocab >= QKV_TOKENIZER_ID_LIMIT))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "such a vocabulary has from %zu to %d tokens, not %zu", least,
                        QKV_TOKENIZER_ID_LIMIT - 1, o->vocab);
    if (o->add_eos && !fixed && !o->special[QKV_TOKEN_EOS])
        return qkv_fail(ctx, QKV_E_ARGUMENT, "texts end in eos_token, which is missing");
    if (!(o->coverage > 0 && o->coverage <= 1))
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "coverage %g: the share of the text's characters is above 0, at most 1",
                        o->coverage);
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        size_t len = o->special[i] ? strlen(o->special[i]) : 1;
        if (len < 1 || len > 1000)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s has %zu bytes: expected 1 to 1000",
                            qkv__role_keys[i], len);
        if (o->special[i] && qkv__utf8_valid(o->special[i], len) < len)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s is not text in UTF-8", qkv__role_keys[i]);
    }
    return QKV_OK;
}

qkv_status qkv_tokenizer_trainer_create(qkv_tokenizer_trainer **out, qkv_context *ctx,
                                        const qkv_tokenizer_options *options)
{
    qkv_tokenizer_options o = options ? *options : qkv_tokenizer_defaults(QKV_TOKENIZER_BPE);
    *out = NULL;
    if (o.coverage == 0)
        o.coverage = 1;
    qkv_status status = train_check_options(ctx, &o);
    if (status)
        return status;
    qkv_tokenizer_trainer *tr = qkv_calloc(ctx, 1, sizeof *tr);
    if (!tr)
        return QKV_E_MEMORY;
    tr->ctx = ctx;
    tr->options = o;
    qkv__vocab_init(&tr->words, ctx);
    bool ok = true;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) {
        tr->options.special[i] = o.special[i] ? qkv_strdup(ctx, o.special[i]) : NULL;
        ok = ok && !o.special[i] == !tr->options.special[i];
    }
    if (ok && kinds[o.kind]->prepare)
        ok = kinds[o.kind]->prepare(tr) == QKV_OK;
    if (!ok) {
        qkv_tokenizer_trainer_destroy(tr);
        return QKV_E_MEMORY;
    }
    *out = tr;
    return QKV_OK;
}

qkv_status qkv_tokenizer_trainer_add(qkv_tokenizer_trainer *tr, const char *text, size_t len)
{
    tr->text_bytes += len;
    return kinds[tr->options.kind]->count(tr, text, len);
}

qkv_status qkv_tokenizer_trainer_add_file(qkv_tokenizer_trainer *tr, const char *file)
{
    qkv__map map;
    qkv_status status = qkv__map_open(&map, tr->ctx, file);
    if (status)
        return status;
    if (qkv_tokenizer_trainer_add(tr, (const char *)map.data, map.size))
        status = qkv_fail_prefix(tr->ctx, file);
    qkv__map_close(&map);
    return status;
}

qkv_status qkv_tokenizer_trainer_finish(qkv_tokenizer_trainer *tr, qkv_tokenizer **out)
{
    *out = NULL;
    if (tr->text_bytes == 0)
        return qkv_fail(tr->ctx, QKV_E_ARGUMENT, "there is no text to train a tokenizer on");
    qkv__vocab v;
    qkv__vocab_init(&v, tr->ctx);
    qkv_status status = train_add_specials(tr, &v);
    size_t specials = v.count;
    if (!status)
        status = kinds[tr->options.kind]->finish(tr, &v, specials, out);
    qkv__vocab_free(&v);
    return status;
}

void qkv_tokenizer_trainer_destroy(qkv_tokenizer_trainer *tr)
{
    if (!tr)
        return;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++)
        qkv_free(tr->ctx, (char *)(uintptr_t)tr->options.special[i]);
    qkv_free(tr->ctx, tr->seen);
    qkv_tokenizer_destroy(tr->cutter);
    qkv__spm_destroy(tr->spm);
    qkv__vocab_free(&tr->words);
    qkv_free(tr->ctx, tr->counts);
    qkv_free(tr->ctx, tr);
}
