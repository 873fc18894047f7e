/* train_whitespace.c - words between blanks, the most frequent ones a token each: the model
 * WordLevel behind the pre-tokenizer WhitespaceSplit. Other words are the unknown token. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/spec.h"
#include "tokenizer/trainers.h"

static void defaults(qkv_tokenizer_options *o) { o->special[QKV_TOKEN_UNK] = "<unk>"; }

/* tokenizer.json without its vocabulary, which begins with the special tokens. */
static json_t *make_spec(const qkv_tokenizer_options *o, const qkv__vocab *v, size_t specials)
{
    const char *begin = o->add_eos ? NULL : o->special[QKV_TOKEN_CLS];
    const char *end = o->special[o->add_eos ? QKV_TOKEN_EOS : QKV_TOKEN_SEP];
    const char *unk = o->special[QKV_TOKEN_UNK];
    json_t *added = json_array(), *processor = json_null();
    size_t len;
    for (size_t i = 0; i < specials; i++)
        json_array_append_new(added, qkv__spec_added(qkv__vocab_text(v, (int32_t)i, &len),
                                                     (int32_t)i));
    if (end && (begin || o->add_eos))
        processor = qkv__spec_template(begin, begin ? qkv__vocab_find(v, begin, strlen(begin)) : -1,
                                       end, qkv__vocab_find(v, end, strlen(end)));
    return qkv__spec(added, json_null(), json_pack("{s:s}", "type", "WhitespaceSplit"), processor,
                     json_null(), json_pack("{s:s, s:s}", "type", "WordLevel", "unk_token",
                                            unk ? unk : "<unk>"));
}

/* What cuts texts into words before there is a vocabulary. */
static qkv_status prepare(qkv_tokenizer_trainer *tr)
{
    qkv_tokenizer_trainer plain = {.ctx = tr->ctx};
    qkv__vocab none;
    qkv__vocab_init(&none, tr->ctx);
    qkv_status status = qkv__train_build(&plain, make_spec(&plain.options, &none, 0), &none, NULL,
                                         &tr->cutter);
    qkv__vocab_free(&none);
    return status;
}

typedef struct {
    int64_t count;
    int32_t word;
} counted;

/* The most frequent first; of equals the one that came first. */
static int whitespace_by_count(const void *x, const void *y)
{
    const counted *a = x, *b = y;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return (a->word > b->word) - (a->word < b->word);
}

static qkv_status finish(qkv_tokenizer_trainer *tr, qkv__vocab *v, size_t specials,
                         qkv_tokenizer **out)
{
    size_t n = tr->words.count, len;
    counted *list = qkv_malloc(tr->ctx, (n + 1) * sizeof *list);
    qkv_status status = list ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < n && list; i++)
        list[i] = (counted){tr->counts[i], (int32_t)i};
    if (list)
        qsort(list, n, sizeof *list, whitespace_by_count);
    for (size_t i = 0; i < n && !status && v->count < tr->options.vocab; i++) {
        const char *word = qkv__vocab_text(&tr->words, list[i].word, &len);
        if ((size_t)list[i].count >= tr->options.min_count)
            status = qkv__train_add(v, word, len);
    }
    qkv_free(tr->ctx, list);
    return status ? status
                  : qkv__train_build(tr, make_spec(&tr->options, v, specials), v, NULL, out);
}

const qkv__trainer_kind qkv__trainer_whitespace = {
    .least = 1, .defaults = defaults, .prepare = prepare, .count = qkv__train_count_lines,
    .finish = finish};
