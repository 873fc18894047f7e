/* test_captions.c - images with captions: tables and which image their rows are of, files into
 * sets, the loss against its formula in double, recall with several captions an image, that the
 * task learns a batch by heart, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "files.h"
#include "pipeline/captioned.h"
#include "qkv/clip.h"
#include "qkv/embed.h"
#include "qkv/image_file.h"
#include "qkv/job.h"
#include "qkv/train.h"
#include "text/captions.h"
#include "tokenizers.h"

enum { SIDE = 8, BYTES = SIDE * SIDE * 3, IMAGES = 6, CAPTIONS = 9 };
enum { VOCAB = 30, END = 29, WIDTH = 8 };

static char folder[PATH_BYTES];

static const char *put(const char *name, const char *text, size_t length)
{
    static char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t count, blank;
    const char *first, *caption; /* by file name */
    size_t line;
} tables[] = {
    {"file,caption\nb.png,two\na.png,one\n", 2, 0, "a.png", "one", 3},
    {"a.png,one\nb.png,two", 2, 0, "a.png", "one", 1},
    {"\xef\xbb\xbf" "caption;image\r\none;a.png\r\n", 1, 0, "a.png", "one", 2},
    {"id\tComment\tFile_Name\n7\tso \"it\" is\t./a.png\n", 1, 0, "a.png", "so \"it\" is", 2},
    {"a.png,\"one, \"\"two\"\"\nthree\"\nb.png,\n\n", 1, 1, "a.png", "one, \"two\"\nthree", 1},
    {"b.png, x \nc.jpg#0\t\na.jpg#12,y\n", 0, 0, NULL, NULL, 0},
    {"a.jpg#0\ttwo\na.jpg#1\tone\n", 2, 0, "a.jpg", "two", 1},
};

static void rows_are_files_and_captions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        qkv__captions c = {0};
        const char *path = put("table", tables[i].text, strlen(tables[i].text));
        qkv_status status = qkv__captions_read(&c, ctx, path);
        if (!tables[i].first) {
            assert_int_equal(status, QKV_E_FORMAT);
            expect_message("table: line 2: 2 columns expected, found 1");
        } else {
            check(status);
            assert_int_equal(c.count, tables[i].count);
            assert_int_equal(c.blank, tables[i].blank);
            assert_string_equal(c.items[0].file, tables[i].first);
            assert_string_equal(c.items[0].text, tables[i].caption);
            assert_int_equal(c.items[0].line, tables[i].line);
        }
        qkv__captions_close(&c);
    }
}

static const struct {
    const char *text, *message;
} wrong[] = {
    {"file,caption\na.png,one,two\n", "line 2: 2 columns expected, found 3"},
    {"a.png,one\n\"b.png,two\n", "line 2: the quotes are not closed"},
    {"a.png,\"one\"two\n", "line 1: a separator or the end of the line expected"},
    {"file,words\na.png,one\n", "line 1: a column \"file\" and a column \"caption\""},
    {"file,caption\na.png,\xff\n", "line 2: text in UTF-8 expected, found the byte 0xff"},
};

static void wrong_rows_are_told_with_their_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qkv__captions c = {0};
        const char *path = put("table", wrong[i].text, strlen(wrong[i].text));
        assert_int_equal(qkv__captions_read(&c, ctx, path), QKV_E_FORMAT);
        expect_message(wrong[i].message);
        expect_message(path);
        qkv__captions_close(&c);
    }
}

static void images_find_their_rows(void **state)
{
    (void)state;
    static const char text[] = "b.png,one\nx/a.png,two\na.png,three\nx/a.png,four\n";
    qkv__captions c = {0};
    size_t from, to;
    check(qkv__captions_read(&c, ctx, put("table", text, sizeof text - 1)));
    check(qkv__captions_of(&c, "set/x/a.png", &from, &to));
    assert_int_equal(to - from, 2);
    assert_string_equal(c.items[from].text, "two");
    assert_string_equal(c.items[from + 1].text, "four");
    check(qkv__captions_of(&c, "set/y/a.png", &from, &to));
    assert_int_equal(to - from, 1);
    assert_string_equal(c.items[from].text, "three");
    check(qkv__captions_of(&c, "set/ab.png", &from, &to));
    assert_int_equal(to, from);
    assert_int_equal(qkv__captions_of(&c, "a.png", &from, &to), QKV_E_FORMAT);
    expect_message("line 3: \"a.png\" is what several images are called");
    qkv__captions_close(&c);
}

