/* classify_images.c - labels for images. */
#include <stdio.h>

#include "use/classify_images.h"

enum { TOP = 5 };

typedef struct {
    cli *c;
    qkv_pipeline *p;
    size_t bad; /* inputs that could not be read */
    int code;
} job;

static int answer_json(const job *j, const qkv_image_labels *found, size_t best)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "file", found->name);
    qkv_json_put_string(&w, "label", qkv_pipeline_label(j->p, best));
    qkv_json_begin_object(&w, "probs");
    for (size_t i = 0; i < found->classes; i++)
        qkv_json_put_real(&w, qkv_pipeline_label(j->p, i), (double)found->probabilities[i]);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

/* A name from a file, which may hold anything: control characters as '?'. */
static void put_name(const char *name)
{
    for (; *name; name++)
        putchar((unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
}

/* "file  cat 0.93  dog 0.04", the likeliest first. */
static int answer(const job *j, const qkv_image_labels *found)
{
    const qkv_real *p = found->probabilities;
    size_t top[TOP] = {0}, count = 0;
    for (size_t i = 0; i < found->classes; i++) {
        size_t at = count < TOP ? count++ : TOP;
        while (at > 0 && p[i] > p[top[at - 1]]) {
            if (at < TOP)
                top[at] = top[at - 1];
            at--;
        }
        if (at < TOP)
            top[at] = i;
    }
    if (j->c->common.json)
        return answer_json(j, found, top[0]);
    put_name(found->name);
    for (size_t i = 0; i < count; i++) {
        putchar('\t');
        put_name(qkv_pipeline_label(j->p, top[i]));
        printf(" %.4f", (double)p[top[i]]);
    }
    putchar('\n');
    return CLI_DONE;
}

static bool on_labels(void *user, const qkv_image_labels *found)
{
    job *j = user;
    if (found->error) {
        (void)cli_error(j->c);
        j->bad++;
    } else {
        j->code = answer(j, found);
    }
    return j->code == CLI_DONE && !cli_stopped();
}

int cli_classify_images(cli *c, qkv_pipeline *p, const char *const *paths, size_t count)
{
    job j = {.c = c, .p = p, .code = CLI_DONE};
    qkv_image_source *images = qkv_calloc(c->ctx, count, sizeof *images);
    for (size_t i = 0; images && i < count; i++)
        images[i].path = paths[i];
    qkv_status status = images ? qkv_pipeline_classify_images(p, images, count, on_labels, &j)
                                 : QKV_E_MEMORY;
    qkv_free(c->ctx, images);
    if (status && j.code == CLI_DONE)
        return cli_error(c);
    if (j.bad && count > 1)
        cli_note(c, "%zu of %zu could not be read", j.bad, count);
    return j.code == CLI_DONE && j.bad ? CLI_FAILED : j.code;
}
