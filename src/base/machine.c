/* machine.c - what this machine has: instruction sets, name, clock, memory used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/base.h"

#if defined(__x86_64__)
/* clang's __builtin_cpu_supports does not know this one. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

unsigned qkv__cpu_isa(void)
{
    unsigned isa = QKV_ISA_REFERENCE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        has_f16c())
        isa |= QKV_ISA_AVX2;
    if ((isa & QKV_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        isa |= QKV_ISA_AVX512;
#elif defined(__aarch64__)
    isa |= QKV_ISA_NEON; /* every one has it */
#endif
    return isa;
}

double qkv__thread_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Bits that cpuid's leaf of extended features has beside these instruction sets. */
#if defined(__x86_64__) && defined(QKV_HAVE_SIMD)
typedef struct {
    unsigned a, b, c, d;
} feature_words;

static feature_words features(unsigned isa, unsigned further)
{
    enum { FEATURES = 7 };
    feature_words f = {0, 0, 0, 0};
    if ((qkv__cpu_isa() & isa) &&
        !__get_cpuid_count(FEATURES, further, &f.a, &f.b, &f.c, &f.d))
        f = (feature_words){0, 0, 0, 0};
    return f;
}

bool qkv__cpu_bf16(void) { return features(QKV_ISA_AVX512, 1).a & 1u << 5; }
bool qkv__cpu_vnni(void) { return features(QKV_ISA_AVX512, 0).c & 1u << 11; }
bool qkv__cpu_avx_vnni(void) { return features(QKV_ISA_AVX2, 1).a & 1u << 4; }
#else
bool qkv__cpu_bf16(void) { return false; }
bool qkv__cpu_vnni(void) { return false; }
bool qkv__cpu_avx_vnni(void) { return false; }
#endif

bool qkv__cpu_dotprod(void)
{
#if defined(__aarch64__) && defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return false;
#endif
}

bool qkv__cpu_amx(void)
{
#if defined(__x86_64__) && defined(__linux__) && defined(QKV_HAVE_SIMD)
    enum { BF16 = 1 << 22, TILES = 1 << 24, INT8 = 1 << 25, PARTS = BF16 | TILES | INT8,
           REQUEST = 0x1023, TILE_DATA = 18 };
    return qkv__cpu_bf16() && qkv__cpu_vnni() &&
           (features(QKV_ISA_AVX512, 0).d & PARTS) == PARTS &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* The value after "key : " in a file of /proc, the first one; "" without any. */
static void proc_value(char *out, size_t size, const char *file, const char *key)
{
    out[0] = 0;
    FILE *f = fopen(file, "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        size_t n = strlen(key);
        if (!colon || strncmp(line, key, n) != 0 || !strchr("\t :", line[n]))
            continue;
        colon += 1 + strspn(colon + 1, "\t ");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon);
        break;
    }
    if (f)
        fclose(f);
}

/* Which fields of /proc/cpuinfo say what kind of processor it is. */
static const struct {
    const char *field, *name;
} cpu_kind[2] = {
#if defined(__aarch64__)
    {"CPU implementer", "implementer"}, {"CPU part", "part"},
#else
    {"cpu family", "family"}, {"model", "model"},
#endif
};

const char *qkv_machine_cpu(void)
{
    static char name[160];
    if (!name[0]) {
        char model[96], value[2][16];
        proc_value(model, sizeof model, "/proc/cpuinfo", "model name");
        for (int i = 0; i < 2; i++)
            proc_value(value[i], sizeof value[i], "/proc/cpuinfo", cpu_kind[i].field);
        snprintf(name, sizeof name, "%s (%s %s, %s %s)", model[0] ? model : "unknown CPU",
                 cpu_kind[0].name, value[0][0] ? value[0] : "?", cpu_kind[1].name,
                 value[1][0] ? value[1] : "?");
    }
    return name;
}

double qkv_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Not getrusage: what it tells starts from the program that this one was started by. */
static size_t kilobytes(const char *key)
{
    char text[32];
    proc_value(text, sizeof text, "/proc/self/status", key);
    return (size_t)strtoull(text, NULL, 10) * 1024;
}

size_t qkv_machine_rss(void) { return kilobytes("VmRSS"); }
size_t qkv_machine_peak_rss(void) { return kilobytes("VmHWM"); }
