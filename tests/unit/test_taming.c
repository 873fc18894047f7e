/* test_taming.c - files with taming-transformers' names: what is written and read again is the same
 * model, under its keys; what PyTorch Lightning saved is read; LPIPS from one file and from two;
 * what is missing, odd or hostile is one sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "changed.h"
#include "pytorch/pytorch.h"
#include "qkv/gpt.h"
#include "qkv/perceptual.h"
#include "qkv/vqgan.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/taming/"
enum { SIDE = 16 };

static const qkv_vqgan_config small = {
    .channels = 32, .multiples = {2, {1, 2}}, .blocks = 1, .attention = {1, {SIDE / 2}},
    .image = SIDE, .colors = 3, .z_channels = 8, .code_width = 4, .codes = 10,
    .disc_channels = 2, .disc_layers = 2};

static qkv_model *make(const qkv_model_type *type, const void *config)
{
    qkv_model *m;
    if (qkv_model_create(&m, ctx, type, config))
        fail_msg("%s", qkv_context_message(ctx));
    number(m);
    return m;
}

/* With what batch norm keeps told apart too. */
static qkv_model *make_vqgan(const qkv_vqgan_config *c)
{
    qkv_model *m = make(qkv_vqgan_type(), c);
    qkv_params *ps = qkv_model_params(m);
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        for (size_t j = 0; j < qkv_param_count(p) && strstr(qkv_param_name(p), "main.3."); j++)
            qkv_param_data(p)[j] = (qkv_real)(i + j + 1);
    }
    return m;
}

static qkv_model *make_prior(void)
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    c.vocab = 10;
    c.positions = 2 * 16;
    c.width = 64;
    c.layers = 2;
    c.heads = 1;
    c.rows = c.columns = 4;
    c.before = 16;
    return make(qkv_prior_type(), &c);
}

static qkv_model *import(const char *path, const qkv_hub_import_options *o)
{
    qkv_model *m;
    if (qkv_hub_import(&m, ctx, path, o))
        fail_msg("%s", qkv_context_message(ctx));
    assert_non_null(m);
    return m;
}

static void export(qkv_model *m, const char *name, const qkv_hub_save_options *o)
{
    if (qkv_hub_export(m, in(folder, name), o))
        fail_msg("%s", qkv_context_message(ctx));
}

static void assert_refused(const char *path, const qkv_hub_import_options *o, const char *words)
{
    qkv_model *m = (qkv_model *)&folder;
    qkv_status status = qkv_hub_import(&m, ctx, path, o);
    const char *message = qkv_context_message(ctx);
    if (!status || !strstr(message, words) || !strstr(message, path) || strchr(message, '\n'))
        fail_msg("\"%s\" expected, found: %s", words, status ? message : "no error");
    assert_null(m);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
}

/* ---- VQGAN ------------------------------------------------------------------------- */

static void vqgans_come_back(void **state)
{
    const qkv_hub_import_options o = {.side = SIDE};
    (void)state;
    for (int i = 0; i < 3; i++) {
        qkv_vqgan_config c = small;
        c.attention.count = i == 0;
        c.disc_layers = i == 1 ? 0 : 1 + (size_t)i;
        c.disc_channels = i == 1 ? 64 : 2;
        c.colors = i == 2 ? 1 : 3;
        qkv_model *m = make_vqgan(&c);
        export(m, "a.ckpt", NULL);
        qkv_model *again = import(in(folder, "a.ckpt"), &o);
        const qkv_vqgan_config *found = qkv_model_config(again);
        assert_memory_equal(&c.multiples, &found->multiples, sizeof c.multiples);
        assert_int_equal(found->attention.count, c.attention.count);
        assert_int_equal(found->image, SIDE);
        assert_int_equal(found->disc_layers, c.disc_layers);
        assert_int_equal(qkv_model_image_format(again)->width, SIDE);
        assert_same(m, again);
        qkv_model_destroy(again);
        qkv_model_destroy(m);
    }
}

