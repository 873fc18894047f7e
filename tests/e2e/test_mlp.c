/* test_mlp.c - `qkv train segment`, `segment`, `train colorize`, `colorize` and `eval` on small
 * drawn images: what they learn, say and write, and what they refuse. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <sys/wait.h>

#include "fixture.h"
#include "qkv/pixelwise.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"

enum { SIDE = 16, COUNT = 40, OUTPUT_BYTES = 1 << 16 };
static char output[OUTPUT_BYTES];

/* Runs `qkv ARGUMENTS` in the test's folder, both streams in `output`; its exit code. */
static int run(const char *arguments)
{
    char command[2 * PATH_BYTES + 1024];
    (void)snprintf(command, sizeof command, "cd '%s' && '%s/qkv' %s --quiet --threads 1 2>&1",
                   folder, QKV_BINARY_DIR, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = 0;
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void works(const char *arguments)
{
    if (run(arguments))
        fail_msg("%s: %s", arguments, output);
}

/* Exit 1, or 2, with one line that has the words. */
static void refuses(int code, const char *words, const char *arguments)
{
    int got = run(arguments);
    size_t lines = 0;
    for (const char *at = output; *at; at++)
        lines += *at == '\n';
    if (got != code || (code == 1 && lines != 1) || !strstr(output, words))
        fail_msg("%s: %d and \"%s\" expected, found %d and %s", arguments, code, words, got,
                 output);
}

/* A number of the JSON object in `output`. */
static double number(const char *name)
{
    json_t *root = json_loads(output, 0, NULL);
    const json_t *x = json_object_get(root, name);
    if (!json_is_number(x))
        fail_msg("no %s: %s", name, output);
    double value = json_number_value(x);
    json_decref(root);
    return value;
}

/* A square, light and red, on a dark blue ground; or where it is. */
static void draw(const char *name, size_t index, size_t side, bool mask)
{
    static const uint8_t colors[2][3] = {{20, 30, 110}, {240, 150, 140}};
    qkv_image image;
    size_t left = index * 5 % (side / 2), top = index * 3 % (side / 2);
    assert_int_equal(qkv_image_create(&image, ctx, side, side, mask ? 1 : 3), QKV_OK);
    for (size_t i = 0; i < side * side; i++) {
        size_t x = i % side, y = i / side;
        bool inside = x >= left && x < left + side / 2 && y >= top && y < top + side / 2;
        for (size_t k = 0; k < 3 && !mask; k++)
            image.data[3 * i + k] = (uint8_t)(colors[inside][k] + (7 * index + i) % 9);
        if (mask)
            image.data[i] = inside ? 7 : 0;
    }
    assert_int_equal(qkv_image_write(&image, ctx, in(folder, name)), QKV_OK);
    qkv_image_free(&image, ctx);
}

static void draw_set(void)
{
    char name[64];
    assert_int_equal(mkdir(in(folder, "images"), 0700), 0);
    assert_int_equal(mkdir(in(folder, "masks"), 0700), 0);
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "images/%02zu.png", i);
        draw(name, i, SIDE, false);
        (void)snprintf(name, sizeof name, "masks/%02zu.png", i);
        draw(name, i, SIDE, true);
    }
}

static void read_image(qkv_image *out, const char *name)
{
    assert_int_equal(qkv_image_read(out, ctx, in(folder, name), NULL), QKV_OK);
}

#define FAST "--model nano --batch 8 --eval-every 1000 --lr 3e-3"

static void test_segment(void **state)
{
    (void)state;
    draw_set();
    works("train segment --images images --masks masks --valid-last 8 --split last --crop-pad 1"
          " --steps 60 --out m " FAST);
    works("eval m --json");
    assert_true(number("miou") > 0.85 && number("accuracy") > 0.9);
    assert_int_equal(number("images"), 8);
    works("eval m --images images --masks masks --json");
    assert_true(number("miou") > 0.85);
    assert_int_equal(number("images"), COUNT);
    draw("large.png", 3, 2 * SIDE, false);
    works("segment m large.png --out a.png --json");
    json_t *root = json_loads(output, 0, NULL), *pixels = json_object_get(root, "pixels");
    json_int_t seven = json_integer_value(json_object_get(pixels, "7"));
    json_int_t zero = json_integer_value(json_object_get(pixels, "0"));
    json_decref(root);
    assert_int_equal(seven + zero, 4 * SIDE * SIDE);
    assert_true(seven > SIDE * SIDE / 2 && seven < 2 * SIDE * SIDE);
    works("segment m large.png --out b.png --mask");
    qkv_image a, b;
    size_t count = 0;
    read_image(&a, "a.png");
    read_image(&b, "b.png");
    assert_int_equal(a.width, 2 * SIDE);
    for (size_t i = 0; i < b.width * b.height; i++) {
        assert_true(b.data[3 * i] == 0 || b.data[3 * i] == 7);
        count += b.data[3 * i] == 7;
    }
    assert_int_equal(count, seven);
    qkv_image_free(&a, ctx);
    qkv_image_free(&b, ctx);
    works("train segment --images images --masks masks --steps 60 --out m --resume");
    refuses(1, "--images and --masks expected, found --file", "eval m --file images");
    refuses(1, "both expected", "eval m --images images");
    refuses(1, "no class of the model", "eval m --images images --masks images");
    refuses(1, "nothing.png", "segment m nothing.png --out c.png");
    refuses(1, "does not colour images", "colorize m large.png --out c.png");
    refuses(2, "--out", "segment m large.png");
}

