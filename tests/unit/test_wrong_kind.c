/* A public function that gets another kind of model says so: every function that takes a model is
 * called with every kind that is not its own. The headers decide whether the list is complete
 * (tests/headers/test_model_functions.sh). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "qkv.h"
#include "wrong_kind.h"

/* What the functions would be given; another kind is noticed before any of it is read. */
static qkv_model *lpips;
static struct {
    qkv_bert_input bert;
    qkv_marian_side side;
    qkv_marian_head *head;
    qkv_mae_masks masks;
    qkv_lm_cache *cache;
    qkv_task task;
    qkv_series series;
    qkv_series_batch batch;
    qkv_series_set set;
    qkv_generation generation;
    qkv_hub_save_options save;
    qkv_beam_search *search;
    qkv_batch *sequences;
    qkv_generator *generator;
    qkv_image image;
    size_t cut;
    int32_t ids[QKV_LM_EOS_IDS];
    double real;
    union {
        qkv_lm_score lm;
        qkv_chat_score chat;
        qkv_translate_score translate;
        qkv_mlm_score mlm;
        qkv_classify_score classify;
        qkv_recall_score recall;
        qkv_forecast_score forecast;
        qkv_fill_score fill;
        qkv_classify_images_score images;
        qkv_segment_score segment;
        qkv_colorize_score colorize;
        qkv_reconstruct_score reconstruct;
        qkv_codes_score codes;
        qkv_codes_likeness likeness;
        qkv_perceptual_score lpips;
        qkv_prior_score grids;
    } score;
} a;

enum {
    LM = QKV_CAN_GENERATE,
    PRIOR = QKV_CAN_SAMPLE_CODES,
    MLM = QKV_CAN_FILL_MASK,
    TEXT = QKV_CAN_CLASSIFY_TEXT,
    BERT = QKV_CAN_FILL_MASK | QKV_CAN_CLASSIFY_TEXT | QKV_CAN_EMBED_TEXT,
    PAIRS = QKV_CAN_TRANSLATE,
    SERIES = QKV_CAN_FORECAST,
    GAPS = QKV_CAN_FILL_SERIES,
    KINDS_OF = QKV_CAN_CLASSIFY_SERIES,
    ENCODER = QKV_CAN_FILL_SERIES | QKV_CAN_CLASSIFY_SERIES,
    VIT = QKV_CAN_CLASSIFY_IMAGES,
    PARTS = QKV_CAN_SEGMENT,
    COLORS = QKV_CAN_COLORIZE,
    PIXELS = QKV_CAN_SEGMENT | QKV_CAN_COLORIZE,
    MAE = QKV_CAN_RECONSTRUCT,
    VQGAN = QKV_CAN_ENCODE_IMAGES,
    LPIPS = QKV_CAN_COMPARE_IMAGES,
    VECTORS = QKV_CAN_EMBED_TEXT,
    VIEWS = QKV_CAN_EMBED_IMAGES,
    TRUNK = QKV_CAN_CLASSIFY_IMAGES | QKV_CAN_EMBED_IMAGES,
    CLIP = QKV_CAN_EMBED_BOTH
};

