/* cudnn.cuh - convolutions by cuDNN, which is opened at run time where it is present.
 *
 * The functions are called between operands_lock and operands_unlock, which guard their memory. */
#ifndef QKV_KERNEL_CUDA_CUDNN_CUH
#define QKV_KERNEL_CUDA_CUDNN_CUH

#include "kernel/cuda/cuda.cuh"

#if !defined(QKV_CUDA_EMULATED) && defined(__has_include)
#if __has_include(<cudnn.h>)
#define QKV_CUDNN
#endif
#endif

#ifdef QKV_CUDNN

/* Operands of a convolution, and which of them it makes of the other two. */
enum cudnn_operand { CUDNN_IMAGES, CUDNN_WEIGHTS, CUDNN_RESULT, CUDNN_OPERANDS };

/* Images (B, H, W, C), weights (N, KH, KW, C), result (B, OH, OW, N), dense, in bf16; C and N are
 * multiples of 8. Zeros around images: as many rows before as behind, and columns. Compared byte by
 * byte. */
struct cudnn_problem {
    int64_t makes, B, H, W, C, N, KH, KW, OH, OW, stride, rows, columns;
    bool operator<(const cudnn_problem &other) const;
};

struct cudnn_plan {
    bool serves;      /* false: the library has no way to do this */
    size_t workspace; /* bytes */
    void *way;
};

/* Found once for each problem and kept. NULL: there is no library, or no room for a further one. */
cudnn_plan *cudnn_plan_of(const cudnn_problem *p);
/* Operands begin at multiples of 16 bytes, the workspace of 256. False: it did not serve, and will
 * not again. */
bool cudnn_run(cudnn_plan *p, void *const operands[CUDNN_OPERANDS], void *workspace);

#endif
#endif
