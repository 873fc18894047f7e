/* event_file.h - a strict reader of event files of TensorBoard, which shares nothing with the
 * library's writer: records with checksums, steps that go back only where a session starts. */
#ifndef QKV_TESTS_EVENT_FILE_H
#define QKV_TESTS_EVENT_FILE_H

#include <stdint.h>
#include <string.h>

#include <qkv.h>

enum { EVENT_MOST = 4096, EVENT_TAG = 96 };

static inline uint32_t masked(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static inline uint64_t little(const uint8_t *p, size_t n)
{
    uint64_t x = 0;
    while (n-- > 0)
        x = x << 8 | p[n];
    return x;
}

/* A field of a protocol buffer: len and data of bytes, else value. */
typedef struct {
    uint32_t number, type;
    uint64_t value, len;
    const uint8_t *data;
} field;

static inline uint64_t varint(const uint8_t **p, const uint8_t *end)
{
    uint64_t x = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(*p < end && shift < 70);
        uint8_t byte = *(*p)++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return x;
    }
}

static inline field next_field(const uint8_t **p, const uint8_t *end)
{
    uint64_t key = varint(p, end);
    field f = {(uint32_t)(key >> 3), (uint32_t)(key & 7), 0, 0, NULL};
    size_t fixed = f.type == 1 ? 8 : f.type == 5 ? 4 : 0;
    if (f.type == 0) {
        f.value = varint(p, end);
    } else if (fixed) {
        assert_true((size_t)(end - *p) >= fixed);
        f.value = little(*p, fixed);
        *p += fixed;
    } else {
        assert_int_equal(f.type, 2);
        f.len = varint(p, end);
        assert_true(f.len <= (uint64_t)(end - *p));
        f.data = *p;
        *p += f.len;
    }
    return f;
}

/* What an event says: a number, or the bytes of a text or an image. */
typedef struct {
    uint64_t step;
    char tag[EVENT_TAG];
    float number;
    const uint8_t *data;
    size_t len;
    bool image, text, seen;
} value;

typedef struct {
    value items[EVENT_MOST];
    size_t count;
    uint8_t *bytes;
} events;

static inline void read_text(const field *tensor, value *v)
{
    for (const uint8_t *p = tensor->data, *end = p + tensor->len; p < end;) {
        field f = next_field(&p, end);
        assert_true(f.number != 1 || f.value == 7); /* DT_STRING */
        if (f.number == 8) {
            v->data = f.data;
            v->len = f.len;
        }
    }
}

static inline void read_image(const field *image, value *v)
{
    for (const uint8_t *p = image->data, *end = p + image->len; p < end;) {
        field f = next_field(&p, end);
        assert_true(f.number > 2 || f.value == 2); /* 2 x 2 pixels */
        assert_true(f.number != 3 || f.value == 3);
        if (f.number == 4) {
            v->data = f.data;
            v->len = f.len;
        }
    }
}

static inline void read_value(const field *in, uint64_t step, events *out)
{
    assert_true(out->count < EVENT_MOST);
    value *v = &out->items[out->count++];
    *v = (value){.step = step};
    for (const uint8_t *p = in->data, *end = p + in->len; p < end;) {
        field f = next_field(&p, end);
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1) {
            assert_true(f.len < EVENT_TAG);
            memcpy(v->tag, f.data, f.len);
        } else if (f.number == 2) {
            memcpy(&v->number, &bits, sizeof bits);
        } else if (f.number == 4) {
            v->image = true;
            read_image(&f, v);
        } else if (f.number == 8) {
            v->text = true;
            read_text(&f, v);
        } else {
            assert_int_equal(f.number, 9); /* metadata: {plugin_data {plugin_name "text"}} */
            assert_memory_equal(f.data, "\x0a\x06\x0a\x04text", 8);
        }
    }
}

static inline void read_event(const uint8_t *p, const uint8_t *end, bool first, uint64_t *before,
                       events *out)
{
    uint64_t step = 0;
    bool version = false, start = false;
    for (const uint8_t *at = p; at < end;) {
        field f = next_field(&at, end);
        step = f.number == 2 ? f.value : step;
    }
    while (p < end) {
        field f = next_field(&p, end);
        version = version || f.number == 3;
        assert_true(f.number != 3 || (f.len == 13 && !memcmp(f.data, "brain.Event:2", 13)));
        start = start || f.number == 7;
        for (const uint8_t *at = f.data, *stop = at + f.len; f.number == 5 && at < stop;) {
            field x = next_field(&at, stop);
            assert_int_equal(x.number, 1);
            read_value(&x, step, out);
        }
    }
    assert_int_equal(version, first);
    assert_true(step >= *before || start);
    *before = step;
}

/* Of the run in that directory; nothing is behind the last record. The caller frees out->bytes. */
static inline void read_events(qkv_context *ctx, const char *where, events *out)
{
    const qkv_path path = qkv_path_in(where, "train/events.out.tfevents.qkv");
    size_t size, at = 0;
    char *bytes;
    uint64_t before = 0;
    *out = (events){.count = 0};
    assert_int_equal(qkv_file_read(ctx, path.text, 0, &bytes, &size), QKV_OK);
    out->bytes = (uint8_t *)bytes;
    while (at < size) {
        const uint8_t *p = out->bytes + at;
        assert_true(size - at >= 16);
        uint64_t n = little(p, 8);
        assert_true(n <= size - at - 16);
        assert_int_equal(little(p + 8, 4), masked(p, 8));
        assert_int_equal(little(p + 12 + n, 4), masked(p + 12, n));
        read_event(p + 12, p + 12 + n, at == 0, &before, out);
        at += 16 + n;
    }
}

#endif
