/* colorize.c - `qkv colorize`: a picture in the colours that a model gives it, and where a
 * patch of it looked for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/commands.h"
#include "use/painting.h"
#include "pipeline/pictures.h"
#include "qkv/colorize.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"

enum { LEAST_SIDE = 256, MOST_LISTED = 5 };
static const double LEAST_LISTED = 0.01;

typedef struct {
    qkv_strings hints;
    const char *out, *attention;
    size_t layer;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.png", .help = "the coloured picture"},
    {.flag = "hint", .type = QKV_OPT_LIST, FIELD(hints), .value = "X,Y,#RRGGBB",
     .help = "the colour at a pixel, from the left and the top; as often as you like"},
    {.flag = "attention", .type = QKV_OPT_STRING, FIELD(attention), .value = "X,Y",
     .help = "show where the patch at that pixel looked: a list, and beside --out the picture "
             "F-attention.png"},
    {.flag = "layer", .type = QKV_OPT_SIZE, FIELD(layer), .initial = "0",
     .help = "in which layer, from 1; 0: the last"},
};
static const qkv_option_table table = {"Colouring", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *tape;
    qkv_image in, out;
    qkv_color_hint *hints;
    size_t patches, asked; /* in a row of patches; number of the one that --attention names */
    double *weights;       /* (patches, patches): mean over the heads */
    size_t heads;          /* summed up so far */
} job;

/* ---- what was asked for ------------------------------------------------------------------- */

/* "X,Y" at *text, which moves behind it. */
static bool read_place(const char **text, size_t *x, size_t *y)
{
    size_t *const out[] = {x, y};
    for (int i = 0; i < 2; i++) {
        char *end;
        if (**text < '0' || **text > '9')
            return false;
        *out[i] = (size_t)strtoull(*text, &end, 10);
        *text = end;
        if (i == 0 && *(*text)++ != ',')
            return false;
    }
    return true;
}

static bool read_color(const char *text, uint8_t rgb[3])
{
    if (strlen(text) != 7 || text[0] != '#' || strspn(text + 1, "0123456789abcdefABCDEF") != 6)
        return false;
    unsigned long value = strtoul(text + 1, NULL, 16);
    for (int k = 0; k < 3; k++)
        rgb[k] = (uint8_t)(value >> (16 - 8 * k));
    return true;
}

static qkv_status read_hints(job *j)
{
    qkv_context *ctx = j->c->ctx;
    j->hints = qkv_calloc(ctx, j->s.hints.count + 1, sizeof *j->hints);
    if (!j->hints)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < j->s.hints.count; i++) {
        const char *at = j->s.hints.items[i];
        qkv_color_hint *h = j->hints + i;
        if (!read_place(&at, &h->x, &h->y) || *at++ != ',' || !read_color(at, h->rgb))
            return qkv_fail(ctx, QKV_E_ARGUMENT, "--hint: x,y,#rrggbb expected, found %.60s",
                            j->s.hints.items[i]);
    }
    return QKV_OK;
}

/* ---- attention ------------------------------------------------------------------------------ */

static void add_weights(void *user, const char *name, int sequence, int head, size_t row,
                        size_t count, size_t S, const qkv_real *weights)
{
    (void)name, (void)sequence, (void)head, (void)row, (void)count;
    job *j = user;
    for (size_t i = 0; i < S; i++)
        j->weights[i] += (double)weights[i];
    j->heads++;
}

static qkv_status watch(job *j)
{
    qkv_context *ctx = j->c->ctx;
    const qkv_patches_config *c = &((const qkv_dense_config *)qkv_model_config(j->model))->trunk;
    const char *at = j->s.attention;
    size_t x, y;
    if (!read_place(&at, &x, &y) || *at || x >= j->in.width || y >= j->in.height)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--attention: x,y in a picture of %zu x %zu "
                        "expected, found %.60s", j->in.width, j->in.height, j->s.attention);
    if (j->s.layer > c->layers)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--layer: the model has %zu layers, found %zu",
                        c->layers, j->s.layer);
    char name[64];
    (void)snprintf(name, sizeof name, "layer.%zu.attn",
                   (j->s.layer ? j->s.layer : c->layers) - 1);
    j->patches = c->image / c->patch;
    j->asked = y * j->patches / j->in.height * j->patches + x * j->patches / j->in.width;
    j->weights = qkv_calloc(ctx, j->patches * j->patches, sizeof *j->weights);
    if (!j->weights)
        return QKV_E_MEMORY;
    const qkv_attention_probe probe = {.name = name, .sequence = 0, .head = -1, .row = j->asked,
                                       .rows = 1, .fn = add_weights, .user = j};
    return qkv_attention_probe_add(j->tape, &probe);
}

