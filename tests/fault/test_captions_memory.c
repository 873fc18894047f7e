/* test_captions_memory.c - the n-th allocation fails, for every n, while images and a table of
 * captions become sets, a CLIP model learns from them and is evaluated: each time a clean error or
 * the right answer, and all memory comes back. */
#include <string.h>

#include "every_allocation.h"
#include "files.h"
#include "learnt.h"
#include "pipeline/captioned.h"
#include "qkv/clip.h"
#include "qkv/embed.h"

enum { SIDE = 8, LENGTH = 12 };

static const char table[] = "file,caption\n"
                            "type2-8bit.png,\"one, picture\"\ntype0-8bit.png,two\n"
                            "type2-8bit.png,the same\nmissing.png,none\ntype6-8bit.png,\n";
static const char words[] = "one picture two the same";
static char images[PATH_BYTES + 8], captions[PATH_BYTES + 8];

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv__captioned read;
    qkv_records *records;
    qkv_model *model;
    qkv_task task;
    qkv_tape *tape;
} fixture;

static const qkv_image_format format = {.height = SIDE, .width = SIDE, .channels = 3,
                                        .resample = 2, .mean = {0.5, 0.5, 0.5},
                                        .std = {0.3, 0.3, 0.3}};

static qkv_status make_tokenizer(fixture *f)
{
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    o.vocab = 40;
    return learn_tokenizer(&f->tokenizer, f->ctx, &o, words);
}

static qkv_status make_model(fixture *f)
{
    qkv_clip_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_clip_type()), &c);
    c.text.vocab = qkv_tokenizer_vocab_size(f->tokenizer);
    c.text.positions = LENGTH;
    c.text.eos = qkv_tokenizer_special(f->tokenizer, QKV_TOKEN_SEP);
    c.text.width = c.vision.width = 8;
    c.text.ff_width = c.vision.ff_width = 16;
    c.text.layers = c.vision.layers = 1;
    c.text.heads = c.vision.heads = 2;
    c.vision.image = SIDE;
    c.vision.patch = 4;
    c.projection = 8;
    qkv_status status = qkv_model_create(&f->model, f->ctx, qkv_clip_type(), &c);
    if (!status)
        status = qkv_model_init(f->model, 1);
    if (!status)
        qkv_model_set_image_format(f->model, &format);
    return status;
}

static qkv_status make(fixture *f)
{
    qkv_status status = make_tokenizer(f);
    if (!status)
        status = qkv__captioned_load(&f->read, f->ctx, images, captions, &format);
    if (!status)
        status = qkv__captioned_records(&f->records, &f->read, f->tokenizer, LENGTH, NULL,
                                        qkv_pixels_count(f->read.images), NULL);
    if (!status)
        status = make_model(f);
    if (status)
        return status;
    const qkv_captioned data = {f->read.images, f->records};
    status = qkv_task_captions(&f->task, f->model, &data, &data, NULL, 1);
    return status ? status : qkv_tape_create(&f->tape, f->ctx);
}

/* Two updates, of one and of both images; the last loss, or -1. */
static double train(fixture *f)
{
    double loss = 0;
    for (uint64_t i = 0; i < 2; i++) {
        const qkv_micro_batch some = {i, 0, 0, 1 + i, 1 + i, NULL};
        qkv_tape_reset(f->tape);
        qkv_tape_mode(f->tape, true, true);
        qkv_params_zero_grad(qkv_model_params(f->model));
        qkv_tensor *y = f->task.type->loss(f->task.self, f->tape, &some);
        loss = (double)qkv_item(f->tape, y);
        if (!y || qkv_backward(f->tape, y))
            return -1;
    }
    return loss;
}

/* The sum of what comes out, or -1 after a failure. */
static double run(failing *memory)
{
    const qkv_context_options o = failing_options(memory);
    fixture f = {0};
    qkv_metrics m = {0};
    if (qkv_context_create(&f.ctx, &o))
        return -1;
    f.read.ctx = f.ctx;
    double loss = make(&f) ? -1 : train(&f);
    bool ok = loss > 0 && !f.task.type->evaluate(f.task.self, f.tape, 0, &m);
    if (!ok) {
        assert_int_equal(qkv_context_status(f.ctx), QKV_E_MEMORY);
        assert_true(strlen(qkv_context_message(f.ctx)) > 0);
    }
    qkv_task_destroy(&f.task);
    qkv_tape_destroy(f.tape);
    qkv_records_close(f.records);
    qkv__captioned_close(&f.read);
    qkv_model_destroy(f.model);
    qkv_tokenizer_destroy(f.tokenizer);
    qkv_context_destroy(f.ctx);
    return ok ? loss + m.item[2].value : -1;
}

static void test_every_allocation(void **state)
{
    (void)state;
    fail_every_allocation(run, 3000, 50);
}

static void copy_image(const char *name)
{
    static char bytes[1 << 16];
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/tests/golden/images/%s", QKV_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    snprintf(path, sizeof path, "%s/%s", images, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    char folder[PATH_BYTES];
    make_folder(folder);
    snprintf(images, sizeof images, "%s/set", folder);
    snprintf(captions, sizeof captions, "%s/table", folder);
    assert_int_equal(mkdir(images, 0777), 0);
    copy_image("type0-8bit.png");
    copy_image("type2-8bit.png");
    copy_image("type6-8bit.png");
    FILE *f = fopen(captions, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(table, 1, sizeof table - 1, f), sizeof table - 1);
    assert_int_equal(fclose(f), 0);
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(folder);
    return result;
}
