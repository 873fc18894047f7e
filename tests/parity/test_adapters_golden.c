/* test_adapters_golden.c - adapters that PEFT saved, opened here: the logits, the loss and the
 * gradients that PEFT has, in f32 and in batches, of a base with another head, too; merged, with
 * half of it twice, and with none of it; saved again with the same tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/adapter.h"
#include "model_golden.h"
#include "qkv/bert.h"
#include "qkv/gpt.h"

static const char *const adapters[] = {"gpt2-lora", "llama-lora", "bert-classifier-lora",
                                       "bert-lora"};
enum { ADAPTERS = sizeof adapters / sizeof *adapters, CLASSES = 3 };
enum { OF_WHOLE = 2 }; /* without modules that are trained whole, which do not add up */

static bool classifies(const fixture *f) { return qkv_model_can(f->model, QKV_CAN_CLASSIFY_TEXT); }

static qkv_tensor *hidden(fixture *f)
{
    const size_t shape[] = {B, T};
    qkv_tensor *ids = qkv_tensor_ids(f->t, f->ids, 2, shape);
    qkv_bert_input in = {.ids = ids, .segments = qkv_tensor_ids(f->t, f->segments, 2, shape)};
    return classifies(f) ? qkv_bert_hidden(f->model, f->t, &in)
                         : qkv_lm_hidden(f->model, f->t, ids, 0, NULL, NULL);
}

static qkv_tensor *logits(fixture *f)
{
    static const int32_t first[B] = {0, T};
    const size_t n = B;
    qkv_tensor *h = hidden(f);
    return classifies(f) ? qkv_bert_class_logits(f->model, f->t, h,
                                                 qkv_tensor_ids(f->t, first, 1, &n))
                         : qkv_lm_logits(f->model, f->t, h);
}

static qkv_tensor *loss(fixture *f)
{
    const size_t shape[] = {B, T}, n = B;
    if (classifies(f))
        return qkv_cross_entropy(f->t, logits(f), qkv_tensor_ids(f->t, f->targets, 1, &n), NULL);
    return qkv_lm_loss(f->model, f->t, hidden(f), qkv_tensor_ids(f->t, f->targets, 2, shape), NULL);
}

static void compare_now(fixture *f, const char *what)
{
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, false, false);
    const qkv_tensor *y = logits(f);
    if (qkv_tape_status(f->t))
        fail_msg("%s: %s: %s", f->name, what, qkv_context_message(f->ctx));
    compare(f, what, "logits", qkv_data(f->t, y), qkv_count(y));
}

/* part: ".lora_A" .. of a module; "": a parameter. */
static void compare_part(fixture *f, const char *of, const char *part, qkv_param *p)
{
    char name[PATH_BYTES];
    (void)snprintf(name, sizeof name, "grad.%s%s", of, part);
    compare(f, name, name, qkv_param_grad(p), qkv_param_count(p));
}

static qkv_status compare_row(void *user, const qkv_state_entry *row)
{
    fixture *f = user;
    if (row->kind != QKV_STATE_PARAM || !row->param)
        return QKV_OK;
    if (!qkv__adapter_has_module(qkv_model_adapter(f->model, 0), row->name))
        assert_null(qkv_param_grad(row->param)); /* frozen */
    else
        compare_part(f, row->name, "", row->param);
    return QKV_OK;
}

static void train_step(fixture *f)
{
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, false);
    qkv_params_zero_grad(qkv_model_params(f->model));
    qkv_tensor *y = loss(f);
    compare_tensor(f, "loss", y);
    assert_int_equal(qkv_backward(f->t, y), QKV_OK);
    const qkv_adapter *a = qkv_model_adapter(f->model, 0);
    for (size_t i = 0; i < a->count; i++) {
        compare_part(f, a->list[i].module, ".lora_A", a->list[i].term->a);
        compare_part(f, a->list[i].module, ".lora_B", a->list[i].term->b);
    }
    assert_int_equal(qkv_model_visit(f->model, compare_row, f), QKV_OK);
}