/* ---- files into sets ------------------------------------------------------------------------- */

static void write_images(void)
{
    static const char *const names[] = {"a.png", "b.png", "c.png"};
    for (size_t i = 0; i < 3; i++) {
        char path[PATH_BYTES + 64];
        qkv_image image;
        check(qkv_image_create(&image, ctx, SIDE, SIDE, 3));
        memset(image.data, 60 * (int)i, BYTES);
        snprintf(path, sizeof path, "%s/set/%s", folder, names[i]);
        check(qkv_image_write(&image, ctx, path));
        qkv_image_free(&image, ctx);
    }
}

/* a has no caption, d no image. */
static void what_lacks_its_other_half_is_left_out(void **state)
{
    (void)state;
    static const char text[] = "d.png,nothing\nb.png,the cat\nb.png,the mat\nc.png,the cat sat\n";
    char images[PATH_BYTES + 8], none[PATH_BYTES + 8];
    const qkv_image_format format = {.height = SIDE, .width = SIDE, .channels = 3};
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    qkv__captioned c = {0};
    qkv_records *r;
    const int32_t *ids;
    snprintf(images, sizeof images, "%s/set", folder);
    snprintf(none, sizeof none, "%s/none", folder);
    assert_int_equal(mkdir(images, 0777) | mkdir(none, 0777), 0);
    write_images();
    o.vocab = 60;
    qkv_tokenizer *t = trained(&o, lines);
    check(qkv__captioned_load(&c, ctx, images, put("table", text, sizeof text - 1), &format));
    assert_int_equal(qkv_pixels_count(c.images), 2);
    for (size_t i = 0; i < 2; i++) { /* b and c, with their own pixels */
        assert_non_null(strstr(qkv_pixels_name(c.images, i), i ? "c.png" : "b.png"));
        assert_int_equal(qkv_pixels_data(c.images, i)[0], 60 * (i + 1));
    }
    check(qkv__captioned_records(&r, &c, t, 77, NULL, 2, NULL));
    assert_int_equal(qkv_records_count(r), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(qkv_records_get(r, i, 2, &ids), 1);
        assert_int_equal(*ids, i > 1);
    }
    qkv_records_close(r);
    check(qkv__captioned_records(&r, &c, t, 77, (const size_t[]){1}, 1, NULL));
    assert_int_equal(qkv_records_count(r), 1);
    qkv_records_close(r);
    qkv__captioned_close(&c);
    check(qkv__captioned_load(&c, ctx, images, put("set/c.txt", "one\ntwo\n\n", 9) ? images : "",
                              &format));
    assert_int_equal(qkv_pixels_count(c.images), 1);
    assert_int_equal(c.ends[0] - c.begins[0], 2);
    qkv__captioned_close(&c);
    assert_int_equal(qkv__captioned_load(&c, ctx, images, none, &format), QKV_E_FORMAT);
    expect_message("no caption of an image of");
    qkv__captioned_close(&c);
    qkv_tokenizer_destroy(t);
}

/* ---- the task -------------------------------------------------------------------------------- */

