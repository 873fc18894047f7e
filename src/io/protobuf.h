/* protobuf.h - the wire format of protocol buffers: fields of a message one after another, in
 * and out. No schemas: who reads knows the numbers.
 *
 * Reading: every length is checked against what is left; groups, which proto3 no longer has, are
 * refused. Writing: what does not fit memory is told by the string. */
#ifndef QKV_SRC_IO_PROTOBUF_H
#define QKV_SRC_IO_PROTOBUF_H

#include "base/base.h"

typedef enum { QKV__PROTO_VARINT = 0, QKV__PROTO_64 = 1, QKV__PROTO_BYTES = 2,
               QKV__PROTO_32 = 5 } qkv__proto_type;

typedef struct {
    const uint8_t *at, *end;
    const uint8_t *start; /* of the file, for messages */
    bool bad;             /* a field broke off or has no known type: at stands before it */
} qkv__proto;

typedef struct {
    uint32_t number;
    qkv__proto_type type;
    uint64_t value;   /* a number's bits; 0 for bytes */
    const char *data; /* bytes; lives as long as the message */
    size_t len;
} qkv__proto_field;

/* A message of size bytes; one inside another: within is that message, else NULL. */
qkv__proto qkv__proto_begin(const void *data, size_t size, const qkv__proto *within);
/* The next field; false at the end, and when the message is bad. */
bool qkv__proto_next(qkv__proto *p, qkv__proto_field *out);
float qkv__proto_float(const qkv__proto_field *f); /* of a 32-bit field */

void qkv__proto_put_int(qkv_str *out, uint32_t number, uint64_t value);
void qkv__proto_put_float(qkv_str *out, uint32_t number, float value);
void qkv__proto_put_double(qkv_str *out, uint32_t number, double value);
void qkv__proto_put_bytes(qkv_str *out, uint32_t number, const char *data, size_t len);

#endif
