/* protobuf.c - protocol buffers' wire format. */
#include "io/protobuf.h"

#include <string.h>

qkv__proto qkv__proto_begin(const void *data, size_t size, const qkv__proto *within)
{
    const uint8_t *at = data;
    return (qkv__proto){at, at + size, within ? within->start : at, false};
}

/* Seven bits a byte, the lowest first; at most ten bytes. */
static bool varint(qkv__proto *p, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && p->at < p->end; shift += 7) {
        uint8_t byte = *p->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool fixed(qkv__proto *p, size_t bytes, uint64_t *out)
{
    *out = 0;
    if ((size_t)(p->end - p->at) < bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        *out |= (uint64_t)p->at[i] << (8 * i);
    p->at += bytes;
    return true;
}

static bool field(qkv__proto *p, qkv__proto_field *out)
{
    uint64_t key, len;
    if (!varint(p, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff)
        return false;
    *out = (qkv__proto_field){(uint32_t)(key >> 3), (qkv__proto_type)(key & 7), 0, NULL, 0};
    switch (out->type) {
    case QKV__PROTO_VARINT: return varint(p, &out->value);
    case QKV__PROTO_64: return fixed(p, 8, &out->value);
    case QKV__PROTO_32: return fixed(p, 4, &out->value);
    case QKV__PROTO_BYTES:
        if (!varint(p, &len) || len > (size_t)(p->end - p->at))
            return false;
        out->data = (const char *)p->at;
        out->len = (size_t)len;
        p->at += len;
        return true;
    default: return false;
    }
}

bool qkv__proto_next(qkv__proto *p, qkv__proto_field *out)
{
    const uint8_t *before = p->at;
    if (p->bad || p->at == p->end)
        return false;
    p->bad = !field(p, out);
    if (p->bad)
        p->at = before;
    return !p->bad;
}

float qkv__proto_float(const qkv__proto_field *f)
{
    uint32_t bits = (uint32_t)f->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_varint(qkv_str *out, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    qkv_str_add(out, bytes, n);
}

void qkv__proto_put_int(qkv_str *out, uint32_t number, uint64_t value)
{
    put_varint(out, (uint64_t)number << 3 | QKV__PROTO_VARINT);
    put_varint(out, value);
}

void qkv__proto_put_float(qkv_str *out, uint32_t number, float value)
{
    uint32_t bits;
    char bytes[4];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (char)(bits >> (8 * i) & 0xff);
    put_varint(out, (uint64_t)number << 3 | QKV__PROTO_32);
    qkv_str_add(out, bytes, 4);
}

void qkv__proto_put_double(qkv_str *out, uint32_t number, double value)
{
    uint64_t bits;
    char bytes[8];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(bits >> (8 * i) & 0xff);
    put_varint(out, (uint64_t)number << 3 | QKV__PROTO_64);
    qkv_str_add(out, bytes, 8);
}

void qkv__proto_put_bytes(qkv_str *out, uint32_t number, const char *data, size_t len)
{
    put_varint(out, (uint64_t)number << 3 | QKV__PROTO_BYTES);
    put_varint(out, len);
    qkv_str_add(out, data, len);
}