static void test_adapters(void **state)
{
    (void)state;
    for (size_t i = 0; i < ADAPTERS; i++) {
        fixture f;
        open_fixture(&f, adapters[i], (unsigned)QKV_ISA_ALL);
        assert_int_equal(qkv_model_adapter_count(f.model), 1);
        train_step(&f);
        compare_now(&f, "inference");
        qkv_tape_batch_invariant(f.t, true);
        compare_now(&f, "batches");
        close_fixture(&f);
    }
}

/* Half of it twice is all of it; none of it is the model beneath. */
static void test_stacked(void **state)
{
    (void)state;
    for (size_t i = 0; i < OF_WHOLE; i++) {
        fixture f;
        char path[PATH_BYTES];
        qkv_adapter *second;
        open_fixture(&f, adapters[i], (unsigned)QKV_ISA_ALL);
        (void)snprintf(path, sizeof path, GOLDEN "%s", adapters[i]);
        assert_int_equal(qkv_hub_add_adapter(&second, f.model, path), QKV_OK);
        qkv_adapter_set_weight(second, 0.5);
        qkv_adapter_set_weight(qkv_model_adapter(f.model, 0), 0.5);
        compare_now(&f, "two halves");
        qkv_adapter_set_weight(second, 0);
        qkv_adapter_set_weight(qkv_model_adapter(f.model, 0), 1);
        compare_now(&f, "one of two");
        assert_int_equal(qkv_model_merge_adapters(f.model), QKV_OK);
        assert_int_equal(qkv_model_adapter_count(f.model), 0);
        compare_now(&f, "merged");
        close_fixture(&f);
    }
}

/* Classes that only the adapter's own weights tell of. */
static void test_classes(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "bert-lora", (unsigned)QKV_ISA_ALL);
    assert_true(classifies(&f));
    assert_int_equal(qkv_model_label_count(f.model), CLASSES);
    assert_string_equal(qkv_model_label(f.model, 2), "LABEL_2");
    close_fixture(&f);
}

static void test_saved_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < ADAPTERS; i++) {
        fixture f;
        char was[PATH_BYTES], is[PATH_BYTES];
        qkv_safetensors *old, *new;
        open_fixture(&f, adapters[i], (unsigned)QKV_ISA_ALL);
        (void)snprintf(was, sizeof was, GOLDEN "%s", adapters[i]);
        (void)snprintf(is, sizeof is, QKV_BINARY_DIR "/%s-again", adapters[i]);
        assert_int_equal(qkv_hub_save(f.model, is, NULL), QKV_OK);
        assert_int_equal(qkv_safetensors_open(&old, f.ctx, was), QKV_OK);
        assert_int_equal(qkv_safetensors_open(&new, f.ctx, is), QKV_OK);
        assert_int_equal(qkv_safetensors_count(old), qkv_safetensors_count(new));
        for (size_t k = 0; k < qkv_safetensors_count(old); k++) {
            const qkv_safetensor *a = qkv_safetensors_at(old, k);
            const qkv_safetensor *b = qkv_safetensors_find(new, a->name);
            static qkv_real x[4096], y[4096];
            assert_non_null(b);
            assert_true(a->count == b->count && a->count <= 4096);
            assert_int_equal(qkv_safetensors_read(old, a, 0, a->count, x), QKV_OK);
            assert_int_equal(qkv_safetensors_read(new, b, 0, a->count, y), QKV_OK);
            assert_memory_equal(x, y, a->count * sizeof *x);
        }
        qkv_safetensors_close(old);
        qkv_safetensors_close(new);
        qkv_model_destroy(f.model);
        assert_int_equal(qkv_hub_load(&f.model, f.ctx, is), QKV_OK);
        compare_now(&f, "saved again");
        qkv_model_destroy(f.model); /* and in two steps, the model beneath included */
        assert_int_equal(qkv_hub_load_config(&f.model, f.ctx, is), QKV_OK);
        assert_int_equal(qkv_hub_load_weights(f.model, is), QKV_OK);
        compare_now(&f, "in two steps");
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_adapters),
                                       cmocka_unit_test(test_stacked),
                                       cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_saved_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
