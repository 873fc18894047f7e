/* test_change.c - changes of passes: what a text says is what a probe in C does, decoding with a
 * cache included; vectors that steer. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "pipelines_text.h"
#include "qkv/npy.h"
#include "qkv/pipeline_look.h"

enum { WIDTH = 8, HEADS = 2 };

/* Logits (T, V) of the language model for a text, in memory of the tape. */
static const qkv_real *lm_logits(qkv_pipeline *p, qkv_tape *t, const qkv_ids *ids, size_t *V)
{
    qkv_model *m = qkv_pipeline_model(p);
    qkv_tape_reset(t);
    qkv_tensor *x = qkv_tensor_ids(t, ids->data, 2, (size_t[]){1, ids->count});
    qkv_tensor *y = qkv_lm_logits(m, t, qkv_lm_hidden(m, t, x, 0, NULL, NULL));
    assert_non_null(qkv_data(t, y));
    *V = qkv_dim(y, -1);
    return qkv_data(t, y);
}

/* ---- what a change does ---------------------------------------------------------------------- */

/* By hand: scale at a head and positions, then times a vector of ones; or the mean. */
typedef struct {
    size_t head, first, last; /* head HEADS: all */
    double scale, plus;
    bool mean;
} by_hand;

static qkv_tensor *change_by_hand(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    const by_hand *c = user;
    size_t shape[QKV_MAX_DIMS], T = qkv_dim(x, 1), n = qkv_count(x) / T;
    (void)name;
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    const qkv_real *data = qkv_data(t, x);
    qkv_tensor *y = qkv_tensor_from(t, data, qkv_ndim(x), shape);
    for (size_t i = c->first; i <= c->last && i < T; i++)
        for (size_t k = 0; k < n; k++) {
            double mean = 0, old = (double)data[i * n + k];
            for (size_t j = 0; j < T; j++)
                mean += (double)data[j * n + k] / (double)T;
            if (c->head == HEADS || k / (n / HEADS) == c->head)
                qkv_tensor_fill(y)[i * n + k] =
                    (qkv_real)(c->scale * (c->mean ? mean : old) + c->plus);
        }
    return y;
}

static void same_as_by_hand(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    qkv_tape *t = fresh_tape();
    qkv_real ones[WIDTH];
    for (size_t i = 0; i < WIDTH; i++)
        ones[i] = 1;
    size_t V, width = WIDTH;
    char add[320];
    assert_int_equal(qkv_npy_save(ctx, in(folder, "ones.npy"), 1, &width, ones, QKV_STORE_F32),
                     QKV_OK);
    (void)snprintf(add, sizeof add, "h.0.resid_post add=%s times=-2.5", in(folder, "ones.npy"));
    const struct {
        const char *text, *place;
        by_hand hand;
    } cases[] = {
        {"h.0.attn.z head=1 zero", "h.0.attn.z", {1, 0, 99, 0, 0, false}},
        {"h.0.attn.z  at=1..2 scale=-3", "h.0.attn.z", {HEADS, 1, 2, -3, 0, false}},
        {"*.ff.out mean", "h.0.ff.out", {HEADS, 0, 99, 1, 0, true}},
        {"h.0.attn.out at=2 mean scale=0.5", "h.0.attn.out", {HEADS, 2, 2, 0.5, 0, true}},
        {add, "h.0.resid_post", {HEADS, 0, 99, 1, -2.5, false}},
        {"norm zero", "norm", {HEADS, 0, 99, 0, 0, false}},
    };
    qkv_ids ids = encoded(p, "the cat sat");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        by_hand hand = cases[i].hand;
        qkv_look l;
        qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
        const char *texts[] = {cases[i].text};
        o.changes = (qkv_strings){.items = texts, .count = 1};
        o.weights = o.lens = false;
        const qkv_look_input in_ = {.text = "the cat sat"};
        if (qkv_pipeline_look(p, &in_, &o, &l))
            fail_msg("%s: %s", cases[i].text, qkv_context_message(ctx));
        assert_int_equal(qkv_probe_add(t, cases[i].place, change_by_hand, &hand), QKV_OK);
        const qkv_real *logits = lm_logits(p, t, &ids, &V);
        for (size_t at = 0; at < ids.count; at++)
            for (size_t k = 0; k < l.top; k++) {
                const qkv_look_guess g = l.guesses[at * l.top + k];
                double sum = 0;
                for (size_t v = 0; v < V; v++)
                    sum += exp((double)logits[at * V + v]);
                double wanted = exp((double)logits[at * V + (size_t)g.id]) / sum;
                if (!(fabs(wanted - (double)g.p) < 1e-5))
                    fail_msg("%s: %g, %g", cases[i].text, wanted, (double)g.p);
            }
        qkv_probes_clear(t);
        qkv_look_free(&l);
    }
    qkv_ids_free(&ids, ctx);
    qkv_tape_destroy(t);
}

