/* sort_ids.cuh - a stable sort of indices. */
#ifndef QKV_KERNEL_CUDA_SORT_IDS_CUH
#define QKV_KERNEL_CUDA_SORT_IDS_CUH

#include "kernel/cuda/cuda.cuh"

/* sorted (N): ids, which are not negative, in increasing order. rows (N): where each of them was;
 * equal ids stay in their order. scratch: sort_ids_words(N) numbers. All on the device; N > 0. */
size_t sort_ids_words(size_t N);
void cuda_sort_ids(int32_t *sorted, int32_t *rows, int32_t *scratch, const int32_t *ids, size_t N);

#endif
