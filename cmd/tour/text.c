/* text.c - text that is always at hand: the project's own source, or the command's help. */
#include <string.h>

#include "core/cli.h"
#include "tour/chapter.h"

enum { HOLD_OUT_EVERY = 10, DEEPEST = 8 };
static const size_t largest_file = 1u << 20, most_text = 1u << 25; /* bytes */

typedef struct {
    tour_text *x;
    qkv_context *ctx;
    const char *const *endings;
    size_t valid_bytes;
} walk;

static bool text_ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static bool is_wanted(const walk *w, const char *name)
{
    for (size_t i = 0; w->endings[i]; i++)
        if (text_ends_in(name, w->endings[i]))
            return true;
    return false;
}

/* Folders that hold no source: what is hidden, built or trained. */
static bool skipped(const char *name)
{
    return name[0] == '.' || strncmp(name, "build", 5) == 0 || strcmp(name, "runs") == 0;
}

/* Printable ASCII and white space: a small alphabet is all that a small model can learn. */
static bool plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((text[i] < ' ' && text[i] != '\n' && text[i] != '\t') || text[i] > '~')
            return false;
    return len > 0;
}

/* The file's plain lines; nothing of a file that is no text. */
static void text_take(walk *w, const char *text, size_t len)
{
    tour_text *x = w->x;
    if (x->train.len + len > most_text || !len || memchr(text, 0, len))
        return;
    bool valid = ++x->files % HOLD_OUT_EVERY == HOLD_OUT_EVERY / 2 &&
                 x->valid.len < w->valid_bytes;
    x->held_out += valid;
    qkv_str *to = valid ? &x->valid : &x->train;
    size_t most = valid ? w->valid_bytes : SIZE_MAX;
    for (const char *end = text + len; text < end && to->len < most;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = stop ? (size_t)(stop - text) + 1 : (size_t)(end - text);
        if (plain(text, n))
            qkv_str_add(to, text, n < most - to->len ? n : most - to->len);
        text += n;
    }
}

static qkv_status take_file(walk *w, const char *path)
{
    char *text = NULL;
    size_t len = 0;
    if (qkv_file_read(w->ctx, path, largest_file, &text, &len) == QKV_OK)
        text_take(w, text, len); /* one that cannot be read is left out */
    qkv_free(w->ctx, text);
    return QKV_OK;
}

static qkv_status take_folder(walk *w, const char *dir, int depth)
{
    qkv_names names = {0};
    qkv_status status = qkv_dir_list(&names, w->ctx, dir);
    for (size_t i = 0; i < names.count && !status; i++) {
        const char *name = names.names[i];
        const qkv_path path = qkv_path_in(dir, name);
        if (!qkv_dir_exists(path.text))
            status = is_wanted(w, name) ? take_file(w, path.text) : QKV_OK;
        else if (!skipped(name) && depth < DEEPEST)
            status = take_folder(w, path.text, depth + 1);
    }
    qkv_names_free(&names);
    return status;
}

/* The help of all commands; its last tenth is held out. */
static void take_help(tour_text *x)
{
    for (size_t i = 0; cli_commands[i]; i++)
        cli_manual_help(&x->train, "qkv", &cli_commands[i]->manual);
    if (x->train.failed)
        return;
    size_t keep = x->train.len - x->train.len / HOLD_OUT_EVERY;
    while (keep < x->train.len && ((unsigned char)x->train.data[keep] & 0xC0) == 0x80)
        keep++; /* not within a character */
    qkv_str_add(&x->valid, x->train.data + keep, x->train.len - keep);
    x->train.len = keep;
}

qkv_status tour_text_collect(tour_text *x, const tour *t, const char *const *endings,
                             size_t valid_bytes)
{
    qkv_context *ctx = t->page->c->ctx;
    walk w = {x, ctx, endings, valid_bytes};
    *x = (tour_text){0};
    qkv_str_init(&x->train, ctx);
    qkv_str_init(&x->valid, ctx);
    qkv_status status = QKV_OK;
    if (t->source && qkv_dir_exists(t->source))
        status = take_folder(&w, t->source, 0);
    if (!status && (x->held_out == 0 || x->train.len < 4 * x->valid.len)) {
        qkv_str_clear(&x->train);
        qkv_str_clear(&x->valid);
        x->files = x->held_out = 0;
        take_help(x);
    }
    return !status && (x->train.failed || x->valid.failed) ? QKV_E_MEMORY : status;
}

void tour_text_free(tour_text *x)
{
    qkv_str_free(&x->train);
    qkv_str_free(&x->valid);
}

size_t tour_longest_copy(const char *sample, size_t n, const char *text, size_t len)
{
    size_t best = 0;
    for (size_t i = 0; i + best < n; i++)
        for (const char *at = text, *end = text + len;
             (at = memchr(at, sample[i], (size_t)(end - at))) != NULL; at++) {
            size_t solid = 0, room = (size_t)(end - at);
            for (size_t k = 0; i + k < n && k < room && at[k] == sample[i + k]; k++)
                solid += sample[i + k] > ' ';
            best = solid > best ? solid : best;
        }
    return best;
}