/* Token by token with a cache, a change of positions gives what one pass gives. */
static void decoding(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    qkv_model *m = qkv_pipeline_model(p);
    qkv_tape *whole = fresh_tape(), *step = fresh_tape();
    qkv_changes *c;
    qkv_lm_cache *cache;
    size_t V, moved = 0;
    qkv_ids ids = encoded(p, "the cat sat on");
    assert_int_equal(qkv_changes_create(&c, ctx), QKV_OK);
    assert_int_equal(qkv_changes_add_text(c, "h.0.attn.out at=2..3 scale=4"), QKV_OK);
    assert_int_equal(qkv_changes_count(c), 1);
    assert_int_equal(qkv_changes_apply(c, whole), QKV_OK);
    const qkv_real *wanted = lm_logits(p, whole, &ids, &V);
    assert_int_equal(qkv_changes_made(c, 0), 1);
    assert_int_equal(qkv_lm_cache_create(&cache, m, 1, 16), QKV_OK);
    qkv_changes *again;
    assert_int_equal(qkv_changes_create(&again, ctx), QKV_OK);
    assert_int_equal(qkv_changes_add_text(again, "h.0.attn.out at=2..3 scale=4"), QKV_OK);
    assert_int_equal(qkv_changes_apply(again, step), QKV_OK);
    qkv_tape *plain = fresh_tape();
    const qkv_real *unchanged = lm_logits(p, plain, &ids, &V);
    for (size_t i = 0; i < ids.count; i++) {
        qkv_tape_reset(step);
        qkv_tensor *x = qkv_tensor_ids(step, ids.data + i, 2, (size_t[]){1, 1});
        const qkv_real *y = qkv_data(step, qkv_lm_logits(m, step, qkv_lm_hidden(m, step, x, 0,
                                                                                NULL, cache)));
        assert_non_null(y);
        for (size_t v = 0; v < V; v++) {
            assert_true(fabs((double)(y[v] - wanted[i * V + v])) < 1e-5);
            moved += fabs((double)(y[v] - unchanged[i * V + v])) > 1e-4;
        }
    }
    assert_true(moved > 0);
    assert_int_equal(qkv_changes_made(again, 0), ids.count);
    qkv_lm_cache_destroy(cache);
    qkv_tape_destroy(whole);
    qkv_tape_destroy(step);
    qkv_tape_destroy(plain);
    qkv_changes_destroy(c);
    qkv_changes_destroy(again);
    qkv_ids_free(&ids, ctx);
}

static void before_and_after(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_changed found;
    qkv_str text;
    const char *changes[] = {"*.resid_post scale=-1"};
    const qkv_look_input in_ = {.text = "the cat sat"};
    assert_int_equal(qkv_pipeline_change(p, &in_, &o, &found), QKV_E_ARGUMENT);
    o.changes = (qkv_strings){.items = changes, .count = 1};
    o.go_on = 6;
    assert_int_equal(qkv_pipeline_change(p, &in_, &o, &found), QKV_OK);
    assert_string_not_equal(found.text_before, found.text_after);
    qkv_str_init(&text, ctx);
    assert_int_equal(qkv_changed_text(&found, -1, &text), QKV_OK);
    assert_non_null(strstr(text.data, "at position"));
    assert_non_null(strstr(text.data, found.text_after));
    assert_int_equal(qkv_changed_text(&found, 99, &text), QKV_E_ARGUMENT);
    assert_int_equal(qkv_changed_page(&found, -1, NULL, in(folder, "changed.html")), QKV_OK);
    qkv_str_free(&text);
    qkv_changed_free(&found);
    const qkv_look_input source = {.text = "the cat"};
    assert_int_equal(qkv_pipeline_change(of(TRANSLATOR), &source, &o, &found), QKV_OK);
    assert_int_equal(found.before.axes[1].count, found.after.axes[1].count);
    qkv_changed_free(&found);
    assert_int_equal(qkv_pipeline_change(of(CLASSIFIER), &source, &o, &found), QKV_OK);
    assert_int_equal(found.after.class_count, 2);
    qkv_changed_free(&found);
}

