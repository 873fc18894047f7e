/* wgmma.cuh - products of the four warps of a group, on Hopper: (64, 16) (16, 64) in bf16, added
 * to sums in f32 while the group goes on.
 *
 * A tile in shared memory has 64 numbers a row, 128 bytes; of row r the 16 bytes c lie in place
 * c ^ r % 8 (tile_place), and it begins at a multiple of 1024 bytes. An operand is 64 of its rows
 * (its columns are what is summed over) or 16 (its rows are). Warp w of the group has rows 16 w ..
 * of sums, and in them a lane has what it has in mma.cuh; so of an operand in registers. */
#ifndef QKV_KERNEL_CUDA_WGMMA_CUH
#define QKV_KERNEL_CUDA_WGMMA_CUH

#include "kernel/cuda/mma.cuh"

/* Whether the build has them: it is for compute capability 9.0a alone. */
#if defined(QKV_CUDA_WGMMA) || defined(QKV_CUDA_EMULATED)
enum { HAS_GROUPS = 1 };
#else
enum { HAS_GROUPS = 0 };
#endif

enum { GROUP = 4 * WARP, TILE_WIDE = 64, TILE_ALIGNED = 1024 };

/* Where number `column` of row `row` lies. */
static __device__ __forceinline__ int tile_place(int row, int column)
{
    return row * TILE_WIDE + ((column / 8 ^ row % 8) * 8 + column % 8);
}

/* The tile's first place at or after p. */
static __device__ __forceinline__ char *tile_aligned(char *p)
{
    return p + (TILE_ALIGNED - (uintptr_t)p % TILE_ALIGNED) % TILE_ALIGNED;
}

/* Steps of 16: along rows, and down them. */
enum { ALONG = 32 / 16, DOWN = 16 * 128 / 16 };

#ifndef QKV_CUDA_EMULATED

/* From where a product reads a tile, in units of 16 bytes; + ALONG or DOWN for the next 16. It is
 * the low half of what the card calls a descriptor. */
typedef unsigned tile_from;

static __device__ __forceinline__ tile_from tile_of(const bf16 *p)
{
    return shared_address(p) >> 4 | 1u << 16;
}

/* The high half: groups of 8 rows are 1024 bytes apart, and how rows are stirred. */
#define WGMMA_HIGH "0x40000040"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA(text, ...) asm volatile(text __VA_ARGS__)
#else
#define WGMMA(text, ...) __trap() /* the host does not launch it */
#endif

#define WGMMA_SUMS                                                                                 \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"  \
    "%25,%26,%27,%28,%29,%30,%31}"
#define WGMMA_FOUR(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define WGMMA_OUT(c)                                                                               \
    WGMMA_FOUR(c, 0), WGMMA_FOUR(c, 1), WGMMA_FOUR(c, 2), WGMMA_FOUR(c, 3), WGMMA_FOUR(c, 4),      \
        WGMMA_FOUR(c, 5), WGMMA_FOUR(c, 6), WGMMA_FOUR(c, 7)

/* c = [c +] a b, a and b tiles, begun. DOWN_A, DOWN_B: it is their rows that are summed over. */
template <int DOWN_A, int DOWN_B>
static __device__ __forceinline__ void wgmma_tiles(float (&c)[8][4], tile_from a, tile_from b,
                                                   bool add)
{
    WGMMA("{.reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %34, 0; "
          "mov.b64 a, {%32, " WGMMA_HIGH "}; mov.b64 b, {%33, " WGMMA_HIGH "}; "
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " WGMMA_SUMS
          ", a, b, p, 1, 1, %35, %36;}",
          : WGMMA_OUT(c)
          : "r"(a), "r"(b), "r"((int)add), "n"(DOWN_A), "n"(DOWN_B));
}

/* c = [c +] a b, of which a lies in registers, begun. */
template <int DOWN_B>
static __device__ __forceinline__ void wgmma_rows(float (&c)[8][4], const unsigned (&a)[4],
                                                  tile_from b, bool add)
{
    WGMMA("{.reg .pred p; .reg .b64 b; setp.ne.b32 p, %37, 0; mov.b64 b, {%36, " WGMMA_HIGH "}; "
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " WGMMA_SUMS
          ", {%32,%33,%34,%35}, b, p, 1, 1, %38;}",
          : WGMMA_OUT(c)
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"((int)add),
            "n"(DOWN_B));
}