static const struct {
    const char *name;
    int ndim;
    size_t shape[4];
} rows[] = {
    {"encoder.conv_in.weight", 4, {32, 3, 3, 3}},
    {"encoder.down.0.block.0.norm1.weight", 1, {32}},
    {"encoder.down.0.downsample.conv.weight", 4, {32, 32, 3, 3}},
    {"encoder.down.1.block.0.nin_shortcut.weight", 4, {64, 32, 1, 1}},
    {"encoder.down.1.attn.0.proj_out.weight", 4, {64, 64, 1, 1}},
    {"encoder.mid.attn_1.q.weight", 4, {64, 64, 1, 1}},
    {"encoder.norm_out.bias", 1, {64}},
    {"encoder.conv_out.weight", 4, {8, 64, 3, 3}},
    {"decoder.up.1.block.1.conv2.weight", 4, {64, 64, 3, 3}},
    {"decoder.up.1.attn.1.k.bias", 1, {64}},
    {"decoder.up.1.upsample.conv.weight", 4, {64, 64, 3, 3}},
    {"decoder.conv_out.weight", 4, {3, 32, 3, 3}},
    {"quantize.embedding.weight", 2, {10, 4}},
    {"quant_conv.weight", 4, {4, 8, 1, 1}},
    {"post_quant_conv.weight", 4, {8, 4, 1, 1}},
    {"loss.discriminator.main.0.weight", 4, {2, 3, 4, 4}},
    {"loss.discriminator.main.2.weight", 4, {4, 2, 4, 4}},
    {"loss.discriminator.main.3.running_var", 1, {4}},
    {"loss.discriminator.main.3.num_batches_tracked", 0, {0}},
    {"loss.discriminator.main.8.weight", 4, {1, 8, 4, 4}},
};

/* As torch.load gives them to VQModel.load_state_dict. */
static void keys_are_theirs(void **state)
{
    const qkv__pytorch_options beneath = {.under = "state_dict"};
    qkv__pytorch *p;
    qkv_safetensors *theirs, *ours;
    (void)state;
    qkv_model *m = make_vqgan(&small);
    export(m, "a.ckpt", NULL);
    assert_int_equal(qkv_hub_save(m, in(folder, "dir"), NULL), QKV_OK);
    qkv_model_destroy(m);
    assert_int_equal(qkv__pytorch_open(&p, ctx, in(folder, "a.ckpt"), &beneath), QKV_OK);
    assert_int_equal(qkv__pytorch_left_out(p), 0);
    assert_int_equal(qkv__pytorch_view(&theirs, p), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&ours, ctx, in(folder, "dir")), QKV_OK);
    assert_int_equal(qkv_safetensors_count(theirs), qkv_safetensors_count(ours));
    for (size_t i = 0; i < qkv_safetensors_count(ours); i++) {
        const qkv_safetensor *a = qkv_safetensors_at(ours, i), *b = qkv_safetensors_at(theirs, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->store, b->store);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const qkv_safetensor *t;
        if (qkv_safetensors_get(theirs, rows[i].name, rows[i].ndim, rows[i].shape, &t))
            fail_msg("%s", qkv_context_message(ctx));
    }
    qkv_safetensors_close(ours);
    qkv_safetensors_close(theirs);
    qkv__pytorch_close(p);
}

typedef struct {
    size_t encoder, decoder, all, numbers;
} tally;

static qkv_status count_row(void *user, const qkv_state_entry *row)
{
    tally *t = user;
    size_t n = 1;
    if (strncmp(row->name, "loss.", 5) == 0)
        return QKV_OK;
    for (int i = 0; i < row->ndim; i++)
        n *= row->shape[i];
    t->encoder += strncmp(row->name, "encoder.", 8) == 0;
    t->decoder += strncmp(row->name, "decoder.", 8) == 0;
    t->all++;
    t->numbers += n;
    return QKV_OK;
}

/* The published model: 343 tensors without the losses', 72,141,699 numbers. */
static void f16_has_their_tensors(void **state)
{
    qkv_vqgan_config c;
    qkv_model *m;
    tally t = {0};
    (void)state;
    qkv_option_defaults(qkv_model_type_config(qkv_vqgan_type()), &c);
    assert_true(qkv_model_type_preset(qkv_vqgan_type(), "f16", &c));
    assert_int_equal(qkv_model_create(&m, ctx, qkv_vqgan_type(), &c), QKV_OK);
    assert_int_equal(qkv_model_visit(m, count_row, &t), QKV_OK);
    qkv_model_destroy(m);
    assert_int_equal(t.encoder, 144);
    assert_int_equal(t.decoder, 194);
    assert_int_equal(t.all, 343);
    assert_int_equal(t.numbers, 72141699);
}

/* ---- what PyTorch Lightning saved -------------------------------------------------- */

static qkv_status check_golden_row(void *user, const qkv_state_entry *row)
{
    const qkv_real *x = qkv_param_data(row->param) + row->offset;
    size_t apart = 1;
    (void)user;
    if (row->integer)
        assert_true(x[0] == 7);
    for (int i = 1; i < row->ndim; i++)
        apart *= row->shape[i];
    for (size_t i = 0; i < row->shape[0] && !row->integer; i++)
        assert_true(x[i * apart] == (qkv_real)(i + strlen(row->name)) / 64 - 1);
    return QKV_OK;
}

