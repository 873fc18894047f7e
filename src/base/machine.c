/* machine.c - what this machine has: instruction sets, name, clock, memory used. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/base.h"

unsigned qkv__cpu_isa(void)
{
    unsigned isa = QKV_ISA_REFERENCE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        isa |= QKV_ISA_AVX2;
    if (isa && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        isa |= QKV_ISA_AVX512;
#endif
    return isa;
}

/* The value after "key : " of the first processor in /proc/cpuinfo. */
static void cpuinfo(char *out, size_t size, const char *key)
{
    out[0] = 0;
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        size_t n = strlen(key);
        if (!colon || strncmp(line, key, n) != 0 || (line[n] != '\t' && line[n] != ' '))
            continue;
        colon += colon[1] == ' ' ? 2 : 1;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon);
        break;
    }
    if (f)
        fclose(f);
}

const char *qkv__cpu_name(void)
{
    static char name[160];
    if (!name[0]) {
        char model[96], family[16], number[16];
        cpuinfo(model, sizeof model, "model name");
        cpuinfo(family, sizeof family, "cpu family");
        cpuinfo(number, sizeof number, "model");
        snprintf(name, sizeof name, "%s (family %s, model %s)", model[0] ? model : "unknown CPU",
                 family[0] ? family : "?", number[0] ? number : "?");
    }
    return name;
}

double qkv__now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

size_t qkv__peak_rss(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (size_t)usage.ru_maxrss * 1024;
}
