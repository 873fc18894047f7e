/* changed.h - models with numbers that are told apart, and files that differ from theirs. */
#ifndef QKV_TESTS_CHANGED_H
#define QKV_TESTS_CHANGED_H

#include "fixture.h"
#include "qkv/hub.h"

enum { CHANGED_ROWS = 256 };

/* No two numbers alike, but for fixed tables, which stay. */
static inline void number(qkv_model *m)
{
    qkv_params *ps = qkv_model_params(m);
    int next = 0;
    for (size_t i = 0; i < qkv_params_count(ps); i++) {
        qkv_param *p = qkv_params_at(ps, i);
        for (size_t j = 0; j < qkv_param_count(p) && !qkv_param_frozen(p); j++)
            qkv_param_data(p)[j] = (qkv_real)++next;
    }
}

static inline void assert_same(qkv_model *a, qkv_model *b)
{
    qkv_params *pa = qkv_model_params(a), *pb = qkv_model_params(b);
    assert_ptr_equal(qkv_model_type_of(a), qkv_model_type_of(b));
    assert_int_equal(qkv_params_count(pa), qkv_params_count(pb));
    for (size_t i = 0; i < qkv_params_count(pa); i++) {
        const qkv_param *x = qkv_params_at(pa, i), *y = qkv_params_at(pb, i);
        assert_int_equal(qkv_param_count(x), qkv_param_count(y));
        assert_memory_equal(qkv_param_data(qkv_params_at(pa, i)),
                            qkv_param_data(qkv_params_at(pb, i)),
                            qkv_param_count(x) * sizeof(qkv_real));
    }
}

/* How a copy of a file differs from it. */
typedef struct {
    const char *prefix;      /* put before every name */
    const char *drop;        /* names that begin so are left out */
    const char *extra;       /* a vector of one number more */
    const char *cut;         /* of that tensor, the first `rows` rows of axis 1 */
    size_t rows;
    const char *flat;        /* that tensor has all its numbers on axis 0 */
} change;

static inline void copy_changed(const char *from, const char *to, const change *c)
{
    static char texts[CHANGED_ROWS][128];
    static size_t shapes[CHANGED_ROWS][4];
    qkv_safetensors *s;
    qkv_safetensors_entry entries[CHANGED_ROWS] = {0};
    const qkv_real one = 1;
    const size_t single = 1;
    size_t n = 0;
    assert_int_equal(qkv_safetensors_open(&s, ctx, from), QKV_OK);
    for (size_t i = 0; i < qkv_safetensors_count(s); i++) {
        const qkv_safetensor *t = qkv_safetensors_at(s, i);
        if (c->drop && strncmp(t->name, c->drop, strlen(c->drop)) == 0)
            continue;
        assert_true(n + 1 < CHANGED_ROWS && t->ndim <= 4);
        (void)snprintf(texts[n], sizeof texts[n], "%s%s", c->prefix ? c->prefix : "", t->name);
        for (int axis = 0; axis < t->ndim; axis++)
            shapes[n][axis] = t->shape[axis];
        if (c->cut && strcmp(t->name, c->cut) == 0)
            shapes[n][1] = c->rows;
        for (int axis = 0; c->flat && strcmp(t->name, c->flat) == 0 && axis < t->ndim; axis++)
            shapes[n][axis] = axis ? 1 : t->count;
        entries[n] = (qkv_safetensors_entry){.name = texts[n], .ndim = t->ndim, .shape = shapes[n],
                                             .store = t->store, .raw = t->data};
        n++;
    }
    if (c->extra)
        entries[n++] = (qkv_safetensors_entry){.name = c->extra, .ndim = 1, .shape = &single,
                                               .store = QKV_STORE_F32, .data = &one};
    assert_int_equal(qkv_safetensors_save(ctx, to, entries, n, NULL), QKV_OK);
    qkv_safetensors_close(s);
}

#endif