static void lightning_is_read(void **state)
{
    static const char *const files[] = {GOLDEN "last.ckpt", GOLDEN "last-legacy.ckpt"};
    size_t left_out = 0;
    const qkv_hub_import_options o = {.skip_objects = true, .left_out = &left_out};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_refused(files[i], NULL, "asks for __main__.ModelCheckpoint");
        qkv_model *m = import(files[i], &o);
        const qkv_vqgan_config *c = qkv_model_config(m);
        assert_int_equal(left_out, 3); /* two of LPIPS, one of an optimiser */
        assert_int_equal(c->image, 256);
        assert_int_equal(c->multiples.count, 1);
        assert_int_equal(c->disc_layers, 1);
        assert_int_equal(qkv_model_visit(m, check_golden_row, NULL), QKV_OK);
        qkv_model_destroy(m);
    }
}

/* ---- the prior --------------------------------------------------------------------- */

static void priors_come_back_with_their_vqgans(void **state)
{
    (void)state;
    qkv_vqgan_config other = small;
    other.codes = 7;
    qkv_model *m = make_prior(), *vqgan = make_vqgan(&small), *condition = make_vqgan(&other);
    const qkv_hub_save_options all = {.vqgan = vqgan, .condition = condition};
    const qkv_hub_import_options first = {.part = "first_stage_model", .side = SIDE};
    const qkv_hub_import_options second = {.part = "cond_stage_model", .side = SIDE};
    const qkv_hub_import_options third = {.part = "stage_model"};
    export(m, "a.ckpt", &all);
    const char *path = in(folder, "a.ckpt");
    qkv_model *again = import(path, NULL), *inside = import(path, &first), *none;
    const qkv_gpt_config *c = qkv_model_config(again);
    assert_int_equal(c->heads, 1);
    assert_int_equal(c->rows, 4);
    assert_int_equal(c->before, 16);
    assert_same(m, again);
    assert_same(vqgan, inside);
    qkv_model_destroy(inside);
    inside = import(path, &second);
    assert_same(condition, inside);
    assert_int_equal(qkv_hub_import(&none, ctx, path, &third), QKV_OK);
    assert_null(none);
    qkv_model_destroy(inside);
    qkv_model_destroy(again);
    qkv_model_destroy(condition);
    qkv_model_destroy(vqgan);
    qkv_model_destroy(m);
}

