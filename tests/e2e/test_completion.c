/* test_completion.c - `qkv imagine --complete`: what is given of an image has its codes, to the
 * number, and looks as they decode, to the pixel; the rest looks as the codes that were drawn. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <sys/wait.h>

#include "fixture.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"
#include "tiny_vqgan.h"

enum { FACTOR = 2, TRAINED = SIDE / FACTOR, COUNT = 2, GAP = 2, COLORS = 3 };
enum { MOST = 3 * SIDE / 2 }; /* side of an image here */

typedef struct {
    size_t height, width, given_rows; /* pixels; rows of codes */
    const char *keep;
    qkv_model *vqgan;
    qkv_tape *tape;
    uint8_t image[MOST * MOST * COLORS];
    int32_t codes[MOST * MOST]; /* the image's */
    uint8_t shown[MOST * MOST * COLORS]; /* what they decode to */
} completion;

static void save_prior(size_t codes)
{
    qkv_gpt_config g;
    qkv_model *prior;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &g);
    assert_true(qkv_model_type_preset(qkv_gpt2_type(), "nano", &g));
    g.vocab = codes;
    g.rows = g.columns = TRAINED;
    g.before = 1;
    g.positions = TRAINED * TRAINED;
    assert_int_equal(qkv_model_create(&prior, ctx, qkv_prior_type(), &g), QKV_OK);
    assert_int_equal(qkv_model_init(prior, 2), QKV_OK);
    assert_int_equal(qkv_hub_save(prior, folder, NULL), QKV_OK);
    qkv_model_destroy(prior);
}

/* Models with parameters of chance, and an image that runs from colour to colour. */
static void begin(completion *k)
{
    const qkv_vqgan_config v = tiny_vqgan();
    assert_int_equal(qkv_model_create(&k->vqgan, ctx, qkv_vqgan_type(), &v), QKV_OK);
    assert_int_equal(qkv_vqgan_factor(k->vqgan), FACTOR);
    assert_int_equal(qkv_model_init(k->vqgan, 1), QKV_OK);
    save_prior(v.codes);
    assert_int_equal(qkv_hub_save(k->vqgan, in(folder, "vqgan"), NULL), QKV_OK);
    assert_int_equal(qkv_tape_create(&k->tape, ctx), QKV_OK);
    for (size_t i = 0; i < k->height * k->width * COLORS; i++)
        k->image[i] = (uint8_t)(i * i / 7 + 31 * (i % COLORS));
    const qkv_image image = {k->width, k->height, COLORS, k->image};
    assert_int_equal(qkv_image_write(&image, ctx, in(folder, "half.png")), QKV_OK);
    assert_int_equal(qkv_images_encode(k->vqgan, k->tape, k->image, 1, k->height, k->width,
                                       k->codes), QKV_OK);
    assert_int_equal(qkv_images_decode(k->vqgan, k->tape, k->codes, 1, k->height / FACTOR,
                                       k->width / FACTOR, k->shown), QKV_OK);
}

/* The command's answer. */
static json_t *imagine(const completion *k)
{
    static char command[4 * PATH_BYTES], answer[1 << 16];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && '%s/qkv' imagine . --complete half.png --keep %s --count %d "
                   "--height %zu --width %zu --out out.png --threads 1 --quiet --json 2>&1",
                   folder, QKV_BINARY_DIR, k->keep, COUNT, k->height, k->width);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    answer[fread(answer, 1, sizeof answer - 1, pipe)] = 0;
    int status = pclose(pipe);
    json_t *root = json_loads(answer, 0, NULL);
    if (!WIFEXITED(status) || WEXITSTATUS(status) || !root)
        fail_msg("%s: %s", command, answer);
    return root;
}

static void take_codes(const json_t *root, size_t image, size_t count, int32_t *codes)
{
    const json_t *list = json_array_get(json_object_get(root, "codes"), image);
    assert_int_equal(json_array_size(list), count);
    for (size_t i = 0; i < count; i++)
        codes[i] = (int32_t)json_integer_value(json_array_get(list, i));
}

/* Image i of the sheet: given above, drawn below. */
static void check(const completion *k, const qkv_image *sheet, size_t i, const int32_t *codes)
{
    static uint8_t drawn[MOST * MOST * COLORS];
    size_t columns = k->width / FACTOR, rows = k->height / FACTOR, row = k->width * COLORS;
    size_t given = k->given_rows * columns;
    assert_memory_equal(codes, k->codes, given * sizeof *codes);
    assert_memory_not_equal(codes + given, k->codes + given,
                            (rows * columns - given) * sizeof *codes);
    assert_int_equal(qkv_images_decode(k->vqgan, k->tape, codes, 1, rows, columns, drawn),
                     QKV_OK);
    for (size_t y = 0; y < k->height; y++) {
        const uint8_t *from = y < k->given_rows * FACTOR ? k->shown : drawn;
        const uint8_t *found = sheet->data + (y * sheet->width + i * (k->width + GAP)) * COLORS;
        if (memcmp(found, from + y * row, row))
            fail_msg("%zu x %zu, --keep %s: image %zu, row %zu: other pixels", k->height,
                     k->width, k->keep, i, y);
    }
}

static void run(size_t height, size_t width, const char *keep, size_t given_rows)
{
    static completion k;
    static int32_t codes[MOST * MOST];
    qkv_image sheet;
    k = (completion){.height = height, .width = width, .keep = keep, .given_rows = given_rows};
    begin(&k);
    json_t *root = imagine(&k);
    assert_int_equal(qkv_image_read(&sheet, ctx, in(folder, "out.png"), NULL), QKV_OK);
    assert_int_equal(sheet.width, COUNT * (width + GAP) - GAP);
    assert_int_equal(sheet.height, height);
    for (size_t i = 0; i < COUNT; i++) {
        take_codes(root, i, height / FACTOR * (width / FACTOR), codes);
        check(&k, &sheet, i, codes);
    }
    json_decref(root);
    qkv_image_free(&sheet, ctx);
    qkv_tape_destroy(k.tape);
    qkv_model_destroy(k.vqgan);
}

static void test_half(void **state)
{
    (void)state;
    run(SIDE, SIDE, "0.5", TRAINED / 2);
}

/* Larger than what was learnt, and a share that is no whole row. */
static void test_larger(void **state)
{
    (void)state;
    run(SIDE + 4, MOST, "0.33", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_half, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_larger, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
