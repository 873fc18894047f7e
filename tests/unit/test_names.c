/* test_names.c - files with the names of timm and facebookresearch/mae: what is written and read
 * again is the same model; what is missing, odd or told by no shape is one sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "changed.h"
#include "qkv/mae.h"

static qkv_model *make_vit(size_t width, bool biases)
{
    qkv_vit_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_vit_type()), &c);
    c.trunk.image = 12;
    c.trunk.patch = 4;
    c.trunk.width = width;
    c.trunk.layers = 2;
    c.trunk.heads = 2;
    c.trunk.ff_width = 24;
    c.trunk.qkv_bias = biases;
    c.trunk.norm_eps = 1e-6;
    c.classes = 5;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_vit_type(), &c), QKV_OK);
    return m;
}

static qkv_model *make_mae(void)
{
    qkv_mae_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_mae_type()), &c);
    c.trunk.image = 8;
    c.trunk.patch = 4;
    c.trunk.channels = 1;
    c.trunk.width = 64;
    c.trunk.layers = 1;
    c.trunk.heads = 1;
    c.trunk.norm_eps = 1e-6;
    c.decoder_width = 32;
    c.decoder_layers = 2;
    c.decoder_heads = 1;
    assert_int_equal(qkv_model_create(&m, ctx, qkv_mae_type(), &c), QKV_OK);
    return m;
}

/* ---- files ----------------------------------------------------------------------- */

static qkv_model *import(const char *name, const qkv_hub_import_options *o)
{
    qkv_model *m;
    if (qkv_hub_import(&m, ctx, in(folder, name), o))
        fail_msg("%s", qkv_context_message(ctx));
    return m;
}

static void export(qkv_model *m, const char *name)
{
    if (qkv_hub_export(m, in(folder, name), NULL))
        fail_msg("%s", qkv_context_message(ctx));
}

/* ---- cases ----------------------------------------------------------------------- */

static void vits_come_back(void **state)
{
    (void)state;
    for (int biases = 0; biases < 2; biases++) {
        qkv_model *m = make_vit(32, biases);
        const qkv_hub_import_options two = {.heads = 2};
        number(m);
        export(m, "a.safetensors");
        qkv_model *again = import("a.safetensors", &two);
        const qkv_vit_config *c = qkv_model_config(again);
        assert_int_equal(c->trunk.image, 12);
        assert_int_equal(c->trunk.ff_width, 24);
        assert_int_equal(c->trunk.qkv_bias, biases);
        assert_true(c->trunk.norm_eps == 1e-6);
        assert_int_equal(c->classes, 5);
        assert_int_equal(qkv_model_image_format(again)->width, 12);
        assert_same(m, again);
        qkv_model_destroy(again);
        qkv_model_destroy(m);
    }
}

/* Tensors of Hugging Face's file and where the other one has their numbers, in rows; ranks of q, k
 * and v in the packed tensor. */
static const struct {
    const char *ours, *theirs;
    size_t rank;
} names[] = {
    {"vit.embeddings.cls_token", "cls_token", 0},
    {"vit.embeddings.position_embeddings", "pos_embed", 0},
    {"vit.embeddings.patch_embeddings.projection.weight", "patch_embed.proj.weight", 0},
    {"vit.embeddings.patch_embeddings.projection.bias", "patch_embed.proj.bias", 0},
    {"vit.encoder.layer.0.attention.attention.query.weight", "blocks.0.attn.qkv.weight", 0},
    {"vit.encoder.layer.0.attention.attention.key.weight", "blocks.0.attn.qkv.weight", 1},
    {"vit.encoder.layer.0.attention.attention.value.weight", "blocks.0.attn.qkv.weight", 2},
    {"vit.encoder.layer.0.attention.attention.key.bias", "blocks.0.attn.qkv.bias", 1},
    {"vit.encoder.layer.0.attention.output.dense.weight", "blocks.0.attn.proj.weight", 0},
    {"vit.encoder.layer.0.layernorm_before.bias", "blocks.0.norm1.bias", 0},
    {"vit.encoder.layer.0.layernorm_after.bias", "blocks.0.norm2.bias", 0},
    {"vit.encoder.layer.0.intermediate.dense.weight", "blocks.0.mlp.fc1.weight", 0},
    {"vit.encoder.layer.0.output.dense.weight", "blocks.0.mlp.fc2.weight", 0},
    {"vit.layernorm.weight", "norm.weight", 0},
    {"classifier.weight", "head.weight", 0},
    {"classifier.bias", "head.bias", 0},
    {"decoder.decoder_embed.weight", "decoder_embed.weight", 0},
    {"decoder.mask_token", "mask_token", 0},
    {"decoder.decoder_pos_embed", "decoder_pos_embed", 0},
    {"decoder.decoder_layers.1.attention.attention.value.weight",
     "decoder_blocks.1.attn.qkv.weight", 2},
    {"decoder.decoder_layers.1.layernorm_before.weight", "decoder_blocks.1.norm1.weight", 0},
    {"decoder.decoder_norm.bias", "decoder_norm.bias", 0},
    {"decoder.decoder_pred.weight", "decoder_pred.weight", 0},
};