/* A function, the kinds that it takes, and its arguments. It gives: */
#define ROWS(T, P, Z, S, V) /* T a tensor, P a pointer, Z a number, S a status, V nothing */       \
    T(qkv_bert_hidden, BERT, (m, t, &a.bert))                                                      \
    T(qkv_bert_word_logits, MLM, (m, t, NULL, NULL))                                               \
    T(qkv_bert_word_loss, MLM, (m, t, NULL, NULL, NULL, NULL))                                     \
    T(qkv_bert_class_logits, TEXT, (m, t, NULL, NULL))                                             \
    T(qkv_bert_vectors, VECTORS, (m, t, &a.bert, NULL))                                            \
    Z(qkv_bert_longest, BERT, (m))                                                                 \
    P(qkv_bert_with_head, BERT, (m, qkv_bert_masked_type()))                                       \
    T(qkv_marian_encode, PAIRS, (m, t, &a.side))                                                   \
    T(qkv_marian_decode, PAIRS, (m, t, &a.side, NULL, &a.side, NULL))                              \
    T(qkv_marian_logits, PAIRS, (m, t, NULL))                                                      \
    T(qkv_marian_loss, PAIRS, (m, t, NULL, NULL, NULL))                                            \
    S(qkv_marian_head_create, PAIRS, (&a.head, m, a.ids, 1))                                       \
    S(qkv_marian_cache_create, PAIRS, (&a.cache, m, 1, 8, 8, false))                               \
    Z(qkv_lm_vocab, LM, (m))                                                                       \
    Z(qkv_lm_positions, LM, (m))                                                                   \
    Z(qkv_lm_eos_ids, LM, (m, a.ids))                                                              \
    Z(qkv_lm_has_max_positions, LM, (m))                                                           \
    S(qkv_lm_cache_create, LM, (&a.cache, m, 1, 8))                                                \
    S(qkv_lm_cache_create_as, LM, (&a.cache, m, QKV_KV_F32, 1, 8))                                 \
    T(qkv_lm_hidden, LM, (m, t, NULL, 0, NULL, NULL))                                              \
    T(qkv_lm_hidden_slots, LM, (m, t, NULL, NULL, NULL))                                           \
    T(qkv_lm_logits, LM, (m, t, NULL))                                                             \
    T(qkv_lm_loss, LM, (m, t, NULL, NULL, NULL))                                                   \
    S(qkv_forecast_fit_scale, SERIES, (m, &a.series))                                              \
    P(qkv_forecast_mean, SERIES, (m))                                                              \
    P(qkv_forecast_std, SERIES, (m))                                                               \
    T(qkv_forecast_forward, SERIES, (m, t, NULL, 1))                                               \
    T(qkv_forecast_forced, SERIES, (m, t, NULL, NULL, 1))                                          \
    T(qkv_forecast_loss, SERIES, (m, t, NULL, NULL))                                               \
    T(qkv_vit_embed, TRUNK, (m, t, NULL))                                                          \
    S(qkv_series_fit_scale, ENCODER, (m, &a.series))                                               \
    P(qkv_series_mean, ENCODER, (m))                                                               \
    P(qkv_series_std, ENCODER, (m))                                                                \
    T(qkv_series_hidden, ENCODER, (m, t, &a.batch))                                                \
    T(qkv_series_fill, GAPS, (m, t, &a.batch))                                                     \
    T(qkv_series_class_logits, KINDS_OF, (m, t, &a.batch))                                         \
    T(qkv_vit_hidden, TRUNK, (m, t, NULL))                                                         \
    T(qkv_vit_vectors, VIEWS, (m, t, NULL))                                                        \
    Z(qkv_vit_leads, TRUNK, (m))                                                                   \
    P(qkv_vit_with_head, TRUNK, (m, true))                                                         \
    T(qkv_clip_texts, CLIP, (m, t, NULL, 0, NULL))                                                 \
    T(qkv_clip_images, CLIP, (m, t, NULL))                                                         \
    T(qkv_clip_embed, CLIP, (m, t, NULL))                                                          \
    P(qkv_clip_log_scale, CLIP, (m))                                                               \
    T(qkv_vit_logits, VIT, (m, t, NULL))                                                           \
    T(qkv_pixelwise_embed, PIXELS, (m, t, NULL))                                                   \
    T(qkv_pixelwise_forward, PIXELS, (m, t, NULL))                                                 \
    T(qkv_mae_embed, MAE, (m, t, NULL))                                                            \
    T(qkv_mae_encode, MAE, (m, t, NULL, &a.masks))                                                 \
    T(qkv_mae_decode, MAE, (m, t, NULL, &a.masks))                                                 \
    T(qkv_mae_patches, MAE, (m, t, NULL))                                                          \
    T(qkv_mae_targets, MAE, (m, t, NULL))                                                          \
    T(qkv_mae_loss, MAE, (m, t, NULL, NULL, &a.masks))                                             \
    Z(qkv_vqgan_factor, VQGAN, (m))                                                                \
    T(qkv_vqgan_encode, VQGAN, (m, t, NULL))                                                       \
    T(qkv_vqgan_codes, VQGAN, (m, t, NULL))                                                        \
    T(qkv_vqgan_vectors, VQGAN, (m, t, NULL))                                                      \
    T(qkv_vqgan_decode, VQGAN, (m, t, NULL))                                                       \
    T(qkv_vqgan_discriminate, VQGAN, (m, t, NULL))                                                 \
    P(qkv_vqgan_last, VQGAN, (m))                                                                  \
    P(qkv_vqgan_codebook, VQGAN, (m))                                                              \
    P(qkv_vqgan_usage, VQGAN, (m))                                                                 \
    T(qkv_perceptual_features, LPIPS, (m, t, NULL))                                                \
    T(qkv_perceptual_answers, LPIPS, (m, t, NULL, false))                                          \
    T(qkv_perceptual_distance, LPIPS, (m, t, NULL, NULL))                                          \
    S(qkv_task_lm, LM, (&a.task, m, NULL, NULL, 4, 1))                                             \
    S(qkv_lm_evaluate, LM, (m, t, NULL, 4, 0, &a.score.lm))                                        \
    S(qkv_task_chat, LM, (&a.task, m, NULL, NULL, 4, 1))                                           \
    S(qkv_chat_evaluate, LM, (m, t, NULL, 0, &a.score.chat))                                       \
    S(qkv_task_prior, LM, (&a.task, m, NULL, NULL, 1, 1))                                          \
    S(qkv_prior_evaluate, LM, (m, t, NULL, 0, &a.score.grids))                                     \
    S(qkv_task_translate, PAIRS, (&a.task, m, NULL, NULL, NULL, 1))                                \
    S(qkv_translate_evaluate, PAIRS, (m, t, NULL, 0, &a.score.translate))                          \
    S(qkv_translate_log_p, PAIRS, (m, t, NULL, 0, NULL))                                           \
    S(qkv_task_mlm, MLM, (&a.task, m, NULL, NULL, NULL, NULL, 1))                                  \
    S(qkv_mlm_evaluate, MLM, (m, t, NULL, NULL, NULL, 0, &a.score.mlm))                            \
    S(qkv_task_classify, TEXT, (&a.task, m, NULL, NULL, NULL, NULL, 1))                            \
    S(qkv_classify_evaluate, TEXT, (m, t, NULL, 0, &a.score.classify))                             \
    S(qkv_task_embed, VECTORS, (&a.task, m, NULL, NULL, NULL, NULL, 1))                            \
    S(qkv_embed_evaluate, VECTORS, (m, t, NULL, NULL, 0, &a.score.recall))                         \
    S(qkv_task_forecast, SERIES, (&a.task, m, &a.series, NULL, 1))                                 \
    S(qkv_forecast_evaluate, SERIES, (m, t, &a.series, 0, &a.score.forecast))                      \
    S(qkv_task_classify_series, KINDS_OF, (&a.task, m, &a.set, NULL, 0, 1))                        \
    S(qkv_classify_series_evaluate, KINDS_OF, (m, t, &a.set, 0, &a.score.classify))                \
    S(qkv_classify_series, KINDS_OF, (m, &a.batch, NULL))                                          \
    S(qkv_task_fill, GAPS, (&a.task, m, &a.series, NULL, 1))                                       \
    S(qkv_fill_evaluate, GAPS, (m, t, &a.series, 0, &a.score.fill))                                \
    S(qkv_task_embed_images, VIEWS, (&a.task, m, NULL, NULL, NULL, 1))                             \
    S(qkv_task_captions, CLIP, (&a.task, m, NULL, NULL, NULL, 1))                                  \
    S(qkv_captions_evaluate, CLIP, (m, t, NULL, 0, &a.score.recall))                               \
    S(qkv_embed_images, VIEWS | CLIP, (m, t, NULL, NULL, 1, true, NULL))                           \
    S(qkv_task_classify_images, VIT, (&a.task, m, NULL, NULL, NULL, 1))                            \
    S(qkv_classify_images_evaluate, VIT, (m, t, NULL, 0, &a.score.images))                      \
    S(qkv_classify_images, VIT, (m, t, NULL, NULL, 1, NULL))                                       \
    S(qkv_task_segment, PARTS, (&a.task, m, NULL, NULL, NULL, 1))                                  \
    S(qkv_segment_evaluate, PARTS, (m, t, NULL, 0, &a.score.segment))                              \
    S(qkv_segment, PARTS, (NULL, m, t, NULL))                                                      \
    S(qkv_task_colorize, COLORS, (&a.task, m, NULL, NULL, NULL, 1))                                \
    S(qkv_colorize_evaluate, COLORS, (m, t, NULL, 0, &a.score.colorize))                           \
    S(qkv_colorize, COLORS, (&a.image, m, t, NULL, NULL, NULL, 0))                                 \
    S(qkv_task_reconstruct, MAE, (&a.task, m, NULL, NULL, NULL, 1))                                \
    S(qkv_reconstruct_evaluate, MAE, (m, t, NULL, 0.5, 0, &a.score.reconstruct))                   \
    S(qkv_reconstruct, MAE, (m, t, NULL, 0.5, 1, true, NULL, NULL))                                \
    S(qkv_task_codes, VQGAN, (&a.task, m, lpips, NULL, NULL, NULL, 1))                             \
    S(qkv_codes_evaluate, VQGAN, (m, lpips, 1, t, NULL, 0, &a.score.codes))                        \
    S(qkv_codes_find, VQGAN, (m, t, NULL, &a.real))                                                \
    S(qkv_codes_compare, VQGAN, (m, lpips, t, NULL, &a.score.likeness))                            \
    S(qkv_images_encode, VQGAN, (m, t, NULL, 1, 8, 8, NULL))                                       \
    S(qkv_images_decode, VQGAN, (m, t, NULL, 1, 2, 2, NULL))                                       \
    S(qkv_task_perceptual, LPIPS, (&a.task, m, NULL, NULL, 1))                                     \
    S(qkv_perceptual_evaluate, LPIPS, (m, t, NULL, &a.score.lpips))                                \
    S(qkv_generate, LM, (m, a.ids, 1, NULL, NULL, NULL, NULL))                                     \
    S(qkv_generator_create, LM, (&a.generator, m))                                                 \
    S(qkv_batch_create, LM, (&a.sequences, m, NULL))                                               \
    S(qkv_sample_codes, PRIOR, (m, NULL, NULL, NULL, NULL))                                        \
    S(qkv_fill, MLM, (m, a.ids, 1, 0, 1, NULL))                                                    \
    S(qkv_classify, TEXT, (m, NULL, NULL, 1, NULL, &a.cut))                                        \
    S(qkv_embed_texts, VECTORS | CLIP, (m, NULL, NULL, 1, NULL, &a.cut))                           \
    S(qkv_forecast, SERIES, (m, &a.series, 1, NULL))                                               \
    S(qkv_fill_series, GAPS, (m, &a.series, NULL))                                                 \
    S(qkv_beam_search_create, PAIRS, (&a.search, m, &a.generation))                                \
    S(qkv_beam_search_add, PAIRS, (a.search, m))                                                   \
    V(qkv_generation_defaults, PAIRS, (&a.generation, m))                                          \
    S(qkv_hub_load_generation, PAIRS, (&a.generation, m, "none"))                                  \
    S(qkv_hub_export, EXPORTED, (m, "none", NULL))

