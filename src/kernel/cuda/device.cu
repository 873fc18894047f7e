/* device.cu - a CUDA card as a device: its memory, the one stream of the process, its table. */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "kernel/cuda/gather.cuh"
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/operands.cuh"

extern "C" {
#include "base/plugin.h"
}

static const qkv__plugin_host *host;
static cudaStream_t stream;
static int card, multiprocessors;
static char device_name[280];

/* ---- errors ---------------------------------------------------------------------------------- */

static std::mutex lock;
static cudaError_t first_error;

/* Each thread of the host has a card of its own that its calls are about. */
static void use_card(void)
{
    static thread_local bool chosen;
    if (!chosen)
        cuda_note(cudaSetDevice(card));
    chosen = true;
}

cudaStream_t cuda_bare_stream(void)
{
    use_card();
    return stream;
}

cudaStream_t cuda_stream(void)
{
    list_flush();
    gather_flush();
    return cuda_bare_stream();
}

int cuda_multiprocessors(void) { return multiprocessors; }

static std::atomic<uint64_t> writes;
static thread_local uint64_t own_writes;

void cuda_wrote(void)
{
    writes++;
    own_writes++;
}

cuda_writes cuda_writes_now(void) { return {writes, own_writes}; }

void cuda_note(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    std::lock_guard<std::mutex> guard(lock);
    if (first_error == cudaSuccess)
        first_error = error;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* What the library counts a piece of memory by, and how large it is. */
struct memory_claim {
    void *claim;
    size_t bytes;
};
static std::unordered_map<void *, memory_claim> claims;

static bool keep_claim(void *p, void *claim, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    try {
        claims[p] = {claim, bytes};
    } catch (const std::bad_alloc &) {
        return false;
    }
    return true;
}

static memory_claim drop_claim(void *p)
{
    std::lock_guard<std::mutex> guard(lock);
    auto found = claims.find(p);
    if (found == claims.end())
        return {};
    const memory_claim claim = found->second;
    claims.erase(found);
    return claim;
}

static void *device_alloc(qkv_context *ctx, size_t bytes)
{
    void *p = NULL;
    use_card();
    cudaError_t error = cudaMalloc(&p, bytes ? bytes : 1);
    if (error != cudaSuccess && operands_forget()) {
        (void)cudaGetLastError();
        error = cudaMalloc(&p, bytes ? bytes : 1);
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        host->fail(ctx, QKV_E_MEMORY, "out of memory: %zu bytes of %s's wanted (%s)", bytes,
                   device_name, cudaGetErrorString(error));
        return NULL;
    }
    void *claim = host->claim(ctx, bytes);
    if (claim && keep_claim(p, claim, bytes))
        return p;
    host->unclaim(ctx, claim);
    cuda_note(cudaFree(p));
    return NULL;
}

/* It waits for all work before it. */
static void device_free(qkv_context *ctx, void *p)
{
    if (!p)
        return;
    list_flush();
    gather_flush();
    const memory_claim of = drop_claim(p);
    host->unclaim(ctx, of.claim);
    operands_drop(p, of.bytes);
    cuda_note(cudaFree(p));
}

static void device_copy_in(void *to, const void *from, size_t bytes)
{
    if (!bytes || list_bytes(to, from, bytes))
        return;
    cuda_wrote();
    cuda_note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cuda_stream()));
}

static void device_copy_out(void *to, const void *from, size_t bytes)
{
    if (!bytes || list_out(to, from, bytes))
        return;
    cuda_note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, cuda_stream()));
    cuda_note(cudaStreamSynchronize(cuda_stream()));
}

static __global__ void move_down(char *to, const char *from, size_t bytes)
{
    for (size_t base = 0; base < bytes; base += blockDim.x) {
        size_t i = base + threadIdx.x;
        char x = i < bytes ? from[i] : 0;
        __syncthreads();
        if (i < bytes)
            to[i] = x;
        __syncthreads();
    }
}

