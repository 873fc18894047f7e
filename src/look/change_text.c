/* change_text.c - changes as they are written: a place, and words that say what becomes of it. */
#include <stdlib.h>
#include <string.h>

#include "look/look.h"
#include "qkv/npy.h"

enum { WORD = 1024 };

/* A change that is being read. */
typedef struct {
    qkv_context *ctx;
    const char *text; /* all of it, for errors */
    qkv_change what;
    qkv_real *vector;
    bool changes; /* something */
} change_reader;

static qkv_status change_error(const change_reader *r, const char *expected, const char *found)
{
    return qkv_fail(r->ctx, QKV_E_ARGUMENT, "change \"%.80s\": %s expected, found \"%.60s\"",
                    r->text, expected, found);
}

/* Rows (rows, width), averaged. */
static qkv_status mean_row(change_reader *r, const qkv_real *data, size_t rows, size_t width)
{
    r->vector = qkv_calloc(r->ctx, width + 1, sizeof *r->vector);
    if (!r->vector)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < rows * width; i++)
        r->vector[i % width] += data[i] / (qkv_real)rows;
    r->what.vector = r->vector;
    r->what.width = width;
    return QKV_OK;
}

static qkv_status read_tensor_vector(change_reader *r, const char *file, const char *name)
{
    qkv_safetensors *s;
    qkv_status status = qkv_safetensors_open(&s, r->ctx, file);
    if (status)
        return status;
    const qkv_safetensor *x = name ? qkv_safetensors_find(s, name) : NULL;
    if (!name && qkv_safetensors_count(s) == 1)
        x = qkv_safetensors_at(s, 0);
    if (!x || x->ndim < 1 || !x->count)
        status = qkv_fail(r->ctx, QKV_E_ARGUMENT, "change \"%.80s\": %.200s has no tensor "
                          "\"%.80s\" of a vector (FILE.safetensors:TENSOR)", r->text, file,
                          name ? name : "");
    qkv_real *data = status ? NULL : qkv_malloc(r->ctx, x->count * sizeof *data);
    if (!status)
        status = data ? qkv_safetensors_read(s, x, 0, x->count, data) : QKV_E_MEMORY;
    if (!status) {
        size_t width = x->shape[x->ndim - 1];
        status = mean_row(r, data, x->count / width, width);
    }
    qkv_free(r->ctx, data);
    qkv_safetensors_close(s);
    return status;
}

static qkv_status read_vector(change_reader *r, const char *value)
{
    static const char suffix[] = ".safetensors";
    char file[WORD];
    qkv_array a;
    const char *end = strstr(value, suffix);
    qkv_free(r->ctx, r->vector);
    r->vector = NULL;
    r->changes = true;
    if (end) {
        size_t n = (size_t)(end - value) + sizeof suffix - 1;
        memcpy(file, value, n); /* no longer than a word */
        file[n] = 0;
        return read_tensor_vector(r, file, value[n] == ':' ? value + n + 1 : NULL);
    }
    qkv_status status = qkv_array_load(&a, r->ctx, value);
    if (status)
        return status;
    size_t width = a.ndim ? a.shape[a.ndim - 1] : 1;
    if (a.ndim == 2 && width == 1) /* a column of a text file */
        width = a.shape[0];
    status = a.count ? mean_row(r, a.data, a.count / width, width)
                     : change_error(r, "numbers", value);
    qkv_array_free(&a);
    return status;
}

static bool read_count(const char *text, const char **end, size_t *out)
{
    char *stop;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long n = strtoull(text, &stop, 10);
    *out = (size_t)n;
    *end = stop;
    return n < SIZE_MAX / 2;
}

static qkv_status read_change_head(change_reader *r, const char *value)
{
    size_t head;
    if (!read_count(value, &value, &head) || *value || head > 65535)
        return change_error(r, "head=NUMBER", value);
    r->what.head = (int)head;
    return QKV_OK;
}

static qkv_status read_positions(change_reader *r, const char *value)
{
    const char *at = value;
    size_t last;
    if (!read_count(at, &at, &r->what.first))
        return change_error(r, "at=POSITION or at=FIRST..LAST", value);
    last = r->what.first;
    if (strncmp(at, "..", 2) == 0 && !read_count(at + 2, &at, &last))
        return change_error(r, "at=FIRST..LAST", value);
    if (*at || last < r->what.first)
        return change_error(r, "at=FIRST..LAST", value);
    r->what.count = last - r->what.first + 1;
    return QKV_OK;
}

static qkv_status change_read_real(change_reader *r, const char *value, double *out)
{
    char *end;
    *out = strtod(value, &end);
    return end == value || *end || !(*out > -1e30 && *out < 1e30)
               ? change_error(r, "a number", value) : QKV_OK;
}

static qkv_status read_scale(change_reader *r, const char *value)
{
    r->changes = true;
    return change_read_real(r, value, &r->what.scale);
}

static qkv_status read_times(change_reader *r, const char *value)
{
    return change_read_real(r, value, &r->what.times);
}

static qkv_status read_zero(change_reader *r, const char *value)
{
    (void)value;
    r->changes = true;
    r->what.scale = 0;
    return QKV_OK;
}

static qkv_status read_mean(change_reader *r, const char *value)
{
    (void)value;
    r->changes = r->what.mean = true;
    return QKV_OK;
}

static qkv_status read_change_word(change_reader *r, const char *word)
{
    static const struct {
        const char *name; /* with "=": a value follows */
        qkv_status (*read)(change_reader *r, const char *value);
    } words[] = {{"head=", read_change_head}, {"at=", read_positions}, {"zero", read_zero},
                 {"scale=", read_scale}, {"mean", read_mean}, {"add=", read_vector},
                 {"times=", read_times}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].name);
        bool value = words[i].name[n - 1] == '=';
        if (strncmp(word, words[i].name, n) == 0 && (value || !word[n]))
            return words[i].read(r, word + n);
    }
    return change_error(r, "head=, at=, zero, scale=, mean, add= or times=", word);
}

qkv_status qkv_changes_add_text(qkv_changes *c, const char *text)
{
    qkv_context *ctx = qkv__changes_context(c);
    change_reader r = {.ctx = ctx, .text = text, .what = qkv_change_defaults()};
    char place[WORD] = "", word[WORD];
    qkv_status status = QKV_OK;
    for (const char *at = text + strspn(text, " "); *at && !status; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n >= WORD)
            status = change_error(&r, "shorter words", "a longer one");
        memcpy(word, at, n < WORD ? n : 0);
        word[n < WORD ? n : 0] = 0;
        at += n;
        if (!status && !*place)
            memcpy(place, word, n + 1);
        else if (!status)
            status = read_change_word(&r, word);
    }
    if (!status && !r.changes)
        status = change_error(&r, "a place, then zero, mean, scale= or add=", text);
    r.what.place = place;
    if (!status)
        status = qkv_changes_add(c, &r.what);
    qkv_free(ctx, r.vector);
    return status;
}