/* How many of the names the model's files have. */
static size_t compare_names(qkv_model *m)
{
    qkv_safetensors *ours, *theirs;
    size_t found = 0;
    number(m);
    export(m, "a.safetensors");
    assert_int_equal(qkv_hub_save(m, in(folder, "dir"), NULL), QKV_OK);
    qkv_model_destroy(m);
    assert_int_equal(qkv_safetensors_open(&ours, ctx, in(folder, "dir")), QKV_OK);
    assert_int_equal(qkv_safetensors_open(&theirs, ctx, in(folder, "a.safetensors")), QKV_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const qkv_safetensor *a = qkv_safetensors_find(ours, names[i].ours);
        const qkv_safetensor *b = qkv_safetensors_find(theirs, names[i].theirs);
        if (!a)
            continue;
        if (!b || (names[i].rank + 1) * a->bytes > b->bytes ||
            memcmp((const char *)b->data + names[i].rank * a->bytes, a->data, a->bytes) != 0)
            fail_msg("%s is not %s", names[i].theirs, names[i].ours);
        found++;
    }
    qkv_safetensors_close(ours);
    qkv_safetensors_close(theirs);
    return found;
}

static void names_are_theirs(void **state)
{
    (void)state;
    assert_int_equal(compare_names(make_vit(32, true)), 16);
    assert_int_equal(compare_names(make_mae()), 21);
}

/* Beneath a name, beside things of the training's; heads of both stacks from the widths. */
static void masked_autoencoders_come_back(void **state)
{
    (void)state;
    qkv_model *m = make_mae();
    const change c = {.prefix = "model.", .extra = "optimizer.step"};
    const qkv_hub_import_options o = {.norm_pix = true}, beneath = {.under = "model"};
    number(m);
    export(m, "a.safetensors");
    copy_changed(in(folder, "a.safetensors"), in(folder, "b.safetensors"), &c);
    qkv_model *again = import("b.safetensors", &o), *third = import("b.safetensors", &beneath);
    const qkv_mae_config *full = qkv_model_config(again);
    assert_same(m, again);
    assert_same(m, third);
    assert_int_equal(full->trunk.heads, 1);
    assert_int_equal(full->decoder_heads, 1);
    assert_true(full->norm_pix);
    qkv_model_destroy(third);
    qkv_model_destroy(again);
    qkv_model_destroy(m);
}

/* timm's own config.json, as it lies beside its files. */
static void images_are_as_the_neighbour_says(void **state)
{
    static const char text[] =
        "{\"architecture\": \"deit_tiny\", \"pretrained_cfg\": {\"mean\": [0.485, 0.456, 0.406], "
        "\"std\": [0.229, 0.224, 0.225], \"interpolation\": \"bilinear\"}}";
    static const char bad_text[] = "{\"pretrained_cfg\": {\"mean\": [0.485, 0.456]}}";
    (void)state;
    qkv_model *m = make_vit(64, true);
    export(m, "a.safetensors");
    qkv_model_destroy(m);
    m = import("a.safetensors", NULL);
    assert_true(qkv_model_image_format(m)->mean[0] == 0.5);
    assert_int_equal(qkv_model_image_format(m)->resample, 3);
    qkv_model_destroy(m);
    put_file(in(folder, "config.json"), text, strlen(text));
    m = import("a.safetensors", NULL);
    assert_true(qkv_model_image_format(m)->mean[2] == 0.406);
    assert_true(qkv_model_image_format(m)->std[1] == 0.224);
    assert_int_equal(qkv_model_image_format(m)->resample, 2);
    qkv_model_destroy(m);
    put_file(in(folder, "config.json"), bad_text, strlen(bad_text));
    assert_int_equal(qkv_hub_import(&m, ctx, in(folder, "a.safetensors"), NULL), QKV_E_FORMAT);
    assert_null(m);
    assert_non_null(strstr(qkv_context_message(ctx), "expected 3 numbers, found 2"));
}

static void a_trunk_alone_gets_an_empty_head(void **state)
{
    (void)state;
    qkv_model *m = make_vit(64, true);
    const change c = {.drop = "head."};
    number(m);
    export(m, "a.safetensors");
    copy_changed(in(folder, "a.safetensors"), in(folder, "b.safetensors"), &c);
    qkv_model *again = import("b.safetensors", NULL);
    const qkv_vit_config *config = qkv_model_config(again);
    assert_int_equal(config->classes, 2);
    qkv_params *ps = qkv_model_params(again);
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        bool head = strncmp(qkv_param_name(p), "head.", 5) == 0;
        assert_int_equal(qkv_param_data(p)[0] == 0, head);
    }
    qkv_model_destroy(again);
    qkv_model_destroy(m);
}

