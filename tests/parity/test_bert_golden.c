/* test_bert_golden.c - BERT, RoBERTa and DistilBERT with both heads against transformers: a
 * directory it saved, loaded here, gives the same logits, loss and gradient of every tensor, and is
 * saved again with the same tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "model_golden.h"
#include "qkv/bert.h"

static const char *const models[] = {"bert", "bert-classifier", "roberta", "roberta-classifier",
                                     "distilbert", "distilbert-classifier"};
enum { MODELS = sizeof models / sizeof *models };

static bool is_classifier(const fixture *f)
{
    return qkv_model_can(f->model, QKV_CAN_CLASSIFY_TEXT);
}

/* The encoder's output; packed: both sequences as one row. */
static qkv_tensor *hidden(fixture *f, bool packed)
{
    static const int32_t offsets[] = {0, T, ROWS};
    const size_t shape[] = {packed ? 1 : B, packed ? ROWS : T};
    qkv_bert_input in = {.ids = qkv_tensor_ids(f->t, f->ids, 2, shape),
                         .segments = qkv_tensor_ids(f->t, f->segments, 2, shape)};
    if (packed) {
        in.sequences = B;
        in.offsets = offsets;
    }
    return qkv_bert_hidden(f->model, f->t, &in);
}

/* i32 (n): step * 0, step * 1, .. */
static qkv_tensor *every(fixture *f, size_t n, int32_t step)
{
    int32_t rows[ROWS];
    for (size_t i = 0; i < n; i++)
        rows[i] = (int32_t)i * step;
    return qkv_tensor_ids(f->t, rows, 1, &n);
}

static qkv_tensor *logits(fixture *f, qkv_tensor *h)
{
    return is_classifier(f) ? qkv_bert_class_logits(f->model, f->t, h, every(f, B, T))
                            : qkv_bert_word_logits(f->model, f->t, h, every(f, ROWS, 1));
}

/* Words: the head only where there is a target, as in training. */
static qkv_tensor *loss(fixture *f, qkv_tensor *h)
{
    int32_t rows[ROWS], targets[ROWS];
    size_t n = 0, classes = B;
    if (is_classifier(f))
        return qkv_cross_entropy(f->t, logits(f, h), qkv_tensor_ids(f->t, f->targets, 1, &classes),
                                 NULL);
    for (int32_t i = 0; i < ROWS; i++) {
        if (f->targets[i] < 0)
            continue;
        rows[n] = i;
        targets[n++] = f->targets[i];
    }
    return qkv_bert_word_loss(f->model, f->t, h, qkv_tensor_ids(f->t, rows, 1, &n),
                              qkv_tensor_ids(f->t, targets, 1, &n), NULL);
}

static void train_step(const char *name, unsigned isa, bool packed)
{
    fixture f;
    open_fixture(&f, name, isa);
    qkv_tape_mode(f.t, true, false);
    qkv_tensor *h = hidden(&f, packed), *y = logits(&f, h);
    compare_step(&f, y, loss(&f, h));
    close_fixture(&f);
}

static void run_all(unsigned isa)
{
    for (int i = 0; i < MODELS; i++)
        train_step(models[i], isa, false);
}

static void test_packed(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++)
        train_step(models[i], QKV_ISA_ALL, true);
}

static void test_saved_again(void **state)
{
    (void)state;
    check_saved_again(models, MODELS);
}

static void test_labels(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "bert-classifier", QKV_ISA_ALL);
    assert_int_equal(qkv_model_label_count(f.model), 3);
    assert_string_equal(qkv_model_label(f.model, 1), "so-so");
    assert_null(qkv_model_label(f.model, 3));
    close_fixture(&f);
}

/* Writes the golden's tensors as old files have them: norms under their first names, nothing
 * under "bert.". */