static __global__ void move_up(char *to, const char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += blockDim.x) {
        size_t k = done + threadIdx.x, i = bytes - 1 - k;
        char x = k < bytes ? from[i] : 0;
        __syncthreads();
        if (k < bytes)
            to[i] = x;
        __syncthreads();
    }
}

/* cudaMemcpy's source and target may not overlap; who moves within an array waits for one block. */
static void device_copy(void *to, const void *from, size_t bytes)
{
    char *t = (char *)to;
    const char *f = (const char *)from;
    if (!bytes || t == f)
        return;
    const bool apart = t + bytes <= f || f + bytes <= t;
    if (apart && list_copy(to, from, bytes))
        return;
    cuda_wrote();
    if (apart)
        cuda_note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda_stream()));
    else if (t < f)
        LAUNCH(move_down, 1, 1024, 0, t, f, bytes);
    else
        LAUNCH(move_up, 1, 1024, 0, t, f, bytes);
}

static void device_fill(void *to, int byte, size_t bytes)
{
    cuda_wrote();
    if (bytes)
        cuda_note(cudaMemsetAsync(to, byte, bytes, cuda_stream()));
}

static void device_clear(qkv_context *, void *p, size_t bytes) { device_fill(p, 0, bytes); }

static qkv_status device_check(qkv_context *ctx)
{
    std::lock_guard<std::mutex> guard(lock);
    cudaError_t error = first_error;
    if (error == cudaSuccess)
        return QKV_OK;
    return host->fail(ctx, QKV_E_UNSUPPORTED, "%s: %s", device_name, cudaGetErrorString(error));
}

static qkv_status device_sync(qkv_context *ctx)
{
    cuda_note(cudaStreamSynchronize(cuda_stream()));
    return device_check(ctx);
}

/* ---- small arrays of the host ---------------------------------------------------------------- */

enum { KEPT = 16, KEPT_BYTES = 64 << 10, KEPT_FOR = UPLOADS_BYTES / 2 - 2 * UPLOAD_MOST };

static char *uploads;
static size_t uploads_end; /* of all, one behind the other; the memory has the last of them */

/* One of the last uploads, which may be asked for again. */
static struct {
    size_t at, bytes; /* 0: none */
    char data[KEPT_BYTES];
} kept[KEPT];
static unsigned next_kept;

static const char *find_upload(const void *from, size_t bytes)
{
    for (const auto &k : kept)
        if (k.bytes == bytes && uploads_end - k.at < KEPT_FOR && !memcmp(k.data, from, bytes))
            return uploads + k.at % UPLOADS_BYTES;
    return NULL;
}

static void keep_upload(const void *from, size_t bytes, size_t at)
{
    if (bytes > KEPT_BYTES)
        return;
    auto &k = kept[next_kept++ % KEPT];
    k.at = at;
    k.bytes = bytes;
    memcpy(k.data, from, bytes);
}

/* A copy from memory that may be paged out is read before the call returns. */
const void *cuda_upload(const void *from, size_t bytes)
{
    cudaStream_t to_stream = cuda_stream();
    std::lock_guard<std::mutex> guard(lock);
    const size_t need = (bytes + 255) / 256 * 256;
    const size_t left = UPLOADS_BYTES - uploads_end % UPLOADS_BYTES;
    if (need > UPLOAD_MOST) {
        if (first_error == cudaSuccess)
            first_error = cudaErrorInvalidValue;
        return NULL;
    }
    const char *found = bytes ? find_upload(from, bytes) : NULL;
    if (found)
        return found;
    const size_t at = uploads_end + (need > left ? left : 0);
    char *to = uploads + at % UPLOADS_BYTES;
    uploads_end = at + need;
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, to_stream);
    if (error == cudaSuccess)
        keep_upload(from, bytes, at);
    else if (first_error == cudaSuccess)
        first_error = error;
    return to;
}

