/* list.cuh - small kernels of inference are not launched one by one: they are listed, and one
 * launch carries out the list as soon as anything else is asked of the stream (cuda_stream). What
 * has been listed counts as launched: scratch memory can be released, small arrays of the host have
 * been copied.
 *
 * Each function lists one kernel; false: it is to be launched (another list is carried out first,
 * as by every launch). A list begins with what only inference of a few rows asks for; other kernels
 * join one that has begun. QKV_CUDA_LIST in the environment: 0, nothing is listed; all, every
 * kernel of this file is that fits. */
#ifndef QKV_KERNEL_CUDA_LIST_CUH
#define QKV_KERNEL_CUDA_LIST_CUH

#include "kernel/cuda/cuda.cuh"

enum { LIST_ROWS_MOST = 32, LIST_ELEMENTS_MOST = 1 << 17 };

struct gemv_args;
struct small_product;
struct norm_job;
struct embed_job;
struct rotary_job;
template <typename T> struct gated_args;
struct axpy_body;
struct add_body;
struct mul_body;
struct embed_small_args;
struct kv_rows;
struct att_problem;
struct few_job;
struct best_job;

/* gemv_args whose rows are wide (gemv.cuh). */
bool list_gemv(const gemv_args &a);
bool list_small(const small_product &t);
bool list_norm(const norm_job &a);
bool list_embed(float *y, const embed_job &a, bool quads);
bool list_rotary(const rotary_job &a); /* frequency: of the host */
bool list_embed_small(const embed_small_args &a);
bool list_act(float *y, const float *x, qkv_k_act act, size_t n);
bool list_gated(const gated_args<float> &a, qkv_k_act act, size_t N);
bool list_add(const add_body &a, size_t n);
bool list_axpy(const axpy_body &a, size_t n);
bool list_mul(const mul_body &a, size_t n);
bool list_kv_store(const kv_rows &a);
/* `rows` rows of n numbers, y_row and x_row apart. */
bool list_rows(float *y, size_t y_row, const float *x, size_t x_row, size_t rows, size_t n);
/* Bytes of the host, and of the device; they do not overlap. */
bool list_bytes(void *to, const void *host, size_t bytes);
bool list_copy(void *to, const void *from, size_t bytes);
/* Bytes of the device for the host, which waits for them. */
bool list_out(void *host, const void *from, size_t bytes);
/* Attention of few queries: whether it would be listed, and threads of its blocks then. */
bool list_has_few(const att_problem &p);
enum { LIST_THREADS = 512 };
bool list_few(qkv_k_kv kind, int rows, size_t blocks, const att_problem &p, const few_job &w);

bool list_best(const best_job &a);

/* Launches what is listed. */
void list_flush(void);
/* Reads the environment; before the first kernel. */
void list_begin(void);

#endif
