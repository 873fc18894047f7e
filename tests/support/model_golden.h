/* model_golden.h - a directory that transformers saved, loaded here, beside what transformers made
 * of it (recipe: tools/make-golden/models.py).
 *
 * A tensor may be off by 1e-5 of its largest number, or of 1e-3 of the largest gradient of its
 * layer where that is more: the gradient of a key bias is zero by mathematics, as is that of the
 * bias of weights which sum to 1. What is left of it is rounding beyond even that (PyTorch's own,
 * in float: 3.5e-5 of 1e-3 in post-norm layers, 2.1e-7 of the largest in ViT's), so such a bias
 * may be off by 1e-5 of 5e-2. */
#ifndef MODEL_GOLDEN_H
#define MODEL_GOLDEN_H

#include "files.h"
#include "golden.h"
#include "qkv/hub.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/models/"
enum { B = 2, T = 17, ROWS = B * T };
static const double tolerance = 1e-5;

typedef struct {
    const char *name;
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *t;
    qkv_safetensors *golden;
    int32_t ids[ROWS], targets[ROWS], segments[ROWS], source[ROWS];
    double worst; /* of all comparisons, as a share of what is allowed */
} fixture;

/* At most ROWS ids; none when the golden file has no such tensor. */
static void read_ids(const fixture *f, const char *name, int32_t *out)
{
    int64_t wide[ROWS];
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, name);
    size_t n = s ? s->count : 0;
    assert_true(n <= ROWS);
    assert_int_equal(s ? qkv_safetensors_read_ints(f->golden, s, 0, n, wide) : QKV_OK, QKV_OK);
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)wide[i];
}

static void open_fixture(fixture *f, const char *name, unsigned isa)
{
    qkv_context_options o = qkv_context_defaults();
    o.isa = isa;
    o.threads = 2;
    *f = (fixture){.name = name};
    char path[PATH_BYTES];
    assert_int_equal(qkv_context_create(&f->ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f->t, f->ctx), QKV_OK);
    (void)snprintf(path, sizeof path, GOLDEN "%s", name);
    if (qkv_hub_load(&f->model, f->ctx, path))
        fail_msg("%s", qkv_context_message(f->ctx));
    (void)snprintf(path, sizeof path, GOLDEN "%s.safetensors", name);
    assert_int_equal(qkv_safetensors_open(&f->golden, f->ctx, path), QKV_OK);
    read_ids(f, "ids", f->ids);
    read_ids(f, "targets", f->targets);
    read_ids(f, "segments", f->segments);
    read_ids(f, "source", f->source);
}

static void close_fixture(fixture *f)
{
    qkv_safetensors_close(f->golden);
    qkv_tape_destroy(f->t);
    qkv_model_destroy(f->model);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
}

/* The numbers of a golden tensor; the caller frees. */
static qkv_real *take(const fixture *f, const char *name, size_t *count)
{
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, name);
    if (!s)
        fail_msg("%s: %s is not in the golden file", f->name, name);
    qkv_real *x = malloc((s->count + 1) * sizeof *x);
    assert_non_null(x);
    assert_int_equal(qkv_safetensors_read(f->golden, s, 0, s->count, x), QKV_OK);
    *count = s->count;
    return x;
}

static void check(fixture *f, const char *what, double error, double size)
{
    if (!(error <= tolerance * size))
        fail_msg("%s: %s: off by %.3g of %.3g", f->name, what, error, size);
    f->worst = fmax(f->worst, error / (tolerance * size));
}

/* The golden tensor (.., H, W, C) of that name, on the tape. */
static inline qkv_tensor *golden_images(fixture *f, const char *name)
{
    size_t n;
    qkv_real *data = take(f, name, &n);
    const qkv_safetensor *s = qkv_safetensors_find(f->golden, name);
    assert_int_equal(s->ndim, 4);
    qkv_tensor *x = qkv_tensor_from(f->t, data, 4, s->shape);
    free(data);
    return x;
}

static void compare(fixture *f, const char *what, const char *golden, const qkv_real *got,
                    size_t count)
{
    size_t n;
    qkv_real *expected = take(f, golden, &n);
    double error = 0;
    assert_non_null(got);
    assert_int_equal(n, count);
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - (double)expected[i]);
        if (!(e <= error))
            error = e;
    }
    check(f, what, error, largest(expected, n));
    free(expected);
}

/* A tensor of the tape with the golden one of that name. */
static inline void compare_tensor(fixture *f, const char *name, const qkv_tensor *x)
{
    if (qkv_tape_status(f->t))
        fail_msg("%s: %s: %s", f->name, name, qkv_context_message(f->ctx));
    compare(f, name, name, qkv_data(f->t, x), qkv_count(x));
}

/* ---- gradients -------------------------------------------------------------------------- */

/* Bytes of the name that say which layer it is: "transformer.h.0.", or what is above the module
 * that has the tensor: "classifier." of "classifier.norm.weight", all of "classifier.weight". */
static size_t layer_part(const char *name)
{
    size_t digit = strcspn(name, "0123456789"), dots = 0, n = strlen(name);
    if (name[digit])
        return digit + strspn(name + digit, "0123456789") + 1;
    for (size_t i = n; i > 0; i--)
        if (name[i - 1] == '.' && ++dots == 2)
            return i;
    return n;
}

