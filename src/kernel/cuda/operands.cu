/* operands.cu - copies in bf16 of what products multiply: made, kept and found again. */
#include "kernel/cuda/operands.cuh"

#include <mutex>
#include <new>
#include <unordered_map>

enum { BF16_ROW = 8, KEPT = 4 }; /* a row of a copy is a multiple of so many numbers: 16 bytes */

/* A dense copy of rows * cols numbers, when cols is a multiple of BF16_ROW, is one of any such
 * matrix. */
struct rounded_copy {
    const float *x; /* NULL: none */
    size_t rows, cols, ldx;
    bf16 *y;
    size_t bytes; /* of y */
    bool padded;  /* rows of zeros behind it, to a multiple of BF16_ROW */
};

struct kept_copy : rounded_copy {
    uint64_t writes; /* how many there had been when it was last right */
    uint64_t used;   /* which of the requests was the last for it */
    bool right;      /* it was so when the product began, or was made in it */
};

struct parameter_copy : rounded_copy {
    uint64_t version; /* of x when it was right; 0: none */
    uint64_t product; /* the last that read it */
};

static kept_copy kept[KEPT];
static std::unordered_map<const float *, parameter_copy> parameters; /* by x */
static bool full; /* there was no memory for a parameter's copy, and none has been freed since */
static uint64_t products; /* that have begun */
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
    products++;
    at_lock = cuda_writes_now();
    for (kept_copy &k : kept)
        k.right = k.x && k.writes == at_lock.all;
}

static bool overlaps(const rounded_copy *k, const float *c, size_t n)
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

static bool same_matrix(const rounded_copy *k, const float *x, size_t rows, size_t cols, size_t ldx)
{
    const bool dense = ldx == cols && k->ldx == k->cols && cols % BF16_ROW == 0 &&
                       k->cols % BF16_ROW == 0 && rows * cols == k->rows * k->cols;
    return k->x == x &&
           (dense || (k->rows == rows && k->cols == cols && k->ldx == ldx));
}

/* Room for so many numbers, none of which is right; false without memory. */
static bool make_room(rounded_copy *k, size_t numbers)
{
    k->x = NULL;
    if (numbers * sizeof(bf16) > k->bytes) {
        cuda_note(cudaFree(k->y));
        k->bytes = numbers * sizeof(bf16);
        if (cudaMalloc((void **)&k->y, k->bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            k->y = NULL, k->bytes = 0;
        }
    }
    return k->y;
}

/* Frees the copies of parameters that lie in [from, to), but of those that the present product
 * reads. False: there were none. */
static bool free_parameters(uintptr_t from, uintptr_t to)
{
    bool any = false;
    for (auto each = parameters.begin(); each != parameters.end();) {
        const uintptr_t x = (uintptr_t)each->first;
        const parameter_copy &k = each->second;
        if (x < from || x >= to || (locked && k.product == products)) {
            ++each;
            continue;
        }
        any = any || k.y;
        cuda_note(cudaFree(k.y));
        each = parameters.erase(each);
    }
    full = full && !any;
    return any;
}

/* The place asked for longest ago, with room for so many numbers; NULL without memory. */
static kept_copy *take_place(size_t numbers)
{
    kept_copy *k = &kept[0];
    for (kept_copy &other : kept)
        k = other.used < k->used ? &other : k;
    return make_room(k, numbers) || (free_parameters(0, UINTPTR_MAX) && make_room(k, numbers))
               ? k : NULL;
}

bool operands_forget(void)
{
    std::unique_lock<std::mutex> guard(lock, std::defer_lock);
    if (!locked && !guard.try_lock())
        return false;
    (void)cuda_stream(); /* what waits to be launched may write a copy */
    bool any = free_parameters(0, UINTPTR_MAX);
    for (kept_copy &k : kept) {
        if (locked)
            break;
        any = any || k.y;
        cuda_note(cudaFree(k.y));
        k = {};
    }
    return any;
}

void operands_drop(const void *memory, size_t bytes)
{
    std::unique_lock<std::mutex> guard(lock, std::defer_lock);
    if (!locked)
        guard.lock();
    free_parameters((uintptr_t)memory, (uintptr_t)memory + bytes);
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

/* Makes the copy of x in k's memory, which has room for it. */
static void round_into(rounded_copy *k, const float *x, size_t rows, size_t cols, size_t ldx)
{
    const size_t all = whole_rows(rows), ldy = whole_rows(cols);
    const bool wide = ldx % 4 == 0 && (uintptr_t)x % 16 == 0;
    LAUNCH(round_rows, cuda_blocks(all * ldy / 4), BLOCK, 0, k->y, ldy, x, ldx, rows, all, cols,
           wide);
    k->x = x, k->rows = rows, k->cols = cols, k->ldx = ldx;
    k->padded = true;
}

/* The place of a parameter's copy, right or not; NULL without memory. */
static parameter_copy *parameter_place(const float *x)
{
    try {
        return &parameters[x];
    } catch (const std::bad_alloc &) {
        return NULL;
    }
}

/* The copy of a parameter in that version; NULL without memory. */
static rounded_copy *parameter_rounded(const float *x, size_t rows, size_t cols, size_t ldx,
                                       uint64_t version)
{
    const size_t numbers = whole_rows(rows) * whole_rows(cols);
    parameter_copy *k = parameter_place(x);
    if (!k)
        return NULL;
    if (k->version != version || !same_matrix(k, x, rows, cols, ldx)) {
        k->version = 0;
        if (numbers * sizeof(bf16) > k->bytes && full)
            return NULL;
        if (!make_room(k, numbers)) {
            full = true;
            return NULL;
        }
        round_into(k, x, rows, cols, ldx);
        k->version = version;
    }
    k->product = products;
    return k;
}

static const bf16 *copy_found(const rounded_copy *k, size_t rows, size_t cols, bool *padded)
{
    if (padded)
        *padded = k->padded && k->rows == rows && k->cols == cols;
    return k->y;
}

const bf16 *operand_rounded(const float *x, size_t rows, size_t cols, size_t ldx, size_t *ldy,
                            bool *padded, uint64_t version)
{
    *ldy = whole_rows(cols);
    const rounded_copy *of = version ? parameter_rounded(x, rows, cols, ldx, version) : NULL;
    if (of)
        return copy_found(of, rows, cols, padded);
    for (kept_copy &k : kept)
        if (k.right && same_matrix(&k, x, rows, cols, ldx)) {
            k.used = ++asked;
            return copy_found(&k, rows, cols, padded);
        }
    kept_copy *k = take_place(whole_rows(rows) * *ldy);
    if (!k)
        return NULL;
    round_into(k, x, rows, cols, ldx);
    k->right = true;
    k->used = ++asked;
    return copy_found(k, rows, cols, padded);
}

bf16 *operand_to_update(const float *x, size_t n, uint64_t version, uint64_t becomes)
{
    if (!version)
        return NULL;
    take_lock();
    auto found = parameters.find(x);
    parameter_copy *k = found == parameters.end() ? NULL : &found->second;
    if (!k || k->version != version || k->ldx != k->cols || k->cols % BF16_ROW ||
        k->rows * k->cols != n) {
        release_lock();
        return NULL;
    }
    k->version = becomes;
    return k->y;
}

void operand_updated(const bf16 *copy)
{
    if (copy)
        release_lock();
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