static qkv_model *clip(double temperature)
{
    const qkv_image_format format = {.height = SIDE, .width = SIDE, .channels = 3,
                                     .mean = {0.5, 0.5, 0.5}, .std = {0.3, 0.3, 0.3}};
    qkv_clip_config c;
    qkv_model *m;
    qkv_option_defaults(qkv_model_type_config(qkv_clip_type()), &c);
    c.text.vocab = VOCAB;
    c.text.positions = 6;
    c.text.eos = END;
    c.text.width = c.vision.width = 16;
    c.text.ff_width = c.vision.ff_width = 32;
    c.text.layers = c.vision.layers = 1;
    c.text.heads = c.vision.heads = 2;
    c.vision.image = SIDE;
    c.vision.patch = 4;
    c.projection = WIDTH;
    c.log_scale = -log(temperature);
    check(qkv_model_create(&m, ctx, qkv_clip_type(), &c));
    check(qkv_model_init(m, 3));
    qkv_model_set_image_format(m, &format);
    return m;
}

/* Image i has a colour and stripes. */
static qkv_pixels *pictures(void)
{
    qkv_pixels_writer *w;
    qkv_pixels *p;
    check(qkv_pixels_create(&w, ctx, NULL, SIDE, SIDE, 3));
    for (size_t i = 0; i < IMAGES; i++) {
        uint8_t data[BYTES];
        for (size_t k = 0; k < BYTES; k++)
            data[k] = (uint8_t)(k % 3 == i % 3 ? 40 + 180 * (k / 3 / (1 + i / 3) % 2) : 20 * i);
        check(qkv_pixels_add(w, data, -1, "a"));
    }
    check(qkv_pixels_finish(w, &p));
    return p;
}

/* Of image i the words 2 i + 1 .. ; every second image has a second caption of one word more. */
static qkv_records *captions_of(size_t images, int32_t first)
{
    qkv_records_writer *w;
    qkv_records *r;
    check(qkv_records_create(&w, ctx, NULL, 3));
    for (size_t i = 0; i < images; i++)
        for (size_t k = 0; k < 1 + i % 2; k++) {
            const int32_t words[] = {first + (int32_t)(2 * i), 2 + (int32_t)(2 * i), END};
            const int32_t image = (int32_t)i;
            check(qkv_records_add(w, words + (k ? 0 : 1), k ? 3 : 2));
            check(qkv_records_add(w, NULL, 0));
            check(qkv_records_add(w, &image, 1));
        }
    check(qkv_records_finish(w, &r));
    return r;
}

typedef struct {
    qkv_model *m;
    qkv_pixels *images;
    qkv_records *captions;
    qkv_captioned data;
    qkv_task task;
    qkv_tape *t;
} fixture;

static void make_fixture(fixture *f, double temperature)
{
    const qkv_captions_options plain = {.augment = qkv_augment_defaults()};
    *f = (fixture){.m = clip(temperature), .images = pictures(),
                   .captions = captions_of(IMAGES, 1)};
    f->data = (qkv_captioned){f->images, f->captions};
    check(qkv_task_captions(&f->task, f->m, &f->data, &f->data, &plain, 5));
    check(qkv_tape_create(&f->t, ctx));
}

static void end_fixture(fixture *f)
{
    qkv_tape_destroy(f->t);
    qkv_task_destroy(&f->task);
    qkv_records_close(f->captions);
    qkv_pixels_close(f->images);
    qkv_model_destroy(f->m);
}

static double loss_of(fixture *f, uint64_t step, size_t first, size_t count)
{
    qkv_tape_reset(f->t);
    qkv_tape_mode(f->t, true, true);
    double value = (double)qkv_item(f->t, f->task.type->loss(f->task.self, f->t,
        &(qkv_micro_batch){.step = step, .first = first, .count = count, .total = count}));
    check(qkv_tape_status(f->t));
    return value;
}