/* Products that begin after it see what the lane wrote to its registers. */
static __device__ __forceinline__ void wgmma_fence(void)
{
    WGMMA("wgmma.fence.sync.aligned;", : : : "memory");
}

/* Products since the last one are a set; waits for all but the last `left` sets. */
static __device__ __forceinline__ void wgmma_set(void)
{
    WGMMA("wgmma.commit_group.sync.aligned;", : : : "memory");
}

template <int left> static __device__ __forceinline__ void wgmma_wait(void)
{
    WGMMA("wgmma.wait_group.sync.aligned %0;", : : "n"(left) : "memory");
}

/* What was waited for is not read before it. */
static __device__ __forceinline__ void wgmma_done(float (&c)[8][4])
{
#pragma unroll
    for (int n = 0; n < 8; n++)
        asm volatile("" : WGMMA_FOUR(c, n) : : "memory");
}

/* Products that begin after the next barrier see what the lane wrote to shared memory. */
static __device__ __forceinline__ void wgmma_wrote(void)
{
    WGMMA("fence.proxy.async.shared::cta;", : : : "memory");
}

#else

typedef struct emulated_tile {
    uintptr_t p;
} tile_from;
static inline tile_from operator+(tile_from x, int units) { return {x.p + (uintptr_t)units * 16}; }
static inline tile_from tile_of(const bf16 *p) { return {(uintptr_t)p}; }

/* Number (row, column) as the card finds it: places change with the bits of the address. */
static inline float emulated_number(tile_from x, unsigned row, unsigned column)
{
    uintptr_t p = x.p + row * 128 + column * 2;
    p ^= (p >> 7 & 7) << 4;
    uint16_t half;
    memcpy(&half, (const void *)p, sizeof half);
    return __uint_as_float((unsigned)half << 16);
}

template <int DOWN_A, int DOWN_B>
static inline void wgmma_tiles(float (&c)[8][4], tile_from a, tile_from b, bool add)
{
    const unsigned lane = emulated_lane(), warp = threadIdx.x / WARP % 4;
    for (unsigned n = 0; n < 8; n++)
        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = 16 * warp + lane / 4 + i / 2 * 8;
            const unsigned column = 8 * n + lane % 4 * 2 + i % 2;
            float sum = add ? c[n][i] : 0;
            for (unsigned k = 0; k < 16; k++)
                sum += emulated_number(a, DOWN_A ? k : row, DOWN_A ? row : k) *
                       emulated_number(b, DOWN_B ? k : column, DOWN_B ? column : k);
            c[n][i] = sum;
        }
}

template <int DOWN_B>
static inline void wgmma_rows(float (&c)[8][4], const unsigned (&a)[4], tile_from b, bool add)
{
    for (unsigned n = 0; n < 8 && !add; n++)
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
    char *slots = emulated_warp_slots();
    const unsigned lane = emulated_lane(), g = lane / 4, t = lane % 4;
    memcpy(slots + lane * 64, a, sizeof a);
    __syncwarp();
    for (unsigned k = 0; k < 16; k++)
        for (unsigned r = 0; r < 2; r++) {
            unsigned words[4];
            memcpy(words, slots + (g * 4 + k % 8 / 2) * 64, sizeof words);
            const float x = emulated_half(words[r + k / 8 * 2], k % 2);
            for (unsigned n = 0; n < 8; n++)
                for (unsigned i = 0; i < 2; i++) {
                    const unsigned column = 8 * n + 2 * t + i;
                    c[n][2 * r + i] +=
                        x * emulated_number(b, DOWN_B ? k : column, DOWN_B ? column : k);
                }
        }
    __syncwarp();
}

static inline void wgmma_fence(void) {}
static inline void wgmma_set(void) {}
template <int left> static inline void wgmma_wait(void) {}
static inline void wgmma_done(float (&)[8][4]) {}
static inline void wgmma_wrote(void) {}

#endif
#endif
