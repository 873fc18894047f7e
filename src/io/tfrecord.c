/* tfrecord.c - records with their lengths and checks. */
#include "io/tfrecord.h"

enum { LENGTH = 8, CHECK = 4 };
static const uint32_t MASK = 0xa282ead8u;

/* What four bits do to the remainder: the reflected polynomial, 0x82f63b78, shifted in. */
static const uint32_t NIBBLE[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u,
    0x417b1dbcu, 0x5125dad3u, 0x61c69362u, 0x7198540du,
    0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
    0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
};

uint32_t qkv__crc32c(const void *data, size_t size)
{
    uint32_t crc = ~0u;
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ NIBBLE[crc & 15];
        crc = crc >> 4 ^ NIBBLE[crc & 15];
    }
    return ~crc;
}

static uint32_t masked_crc(const void *data, size_t size)
{
    uint32_t crc = qkv__crc32c(data, size);
    return (crc >> 15 | crc << 17) + MASK;
}

static void tfrecord_put_number(qkv_str *out, uint64_t value, size_t bytes)
{
    char text[LENGTH];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(value >> (8 * i) & 0xff);
    qkv_str_add(out, text, bytes);
}

static uint64_t tfrecord_get_number(const uint8_t *p, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

void qkv__tfrecord_put(qkv_str *out, const void *data, size_t size)
{
    size_t begin = out->len;
    tfrecord_put_number(out, size, LENGTH);
    if (!out->failed)
        tfrecord_put_number(out, masked_crc(out->data + begin, LENGTH), CHECK);
    qkv_str_add(out, data, size);
    tfrecord_put_number(out, masked_crc(data, size), CHECK);
}

size_t qkv__tfrecord_get(const void *data, size_t size, const char **record, size_t *len)
{
    const uint8_t *p = data;
    const size_t frame = LENGTH + 2 * CHECK;
    if (size < frame || tfrecord_get_number(p + LENGTH, CHECK) != masked_crc(p, LENGTH))
        return 0;
    uint64_t n = tfrecord_get_number(p, LENGTH);
    if (n > size - frame ||
        tfrecord_get_number(p + LENGTH + CHECK + n, CHECK) !=
            masked_crc(p + LENGTH + CHECK, (size_t)n))
        return 0;
    *record = (const char *)p + LENGTH + CHECK;
    *len = (size_t)n;
    return frame + (size_t)n;
}
