/* test_translate_memory.c - the n-th allocation fails, for every n, while text is translated by
 * beam search: each time a clean error or the right answer, and all memory comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "failing.h"
#include "learnt.h"
#include "qkv/marian.h"
#include "qkv/infer.h"

enum { ANSWER = 512, LONGEST = 37 }; /* longer than caches have room for at first */
static const char alphabet[] = "abcdefghijklmnop", text[] = "abba\n\nponmlk\nc";

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv_model *model;
    qkv_beam_search *search;
    char answer[ANSWER];
} fixture;

static qkv_status make_tokenizer(fixture *f)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    o.special[QKV_TOKEN_EOS] = "</s>";
    return learn_tokenizer(&f->tokenizer, f->ctx, &o, alphabet);
}

static qkv_status make_search(fixture *f)
{
    qkv_marian_config c;
    qkv_generation g;
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(f->tokenizer);
    c.eos = qkv_tokenizer_special(f->tokenizer, QKV_TOKEN_EOS);
    c.pad = -1;
    c.start = 1;
    c.width = 8;
    c.encoder_layers = c.decoder_layers = 1;
    c.encoder_heads = c.decoder_heads = 2;
    c.positions = 48;
    qkv_status status = qkv_model_create(&f->model, f->ctx, qkv_marian_type(), &c);
    if (!status)
        status = qkv_model_init(f->model, 3);
    if (status)
        return status;
    qkv_generation_defaults(&g, f->model);
    g.beams = 2;
    g.eos_count = 0;
    g.max_new_tokens = LONGEST;
    return qkv_beam_search_create(&f->search, f->model, &g);
}

static void on_line(void *user, size_t line, const qkv_translated *found)
{
    fixture *f = user;
    size_t used = strlen(f->answer);
    for (size_t i = 0; i < found->count; i++) {
        const qkv_text *t = &found->best[i].text;
        assert_true(used + t->len + 2 < ANSWER);
        if (t->len)
            memcpy(f->answer + used, t->data, t->len);
        used += t->len;
        f->answer[used++] = (char)('0' + line);
    }
    f->answer[used] = 0;
}

/* True when all went well; answer: every line's two best. */
static bool run(failing *memory, char answer[ANSWER])
{
    const qkv_context_options o = failing_options(memory);
    qkv_translate_text_options to = qkv_translate_text_defaults();
    fixture f = {0};
    to.n_best = 2;
    to.batch = 2;
    if (qkv_context_create(&f.ctx, &o))
        return false;
    bool ok = !make_tokenizer(&f) && !make_search(&f);
    to.reverse = (qkv_reverse){f.model, f.tokenizer, 0.1}; /* any model is one */
    for (int turn = 0; turn < 2 && ok; turn++) { /* the second goes on with the first one's room */
        f.answer[0] = 0;
        ok = !qkv_translate(f.search, f.tokenizer, text, sizeof text - 1, &to, on_line, &f);
    }
    if (ok) {
        memcpy(answer, f.answer, ANSWER);
    } else {
        assert_int_equal(qkv_context_status(f.ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(f.ctx)) > 0);
    }
    qkv_beam_search_destroy(f.search);
    qkv_model_destroy(f.model);
    qkv_tokenizer_destroy(f.tokenizer);
    qkv_context_destroy(f.ctx);
    return ok;
}

static void test_every_allocation(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        static char expected[ANSWER], answer[ANSWER];
        failing memory = {.left = SIZE_MAX};
        assert_true(run(&memory, expected));
        assert_true(strlen(expected) > 3 * LONGEST * 2); /* three lines, two answers each */
        size_t n = 0;
        for (bool done = false; !done; n++) {
            memory = (failing){.left = n, .once = once != 0};
            bool ok = run(&memory, answer);
            assert_int_equal(memory.live, 0);
            done = ok && memory.left > 0 && memory.left < SIZE_MAX / 2;
            if (ok)
                assert_string_equal(answer, expected);
            assert_true(n < 2000);
        }
        assert_true(n > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