/* ---- scratch memory: the library's arenas ---------------------------------------------------- */

extern "C" void *qkv__arena_alloc(qkv__arena *a, size_t bytes)
{
    return host->arena_alloc(a, bytes);
}
extern "C" qkv__mark qkv__arena_mark(const qkv__arena *a) { return host->arena_mark(a); }
extern "C" void qkv__arena_release(qkv__arena *a, qkv__mark mark)
{
    host->arena_release(a, mark);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static qkv_kernels tables[2]; /* products in f32; of operands rounded to bf16 */

static void fill_tables(void)
{
    static qkv__fill_fn *const files[] = {
        qkv__cuda_elementwise, qkv__cuda_activations, qkv__cuda_copy, qkv__cuda_sums,
        qkv__cuda_update, qkv__cuda_norms, qkv__cuda_rows, qkv__cuda_channels,
        qkv__cuda_group_norm, qkv__cuda_cross_entropy, qkv__cuda_top, qkv__cuda_embedding,
        qkv__cuda_gemm, qkv__cuda_gemv, qkv__cuda_small, qkv__cuda_widen, qkv__cuda_conv,
        qkv__cuda_pool, qkv__cuda_kv, qkv__cuda_attention};
    static qkv__fill_fn *const bf16_files[] = {qkv__cuda_gemm_bf16, qkv__cuda_conv_bf16,
                                               qkv__cuda_conv_rounded, qkv__cuda_conv_cudnn,
                                               qkv__cuda_attention_bf16,
                                               qkv__cuda_activations_bf16,
                                               qkv__cuda_norms_bf16,
                                               qkv__cuda_cross_entropy_bf16,
                                               qkv__cuda_cross_entropy_rounded};
    for (qkv__fill_fn *fill : files)
        fill(&tables[0]);
    tables[1] = tables[0];
    for (qkv__fill_fn *fill : bf16_files)
        fill(&tables[1]);
    cuda_profile(&tables[0], &tables[1]);
}

static const qkv_kernels *device_kernels(unsigned isa)
{
    return &tables[(isa & QKV__BF16_ANY) != 0];
}

static const qkv__device device = {
    device_name, false, device_alloc, device_free, device_copy_in, device_copy_out, device_copy,
    device_fill, device_clear, device_sync, device_check, device_kernels,
    1u << QKV__PRODUCTS_F32 | 1u << QKV__PRODUCTS_BF16, (size_t)1 << 30, true, true};

/* ---- opening --------------------------------------------------------------------------------- */

static bool refused(char *why, cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        snprintf(why, QKV__PLUGIN_WHY, "%s: %s", what, cudaGetErrorString(error));
    return error != cudaSuccess;
}

extern "C" __attribute__((visibility("default"))) const qkv__device *
qkv__device_open(const qkv__plugin_host *given, int number, char *why)
{
    cudaDeviceProp properties;
    int count = 0;
    if (given->version != QKV__PLUGIN_VERSION) {
        snprintf(why, QKV__PLUGIN_WHY, "the shared object is not of this version of qkv");
        return NULL;
    }
    if (refused(why, cudaGetDeviceCount(&count), "no card answers"))
        return NULL;
    if (number >= count) {
        snprintf(why, QKV__PLUGIN_WHY, "there are %d cards, numbered from 0", count);
        return NULL;
    }
    if (refused(why, cudaSetDevice(number), "the card cannot be used") ||
        refused(why, cudaGetDeviceProperties(&properties, number), "the card cannot be used") ||
        refused(why, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "no stream") ||
        refused(why, cudaMalloc((void **)&uploads, UPLOADS_BYTES), "no memory"))
        return NULL;
    host = given;
    card = number;
    multiprocessors = properties.multiProcessorCount;
    snprintf(device_name, sizeof device_name, "%s", properties.name);
    list_begin();
    fill_tables();
    return &device;
}