REFUSALS(ROWS)
enum { COUNT = sizeof refusals / sizeof *refusals };

/* ---- the test ----------------------------------------------------------------------------- */

static void every_other_kind_is_refused(void **state)
{
    (void)state;
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    lpips = made(qkv_perceptual_type());
    size_t calls = refuse_others(refusals, COUNT, NULL);
    assert_true(calls > 10 * COUNT); /* of 18 kinds most functions take one or two */
    qkv_model_destroy(lpips);
    qkv_tape_destroy(t);
}

/* Where a second model is given, or what another one made. */
static void second_models_are_refused(void **state)
{
    (void)state;
    qkv_model *vqgan = made(qkv_vqgan_type()), *cct = made(qkv_cct_type());
    qkv_model *prior = made(qkv_prior_type()), *gpt = made(qkv_gpt2_type());
    qkv_model *marian = made(qkv_marian_type());
    const size_t shape[] = {1, 1};
    assert_int_equal(qkv_tape_create(&t, ctx), QKV_OK);
    assert_int_equal(qkv_task_codes(&a.task, vqgan, gpt, NULL, NULL, NULL, 1), QKV_E_ARGUMENT);
    assert_int_equal(qkv_codes_evaluate(vqgan, gpt, 1, t, NULL, 0, &a.score.codes),
                     QKV_E_ARGUMENT);
    assert_int_equal(qkv_codes_compare(vqgan, gpt, t, NULL, &a.score.likeness), QKV_E_ARGUMENT);
    assert_int_equal(qkv_hub_export(cct, "none", NULL), QKV_E_UNSUPPORTED);
    a.save = (qkv_hub_save_options){.vqgan = gpt};
    assert_int_equal(qkv_hub_export(prior, "none", &a.save), QKV_E_ARGUMENT);
    a.save = (qkv_hub_save_options){.condition = gpt};
    assert_int_equal(qkv_hub_export(prior, "none", &a.save), QKV_E_ARGUMENT);
    assert_int_equal(qkv_marian_cache_create(&a.cache, marian, 1, 8, 8, false), QKV_OK);
    qkv_tensor *ids = qkv_tensor_ids(t, a.ids, 2, shape);
    assert_null(qkv_lm_hidden(gpt, t, ids, 0, NULL, a.cache));
    assert_non_null(strstr(qkv_context_message(ctx), "cache of another model"));
    qkv_lm_cache_destroy(a.cache);
    qkv_tape_reset(t);
    assert_int_equal(qkv_lm_cache_create(&a.cache, gpt, 1, 8), QKV_OK);
    a.side.ids = qkv_tensor_ids(t, a.ids, 2, shape);
    qkv_tensor *memory_ = qkv_marian_encode(marian, t, &a.side);
    assert_non_null(memory_);
    assert_null(qkv_marian_decode(marian, t, &a.side, memory_, &a.side, a.cache));
    assert_non_null(strstr(qkv_context_message(ctx), "cache of another model"));
    a.side.ids = NULL;
    qkv_lm_cache_destroy(a.cache);
    qkv_tape_destroy(t);
    qkv_model *const all[] = {vqgan, cct, prior, gpt, marian};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qkv_model_destroy(all[i]);
}

