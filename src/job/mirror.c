/* mirror.c - sends the files of a run's directory to ranks whose disks differ. */
#include "job/mirror.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/dist.h"
#include "job/directory.h"

#define TOKEN "train/ranks" /* what shows that ranks see the same disk */
enum { BLOCK = 1 << 22, NAME = 512, TRIES = 25 };

/* ---- who sees it ---------------------------------------------------------------------------- */

/* A file system over a network may show a new file late. */
static bool sees(qkv_context *ctx, const char *path, uint64_t token)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    const qkv_path file = qkv_path_in(path, TOKEN);
    bool found = false;
    for (int i = 0; i < TRIES && !found; i++) {
        char *text = NULL;
        size_t size = 0;
        unsigned long long read;
        if (qkv_file_exists(file.text) && !qkv_file_read(ctx, file.text, 64, &text, &size))
            found = sscanf(text, "%llx", &read) == 1 && read == token;
        qkv_free(ctx, text);
        if (!found && !qkv_dir_exists(path) && i > 4)
            break;
        if (!found)
            (void)nanosleep(&pause, NULL);
    }
    return found;
}

/* *lacks: this rank does not see the directory; *any: some rank does not. */
static qkv_status find_who_lacks(qkv_context *ctx, const char *path, bool *lacks, bool *any)
{
    bool leads = qkv_dist_rank(ctx) == 0;
    uint64_t token = (uint64_t)(1e6 * qkv_now()) ^ (uint64_t)(uintptr_t)ctx;
    char text[32];
    (void)snprintf(text, sizeof text, "%llx\n", (unsigned long long)token);
    const qkv_path file = qkv_path_in(path, TOKEN);
    qkv_status status = leads ? qkv_file_write(ctx, file.text, text, strlen(text)) : QKV_OK;
    status = qkv__dist_agree(ctx, status);
    if (!status)
        status = qkv__dist_broadcast(ctx, &token, sizeof token);
    *lacks = !status && !leads && !sees(ctx, path, token);
    size_t size = (size_t)qkv_dist_size(ctx);
    bool *all = qkv_malloc(ctx, size * sizeof *all);
    if (!status)
        status = all ? qkv__dist_gather(ctx, lacks, sizeof *lacks, all) : QKV_E_MEMORY;
    *any = false;
    for (size_t i = 0; i < size && !status; i++)
        *any = *any || all[i];
    qkv_free(ctx, all);
    if (leads)
        (void)qkv__file_remove(ctx, file.text);
    return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* What rank 0 alone reads, or each writes itself: weights, checkpoints, logs. */
static bool is_left_out(const char *name)
{
    static const char *const begins[] = {"model", "train/state", "train/metrics", "train/events",
                                         "train/report", "train/samples", "train/run.json",
                                         "train/capture", "train/perceptual", TOKEN};
    bool out = false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        out = out || strncmp(name, begins[i], strlen(begins[i])) == 0;
    return out;
}

/* One file under way. */
typedef struct {
    char name[NAME]; /* from the directory on; "" at the end */
    uint64_t size;
} header;

/* Blocks of rank 0's file for all; out NULL: this rank has it. */
static qkv_status send_blocks(qkv_context *ctx, const qkv__map *in, qkv__writer *out,
                              uint64_t size, char *block)
{
    qkv_status status = QKV_OK;
    for (uint64_t at = 0; at < size && !status; at += BLOCK) {
        size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        if (in)
            memcpy(block, in->data + at, n);
        status = qkv__dist_broadcast(ctx, block, n);
        if (!status && out)
            status = qkv__writer_put(out, block, n);
    }
    return status;
}

/* Rank 0's side. */
static qkv_status send_file(qkv_context *ctx, const char *path, const char *name, char *block)
{
    header h = {.size = 0};
    qkv__map in = {0};
    qkv_status status = qkv__map_file(&in, ctx, qkv_path_in(path, name).text);
    if (!status && strlen(name) >= NAME)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: the name is too long to be sent", name);
    if (!status) {
        strcpy(h.name, name);
        h.size = in.size;
        status = qkv__dist_broadcast(ctx, &h, sizeof h);
    }
    if (!status)
        status = send_blocks(ctx, &in, NULL, h.size, block);
    qkv__map_close(&in);
    return status;
}

static qkv_status send_all(qkv_context *ctx, const char *path, char *block)
{
    const header end = {.name = ""};
    qkv_names names = {.ctx = ctx};
    qkv_status status = qkv__run_dir_list(&names, path);
    for (size_t i = 0; i < names.count && !status; i++)
        if (!is_left_out(names.names[i]) && !qkv_dir_exists(qkv_path_in(path, names.names[i]).text))
            status = send_file(ctx, path, names.names[i], block);
    qkv_names_free(&names);
    header last = end;
    return status ? status : qkv__dist_broadcast(ctx, &last, sizeof last);
}

static qkv_status make_parent(qkv_context *ctx, const qkv_path *file)
{
    qkv_path parent = *file;
    char *slash = strrchr(parent.text, '/');
    if (!slash)
        return QKV_OK;
    *slash = 0;
    return qkv_dir_create(ctx, parent.text);
}

/* The others' side. */
static qkv_status receive_all(qkv_context *ctx, const char *path, bool lacks, char *block)
{
    qkv_status status = lacks ? qkv__run_dir_check(ctx, path, true) : QKV_OK;
    header h;
    while (!status && !(status = qkv__dist_broadcast(ctx, &h, sizeof h)) && h.name[0]) {
        qkv__writer *out = NULL;
        const qkv_path file = qkv_path_in(path, h.name);
        if (lacks)
            status = make_parent(ctx, &file);
        if (!status && lacks)
            status = qkv__writer_open(&out, ctx, file.text);
        if (!status)
            status = send_blocks(ctx, NULL, out, h.size, block);
        if (status)
            qkv__writer_abandon(out);
        else if (out)
            status = qkv__writer_close(out);
    }
    return status;
}

qkv_status qkv__run_mirror(qkv_context *ctx, const char *path)
{
    bool lacks, any;
    if (qkv_dist_size(ctx) == 1)
        return QKV_OK;
    qkv_status status = find_who_lacks(ctx, path, &lacks, &any);
    char *block = !status && any ? qkv_malloc(ctx, BLOCK) : NULL;
    if (!status && any && !block)
        status = QKV_E_MEMORY;
    if (!status && any)
        status = qkv_dist_rank(ctx) == 0 ? send_all(ctx, path, block)
                                         : receive_all(ctx, path, lacks, block);
    qkv_free(ctx, block);
    return qkv__dist_agree(ctx, status);
}
