/* test_tokenizer_whitespace.c - words between blanks: the frequent ones get tokens, the rest is the
 * unknown one; the same after saving and loading; with every allocation failing once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture.h"
#include "qkv/tokenizer.h"

static const char text[] = "the cat saw the dog ,\nthe dog saw the\tcat ; a bird saw neither\n";

/* A tokenizer of at most so many tokens; NULL: memory was out. */
static qkv_tokenizer *trained(size_t vocab)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WHITESPACE);
    qkv_tokenizer_trainer *tr = NULL;
    qkv_tokenizer *t = NULL;
    o.vocab = vocab;
    qkv_status status = qkv_tokenizer_trainer_create(&tr, ctx, &o);
    if (!status)
        status = qkv_tokenizer_trainer_add(tr, text, sizeof text - 1);
    if (!status)
        status = qkv_tokenizer_trainer_finish(tr, &t);
    qkv_tokenizer_trainer_destroy(tr);
    assert_true(status == QKV_OK || status == QKV_E_MEMORY);
    return t;
}

static void assert_text(qkv_tokenizer *t, const char *in, const char *out)
{
    qkv_ids ids = {0};
    qkv_text back = {0};
    assert_int_equal(qkv_tokenizer_encode(t, in, strlen(in), 0, &ids), QKV_OK);
    assert_int_equal(qkv_tokenizer_decode(t, ids.data, ids.count, 0, &back), QKV_OK);
    assert_int_equal(back.len, strlen(out));
    assert_memory_equal(back.data, out, back.len);
    qkv_ids_free(&ids, ctx);
    qkv_text_free(&back, ctx);
}

static void learns_words(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained(5);
    assert_string_equal(qkv_tokenizer_model(t), "WordLevel");
    assert_int_equal(qkv_tokenizer_vocab_size(t), 5);
    assert_int_equal(qkv_tokenizer_special(t, QKV_TOKEN_UNK), 0);
    assert_int_equal(qkv_tokenizer_id(t, "the", 3), 1); /* four times */
    assert_int_equal(qkv_tokenizer_id(t, "saw", 3), 2); /* three times */
    assert_int_equal(qkv_tokenizer_id(t, "cat", 3), 3); /* twice, and before the dog */
    assert_text(t, "the  cat\nsaw a dog", "the cat saw <unk> dog");
    qkv_tokenizer_destroy(t);
}

static void comes_back_from_its_file(void **state)
{
    (void)state;
    qkv_tokenizer *t = trained(100), *loaded;
    assert_int_equal(qkv_tokenizer_save(t, in(folder, "words")), QKV_OK);
    assert_int_equal(qkv_tokenizer_load(&loaded, ctx, in(folder, "words")), QKV_OK);
    assert_int_equal(qkv_tokenizer_vocab_size(loaded), qkv_tokenizer_vocab_size(t));
    assert_int_equal(qkv_tokenizer_special(loaded, QKV_TOKEN_UNK), 0);
    assert_text(t, "a bird saw the cat ;", "a bird saw the cat ;");
    assert_text(loaded, "a bird saw the fish ;", "a bird saw the <unk> ;");
    qkv_tokenizer_destroy(loaded);
    qkv_tokenizer_destroy(t);
}

static void memory_is_out(void **state)
{
    (void)state;
    qkv_tokenizer *t = NULL;
    for (size_t n = 0; !t; n++) {
        memory.left = n;
        t = trained(5);
    }
    memory.left = SIZE_MAX;
    qkv_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(learns_words),
                                       cmocka_unit_test(comes_back_from_its_file),
                                       cmocka_unit_test(memory_is_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