/* The sum over positions of what is at a place. */
static qkv_tensor *add_positions(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    double *sum = user;
    (void)name;
    for (size_t i = 0; i < qkv_count(x); i++)
        sum[i % WIDTH] += (double)qkv_data(t, x)[i];
    return x;
}

/* The mean over positions at h.0.resid_post, behind a change, or NULL. */
static void mean_at_place(qkv_pipeline *p, const char *text, const char *change, double *mean)
{
    qkv_tape *t = fresh_tape();
    qkv_changes *c;
    size_t V;
    qkv_ids ids = encoded(p, text);
    assert_int_equal(qkv_changes_create(&c, ctx), QKV_OK);
    if (change)
        assert_int_equal(qkv_changes_add_text(c, change), QKV_OK);
    assert_int_equal(qkv_changes_apply(c, t), QKV_OK);
    memset(mean, 0, WIDTH * sizeof *mean);
    assert_int_equal(qkv_probe_add(t, "h.0.resid_post", add_positions, mean), QKV_OK);
    (void)lm_logits(p, t, &ids, &V);
    for (size_t i = 0; i < WIDTH; i++)
        mean[i] /= (double)ids.count;
    qkv_tape_destroy(t);
    qkv_changes_destroy(c);
    qkv_ids_free(&ids, ctx);
}

/* The mean of one text less that of another, added with a change, moves the stream by so much. */
static void vectors(void **state)
{
    (void)state;
    qkv_pipeline *p = of(LM);
    const qkv_look_input a = {.text = "the cat"}, b = {.text = "a dog"};
    qkv_array one, two, both;
    assert_int_equal(qkv_pipeline_vector(p, &a, NULL, "h.0.resid_post", &one), QKV_OK);
    assert_int_equal(qkv_pipeline_vector(p, &b, NULL, "h.0.resid_post", &two), QKV_OK);
    assert_int_equal(qkv_pipeline_vector(p, &a, &b, "h.0.resid_post", &both), QKV_OK);
    assert_int_equal(both.count, WIDTH);
    double size = 0, of_a[WIDTH], of_b[WIDTH], moved[WIDTH];
    char add[320];
    assert_int_equal(qkv_npy_save(ctx, in(folder, "both.npy"), 1, &both.count, both.data,
                                  QKV_STORE_F32), QKV_OK);
    (void)snprintf(add, sizeof add, "h.0.resid_post add=%s times=3", in(folder, "both.npy"));
    mean_at_place(p, a.text, NULL, of_a);
    mean_at_place(p, b.text, NULL, of_b);
    mean_at_place(p, b.text, add, moved);
    for (size_t i = 0; i < WIDTH; i++) {
        assert_true(fabs((double)one.data[i] - of_a[i]) < 1e-6);
        assert_true(fabs((double)two.data[i] - of_b[i]) < 1e-6);
        assert_true(fabs((double)(one.data[i] - two.data[i] - both.data[i])) < 1e-6);
        assert_true(fabs(moved[i] - of_b[i] - 3 * (double)both.data[i]) < 1e-5);
        size += fabs((double)both.data[i]);
    }
    assert_true(size > 1e-3);
    qkv_array_free(&one);
    qkv_array_free(&two);
    qkv_array_free(&both);
    assert_int_equal(qkv_pipeline_vector(p, &a, NULL, "h.7.resid_post", &one), QKV_E_ARGUMENT);
    assert_null(one.data);
}

/* ---- passes ---------------------------------------------------------------------------------- */

typedef struct {
    double sum;    /* of the elements at the place */
    size_t passes; /* that it was seen in */
    bool fails;
} summing;

static qkv_tensor *add_up(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    summing *s = user;
    (void)name;
    s->sum = 0;
    s->passes++;
    for (size_t i = 0; i < qkv_count(x); i++)
        s->sum += (double)qkv_data(t, x)[i];
    return x;
}

