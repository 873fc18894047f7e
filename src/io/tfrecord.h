/* tfrecord.h - TFRecord, the framing of TensorFlow's logs: records one after another, each
 *
 *     length       u64, little endian
 *     check        u32, little endian: masked CRC-32C of the length's 8 bytes
 *     data         length bytes
 *     check        u32, little endian: masked CRC-32C of the data
 *
 * CRC-32C has the polynomial 0x1edc6f41 (Castagnoli), reflected; masked: rotated right by 15 bits,
 * plus 0xa282ead8. A record is whole or it is not there: a file that a killed process left is read
 * up to the last whole record. */
#ifndef QKV_SRC_IO_TFRECORD_H
#define QKV_SRC_IO_TFRECORD_H

#include "base/base.h"

uint32_t qkv__crc32c(const void *data, size_t size);

/* Adds a record to out. */
void qkv__tfrecord_put(qkv_str *out, const void *data, size_t size);

/* The record that begins at data: *record, which lies in data, and *len. Returns the bytes that it
 * takes with its frame; 0 if there is no whole record whose checks are right. */
size_t qkv__tfrecord_get(const void *data, size_t size, const char **record, size_t *len);

#endif