/* Vectors of length 1, of all images and of all captions, by the model alone. */
static void vectors_of(fixture *f, double x[IMAGES][WIDTH], double y[CAPTIONS][WIDTH])
{
    qkv_real images[IMAGES * WIDTH];
    check(qkv_embed_images(f->m, f->t, f->images, NULL, IMAGES, true, images));
    for (size_t i = 0; i < IMAGES * WIDTH; i++)
        x[i / WIDTH][i % WIDTH] = (double)images[i];
    for (size_t i = 0; i < CAPTIONS; i++) {
        const int32_t *ids;
        size_t n = qkv_records_get(f->captions, i, 0, &ids);
        double square = 0;
        qkv_tape_reset(f->t);
        qkv_tape_mode(f->t, false, false);
        const qkv_real *v = qkv_data(f->t, qkv_clip_texts(
            f->m, f->t, qkv_tensor_ids(f->t, ids, 2, (size_t[]){1, n}), 0, NULL));
        assert_non_null(v);
        for (size_t c = 0; c < WIDTH; c++)
            square += (double)v[c] * (double)v[c];
        for (size_t c = 0; c < WIDTH; c++)
            y[i][c] = (double)v[c] / sqrt(square);
    }
}

/* Of image 0 the captions begin with 0, of image 1 with 1, of 2 with 3, of 3 with 4, ... */
static size_t caption_at(size_t image)
{
    return image + image / 2;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (size_t c = 0; c < WIDTH; c++)
        sum += a[c] * b[c];
    return sum;
}

/* InfoNCE both ways of all images with captions[i] each. */
static double formula(double x[IMAGES][WIDTH], double y[CAPTIONS][WIDTH], const size_t *captions,
                      double temperature)
{
    double loss = 0;
    for (size_t i = 0; i < IMAGES; i++) {
        double there = 0, back = 0, own = dot(x[i], y[captions[i]]);
        for (size_t j = 0; j < IMAGES; j++) {
            there += exp((dot(x[i], y[captions[j]]) - own) / temperature);
            back += exp((dot(x[j], y[captions[i]]) - own) / temperature);
        }
        loss += (log(there) + log(back)) / (2 * IMAGES);
    }
    return loss;
}

/* A batch of all: each image with one of its captions, the one that was drawn for the step. */
static void the_loss_is_its_formula(void **state)
{
    (void)state;
    static const double temperature = 0.2;
    double x[IMAGES][WIDTH], y[CAPTIONS][WIDTH];
    unsigned seen = 0;
    fixture f;
    make_fixture(&f, temperature);
    vectors_of(&f, x, y);
    for (uint64_t step = 0; step < 40; step++) {
        double loss = loss_of(&f, step, 0, IMAGES);
        unsigned found = 8;
        for (unsigned choice = 0; choice < 8; choice++) { /* a bit for each image with two */
            size_t captions[IMAGES];
            for (size_t i = 0; i < IMAGES; i++)
                captions[i] = caption_at(i) + (i % 2 ? choice >> i / 2 & 1 : 0);
            if (fabs(formula(x, y, captions, temperature) - loss) < 1e-5)
                found = choice;
        }
        if (found == 8)
            fail_msg("step %d: no choice of captions has the loss %g", (int)step, loss);
        seen |= 1u << found;
        assert_true(loss_of(&f, step, 0, IMAGES) == loss);
    }
    assert_int_equal(seen, 0xff);
    end_fixture(&f);
}

static void recall_is_what_a_loop_finds(void **state)
{
    (void)state;
    double x[IMAGES][WIDTH], y[CAPTIONS][WIDTH], expected[2] = {0};
    qkv_recall_score s;
    fixture f;
    make_fixture(&f, 0.2);
    vectors_of(&f, x, y);
    for (size_t i = 0; i < IMAGES; i++) {
        double own = -2, other = -2;
        for (size_t k = 0; k < CAPTIONS; k++) {
            bool mine = k >= caption_at(i) && k < caption_at(i + 1);
            double *best = mine ? &own : &other;
            *best = fmax(*best, dot(x[i], y[k]));
        }
        expected[0] += (own > other) / (double)IMAGES;
    }
    for (size_t k = 0; k < CAPTIONS; k++) {
        size_t image = 0, best = 0;
        while (caption_at(image + 1) <= k)
            image++;
        for (size_t i = 1; i < IMAGES; i++)
            best = dot(x[i], y[k]) > dot(x[best], y[k]) ? i : best;
        expected[1] += (best == image) / (double)CAPTIONS;
    }
    check(qkv_captions_evaluate(f.m, f.t, &f.data, 0, &s));
    assert_int_equal(s.pairs, CAPTIONS);
    for (int way = 0; way < 2; way++) {
        assert_true(fabs(s.recall1[way] - expected[way]) < 1e-9);
        assert_true(expected[way] > 0 && expected[way] < 1);
    }
    check(qkv_captions_evaluate(f.m, f.t, &f.data, 2, &s));
    assert_int_equal(s.pairs, 3); /* of image 0 one, of image 3 two */
    end_fixture(&f);
}