/* Whatever is no grid and one token before it stays as near as it can be. */
static void code_grids_are_guessed(void **state)
{
    static const struct {
        size_t positions, given, before, side;
    } cases[] = {{256, 0, 1, 16}, {512, 0, 256, 16}, {512, 1, 1, 22}, {63, 0, 1, 7}, {64, 0, 1, 8},
                 {1, 0, 1, 1}, {2, 0, 1, 1}, {4, 9, 9, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qkv_hub_import_options o = {.heads = 1, .before = cases[i].given};
        qkv_gpt_config c;
        qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
        c.vocab = c.width = c.layers = c.heads = 1;
        c.positions = cases[i].positions;
        qkv_model *m = make(qkv_prior_type(), &c);
        export(m, "a.ckpt", NULL);
        qkv_model_destroy(m);
        m = import(in(folder, "a.ckpt"), &o);
        const qkv_gpt_config *found = qkv_model_config(m);
        if (found->before != cases[i].before || found->rows != cases[i].side)
            fail_msg("%zu positions: %zu before %zu x %zu", cases[i].positions, found->before,
                     found->rows, found->columns);
        qkv_model_destroy(m);
    }
}

/* Masks are those of minGPT: below the diagonal and on it. */
static void masks_are_written_and_evaluated(void **state)
{
    const qkv__pytorch_options beneath = {.under = "state_dict"};
    qkv__pytorch *p;
    qkv_safetensors *s;
    const qkv_safetensor *t;
    const size_t shape[] = {1, 1, 32, 32};
    qkv_real mask[32 * 32];
    (void)state;
    qkv_model *m = make_prior();
    export(m, "a.ckpt", NULL);
    qkv_model_destroy(m);
    assert_int_equal(qkv__pytorch_open(&p, ctx, in(folder, "a.ckpt"), &beneath), QKV_OK);
    assert_int_equal(qkv__pytorch_view(&s, p), QKV_OK);
    assert_int_equal(qkv_safetensors_get(s, "transformer.blocks.1.attn.mask", 4, shape, &t),
                     QKV_OK);
    assert_int_equal(qkv_safetensors_read(s, t, 0, 32 * 32, mask), QKV_OK);
    for (size_t i = 0; i < 32 * 32; i++)
        assert_true(mask[i] == (i % 32 <= i / 32));
    mask[1] = 1;
    qkv_safetensors_entry e[3] = {
        {.name = "transformer.blocks.0.attn.mask", .ndim = 4, .shape = shape, .data = mask,
         .store = QKV_STORE_F32},
        {.name = "transformer.pos_emb", .ndim = 1, .shape = shape, .data = mask,
         .store = QKV_STORE_F32},
        {.name = "transformer.tok_emb.weight", .ndim = 1, .shape = shape, .data = mask,
         .store = QKV_STORE_F32}};
    assert_int_equal(qkv_safetensors_save(ctx, in(folder, "b.safetensors"), e, 3, NULL), QKV_OK);
    qkv_safetensors_close(s);
    qkv__pytorch_close(p);
    assert_refused(in(folder, "b.safetensors"), NULL, "n_unmasked");
}

/* ---- LPIPS ------------------------------------------------------------------------- */

static const qkv_perceptual_config tiny = {.channels = {5, {2, 3, 4, 5, 6}},
                                           .convolutions = {5, {2, 2, 3, 3, 3}}};

/* The trunk under torchvision's names, or the weights of the distance, of the directory's file. */
static void save_part(const char *name, bool trunk)
{
    static char texts[40][64];
    qkv_safetensors *s;
    qkv_safetensors_entry e[40] = {0};
    size_t n = 0;
    assert_int_equal(qkv_safetensors_open(&s, ctx, in(folder, "dir")), QKV_OK);
    for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
        const qkv_safetensor *t = qkv_safetensors_at(s, i);
        bool net = strncmp(t->name, "net.", 4) == 0;
        if (net != trunk)
            continue;
        (void)snprintf(texts[n], sizeof texts[n], "%s%s", net ? "features." : "",
                       t->name + (net ? strlen("net.slice1.") : 0));
        e[n] = (qkv_safetensors_entry){.name = texts[n], .ndim = t->ndim, .shape = t->shape,
                                       .store = t->store, .raw = t->data};
        n++;
    }
    const size_t one = 1;
    const qkv_real zero = 0;
    e[n++] = (qkv_safetensors_entry){.name = "classifier.0.bias", .ndim = 1, .shape = &one,
                                     .store = QKV_STORE_F32, .data = &zero};
    assert_int_equal(qkv_safetensors_save(ctx, in(folder, name), e, n, NULL), QKV_OK);
    qkv_safetensors_close(s);
}

static void lpips_of_one_file_and_of_two(void **state)
{
    size_t left_out = 0;
    const change whole = {.prefix = "loss.perceptual_loss."};
    (void)state;
    qkv_model *m = make(qkv_perceptual_type(), &tiny), *again;
    assert_int_equal(qkv_hub_save(m, in(folder, "dir"), NULL), QKV_OK);
    assert_int_equal(qkv_hub_export(m, in(folder, "a.ckpt"), NULL), QKV_E_UNSUPPORTED);
    save_part("vgg16.safetensors", true);
    save_part("lins.safetensors", false);
    const qkv_hub_import_options two = {.distance = in(folder, "lins.safetensors"),
                                        .left_out = &left_out};
    again = import(in(folder, "vgg16.safetensors"), &two);
    assert_same(m, again);
    assert_int_equal(left_out, 1);
    qkv_model_destroy(again);
    copy_changed(in(folder, "dir/model.safetensors"), in(folder, "whole.safetensors"), &whole);
    again = import(in(folder, "whole.safetensors"), NULL);
    assert_same(m, again);
    qkv_model_destroy(again);
    qkv_model_destroy(m);
    assert_int_equal(qkv_hub_import(&m, ctx, in(folder, "vgg16.safetensors"), NULL), QKV_OK);
    assert_null(m); /* a network that is no distance yet */
    const qkv_hub_import_options odd = {.distance = in(folder, "vgg16.safetensors")};
    assert_refused(in(folder, "vgg16.safetensors"), &odd, "lin0.model.1.weight");
    assert_refused(in(folder, "lins.safetensors"), &two, "features.0.weight");
    const change fewer = {.drop = "features.26.bias"};
    copy_changed(in(folder, "vgg16.safetensors"), in(folder, "b.safetensors"), &fewer);
    assert_refused(in(folder, "b.safetensors"), &two, "\"features.26.bias\" is missing");
    const change more = {.extra = "features.30.weight"};
    copy_changed(in(folder, "vgg16.safetensors"), in(folder, "b.safetensors"), &more);
    assert_refused(in(folder, "b.safetensors"), &two, "features.30.weight has no place");
}