/* ---- configurations ------------------------------------------------------------------------- */

/* Each field of each type's configuration beyond its range, and no number: a sentence that names
 * it, whatever the field is. */
static void no_model_has_such_a_field(void **state)
{
    (void)state;
    for (size_t k = 0; qkv_model_type_at(NULL, k); k++) {
        const qkv_model_type *type = qkv_model_type_at(NULL, k);
        const qkv_option_table *table = qkv_model_type_config(type);
        char *config = calloc(1, qkv_model_type_config_size(type));
        for (size_t i = 0; i < table->count; i++) {
            const qkv_option *field = &table->rows[i];
            const int number = 99;
            const size_t size = SIZE_MAX, zero = 0;
            const double real = NAN;
            qkv_model *m;
            char key[64];
            snprintf(key, sizeof key, ": %.*s:", (int)strcspn(field->key, "|"), field->key);
            qkv_option_defaults(table, config);
            if (field->type == QKV_OPT_BOOL)
                continue;
            if (field->type == QKV_OPT_SIZES) /* a count of more than there is room for */
                memcpy(config + field->offset, &size, sizeof size);
            else if (field->type == QKV_OPT_SIZE)
                memcpy(config + field->offset, field->min > 0 ? &zero : &size, sizeof size);
            else if (field->type == QKV_OPT_REAL)
                memcpy(config + field->offset, &real, sizeof real);
            else if (field->type == QKV_OPT_ENUM)
                memcpy(config + field->offset, &number, sizeof number);
            else
                memcpy(config + field->offset, &(int){-2}, sizeof number);
            assert_int_equal(qkv_model_create(&m, ctx, type, config), QKV_E_ARGUMENT);
            assert_null(m);
            if (!strstr(qkv_context_message(ctx), key))
                fail_msg("\"%s\" expected in: %s", key, qkv_context_message(ctx));
        }
        free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_other_kind_is_refused),
        cmocka_unit_test(second_models_are_refused),
        cmocka_unit_test(no_model_has_such_a_field),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
