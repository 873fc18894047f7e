/* host_memory.c - memory of programs that test kernels on a card: programs linked with
 * --wrap=malloc, calloc, realloc, free and posix_memalign get memory of the host that the card
 * reads and writes, too. Managed memory will not do: on some systems the host may not touch any of
 * it while a kernel runs. What is freed is kept for the next request of its size class. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 40, HEADER = 256 };

typedef struct header {
    size_t bytes; /* of the class */
    struct header *next;
} header;

static header *unused[CLASSES];

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t bytes);
void __wrap_free(void *p);
int __wrap_posix_memalign(void **p, size_t alignment, size_t bytes);

static int class_of(size_t bytes)
{
    int c = 8;
    while ((size_t)1 << c < bytes)
        c++;
    return c;
}

void *__wrap_malloc(size_t bytes)
{
    int c = class_of(bytes + HEADER);
    header *h = c < CLASSES ? unused[c] : NULL;
    if (c >= CLASSES)
        return NULL;
    if (h) {
        unused[c] = h->next;
        return (char *)h + HEADER;
    }
    void *p;
    cudaError_t error = cudaHostAlloc(&p, (size_t)1 << c, cudaHostAllocDefault);
    if (error != cudaSuccess) {
        fprintf(stderr, "memory for the host and the card: %s\n", cudaGetErrorString(error));
        return NULL;
    }
    h = p;
    h->bytes = (size_t)1 << c;
    return (char *)p + HEADER;
}

/* All of it is aligned to HEADER. */
int __wrap_posix_memalign(void **p, size_t alignment, size_t bytes)
{
    *p = alignment <= HEADER ? __wrap_malloc(bytes) : NULL;
    return *p ? 0 : -1;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *p = size && count > (size_t)-1 / size ? NULL : __wrap_malloc(count * size);
    return p ? memset(p, 0, count * size) : NULL;
}

void *__wrap_realloc(void *p, size_t bytes)
{
    void *q = __wrap_malloc(bytes);
    if (p && q) {
        size_t had = ((header *)((char *)p - HEADER))->bytes - HEADER;
        memcpy(q, p, had < bytes ? had : bytes);
        __wrap_free(p);
    }
    return q;
}

void __wrap_free(void *p)
{
    if (!p)
        return;
    header *h = (header *)((char *)p - HEADER);
    int c = class_of(h->bytes);
    h->next = unused[c];
    unused[c] = h;
}
