/* events.c - what goes into an event file. */
#include "train/events.h"

#include <string.h>
#include <time.h>

#include "io/file.h"
#include "io/protobuf.h"
#include "io/tfrecord.h"

/* Numbers of fields. */
enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE, VALUE_IMAGE = 4, VALUE_TENSOR = 8, VALUE_METADATA };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH, IMAGE_CHANNELS, IMAGE_FILE };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE, TENSOR_STRINGS = 8, TYPE_STRING = 7 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };

/* ---- summaries ---------------------------------------------------------------------------- */

static void put_text(qkv_str *out, uint32_t field, const char *text)
{
    qkv__proto_put_bytes(out, field, text, strlen(text));
}

/* Adds a message as a field, and frees it. */
static void put_message(qkv_str *out, uint32_t field, qkv_str *message)
{
    out->failed = out->failed || message->failed;
    qkv__proto_put_bytes(out, field, message->data ? message->data : "", message->len);
    qkv_str_free(message);
}

static qkv_str new_message(const qkv_str *like)
{
    qkv_str s;
    qkv_str_init(&s, like->ctx);
    return s;
}

void qkv__summary_scalar(qkv_str *summary, const char *tag, double value)
{
    qkv_str v = new_message(summary);
    put_text(&v, VALUE_TAG, tag);
    qkv__proto_put_float(&v, VALUE_SIMPLE, (float)value);
    put_message(summary, SUMMARY_VALUE, &v);
}

/* A tensor of strings with one element. */
static void put_string_tensor(qkv_str *value, const char *text, size_t len)
{
    qkv_str tensor = new_message(value), shape = new_message(value), dim = new_message(value);
    qkv__proto_put_int(&tensor, TENSOR_TYPE, TYPE_STRING);
    qkv__proto_put_int(&dim, DIM_SIZE, 1);
    put_message(&shape, SHAPE_DIM, &dim);
    put_message(&tensor, TENSOR_SHAPE, &shape);
    qkv__proto_put_bytes(&tensor, TENSOR_STRINGS, text, len);
    put_message(value, VALUE_TENSOR, &tensor);
}

void qkv__summary_text(qkv_str *summary, const char *tag, const char *text, size_t len)
{
    qkv_str v = new_message(summary), metadata = new_message(summary);
    qkv_str plugin = new_message(summary);
    put_text(&v, VALUE_TAG, tag);
    put_string_tensor(&v, text, len);
    put_text(&plugin, PLUGIN_NAME, "text");
    put_message(&metadata, METADATA_PLUGIN, &plugin);
    put_message(&v, VALUE_METADATA, &metadata);
    put_message(summary, SUMMARY_VALUE, &v);
}

void qkv__summary_image(qkv_str *summary, const char *tag, const qkv_image *image,
                        const qkv_str *png)
{
    qkv_str v = new_message(summary), file = new_message(summary);
    put_text(&v, VALUE_TAG, tag);
    qkv__proto_put_int(&file, IMAGE_HEIGHT, image->height);
    qkv__proto_put_int(&file, IMAGE_WIDTH, image->width);
    qkv__proto_put_int(&file, IMAGE_CHANNELS, image->channels);
    qkv__proto_put_bytes(&file, IMAGE_FILE, png->data, png->len);
    put_message(&v, VALUE_IMAGE, &file);
    put_message(summary, SUMMARY_VALUE, &v);
}

/* ---- events ------------------------------------------------------------------------------- */

static qkv_str begin_event(const qkv_str *out, uint64_t step)
{
    struct timespec now = {0};
    qkv_str e = new_message(out);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    qkv__proto_put_double(&e, EVENT_TIME, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    if (step) /* 0 is what a field has that is not there */
        qkv__proto_put_int(&e, EVENT_STEP, step);
    return e;
}

static void end_event(qkv_str *out, qkv_str *event)
{
    out->failed = out->failed || event->failed;
    if (!out->failed)
        qkv__tfrecord_put(out, event->data, event->len);
    qkv_str_free(event);
}

void qkv__event_put(qkv_str *out, uint64_t step, const qkv_str *summary)
{
    qkv_str e = begin_event(out, step);
    e.failed = e.failed || summary->failed;
    if (summary->len)
        qkv__proto_put_bytes(&e, EVENT_SUMMARY, summary->data, summary->len);
    end_event(out, &e);
}

void qkv__event_put_version(qkv_str *out)
{
    qkv_str e = begin_event(out, 0);
    put_text(&e, EVENT_VERSION, "brain.Event:2");
    end_event(out, &e);
}

void qkv__event_put_start(qkv_str *out, uint64_t step)
{
    qkv_str e = begin_event(out, step), session = new_message(out);
    qkv__proto_put_int(&session, SESSION_STATUS, SESSION_START);
    put_message(&e, EVENT_SESSION, &session);
    end_event(out, &e);
}

/* ---- cutting off -------------------------------------------------------------------------- */

/* Is it an event of that step or an earlier one? */
static bool event_is_of(const char *record, size_t len, uint64_t step)
{
    qkv__proto p = qkv__proto_begin(record, len, NULL);
    qkv__proto_field f;
    uint64_t its = 0;
    while (qkv__proto_next(&p, &f))
        if (f.number == EVENT_STEP && f.type == QKV__PROTO_VARINT)
            its = f.value;
    return !p.bad && its <= step;
}

qkv_status qkv__events_trim(qkv_context *ctx, const char *path, uint64_t step)
{
    if (!qkv_file_exists(path))
        return QKV_OK;
    qkv__map m;
    qkv_status status = qkv__map_file(&m, ctx, path);
    if (status)
        return status;
    size_t kept = 0, len, taken, size = m.size;
    const char *record;
    while (kept < size && (taken = qkv__tfrecord_get(m.data + kept, size - kept, &record, &len)) &&
           event_is_of(record, len, step))
        kept += taken;
    qkv__map_close(&m);
    return kept < size ? qkv__file_cut(ctx, path, kept) : QKV_OK;
}
