/* operands.cu - copies in bf16 of what products multiply: made, kept and found again. */
#include "kernel/cuda/operands.cuh"

#include <mutex>

enum { BF16_ROW = 8, KEPT = 4 }; /* a row of a copy is a multiple of so many numbers: 16 bytes */

/* A dense copy of rows * cols numbers, when cols is a multiple of BF16_ROW, is one of any such
 * matrix. */
typedef struct {
    const float *x; /* NULL: none */
    size_t rows, cols, ldx;
    uint64_t writes; /* how many there had been when it was last right */
    uint64_t used;   /* which of the requests was the last for it */
    bool right;      /* it was so when the product began, or was made in it */
    bf16 *y;
    size_t bytes; /* of y */
    bool padded;  /* rows of zeros behind it, to a multiple of BF16_ROW */
} kept_copy;

static kept_copy kept[KEPT];
static std::mutex lock;
static thread_local bool locked; /* by the calling thread */
static cuda_writes at_lock;
static uint64_t asked;

static void take_lock(void)
{
    lock.lock();
    locked = true;
}

static void release_lock(void)
{
    locked = false;
    lock.unlock();
}

/* How many writes there would have been since then without those of other threads. A copy that was
 * right then is right if there are no others. */
static uint64_t writes_alone(cuda_writes since)
{
    return since.all + (cuda_writes_now().own - since.own);
}

void operands_lock(void)
{
    take_lock();
    at_lock = cuda_writes_now();
    for (kept_copy &k : kept)
        k.right = k.x && k.writes == at_lock.all;
}

static bool overlaps(const kept_copy *k, const float *c, size_t n)
{
    return k->x && c < k->x + k->rows * k->ldx && k->x < c + n;
}

void operands_unlock(const float *c, size_t m, size_t ldc)
{
    for (kept_copy &k : kept) {
        if (overlaps(&k, c, m * ldc))
            k.x = NULL;
        if (k.right)
            k.writes = writes_alone(at_lock);
    }
    release_lock();
}

/* y (all, ldy) = x (rows, cols; row stride ldx), 4 neighbours a thread; wide: rows begin at
 * multiples of 16 bytes. What lies between cols and ldy, and behind row rows, is 0. */
static __global__ void round_rows(bf16 *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                                  size_t all, size_t cols, bool wide)
{
    const size_t groups = ldy / 4;
    for (FOR_EACH(i, all * groups)) {
        size_t r = i / groups, c = i % groups * 4, end = r < rows ? cols : 0;
        const float *from = x + r * ldx + c;
        float4 v;
        if (wide && c + 4 <= end)
            v = *(const float4 *)from;
        else
            v = make_float4(c < end ? from[0] : 0, c + 1 < end ? from[1] : 0,
                            c + 2 < end ? from[2] : 0, c + 3 < end ? from[3] : 0);
        operand_store(y + r * ldy + c, v.x, v.y, v.z, v.w);
    }
}

static bool same_matrix(const kept_copy *k, const float *x, size_t rows, size_t cols, size_t ldx)
{
    const bool dense = ldx == cols && k->ldx == k->cols && cols % BF16_ROW == 0 &&
                       k->cols % BF16_ROW == 0 && rows * cols == k->rows * k->cols;
    return k->x == x &&
           (dense || (k->rows == rows && k->cols == cols && k->ldx == ldx));
}

/* The place asked for longest ago, with room for so many numbers; NULL without memory. */
static kept_copy *take_place(size_t numbers)
{
    kept_copy *k = &kept[0];
    for (kept_copy &other : kept)
        k = other.used < k->used ? &other : k;
    k->x = NULL;
    if (numbers * sizeof(bf16) > k->bytes) {
        cuda_note(cudaFree(k->y));
        k->bytes = numbers * sizeof(bf16);
        if (cudaMalloc((void **)&k->y, k->bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            k->y = NULL, k->bytes = 0;
        }
    }
    return k->y ? k : NULL;
}

bool operands_forget(void)
{
    bool any = false;
    if (locked || !lock.try_lock())
        return false;
    for (kept_copy &k : kept) {
        any = any || k.y;
        cuda_note(cudaFree(k.y));
        k = {};
    }
    lock.unlock();
    return any;
}

static bool lies_in(const kept_copy *k, const void *p, size_t bytes)
{
    return bytes && overlaps(k, (const float *)p, bytes / sizeof(float) + 1);
}

void cuda_wrote_alone(cuda_writes since, const void *to, size_t bytes, const void *more,
                      size_t more_bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    for (kept_copy &k : kept)
        if (k.writes == since.all && !lies_in(&k, to, bytes) && !lies_in(&k, more, more_bytes))
            k.writes = writes_alone(since);
}

static size_t whole_rows(size_t n) { return (n + BF16_ROW - 1) / BF16_ROW * BF16_ROW; }

const bf16 *operand_rounded(const float *x, size_t rows, size_t cols, size_t ldx, size_t *ldy,
                            bool *padded)
{
    const size_t all = whole_rows(rows);
    *ldy = whole_rows(cols);
    for (kept_copy &k : kept)
        if (k.right && same_matrix(&k, x, rows, cols, ldx)) {
            k.used = ++asked;
            if (padded)
                *padded = k.padded && k.rows == rows && k.cols == cols;
            return k.y;
        }
    kept_copy *k = take_place(all * *ldy);
    if (!k)
        return NULL;
    const bool wide = ldx % 4 == 0 && (uintptr_t)x % 16 == 0;
    LAUNCH(round_rows, cuda_blocks(all * *ldy / 4), BLOCK, 0, k->y, *ldy, x, ldx, rows, all, cols,
           wide);
    k->x = x, k->rows = rows, k->cols = cols, k->ldx = ldx;
    k->right = k->padded = true;
    if (padded)
        *padded = true;
    k->used = ++asked;
    return k->y;
}

static __global__ void round_vector(bf16 *y, const float *x, size_t n, size_t all)
{
    for (FOR_EACH(i, all))
        y[i] = __float2bfloat16_rn(i < n ? x[i] : 0);
}

void operand_round_vector(bf16 *y, const float *x, size_t n, size_t all)
{
    LAUNCH(round_vector, cuda_blocks(all), BLOCK, 0, y, x, n, all);
}

enum { WORTH = 1 << 14 }; /* numbers whose copy pays for keeping it */

bf16 *operand_room(const float *x, size_t n)
{
    if (n < WORTH || n % BF16_ROW)
        return NULL;
    take_lock();
    kept_copy *k = take_place(n);
    if (!k) {
        release_lock();
        return NULL;
    }
    k->x = x, k->rows = 1, k->cols = k->ldx = n;
    k->padded = false;
    k->writes = 0;
    k->used = ++asked;
    return k->y;
}

void operand_written(const bf16 *copy)
{
    if (!copy)
        return;
    for (kept_copy &k : kept)
        if (k.y == copy)
            k.writes = cuda_writes_now().all;
    release_lock();
}
