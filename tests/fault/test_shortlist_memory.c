/* test_shortlist_memory.c - the n-th allocation fails, for every n, while a shortlist is learnt,
 * saved, loaded and used by a search of two models: each time a clean error or the right answer. */
#include <stdio.h>
#include <unistd.h>

#include "every_allocation.h"
#include "qkv/infer.h"
#include "qkv/marian.h"

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv_records *pairs;
    qkv_shortlist *learnt, *loaded;
    qkv_model *model;
    qkv_beam_search *search;
} fixture;

static qkv_status make_tokenizer(fixture *f)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_CHAR);
    qkv_tokenizer_trainer *trainer;
    qkv_status status = qkv_tokenizer_trainer_create(&trainer, f->ctx, &o);
    if (!status)
        status = qkv_tokenizer_trainer_add(trainer, "abcdefghijklmn op", 17);
    if (!status)
        status = qkv_tokenizer_trainer_finish(trainer, &f->tokenizer);
    qkv_tokenizer_trainer_destroy(trainer);
    return status;
}

static qkv_status learn(fixture *f)
{
    static const int32_t ids[] = {1, 2, 3, 9, 8, 7, 6};
    static const qkv_shortlist_learn_options o = {3, 4, 0.01};
    qkv_records_writer *w;
    qkv_status status = qkv_records_create(&w, f->ctx, NULL, 2);
    if (status)
        return status;
    for (size_t i = 0; i < 8 && !status; i++)
        status = qkv_records_add(w, ids + i % 4, 3);
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    status = qkv_records_finish(w, &f->pairs);
    if (!status)
        status = qkv_shortlist_learn(&f->learnt, f->ctx, f->pairs,
                                     qkv_tokenizer_vocab_size(f->tokenizer), &o);
    return status;
}

static qkv_status save_and_load(fixture *f)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/qkv-shortlist-%ld", (long)getpid());
    qkv_status status = qkv_shortlist_save(f->learnt, f->tokenizer, path);
    if (!status)
        status = qkv_shortlist_load(&f->loaded, f->ctx, f->tokenizer,
                                    qkv_tokenizer_vocab_size(f->tokenizer), path);
    unlink(path);
    return status;
}

static qkv_status search(fixture *f)
{
    static const int32_t ids[] = {1, 2, 3, 4}, offsets[] = {0, 3, 4};
    static const qkv_shortlist_options o = {2, 2};
    qkv_marian_config c;
    qkv_generation g;
    qkv_option_defaults(qkv_model_type_config(qkv_marian_type()), &c);
    c.vocab = qkv_tokenizer_vocab_size(f->tokenizer);
    c.eos = 0;
    c.pad = -1;
    c.start = 1;
    c.width = 8;
    c.encoder_layers = c.decoder_layers = 1;
    c.encoder_heads = c.decoder_heads = 2;
    c.positions = 8;
    qkv_status status = qkv_model_create(&f->model, f->ctx, qkv_marian_type(), &c);
    if (!status)
        status = qkv_model_init(f->model, 3);
    if (!status)
        status = qkv_params_store(qkv_model_params(f->model), QKV_WEIGHTS_INT8);
    if (status)
        return status;
    qkv_generation_defaults(&g, f->model);
    g.beams = 2;
    status = qkv_beam_search_create(&f->search, f->model, &g);
    if (!status)
        status = qkv_beam_search_add(f->search, f->model);
    if (!status)
        status = qkv_beam_search_shortlist(f->search, f->loaded, &o);
    for (int turn = 0; turn < 2 && !status; turn++)
        status = qkv_beam_search_run(f->search, ids, offsets, 2);
    return status;
}

/* The tokens of the second sentence's best answer and its score as one number. */
static double run(failing *memory)
{
    const qkv_context_options o = failing_options(memory);
    fixture f = {0};
    double result = -1;
    if (qkv_context_create(&f.ctx, &o))
        return -1;
    if (make_tokenizer(&f) || learn(&f) || save_and_load(&f) || search(&f)) {
        assert_int_equal(qkv_context_status(f.ctx), QKV_E_MEMORY);
    } else {
        const qkv_hypothesis *h = qkv_beam_search_found(f.search, 1, 0);
        result = 1000 * (double)h->ids[0] + (double)h->count - h->score;
    }
    qkv_beam_search_destroy(f.search);
    qkv_model_destroy(f.model);
    qkv_shortlist_destroy(f.learnt);
    qkv_shortlist_destroy(f.loaded);
    qkv_records_close(f.pairs);
    qkv_tokenizer_destroy(f.tokenizer);
    qkv_context_destroy(f.ctx);
    return result;
}

static void test_every_allocation(void **state)
{
    (void)state;
    fail_every_allocation(run, 2000, 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
