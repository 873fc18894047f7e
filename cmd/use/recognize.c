/* recognize.c - labels for pictures, and how good they are. */
#include <stdio.h>

#include "use/label.h"
#include "use/recognize.h"
#include "eval/kinds.h"
#include "pipeline/pictures.h"
#include "qkv/recognize.h"

enum { TOP = 5 };

/* As the model's directory says; else squares of its own size, pixels from -1 to 1. */
static void format_of(qkv_model *m, qkv_picture_format *f)
{
    const qkv_picture_format *own = qkv_model_pictures(m);
    const qkv_vit_config *c = qkv_model_config(m);
    *f = (qkv_picture_format){.height = c->trunk.image, .width = c->trunk.image,
                              .channels = c->trunk.channels, .resample = 2,
                              .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (own)
        *f = *own;
    else
        qkv_model_set_pictures(m, f);
}

/* ---- labels -------------------------------------------------------------------------------- */

static int answer_json(const cli *c, const qkv_model *m, const char *file, const qkv_real *p,
                       size_t classes, size_t best)
{
    char room[CLI_LABEL];
    qkv_json_writer w;
    qkv_json_writer_init(&w, c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "file", file);
    qkv_json_put_string(&w, "label", cli_label(m, best, room));
    qkv_json_begin_object(&w, "probs");
    for (size_t i = 0; i < classes; i++)
        qkv_json_put_real(&w, cli_label(m, i, room), (double)p[i]);
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    return cli_answer(c, &w);
}

/* A name from a file, which may hold anything: control characters as '?'. */
static void put_name(const char *name)
{
    for (; *name; name++)
        putchar((unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
}

/* "file  cat 0.93  dog 0.04", the likeliest first. */
static int answer(const cli *c, const qkv_model *m, const char *file, const qkv_real *p,
                  size_t classes)
{
    char room[CLI_LABEL];
    size_t top[TOP] = {0}, count = 0;
    for (size_t i = 0; i < classes; i++) {
        size_t at = count < TOP ? count++ : TOP;
        while (at > 0 && p[i] > p[top[at - 1]]) {
            if (at < TOP)
                top[at] = top[at - 1];
            at--;
        }
        if (at < TOP)
            top[at] = i;
    }
    if (c->common.json)
        return answer_json(c, m, file, p, classes, top[0]);
    put_name(file);
    for (size_t i = 0; i < count; i++) {
        putchar('\t');
        put_name(cli_label(m, top[i], room));
        printf(" %.4f", (double)p[top[i]]);
    }
    putchar('\n');
    return CLI_DONE;
}

/* Answers for what is at the path. *why: why there are none; said already. */
static int recognize_path(cli *c, qkv_model *m, qkv_tape *t, const char *path, qkv_status *why)
{
    const qkv_vit_config *config = qkv_model_config(m);
    qkv_picture_format f;
    qkv_pixels *pixels = NULL;
    size_t *numbers = NULL;
    qkv_real *probs = NULL;
    format_of(m, &f);
    qkv_status status = qkv__pictures_load(&pixels, c->ctx, path, &f);
    size_t n = status ? 0 : qkv_pixels_count(pixels);
    numbers = status ? NULL : qkv_malloc(c->ctx, n * sizeof *numbers);
    probs = status ? NULL : qkv_malloc(c->ctx, n * config->classes * sizeof *probs);
    if (!status && (!numbers || !probs))
        status = QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        numbers[i] = i;
    if (!status)
        status = qkv_recognize(m, t, pixels, numbers, n, probs);
    int code = status ? cli_error(c) : CLI_DONE;
    *why = status;
    for (size_t i = 0; i < n && code == CLI_DONE; i++)
        code = answer(c, m, qkv_pixels_name(pixels, i), probs + i * config->classes,
                      config->classes);
    qkv_free(c->ctx, numbers);
    qkv_free(c->ctx, probs);
    qkv_pixels_close(pixels);
    return code;
}

int cli_recognize(cli *c, qkv_model *m, const char *const *paths, size_t count)
{
    qkv_tape *t = NULL;
    int code = qkv_tape_create(&t, c->ctx) ? cli_error(c) : CLI_DONE;
    size_t bad = 0;
    for (size_t i = 0; i < count && code == CLI_DONE && !cli_stopped(); i++) {
        qkv_status why;
        code = recognize_path(c, m, t, paths[i], &why);
        if (why == QKV_E_IO || why == QKV_E_FORMAT || why == QKV_E_UNSUPPORTED) {
            code = CLI_DONE;
            bad++;
        }
    }
    qkv_tape_destroy(t);
    if (bad && count > 1)
        cli_note(c, "%zu of %zu could not be read", bad, count);
    return code == CLI_DONE && bad ? CLI_FAILED : code;
}

/* ---- judging ------------------------------------------------------------------------------- */

/* The pictures of the file, with the model's classes, or those that training held out. */
static qkv_status open_pictures(eval *e, qkv_pixels **out)
{
    qkv_picture_format f;
    qkv_pixels *read = NULL;
    format_of(e->model, &f);
    if (!e->file)
        return eval_kept_pictures(e, "valid-images.safetensors", out);
    qkv_status status = qkv__pictures_load(&read, e->c->ctx, e->file, &f);
    if (!status)
        status = qkv__pixels_copy(out, e->c->ctx, NULL, read, NULL, qkv_pixels_count(read),
                                  e->model, e->file);
    qkv_pixels_close(read);
    return status;
}

qkv_status eval_recognize(eval *e, qkv_measures *out)
{
    qkv_pixels *pixels = NULL;
    qkv_recognize_score s = {0};
    qkv_status status = open_pictures(e, &pixels);
    if (!status)
        status = qkv_recognize_evaluate(e->model, e->tape, pixels, 0, &s);
    qkv_measures_add(out, "accuracy", s.accuracy);
    qkv_measures_add(out, "loss", s.loss);
    out->scored = s.pictures;
    qkv_pixels_close(pixels);
    return status;
}