/* The coloured picture, dimmed where the patch did not look, beside --out. */
static qkv_status paint_attention(job *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_image large = {0};
    qkv_str path;
    size_t stem = strlen(j->s.out);
    stem -= stem > 4 && strcmp(j->s.out + stem - 4, ".png") == 0 ? 4 : 0;
    qkv_str_init(&path, ctx);
    qkv_str_printf(&path, "%.*s-attention.png", (int)stem, j->s.out);
    qkv_status status = path.data ? cli_enlarge(&large, ctx, &j->out, LEAST_SIDE) : QKV_E_MEMORY;
    if (!status) {
        cli_dim(&large, j->weights, j->patches, j->patches, j->asked);
        status = qkv_image_write(&large, ctx, path.data);
    }
    qkv_image_free(&large, ctx);
    qkv_str_free(&path);
    return status;
}

/* The patches with the most weight, the first first; returns how many are worth telling. */
static size_t mixture(const job *j, size_t out[MOST_LISTED])
{
    size_t count = 0, n = j->patches * j->patches;
    while (count < MOST_LISTED) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            bool listed = false;
            for (size_t k = 0; k < count; k++)
                listed = listed || out[k] == i;
            if (!listed && j->weights[i] >= LEAST_LISTED &&
                (best == n || j->weights[i] > j->weights[best]))
                best = i;
        }
        if (best == n)
            break;
        out[count++] = best;
    }
    return count;
}

/* The pixel in the middle of a patch. */
static size_t middle(size_t patch, size_t patches, size_t pixels)
{
    return (2 * patch + 1) * pixels / (2 * patches);
}

/* ---- answers ------------------------------------------------------------------------------- */

static int answer_json(const job *j)
{
    size_t list[MOST_LISTED], count = j->weights ? mixture(j, list) : 0, n = j->patches;
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "file", j->c->args.items[1]);
    qkv_json_put_string(&w, "out", j->s.out);
    if (j->weights) {
        qkv_json_begin_array(&w, "attention");
        for (size_t i = 0; i < count; i++) {
            qkv_json_begin_object(&w, NULL);
            qkv_json_put_int(&w, "x", (int64_t)middle(list[i] % n, n, j->in.width));
            qkv_json_put_int(&w, "y", (int64_t)middle(list[i] / n, n, j->in.height));
            qkv_json_put_real(&w, "weight", j->weights[list[i]]);
            qkv_json_end_object(&w);
        }
        qkv_json_end_array(&w);
    }
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

static int answer(const job *j)
{
    if (j->c->common.json)
        return answer_json(j);
    if (!j->weights)
        return CLI_DONE;
    size_t list[MOST_LISTED], count = mixture(j, list), n = j->patches;
    for (size_t i = 0; i < count; i++)
        printf("%s%.2f of the patch at %zu,%zu%s", i ? ", " : "", j->weights[list[i]],
               middle(list[i] % n, n, j->in.width), middle(list[i] / n, n, j->in.height),
               list[i] == j->asked ? " (itself)" : "");
    printf("\n");
    return CLI_DONE;
}

/* ---- the run ------------------------------------------------------------------------------- */

static qkv_status color(job *j)
{
    qkv_context *ctx = j->c->ctx;
    const char *dir = j->c->args.items[0];
    qkv_status status = read_hints(j);
    if (!status)
        status = qkv_hub_load(&j->model, ctx, dir);
    if (!status && qkv_model_type_of(j->model) != &qkv_colorizer_type)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s model does not colour pictures", dir,
                          qkv_model_type_name(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_image_read(&j->in, ctx, j->c->args.items[1], NULL);
    if (!status)
        status = qkv_tape_create(&j->tape, ctx);
    if (!status && j->s.attention)
        status = watch(j);
    if (!status)
        status = qkv_colorize(&j->out, j->model, j->tape, &j->in, j->hints, j->s.hints.count);
    for (size_t i = 0; i < j->patches * j->patches && !status; i++)
        j->weights[i] /= (double)j->heads;
    if (!status)
        status = qkv_image_write(&j->out, ctx, j->s.out);
    return status || !j->s.attention ? status : paint_attention(j);
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 2, 2) || cli_png_only(c, j.s.out))
        return CLI_USAGE;
    int code = color(&j) ? cli_error(c) : answer(&j);
    qkv_image_free(&j.in, c->ctx);
    qkv_image_free(&j.out, c->ctx);
    qkv_free(c->ctx, j.hints);
    qkv_free(c->ctx, j.weights);
    qkv_tape_destroy(j.tape);
    qkv_model_destroy(j.model);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv colorize runs/color old.jpg --out new.png",
    "qkv colorize runs/color old.jpg --hint 12,40,#c03020 --out new.png",
    "qkv colorize runs/color old.jpg --attention 12,40 --out new.png", NULL};

const cli_command cli_colorize = {
    .manual = {.name = "colorize", .summary = "give a picture colours",
               .usage = "DIR IMG [--hint X,Y,#RRGGBB]... --out F.png", .examples = examples,
               .tables = tables,
               .text = "Reads the picture's lightness alone. Colours are made at the size that "
                       "the model was trained on and stretched over the picture; a hint colours "
                       "a cell of it, a 16th of its side. --attention lists the patches that the "
                       "patch at a pixel mixed, with their weights (the mean over the heads), and "
                       "paints them. --json: {\"file\", \"out\", \"attention\": [{\"x\", \"y\", "
                       "\"weight\"}, ...]}, places as pixels of the picture."},
    .run = run};