/* ---- refused ----------------------------------------------------------------------- */

static const struct {
    change change;
    qkv_hub_import_options options;
    const char *words;
} bad[] = {
    {{.drop = "decoder.up.1.block.1.norm2.bias"}, {0},
     "\"decoder.up.1.block.1.norm2.bias\" is missing"},
    {{.drop = "loss.discriminator.main.3."}, {0}, "main.3.weight\" is missing"},
    {{.drop = "loss.discriminator.main.5"}, {0}, "2 convolutions in"},
    {{.extra = "encoder.down.0.attn.0.norm.bias"}, {0},
     "encoder.down.0.attn.0.norm.bias has no place in this qkv_vqgan model"},
    {{.drop = "encoder.down.0"}, {0}, "0 levels in encoder.down; 1 to 8 expected"},
    {{.extra = "quantize.used"}, {0}, "a remapped codebook (quantize.used)"},
    {{.drop = "quantize.embedding", .extra = "quantize.proj.weight"}, {0},
     "a Gumbel quantiser (quantize.proj.weight)"},
    {{.cut = "decoder.up.0.block.0.conv1.weight", .rows = 32}, {0},
     "expected shape (32, 64, 3, 3), found (32, 32, 3, 3)"},
    {{.flat = "encoder.conv_in.weight"}, {0}, "a multiple of 864 channels"},
    {{.flat = "encoder.conv_out.weight"}, {0}, "shapes of a model of"},
    {{.flat = "loss.discriminator.main.2.weight"}, {0}, "expected shape (4, 2"},
    {{.flat = "encoder.down.1.block.0.conv1.weight"}, {0}, "shapes of a model of"},
    {{.flat = "quantize.embedding.weight"}, {0}, "\"quant_conv.weight\": expected"},
    {{.cut = "encoder.conv_in.weight", .rows = 2}, {0}, "in_channels: 1 or 3 expected, found 2"},
    {{0}, {.side = 15}, "resolution 15 cannot be halved 1 times"},
};

static void bad_files_are_one_sentence(void **state)
{
    (void)state;
    qkv_model *m = make_vqgan(&small);
    assert_int_equal(qkv_hub_save(m, in(folder, "dir"), NULL), QKV_OK);
    qkv_model_destroy(m);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        copy_changed(in(folder, "dir/model.safetensors"), in(folder, "b.safetensors"),
                     &bad[i].change);
        assert_refused(in(folder, "b.safetensors"), &bad[i].options, bad[i].words);
    }
}

/* A checkpoint that ends early, anywhere: refused, and nothing stays. */
static void cut_checkpoints_are_refused(void **state)
{
    static const char *const files[] = {GOLDEN "last.ckpt", GOLDEN "last-legacy.ckpt"};
    const qkv_hub_import_options o = {.skip_objects = true};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        char *bytes = take_file(files[i], &size);
        for (size_t n = 0; n < size; n += 173) {
            put_file(in(folder, "a.ckpt"), bytes, n);
            assert_refused(in(folder, "a.ckpt"), &o, "");
        }
        free(bytes);
    }
}

static void every_allocation_fails_once(void **state)
{
    const qkv_hub_import_options o = {.skip_objects = true};
    qkv_model *m;
    (void)state;
    for (size_t n = 0;; n++) {
        memory.left = n;
        qkv_status status = qkv_hub_import(&m, ctx, GOLDEN "last.ckpt", &o);
        bool happened = memory.left == SIZE_MAX;
        memory.left = SIZE_MAX;
        if (!status && !happened)
            break;
        assert_true(n < 10000);
        assert_int_equal(status, QKV_E_MEMORY);
        assert_null(m);
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    }
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_has_their_tensors),
        cmocka_unit_test(lpips_of_one_file_and_of_two),
        cmocka_unit_test(bad_files_are_one_sentence),
        /* These read or write files of PyTorch: */
        cmocka_unit_test(vqgans_come_back),
        cmocka_unit_test(keys_are_theirs),
        cmocka_unit_test(lightning_is_read),
        cmocka_unit_test(priors_come_back_with_their_vqgans),
        cmocka_unit_test(code_grids_are_guessed),
        cmocka_unit_test(masks_are_written_and_evaluated),
        cmocka_unit_test(cut_checkpoints_are_refused),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return run_each(tests, QKV_PYTORCH ? sizeof tests / sizeof *tests : 3, set_up, tear_down);
}