/* Begins with what a model has that guesses hidden patches, all but the head. */
static void test_segment_on(void **state)
{
    (void)state;
    qkv_model *old, *new;
    draw_set();
    works("train reconstruct --images images --valid-last 8 --split last --model nano --batch 8"
          " --steps 2 --out hidden");
    works("train colorize --images images --valid-last 8 --split last --model nano --batch 8"
          " --steps 1 --out color");
    works("train segment --images images --masks masks --valid-last 8 --split last --batch 8"
          " --steps 1 --lr 1e-9 --init hidden --set hidden_dropout_prob=0.25 --out m");
    assert_int_equal(qkv_hub_load(&old, ctx, in(folder, "hidden")), QKV_OK);
    assert_int_equal(qkv_hub_load(&new, ctx, in(folder, "m")), QKV_OK);
    qkv_param *from = qkv_params_find(qkv_model_params(old), "patches.weight");
    qkv_param *to = qkv_params_find(qkv_model_params(new), "patches.weight");
    assert_int_equal(qkv_param_count(from), qkv_param_count(to));
    for (size_t i = 0; i < qkv_param_count(from); i++)
        assert_true(fabs((double)(qkv_param_data(from)[i] - qkv_param_data(to)[i])) < 1e-6);
    const qkv_pixelwise_config *c = qkv_model_config(new);
    assert_true(c->trunk.dropout == 0.25 && c->trunk.patch == 2);
    qkv_model_destroy(old);
    qkv_model_destroy(new);
    refuses(1, "color holds a qkv_colorizer",
            "train segment --images images --masks masks --steps 1 --out n --init color");
}

static void test_bad_masks(void **state)
{
    (void)state;
    draw_set();
    draw("masks/05.png", 5, SIDE + 1, true);
    const char *const train = "train segment --images images --masks masks --steps 2 --out m";
    refuses(1, "masks/05.png: 16 x 16 pixels expected", train);
    assert_int_equal(unlink(in(folder, "masks/05.png")), 0);
    refuses(1, "images/05.png: there is no mask \"05\"", train);
    refuses(1, "both expected",
            "train segment --images images --masks masks --valid images --steps 2 --out m");
    draw("masks/05.png", 5, SIDE, true);
    refuses(1, "num_labels: 2 expected",
            "train segment --images images --masks masks --steps 2 --out m --set num_labels=9");
    refuses(1, "num_channels: 3 expected",
            "train segment --images images --masks masks --steps 2 --out m --set num_channels=1");
    refuses(1, "cannot be cut into patches of 3",
            "train segment --images images --masks masks --steps 2 --out m --set patch_size=3");
}

static void test_colorize(void **state)
{
    (void)state;
    qkv_image a, b;
    draw_set();
    works("train colorize --images images --valid-last 8 --split last --steps 60 --out m " FAST);
    works("eval m --json");
    assert_true(number("psnr") > number("psnr_mean") + 3);
    assert_true(number("psnr_hints") > number("psnr_mean") + 3);
    works("eval m --file images --json");
    assert_int_equal(number("images"), COUNT);
    works("colorize m images/03.png --out a.png");
    works("colorize m images/03.png --hint 2,2,#00ff00 --hint 9,9,#ff00ff --out b.png");
    read_image(&a, "a.png");
    read_image(&b, "b.png");
    assert_int_equal(a.width, SIDE);
    assert_memory_not_equal(a.data, b.data, SIDE * SIDE * 3);
    qkv_image_free(&a, ctx);
    qkv_image_free(&b, ctx);
    draw("large.png", 3, 3 * SIDE, false);
    works("colorize m large.png --attention 20,30 --out c.png --json");
    json_t *root = json_loads(output, 0, NULL), *list = json_object_get(root, "attention");
    double sum = 0, last = 1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        double w = json_number_value(json_object_get(json_array_get(list, i), "weight"));
        assert_true(w <= last && w > 0);
        sum += last = w;
    }
    assert_true(json_array_size(list) > 0 && sum <= 1 + 1e-5);
    json_decref(root);
    read_image(&a, "c.png");
    assert_int_equal(a.width, 3 * SIDE);
    qkv_image_free(&a, ctx);
    read_image(&a, "c-attention.png");
    assert_true(a.width >= 256);
    qkv_image_free(&a, ctx);
    works("colorize m large.png --attention 20,30 --out c.png");
    assert_non_null(strstr(output, " of the patch at "));
    works("train colorize --images images --valid-last 8 --split last --model nano --batch 8"
          " --steps 1 --set image_size=8 --set mean_a=3 --out small");
    qkv_model *small;
    assert_int_equal(qkv_hub_load(&small, ctx, in(folder, "small")), QKV_OK);
    const qkv_pixelwise_config *config = qkv_model_config(small);
    assert_true(config->trunk.image == 8 && config->mean_a == 3 && config->mean_b != 0);
    qkv_model_destroy(small);
    refuses(1, "num_channels: 4 expected",
            "train colorize --images images --steps 1 --set num_channels=3 --out n");
    refuses(1, "one of them expected",
            "train colorize --images images --steps 1 --set image_size=8 --size 16 --out n");
    refuses(1, "x,y,#rrggbb expected", "colorize m large.png --hint 1,2,red --out d.png");
    refuses(1, "x,y,#rrggbb expected", "colorize m large.png --hint 1,#ff0000 --out d.png");
    refuses(1, "48 x 48", "colorize m large.png --hint 48,2,#ff0000 --out d.png");
    refuses(1, "48 x 48", "colorize m large.png --attention 1,48 --out d.png");
    refuses(1, "layers", "colorize m large.png --attention 1,1 --layer 3 --out d.png");
    refuses(1, "--attention expected", "colorize m large.png --layer 1 --out d.png");
    refuses(1, "does not tell pixels' classes", "segment m large.png --out d.png");
    assert_int_not_equal(access(in(folder, "d.png"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segment), cmocka_unit_test(test_segment_on),
        cmocka_unit_test(test_bad_masks), cmocka_unit_test(test_colorize),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