static qkv_status begin_adding(void *user, qkv_tape *t)
{
    summing *s = user;
    return s->fails ? QKV_E_CANCELLED : qkv_probe_add(t, "h.0.attn.z", add_up, s);
}

/* A probe sees what the changes of the options make, one pass alone; its failure is the call's. */
static void a_pass_with_probes(void **state)
{
    (void)state;
    const qkv_look_input text = {.text = "the cat"};
    const char *items[] = {"h.0.attn.z zero"};
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    summing s = {0};
    assert_int_equal(qkv_pipeline_pass(of(LM), &text, NULL, begin_adding, &s), QKV_OK);
    assert_true(s.passes == 1 && fabs(s.sum) > 1e-3);
    o.changes = (qkv_strings){.items = items, .count = 1};
    assert_int_equal(qkv_pipeline_pass(of(LM), &text, &o, begin_adding, &s), QKV_OK);
    assert_true(s.passes == 2 && fabs(s.sum) < 1e-9);
    s.fails = true;
    assert_int_equal(qkv_pipeline_pass(of(LM), &text, NULL, begin_adding, &s), QKV_E_CANCELLED);
    qkv_look l;
    assert_int_equal(qkv_pipeline_look(of(LM), &text, NULL, &l), QKV_OK);
    qkv_look_free(&l);
    assert_int_equal(s.passes, 2);
}

static void wrong_changes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
    } wrong[] = {
        {"", "a place, then zero"}, {"h.0.attn.z", "a place, then zero"},
        {"h.0.attn.z head=1", "a place, then zero"}, {"h.0.attn.z head=x zero", "head=NUMBER"},
        {"h.0.attn.z at=3..1 zero", "at=FIRST..LAST"}, {"h.0.attn.z scale=big", "a number"},
        {"h.0.attn.z double", "head=, at=, zero"}, {"h.0.attn.z add=/nowhere.npy", "nowhere.npy"},
        {"h.0.attn.z add=/nowhere.safetensors:x", "nowhere.safetensors"},
        {"h.9.attn.z zero", "no place of the pass is \"h.9.attn.z\""},
        {"h.0.attn.z head=2 zero", "h.0.attn.z has 2 heads, found head=2"},
        {"h.0.ff.out head=0 zero", "h.0.ff.out has no heads"},
    };
    const qkv_look_input in_ = {.text = "the cat"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qkv_look l;
        qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
        const char *texts[] = {wrong[i].text};
        o.changes = (qkv_strings){.items = texts, .count = 1};
        assert_true(qkv_pipeline_look(of(LM), &in_, &o, &l) != QKV_OK);
        if (!strstr(qkv_context_message(ctx), wrong[i].told))
            fail_msg("%s: %s", wrong[i].text, qkv_context_message(ctx));
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A change with its page, and a vector, of the pipeline of the language model. */
static qkv_status change_and_vector(void *user)
{
    qkv_pipeline *p = user;
    const qkv_look_input cat = {.text = "the cat"}, dog = {.text = "a dog"};
    const char *texts[] = {"h.0.attn.z head=1 mean", "*.ff.out at=1 scale=2"};
    qkv_pipeline_look_options o = qkv_pipeline_look_defaults();
    qkv_changed changed = {0};
    qkv_array vector = {0};
    o.changes = (qkv_strings){.items = texts, .count = 2};
    o.go_on = 2;
    qkv_status status = qkv_pipeline_change(p, &cat, &o, &changed);
    if (!status)
        status = qkv_changed_page(&changed, -1, NULL, in(folder, "page.html"));
    if (!status)
        status = qkv_pipeline_vector(p, &cat, &dog, "h.0.resid_post", &vector);
    qkv_changed_free(&changed);
    qkv_array_free(&vector);
    return status;
}

static void memory_gives_out(void **state)
{
    (void)state;
    expect_memory_told(change_and_vector, of(LM), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_by_hand), cmocka_unit_test(decoding),
        cmocka_unit_test(before_and_after), cmocka_unit_test(vectors),
        cmocka_unit_test(a_pass_with_probes),
        cmocka_unit_test(wrong_changes), cmocka_unit_test(memory_gives_out)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, close_all);
}