static void learns_who_belongs_together(void **state)
{
    (void)state;
    qkv_training o = qkv_training_defaults();
    qkv_recall_score s;
    fixture f;
    make_fixture(&f, 0.07);
    o.loop.steps = 150;
    o.loop.batch = IMAGES;
    o.schedule.lr = 0.01;
    o.schedule.warmup = 5;
    check(qkv_captions_evaluate(f.m, f.t, &f.data, 0, &s));
    double before = s.loss;
    check(qkv_train(&f.task, &o.loop, &o.optimizer, &o.schedule, NULL, false, NULL, NULL,
                    &(qkv_train_result){0}));
    check(qkv_captions_evaluate(f.m, f.t, &f.data, 0, &s));
    assert_true(s.recall1[0] == 1 && s.recall1[1] == 1 && s.recall5[0] == 1);
    assert_true(s.loss < before);
    end_fixture(&f);
}

/* A scale above 100 is 100 in the loss, and afterwards. */
static void the_scale_is_limited(void **state)
{
    (void)state;
    double losses[2];
    for (int i = 0; i < 2; i++) {
        fixture f;
        make_fixture(&f, i ? 1e-3 : 0.01);
        losses[i] = loss_of(&f, 0, 0, IMAGES);
        double kept = exp((double)*qkv_param_data(qkv_clip_log_scale(f.m)));
        assert_true(fabs(kept - QKV_CLIP_MOST_SCALE) < 1e-3);
        end_fixture(&f);
    }
    assert_true(losses[0] > 0.1 && fabs(losses[0] - losses[1]) < 1e-3 * losses[0]);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    qkv_task task;
    fixture f;
    make_fixture(&f, 0.07);
    qkv_records *few = captions_of(IMAGES - 1, 1), *many = captions_of(IMAGES + 1, 1);
    qkv_records *high = captions_of(IMAGES, VOCAB);
    const struct {
        qkv_captioned data;
        const char *message;
    } cases[] = {{{f.images, few}, "images from 5 on have no caption"},
                 {{f.images, many}, "caption 10 is not of image 5 or the next of 6"},
                 {{f.images, high}, "have token 40, the model only 30"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(qkv_task_captions(&task, f.m, &cases[i].data, NULL, NULL, 1),
                         QKV_E_ARGUMENT);
        expect_message(cases[i].message);
        assert_null(task.self);
    }
    qkv_captions_options mixes = qkv_captions_defaults();
    mixes.augment.mixup = 0.2;
    assert_int_equal(qkv_task_captions(&task, f.m, &f.data, NULL, &mixes, 1), QKV_E_ARGUMENT);
    expect_message("neither mixup nor cutmix");
    qkv_records_close(few);
    qkv_records_close(many);
    qkv_records_close(high);
    end_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_files_and_captions),
        cmocka_unit_test(wrong_rows_are_told_with_their_line),
        cmocka_unit_test(images_find_their_rows),
        cmocka_unit_test(what_lacks_its_other_half_is_left_out),
        cmocka_unit_test(the_loss_is_its_formula),
        cmocka_unit_test(recall_is_what_a_loop_finds),
        cmocka_unit_test(learns_who_belongs_together),
        cmocka_unit_test(the_scale_is_limited),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    make_folder(folder);
    int result = run_each(tests, sizeof tests / sizeof *tests, setup, teardown);
    remove_folder(folder);
    return result;
}
