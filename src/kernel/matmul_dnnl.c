/* matmul_dnnl.c - one product of bf16 operands with sums in f32, from oneDNN, 2.x and 3.x alike.
 *
 * Sizes and strides are given at run time, so that there is one primitive for each combination of
 * transposes and of storing or adding: made at first use, never freed, shared by all threads. */
#include "kernel/matmul_dnnl.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

enum { VARIANTS = 8 }; /* ta, tb, acc */

static struct {
    pthread_once_t once;
    dnnl_engine_t engine;
    dnnl_primitive_t products[VARIANTS]; /* NULL: the library has none */
} shared = {.once = PTHREAD_ONCE_INIT};

/* ---- what differs between the library's versions ------------------------------------------ */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t matrix;

static bool matmul_dnnl_matrix(matrix *d, bool bf16, dnnl_dim_t rows, dnnl_dim_t columns,
                               dnnl_dim_t down, dnnl_dim_t across)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {down, across};
    return dnnl_memory_desc_create_with_strides(d, 2, dims, bf16 ? dnnl_bf16 : dnnl_f32,
                                                strides) == dnnl_success;
}

static const_dnnl_memory_desc_t matmul_dnnl_ref(const matrix *d) { return *d; }

static void matmul_dnnl_free(matrix *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
}

static bool matmul_dnnl_describe(dnnl_primitive_desc_t *pd, const matrix *a, const matrix *b,
                                 const matrix *c, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, shared.engine, *a, *b, NULL, *c, attr) ==
           dnnl_success;
}

static bool matmul_dnnl_adds(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef) == dnnl_success;
}
#else
typedef dnnl_memory_desc_t matrix;

static bool matmul_dnnl_matrix(matrix *d, bool bf16, dnnl_dim_t rows, dnnl_dim_t columns,
                               dnnl_dim_t down, dnnl_dim_t across)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {down, across};
    return dnnl_memory_desc_init_by_strides(d, 2, dims, bf16 ? dnnl_bf16 : dnnl_f32, strides) ==
           dnnl_success;
}

static const dnnl_memory_desc_t *matmul_dnnl_ref(const matrix *d) { return d; }
static void matmul_dnnl_free(matrix *d) { (void)d; }

static bool matmul_dnnl_describe(dnnl_primitive_desc_t *pd, const matrix *a, const matrix *b,
                                 const matrix *c, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    return dnnl_matmul_desc_init(&d, a, b, NULL, c) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &d, attr, shared.engine, NULL) == dnnl_success;
}

static bool matmul_dnnl_adds(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f) == dnnl_success;
}
#endif

/* ---- primitives --------------------------------------------------------------------------- */

static int variant_of(const qkv_k_gemm_args *args)
{
    return args->ta << 2 | args->tb << 1 | args->acc;
}

/* op(x) (rows, columns), where x is stored transposed or not, its rows ld apart. */
static bool operand(matrix *d, bool bf16, bool transposed, dnnl_dim_t rows, dnnl_dim_t columns,
                    dnnl_dim_t ld)
{
    return matmul_dnnl_matrix(d, bf16, rows, columns, transposed ? 1 : ld, transposed ? ld : 1);
}

static bool operands(matrix m[3], bool ta, bool tb, dnnl_dim_t rows, dnnl_dim_t columns,
                     dnnl_dim_t k, const dnnl_dim_t ld[3])
{
    return operand(&m[0], true, ta, rows, k, ld[0]) &&
           operand(&m[1], true, tb, k, columns, ld[1]) &&
           operand(&m[2], false, false, rows, columns, ld[2]);
}

static void matmul_dnnl_make(int variant)
{
    const dnnl_dim_t any = DNNL_RUNTIME_DIM_VAL, ld[3] = {any, any, any};
    matrix m[3] = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_desc_t pd = NULL;
    bool fine = operands(m, variant >> 2 & 1, variant >> 1 & 1, any, any, any, ld) &&
                dnnl_primitive_attr_create(&attr) == dnnl_success &&
                dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
                    dnnl_success &&
                dnnl_post_ops_create(&ops) == dnnl_success &&
                (!(variant & 1) || matmul_dnnl_adds(ops)) &&
                dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
                matmul_dnnl_describe(&pd, &m[0], &m[1], &m[2], attr);
    dnnl_dim_t bytes = 0;
    if (fine && dnnl_primitive_desc_query(pd, dnnl_query_memory_consumption_s64, 0, &bytes) ==
                    dnnl_success && bytes == 0 &&
        dnnl_primitive_create(&shared.products[variant], pd) != dnnl_success)
        shared.products[variant] = NULL;
    for (int i = 0; i < 3; i++)
        matmul_dnnl_free(&m[i]);
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
}

static void make_variants(void)
{
    if (dnnl_engine_create(&shared.engine, dnnl_cpu, 0) != dnnl_success)
        return;
    for (int i = 0; i < VARIANTS; i++)
        matmul_dnnl_make(i);
}

bool qkv__matmul_dnnl(float *c, const uint16_t *a, const uint16_t *b, const qkv_k_gemm_args *args)
{
    const dnnl_dim_t ld[3] = {(dnnl_dim_t)args->lda, (dnnl_dim_t)args->ldb, (dnnl_dim_t)args->ldc};
    void *data[3] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c};
    static const int names[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    pthread_once(&shared.once, make_variants);
    dnnl_primitive_t product = shared.products[variant_of(args)];
    matrix m[3] = {0};
    dnnl_exec_arg_t given[3] = {{0}};
    dnnl_stream_t stream = NULL;
    bool fine = product &&
                operands(m, args->ta, args->tb, (dnnl_dim_t)args->m, (dnnl_dim_t)args->n,
                         (dnnl_dim_t)args->k, ld) &&
                dnnl_stream_create(&stream, shared.engine, dnnl_stream_default_flags) ==
                    dnnl_success;
    for (int i = 0; i < 3 && fine; i++) {
        given[i].arg = names[i];
        fine = dnnl_memory_create(&given[i].memory, matmul_dnnl_ref(&m[i]), shared.engine,
                                  data[i]) == dnnl_success;
    }
    fine = fine && dnnl_primitive_execute(product, stream, 3, given) == dnnl_success;
    for (int i = 0; i < 3; i++) {
        if (given[i].memory)
            dnnl_memory_destroy(given[i].memory);
        matmul_dnnl_free(&m[i]);
    }
    if (stream)
        dnnl_stream_destroy(stream);
    return fine;
}
