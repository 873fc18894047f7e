/* embed.c - `qkv embed`: vectors of texts or images, and which are nearest to which. */
#include <stdio.h>

#include "core/cli.h"

typedef struct {
    const char *file, *out, *nearest;
    size_t top_k;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "texts, one a line; or images: a folder, a tar or idx file"},
    {.flag = "out", .type = QKV_OPT_STRING, FIELD(out), .value = "NPY",
     .help = "write the vectors there: float32, (count, width)"},
    {.flag = "nearest", .type = QKV_OPT_STRING, FIELD(nearest), .value = "FILE",
     .help = "show the lines of this file, or the images there, that are nearest to each"},
    {.flag = "top-k", .type = QKV_OPT_SIZE, .min = 1, .max = 16777216, FIELD(top_k),
     .initial = "5", .help = "how many of them"},
};
static const qkv_option_table table = {"Vectors", rows, sizeof rows / sizeof *rows, 0};

/* ---- vectors ------------------------------------------------------------------------------- */

static int put_vectors(const cli *c, const qkv_vectors *v)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < v->count && code == CLI_DONE; i++) {
        const qkv_real *x = v->data + i * v->width;
        if (!c->common.json) {
            for (size_t k = 0; k < v->width; k++)
                printf("%s%.6f", k ? " " : "", (double)x[k]);
            putchar('\n');
            continue;
        }
        qkv_json_writer w = cli_object(c);
        qkv_json_put_string(&w, "text", v->names[i]);
        qkv_json_begin_array(&w, "vector");
        for (size_t k = 0; k < v->width; k++)
            qkv_json_put_real(&w, NULL, (double)x[k]);
        qkv_json_end_array(&w);
        code = cli_answer(c, &w);
    }
    return code == CLI_DONE ? cli_flush() : code;
}

/* ---- neighbours ---------------------------------------------------------------------------- */

static int put_neighbours(const cli *c, const char *text, const qkv_vectors *among, size_t k,
                          const int32_t *ids, const qkv_real *cosines)
{
    if (!c->common.json) {
        printf("%s\n", text);
        for (size_t i = 0; i < k; i++)
            printf("  %.4f  %s\n", (double)cosines[i], among->names[ids[i]]);
        return CLI_DONE;
    }
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "text", text);
    qkv_json_begin_array(&w, "nearest");
    for (size_t i = 0; i < k; i++) {
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_int(&w, "line", ids[i] + 1);
        qkv_json_put_string(&w, "text", among->names[ids[i]]);
        qkv_json_put_real(&w, "cosine", (double)cosines[i]);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    return cli_answer(c, &w);
}

static int show_nearest(cli *c, qkv_pipeline *p, const settings *s, const qkv_vectors *v)
{
    qkv_vectors among;
    qkv_status status = qkv_pipeline_embed_file(p, s->nearest, &among);
    if (status)
        return cli_error(c);
    size_t k = s->top_k < among.count ? s->top_k : among.count;
    int32_t *ids = qkv_calloc(c->ctx, v->count, k * sizeof *ids);
    qkv_real *cosines = qkv_calloc(c->ctx, v->count, k * sizeof *cosines);
    status = ids && cosines ? qkv_vectors_nearest(v, &among, k, ids, cosines) : QKV_E_MEMORY;
    int code = status ? cli_error(c) : CLI_DONE;
    for (size_t i = 0; i < v->count && code == CLI_DONE; i++)
        code = put_neighbours(c, v->names[i], &among, k, ids + i * k, cosines + i * k);
    qkv_free(c->ctx, ids);
    qkv_free(c->ctx, cosines);
    qkv_vectors_free(&among);
    return code == CLI_DONE ? cli_flush() : code;
}

/* ---- the command --------------------------------------------------------------------------- */

/* The first argument that is no image; 0: there is none. */
static size_t text_among(const qkv_strings *args)
{
    for (size_t i = 1; i < args->count; i++)
        if (!qkv_is_image_list(args->items[i]))
            return i;
    return 0;
}

/* Are the arguments images? false: some are. */
static bool embed_kind(const qkv_strings *args, bool *images)
{
    size_t count = 0;
    for (size_t i = 1; i < args->count; i++)
        count += qkv_is_image_list(args->items[i]);
    *images = count > 0;
    return !count || count == args->count - 1;
}

static int embed_answer(cli *c, qkv_pipeline *p, const settings *s)
{
    const qkv_strings *args = &c->args;
    qkv_vectors v;
    bool images = qkv_model_can(qkv_pipeline_model(p), QKV_CAN_EMBED_IMAGES);
    qkv_status status;
    if (qkv_model_can(qkv_pipeline_model(p), QKV_CAN_EMBED_BOTH) &&
        !embed_kind(args, &images))
        return cli_usage(c, "images or texts: one of them expected, found both: \"%s\" is a text",
                         args->items[text_among(args)]);
    if (images && args->count == 1 && !s->file)
        return cli_usage(c, "%s embeds images: none is named", args->items[0]);
    if (args->count == 1)
        status = qkv_pipeline_embed_file(p, s->file ? s->file : "/dev/stdin", &v);
    else if (images)
        status = qkv_pipeline_embed_images(p, args->items + 1, args->count - 1, &v);
    else
        status = qkv_pipeline_embed_texts(p, args->items + 1, args->count - 1, &v);
    if (status)
        return cli_error(c);
    int code = CLI_DONE;
    if (s->out && qkv_vectors_save(&v, s->out))
        code = cli_error(c);
    if (code == CLI_DONE && s->nearest)
        code = show_nearest(c, p, s, &v);
    else if (code == CLI_DONE && !s->out)
        code = put_vectors(c, &v);
    qkv_vectors_free(&v);
    return code;
}

static int embed_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_pipeline *p = NULL;
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 1, SIZE_MAX);
    if (refused)
        return refused;
    if (s.file && c->args.count > 1)
        return cli_usage(c, "texts or --file: one of them expected, found both");
    cli_listen_notes(c);
    int code = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening) ? cli_error(c)
                                                                : embed_answer(c, p, &s);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {
    "qkv embed runs/e --file lines.txt --out vectors.npy",
    "qkv embed runs/e \"a dog runs\" --nearest lines.txt --top-k 3",
    "qkv embed runs/e --file questions.txt --nearest answers.txt --json",
    "qkv embed runs/photos cat.jpg --nearest photos",
    "qkv embed runs/clip \"a dog in the snow\" --nearest photos",
    "qkv embed runs/clip cat.jpg --nearest names.txt --top-k 1", NULL};

static const qkv_preset presets[] = {{"file", NULL, "standard input without texts"},
                                     {NULL, NULL, NULL}};

CLI_COMMAND(cli_embed, 425) = {
    .manual = {.name = "embed", .summary = "vectors of texts or images, and the nearest",
               .usage = "DIR [TEXT... | IMAGE... | --file FILE] [--nearest FILE]",
               .examples = examples,
               .text = "The vector of each text or image, of length 1, so that the product of two "
                       "is their cosine: numbers a line, or with --out an .npy file. With "
                       "--nearest the lines of another file, or the images there, that have the "
                       "greatest cosine with each. A model of images with captions (CLIP) has "
                       "texts and images in one space: arguments that are image files are images, "
                       "others texts, and --nearest may be of the other kind; a file of class "
                       "names classifies images. --json: objects {\"text\", \"vector\"}, or "
                       "{\"text\", \"nearest\": [{\"line\", \"text\", \"cosine\"}, ..]}; of an "
                       "image \"text\" is its name.",
               .presets = presets},
    .own = {&table}, .opens = true, .run = embed_run};