static double largest_of_layer(const fixture *f, const char *name)
{
    double most = 0;
    for (size_t i = 0; i < qkv_safetensors_count(f->golden); i++) {
        const char *other = qkv_safetensors_at(f->golden, i)->name;
        if (strncmp(other, "grad.", 5) != 0 || strncmp(other + 5, name, layer_part(name)) != 0)
            continue;
        size_t n;
        qkv_real *g = take(f, other, &n);
        most = fmax(most, largest(g, n));
        free(g);
    }
    return most;
}

/* The number of the row's region that the file has as its e-th. */
static double element(const qkv_state_entry *row, const qkv_real *region, size_t e)
{
    size_t dim[QKV_MAX_DIMS], at[QKV_MAX_DIMS], place = 0;
    for (int i = row->ndim - 1; i >= 0; i--) {
        dim[row->perm[i]] = row->shape[i];
        at[row->perm[i]] = e % row->shape[i];
        e /= row->shape[i];
    }
    for (int i = 0; i < row->ndim; i++)
        place = place * dim[i] + at[i];
    return (double)region[place];
}

/* Poolers are not. */
static bool is_trained(const qkv_state_entry *row)
{
    return row->kind == QKV_STATE_PARAM && !qkv_param_frozen(row->param);
}

static qkv_status compare_gradient(void *user, const qkv_state_entry *row)
{
    fixture *f = user;
    char golden[128];
    if (!is_trained(row))
        return QKV_OK;
    (void)snprintf(golden, sizeof golden, "grad.%s", row->name);
    const qkv_real *grad = qkv_param_grad(row->param);
    size_t count = qkv_state_entry_count(row), n;
    qkv_real *expected = take(f, golden, &n);
    assert_non_null(grad);
    assert_int_equal(n, count);
    double error = 0;
    for (size_t i = 0; i < n; i++) {
        double e = fabs(element(row, grad + row->offset, i) - (double)expected[i]);
        if (!(e <= error))
            error = e;
    }
    bool idle = strstr(row->name, "key.bias") || strstr(row->name, "k_proj.bias") ||
                strstr(row->name, "k_lin.bias") || strstr(row->name, "pool.bias");
    double least = idle ? 5e-2 : 1e-3;
    check(f, golden, error, fmax(largest(expected, n), least * largest_of_layer(f, row->name)));
    free(expected);
    return QKV_OK;
}

static qkv_status count_rows(void *user, const qkv_state_entry *row)
{
    *(size_t *)user += is_trained(row);
    return QKV_OK;
}

/* Every tensor's gradient, and none that one side does not have. */
static void compare_gradients(fixture *f)
{
    size_t rows = 0, goldens = 0;
    assert_int_equal(qkv_model_visit(f->model, compare_gradient, f), QKV_OK);
    assert_int_equal(qkv_model_visit(f->model, count_rows, &rows), QKV_OK);
    for (size_t i = 0; i < qkv_safetensors_count(f->golden); i++)
        goldens += strncmp(qkv_safetensors_at(f->golden, i)->name, "grad.", 5) == 0;
    assert_int_equal(rows, goldens);
}

/* A recorded step: the outputs of that name, the loss and, going back from it, every gradient. */
static inline void compare_step_of(fixture *f, const char *name, const qkv_tensor *outputs,
                                   qkv_tensor *loss)
{
    compare_tensor(f, name, outputs);
    compare_tensor(f, "loss", loss);
    assert_int_equal(qkv_backward(f->t, loss), QKV_OK);
    compare_gradients(f);
    print_message("%s: at worst %.3g of what is allowed\n", f->name, f->worst);
}

static inline void compare_step(fixture *f, const qkv_tensor *logits, qkv_tensor *loss)
{
    compare_step_of(f, "logits", logits, loss);
}

static void compare_files(qkv_context *ctx, const char *expected, const char *got)
{
    qkv_safetensors *a, *b;
    assert_int_equal(qkv_safetensors_open(&a, ctx, expected), QKV_OK);
    if (qkv_safetensors_open(&b, ctx, got))
        fail_msg("%s", qkv_context_message(ctx));
    assert_same_tensors(a, b);
    qkv_safetensors_close(a);
    qkv_safetensors_close(b);
}

/* Saved whole or in shards: the tensors are the original's, byte for byte; the configuration,
 * read again, is the same. */
static inline void check_saved(const char *name, bool shards)
{
    fixture f;
    char folder[PATH_BYTES];
    qkv_model *again;
    qkv_hub_save_options o = qkv_hub_save_defaults();
    o.shard_bytes = shards ? 10000 : 0;
    open_fixture(&f, name, QKV_ISA_ALL);
    make_folder(folder);
    assert_int_equal(qkv_hub_save(f.model, folder, &o), QKV_OK);
    assert_int_equal(access(in(folder, "model.safetensors"), F_OK) == 0, !shards);
    compare_files(f.ctx, in(GOLDEN, f.name), folder);
    assert_int_equal(qkv_hub_load(&again, f.ctx, folder), QKV_OK);
    const qkv_model_type *type = qkv_model_type_of(f.model);
    assert_ptr_equal(type, qkv_model_type_of(again));
    assert_memory_equal(qkv_model_config(f.model), qkv_model_config(again),
                        qkv_model_type_config_size(type));
    assert_int_equal(qkv_model_label_count(f.model), qkv_model_label_count(again));
    for (size_t i = 0; i < qkv_model_label_count(again); i++)
        assert_string_equal(qkv_model_label(f.model, i), qkv_model_label(again, i));
    qkv_model_destroy(again);
    remove_folder(folder);
    close_fixture(&f);
}

static inline void check_saved_again(const char *const *names, size_t count)
{
    for (size_t i = 0; i < 2 * count; i++)
        check_saved(names[i / 2], i % 2);
}

#endif