static void other_names_are_nobodys(void **state)
{
    (void)state;
    qkv_model *m = make_vit(64, true);
    assert_int_equal(qkv_hub_save(m, in(folder, "dir"), NULL), QKV_OK);
    qkv_model_destroy(m);
    assert_null(import("dir/model.safetensors", NULL));
    const qkv_hub_import_options beneath = {.under = "ema"};
    m = make_vit(64, true);
    export(m, "a.safetensors");
    qkv_model_destroy(m);
    assert_null(import("a.safetensors", &beneath));
}

static const struct {
    const char *name;
    size_t width; /* 0: 64 */
    change change;
    qkv_hub_import_options options;
    const char *words;
} bad[] = {
    {"a tensor missing", 0, {.drop = "blocks.1.norm2.bias"}, {0},
     "\"blocks.1.norm2.bias\" is missing"},
    {"no positions", 0, {.drop = "pos_embed"}, {0}, "\"pos_embed\": expected 3 axes"},
    {"a tensor more", 0, {.extra = "blocks.0.ls1.gamma"}, {0},
     "blocks.0.ls1.gamma has no place in this vit"},
    {"no square", 0, {.cut = "pos_embed", .rows = 6}, {0}, "expected rows for a first token and a "
                                                           "square of patches, found 6"},
    {"a fourth of the images", 0, {.cut = "head.weight", .rows = 16}, {0},
     "\"head.weight\": expected shape (5, 64), found (5, 16)"},
    {"heads by no shape", 96, {0}, {0}, "num_attention_heads: shapes do not tell it"},
    {"heads that do not divide", 0, {0}, {.heads = 3}, "3 heads do not divide the width 64"},
};

static void bad_files_are_one_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qkv_model *m = make_vit(bad[i].width ? bad[i].width : 64, true);
        export(m, "a.safetensors");
        qkv_model_destroy(m);
        copy_changed(in(folder, "a.safetensors"), in(folder, "b.safetensors"), &bad[i].change);
        m = (qkv_model *)&folder;
        qkv_status status = qkv_hub_import(&m, ctx, in(folder, "b.safetensors"), &bad[i].options);
        const char *message = qkv_context_message(ctx);
        if (!status || !strstr(message, bad[i].words) || !strstr(message, "b.safetensors") ||
            strchr(message, '\n'))
            fail_msg("%s: \"%s\" expected, found: %s", bad[i].name, bad[i].words,
                     status ? message : "no error");
        assert_null(m);
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    }
}

static void two_models_must_be_told_apart(void **state)
{
    (void)state;
    qkv_safetensors_entry entries[4] = {0};
    static const char *const beneath[] = {
        "a.patch_embed.proj.weight", "a.blocks.0.attn.qkv.weight", "b.patch_embed.proj.weight",
        "b.blocks.0.attn.qkv.weight"};
    const qkv_real one = 1;
    const size_t single = 1;
    for (size_t i = 0; i < 4; i++)
        entries[i] = (qkv_safetensors_entry){.name = beneath[i], .ndim = 1, .shape = &single,
                                             .store = QKV_STORE_F32, .data = &one};
    const char *path = in(folder, "two.safetensors");
    assert_int_equal(qkv_safetensors_save(ctx, path, entries, 4, NULL), QKV_OK);
    qkv_model *m;
    assert_int_equal(qkv_hub_import(&m, ctx, path, NULL), QKV_E_FORMAT);
    assert_non_null(strstr(qkv_context_message(ctx), "two models, beneath \"a.\" and \"b.\""));
}

/* Nothing stays of a file that could not be written. */
static void every_allocation_of_an_archive_fails_once(void **state)
{
    (void)state;
    if (!QKV_PYTORCH)
        skip();
    qkv_model *m = make_mae(), *again;
    const char *path = in(folder, "a.pth");
    number(m);
    for (size_t n = 0;; n++) {
        memory.left = n;
        qkv_status status = qkv_hub_export(m, path, NULL);
        memory.left = SIZE_MAX;
        assert_true(n < 10000);
        if (!status)
            break;
        assert_int_equal(status, QKV_E_MEMORY);
        assert_int_equal(files_in(folder), 0);
    }
    again = import("a.pth", NULL);
    assert_same(m, again);
    qkv_model_destroy(again);
    qkv_model_destroy(m);
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    qkv_model *m = make_mae();
    export(m, "a.safetensors");
    qkv_model_destroy(m);
    for (size_t n = 0;; n++) {
        memory.left = n;
        qkv_status status = qkv_hub_import(&m, ctx, in(folder, "a.safetensors"), NULL);
        bool happened = memory.left == SIZE_MAX;
        memory.left = SIZE_MAX;
        if (!status && !happened)
            break;
        assert_true(n < 10000);
        if (status)
            assert_null(m);
        qkv_model_destroy(m);
        assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    }
    qkv_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(vits_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_theirs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(masked_autoencoders_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(images_are_as_the_neighbour_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trunk_alone_gets_an_empty_head, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_names_are_nobodys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_files_are_one_sentence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_models_must_be_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_allocation_of_an_archive_fails_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_allocation_fails_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