static void write_old(const fixture *f, const char *folder)
{
    static char names[64][128];
    qkv_safetensors_entry entries[64];
    qkv_safetensors *file;
    assert_int_equal(qkv_safetensors_open(&file, f->ctx, in(GOLDEN, f->name)), QKV_OK);
    size_t count = qkv_safetensors_count(file);
    assert_true(count < 64);
    for (size_t i = 0; i < count; i++) {
        const qkv_safetensor *x = qkv_safetensors_at(file, i);
        const char *name = x->name + (strncmp(x->name, "bert.", 5) == 0 ? 5 : 0);
        (void)snprintf(names[i], sizeof names[i], "%s", name);
        char *norm = strstr(names[i], "LayerNorm.");
        if (norm)
            strcpy(norm + 10, strcmp(norm + 10, "weight") == 0 ? "gamma" : "beta");
        entries[i] = (qkv_safetensors_entry){.name = names[i], .ndim = x->ndim, .shape = x->shape,
                                             .store = QKV_STORE_F32, .raw = x->data};
    }
    assert_int_equal(qkv_safetensors_save(f->ctx, in(folder, "model.safetensors"), entries, count,
                                          NULL), QKV_OK);
    qkv_safetensors_close(file);
}

static void test_old_names(void **state)
{
    (void)state;
    fixture f;
    char folder[PATH_BYTES];
    open_fixture(&f, "bert", QKV_ISA_ALL);
    make_folder(folder);
    write_old(&f, folder);
    assert_int_equal(qkv_model_init(f.model, 1), QKV_OK);
    if (qkv_hub_load_weights(f.model, folder))
        fail_msg("%s", qkv_context_message(f.ctx));
    qkv_tape_mode(f.t, false, false);
    compare_tensor(&f, "logits", logits(&f, hidden(&f, false)));
    remove_folder(folder);
    close_fixture(&f);
}

/* What rows hold, in their order: each row's first number and whether its name is the encoder's. */
typedef struct {
    size_t count;
    bool encoder[128];
    qkv_real first[128];
} rows;

static qkv_status note_row(void *user, const qkv_state_entry *row)
{
    rows *r = user;
    if (row->kind != QKV_STATE_PARAM)
        return QKV_OK;
    assert_true(r->count < 128);
    r->encoder[r->count] = strncmp(row->name, "bert.e", 6) == 0;
    r->first[r->count++] = qkv_param_data(row->param)[row->offset];
    return QKV_OK;
}

/* A classifier that begins with the encoder of the masked model, and with a head of its own. */
static void test_families(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "roberta", QKV_ISA_ALL);
    assert_int_equal(qkv_bert_longest(f.model), 30 - 4);
    assert_ptr_equal(qkv_bert_with_head(f.model, qkv_bert_classifier_type()),
                     qkv_roberta_classifier_type());
    assert_ptr_equal(qkv_bert_with_head(f.model, qkv_distilbert_encoder_type()),
                     qkv_roberta_encoder_type());
    close_fixture(&f);
}

static void test_matching(void **state)
{
    (void)state;
    fixture f, g;
    rows before = {0}, masked = {0}, after = {0};
    open_fixture(&f, "bert-classifier", QKV_ISA_ALL);
    open_fixture(&g, "bert", QKV_ISA_ALL);
    assert_int_equal(qkv_model_visit(f.model, note_row, &before), QKV_OK);
    assert_int_equal(qkv_model_visit(g.model, note_row, &masked), QKV_OK);
    if (qkv_hub_load_matching(f.model, in(GOLDEN, "bert")))
        fail_msg("%s", qkv_context_message(f.ctx));
    assert_int_equal(qkv_model_visit(f.model, note_row, &after), QKV_OK);
    for (size_t i = 0; i < after.count; i++) {
        assert_true(after.first[i] == (after.encoder[i] ? masked : before).first[i]);
        assert_true(masked.first[i] != before.first[i]);
    }
    assert_int_equal(qkv_hub_load_matching(f.model, in(GOLDEN, "gpt2")), QKV_E_FORMAT);
    close_fixture(&f);
    close_fixture(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS cmocka_unit_test(test_packed),
        cmocka_unit_test(test_saved_again), cmocka_unit_test(test_labels),
        cmocka_unit_test(test_old_names),   cmocka_unit_test(test_matching),
        cmocka_unit_test(test_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
