/* imagine.c - `qkv imagine`: pictures that a prior draws, code by code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/commands.h"
#include "use/imagining.h"
#include "pipeline/pictures.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/image_file.h"
#include "qkv/imagine.h"

enum { AT_ONCE = 64 }; /* pictures drawn side by side */

#define FIELD(member) .offset = offsetof(imagining_options, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.png", .help = "where the pictures go, side by side"},
    {.flag = "count", .type = QKV_OPT_SIZE, .min = 1, .max = 1e4, FIELD(count), .initial = "16",
     .help = "pictures"},
    {.flag = "class", .type = QKV_OPT_STRING, FIELD(class_), .value = "NAME",
     .help = "of what, where classes were learnt, a number where they have no names; else of each "
             "in turn"},
    {.flag = "condition", .type = QKV_OPT_STRING, FIELD(condition), .value = "IMG",
     .help = "the picture they hang on, where that was learnt"},
    {.flag = "complete", .type = QKV_OPT_STRING, FIELD(complete), .value = "IMG",
     .help = "the upper part is this picture's"},
    {.flag = "keep", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1, FIELD(keep),
     .initial = "0.5", .value = "X", .help = "share of it that stays, in whole rows of codes"},
    {.flag = "height", .type = QKV_OPT_SIZE, .max = 65536, FIELD(height), .initial = "0",
     .help = "of a picture in pixels; 0: as trained"},
    {.flag = "width", .type = QKV_OPT_SIZE, .max = 65536, FIELD(width), .initial = "0",
     .help = "the same across, at least as trained"},
    {.flag = "temperature", .type = QKV_OPT_REAL, .max = 100, FIELD(sampling.temperature),
     .initial = "1", .help = "above 1 wilder, below 1 tamer; 0: always the likeliest code"},
    {.flag = "top-k", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(sampling.top_k), .initial = "0",
     .help = "only the k likeliest codes; 0: all"},
    {.flag = "top-p", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     FIELD(sampling.top_p), .initial = "1", .help = "only the likeliest that make up p together"},
    {.flag = "show-next", .type = QKV_OPT_SIZE, .max = IMAGINING_NEXT,
     FIELD(show_next), .value = "K", .initial = "0",
     .help = "show the K likeliest codes of a place instead, as patches"},
    {.flag = "at", .type = QKV_OPT_STRING, FIELD(at), .value = "ROW,COLUMN",
     .help = "that place, from 0; else the first that is drawn or, of whole pictures, the middle"},
};
static const qkv_option_table table = {"Imagining", rows, sizeof rows / sizeof *rows};

/* ---- what is asked for --------------------------------------------------------------------- */

static qkv_status check_asked(const imagining *j)
{
    const qkv_options *o = j->c->options;
    if (qkv_options_given(o, "keep") && !j->s.complete)
        return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--keep: --complete expected beside it, with "
                        "the picture of which a share stays");
    if (qkv_options_given(o, "at") && !j->s.show_next)
        return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--at: --show-next expected beside it, with "
                        "the number of codes to show at that place");
    return QKV_OK;
}

static qkv_status choose_size(imagining *j)
{
    size_t f = j->p.factor;
    j->height = j->s.height ? j->s.height : j->p.rows * f;
    j->width = j->s.width ? j->s.width : j->p.columns * f;
    j->rows = j->height / f;
    j->columns = j->width / f;
    if (j->height % f || j->width % f)
        return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--width and --height: multiples of %zu "
                        "expected, the side of a code, found %zu and %zu", f, j->width, j->height);
    return qkv__codec_size(j->p.vqgan, j->c->ctx, "--width and --height", j->rows, j->columns);
}

/* The upper rows of the picture's codes, and the picture that all its codes make. */
static qkv_status read_given(imagining *j)
{
    qkv_context *ctx = j->c->ctx;
    size_t n = j->rows * j->columns;
    qkv_image picture = {0};
    if (!j->s.complete)
        return QKV_OK;
    j->given_rows = (size_t)(j->s.keep * (double)j->rows + 0.5);
    j->given_rows = j->given_rows < j->rows ? j->given_rows : j->rows - 1;
    j->given = qkv_calloc(ctx, n, sizeof *j->given);
    j->kept = qkv_calloc(ctx, 1, imagining_bytes(j));
    qkv_status status = j->given && j->kept ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__prior_read(&j->p, j->s.complete, j->height, j->width, &picture);
    if (!status)
        status = qkv_pictures_encode(j->p.vqgan, j->p.tape, picture.data, 1, j->height, j->width,
                                     j->given);
    if (!status)
        status = qkv_pictures_decode(j->p.vqgan, j->p.tape, j->given, 1, j->rows, j->columns,
                                     j->kept);
    for (size_t i = j->given_rows * j->columns; i < n && !status; i++)
        j->given[i] = -1;
    qkv_image_free(&picture, ctx);
    return status;
}

/* Where classes have no names, as in a model from elsewhere, their numbers are the tokens. */
static qkv_status read_class(const imagining *j, int32_t *out)
{
    size_t count = imagining_vocab(j);
    const char *text = j->s.class_;
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number >= count)
        return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--class: %s has no names of classes: a number "
                        "from 0 to %zu expected, found \"%.60s\"", j->c->args.items[0],
                        count - 1, text);
    *out = (int32_t)number;
    return QKV_OK;
}

/* -1: none was asked for. */
static qkv_status find_class(const imagining *j, int32_t *out)
{
    const qkv_model *m = j->p.prior;
    *out = -1;
    for (size_t i = 0; j->s.class_ && i < qkv_model_label_count(m); i++)
        if (strcmp(qkv_model_label(m, i), j->s.class_) == 0)
            *out = (int32_t)i;
    if (!j->s.class_ || *out >= 0)
        return QKV_OK;
    if (!qkv_model_label_count(m) && j->p.before == 1 && !j->p.condition)
        return read_class(j, out);
    if (!qkv_model_label_count(m))
        return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--class: %s knows no classes",
                        j->c->args.items[0]);
    return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--class: %s knows no \"%.60s\"; \"%.60s\", say",
                    j->c->args.items[0], j->s.class_, qkv_model_label(m, 0));
}

/* A class each; or the codes of the other picture, the same ones for all. */
static qkv_status read_conditions(imagining *j)
{
    qkv_context *ctx = j->c->ctx;
    size_t classes = qkv_model_label_count(j->p.prior), side = 1;
    int32_t class_;
    qkv_status status = find_class(j, &class_);
    if (!status && !j->s.condition != !j->p.condition)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--condition: %s", j->p.condition
                        ? "a picture expected: those of this model hang on one"
                        : "none expected: this model's pictures hang on no other");
    if (status)
        return status;
    if (j->p.condition)
        side = qkv__prior_condition_side(&j->p);
    bool larger = j->p.condition && (j->rows > j->p.rows || j->columns > j->p.columns);
    size_t high = larger ? j->rows : side, wide = larger ? j->columns : side;
    j->tokens = high * wide;
    j->conditions = qkv_calloc(ctx, j->s.count, j->tokens * sizeof *j->conditions);
    if (!j->conditions)
        return QKV_E_MEMORY;
    if (j->p.condition) {
        qkv_image picture = {0};
        status = qkv_image_read(&picture, ctx, j->s.condition, NULL);
        if (!status)
            status = qkv__prior_condition(&j->p, &picture, high, wide, j->conditions);
        qkv_image_free(&picture, ctx);
    }
    for (size_t i = 0; i < j->s.count && !status; i++) {
        int32_t *own = j->conditions + i * j->tokens;
        if (j->p.condition && i)
            memcpy(own, j->conditions, j->tokens * sizeof *own);
        else if (!j->p.condition)
            *own = class_ >= 0 ? class_ : classes ? (int32_t)(i % classes) : 0;
    }
    return status;
}

static qkv_status find_place(imagining *j)
{
    size_t row = j->given_rows, column = 0;
    if (!j->given) {
        row = j->rows / 2;
        column = j->columns / 2;
    }
    if (j->s.at) {
        char *end, *last;
        row = (size_t)strtoull(j->s.at, &end, 10);
        column = (size_t)strtoull(*end == ',' ? end + 1 : end, &last, 10);
        if (*end != ',' || last == end + 1 || *last || end == j->s.at || row >= j->rows ||
            column >= j->columns || row < j->given_rows)
            return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--at: row,column expected, from %zu,0 to "
                            "%zu,%zu, found %.60s", j->given_rows, j->rows - 1, j->columns - 1,
                            j->s.at);
    }
    j->place = row * j->columns + column;
    return QKV_OK;
}

static qkv_status prepare(imagining *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = check_asked(j);
    if (!status)
        status = qkv__prior_open(&j->p, j->c->ctx, j->c->args.items[0]);
    if (!status)
        status = choose_size(j);
    if (!status)
        status = read_given(j);
    if (!status)
        status = read_conditions(j);
    if (!status)
        status = find_place(j);
    if (status)
        return status;
    j->codes = qkv_calloc(ctx, j->s.count, j->rows * j->columns * sizeof *j->codes);
    j->pictures = qkv_calloc(ctx, j->s.count, imagining_bytes(j));
    if (j->s.show_next)
        j->chances = qkv_calloc(ctx, j->s.count, imagining_vocab(j) * sizeof *j->chances);
    return j->codes && j->pictures && (j->chances || !j->s.show_next) ? QKV_OK : QKV_E_MEMORY;
}

/* ---- drawing ------------------------------------------------------------------------------- */

static size_t part_of(const imagining *j, size_t first)
{
    return j->s.count - first < AT_ONCE ? j->s.count - first : AT_ONCE;
}

static bool on_place(void *user, size_t row, size_t column, const qkv_real *probabilities)
{
    imagining *j = user;
    size_t V = imagining_vocab(j), n = part_of(j, j->first), all = j->rows * j->columns;
    size_t at = row * j->columns + column;
    if (j->chances && at == j->place)
        memcpy(j->chances + j->first * V, probabilities, n * V * sizeof *probabilities);
    if (cli_progress_due(&j->line))
        cli_progress_show(&j->line, j->first * all + at * n, j->s.count * all, NULL);
    return !cli_stopped();
}

static qkv_status draw(imagining *j)
{
    size_t size = j->rows * j->columns, above = j->given_rows * j->p.factor * j->width;
    qkv_status status = QKV_OK;
    cli_progress_begin(&j->line, j->c, "imagining", "codes", 0);
    for (j->first = 0; j->first < j->s.count && !status; j->first += AT_ONCE) {
        size_t n = part_of(j, j->first);
        const qkv_imagine_options o = {
            .count = n, .rows = j->rows, .columns = j->columns, .given = j->given,
            .conditions = j->conditions + j->first * j->tokens,
            .codes = qkv__codec_config(j->p.vqgan)->codes, .seed = j->c->common.seed,
            .first = j->first, .sampling = j->s.sampling};
        status = qkv_imagine(j->p.prior, &o, on_place, j, j->codes + j->first * size);
    }
    cli_progress_end(&j->line);
    for (size_t i = 0; i < j->s.count && !status; i++) {
        uint8_t *picture = j->pictures + i * imagining_bytes(j);
        status = qkv_pictures_decode(j->p.vqgan, j->p.tape, j->codes + i * size, 1, j->rows,
                                     j->columns, picture);
        if (!status && j->kept)
            memcpy(picture, j->kept, above * j->p.colors);
    }
    return status;
}

/* ---- answers ------------------------------------------------------------------------------- */

static double chance(const imagining *j, size_t i, int32_t code)
{
    return (double)j->chances[i * imagining_vocab(j) + (size_t)code];
}

static void put_next(const imagining *j, qkv_json_writer *w, size_t i)
{
    int32_t codes[IMAGINING_NEXT];
    size_t found = imagining_likeliest(j, i, codes);
    qkv_json_begin_array(w, NULL);
    for (size_t k = 0; k < found; k++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "code", codes[k]);
        qkv_json_put_real(w, "prob", chance(j, i, codes[k]));
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

static int answer_json(const imagining *j)
{
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "out", j->s.out);
    qkv_json_put_int(&w, "count", (int64_t)j->s.count);
    qkv_json_put_int(&w, "rows", (int64_t)j->rows);
    qkv_json_put_int(&w, "columns", (int64_t)j->columns);
    qkv_json_begin_array(&w, "codes");
    for (size_t i = 0; i < j->s.count; i++) {
        qkv_json_begin_array(&w, NULL);
        for (size_t k = 0; k < j->rows * j->columns; k++)
            qkv_json_put_int(&w, NULL, j->codes[i * j->rows * j->columns + k]);
        qkv_json_end_array(&w);
    }
    qkv_json_end_array(&w);
    if (j->s.show_next) {
        qkv_json_begin_array(&w, "next");
        for (size_t i = 0; i < j->s.count; i++)
            put_next(j, &w, i);
        qkv_json_end_array(&w);
    }
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

static int answer(const imagining *j)
{
    if (j->c->common.json)
        return answer_json(j);
    for (size_t i = 0; i < j->s.count && j->s.show_next; i++) {
        int32_t codes[IMAGINING_NEXT];
        size_t found = imagining_likeliest(j, i, codes);
        printf("row %zu, column %zu:", j->place / j->columns, j->place % j->columns);
        for (size_t k = 0; k < found; k++)
            printf("  %.1f%% %d", 100 * chance(j, i, codes[k]), (int)codes[k]);
        printf("\n");
    }
    return CLI_DONE;
}

static int run(cli *c, int argc, char **argv)
{
    imagining j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 1, 1) || cli_png_only(c, j.s.out))
        return CLI_USAGE;
    cli_catch_signals();
    qkv_status status = prepare(&j);
    if (!status)
        status = draw(&j);
    if (!status)
        status = j.s.show_next ? imagining_write_next(&j) : imagining_write(&j);
    int code = status ? cli_error(c) : answer(&j);
    qkv_free(c->ctx, j.given);
    qkv_free(c->ctx, j.kept);
    qkv_free(c->ctx, j.conditions);
    qkv_free(c->ctx, j.codes);
    qkv_free(c->ctx, j.pictures);
    qkv_free(c->ctx, j.chances);
    qkv__prior_close(&j.p);
    qkv_model_destroy(j.p.prior);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv imagine runs/prior --count 16 --out grid.png",
    "qkv imagine runs/animals --class cat --top-k 100 --out cats.png",
    "qkv imagine runs/prior --complete half.png --count 4 --out completed.png",
    "qkv imagine runs/prior --width 128 --height 64 --out wide.png",
    "qkv imagine runs/prior --complete half.png --show-next 8 --out next.png", NULL};

const cli_command cli_imagine = {
    .manual = {.name = "imagine", .summary = "draw pictures that never were",
               .usage = "DIR --out grid.png [options]", .examples = examples, .tables = tables,
               .text = "A prior of train imagine draws codes, row by row from the top, and its "
                       "VQGAN makes pictures of them, which are written in a grid with two white "
                       "pixels between. The same --seed gives the same pictures. --complete takes "
                       "the upper part of a picture as its codes show it and draws the rest. "
                       "Pictures larger than those it learnt from are drawn through a window of "
                       "that size about each code. --show-next writes, for each picture, what "
                       "there is of it at a place and the patches that the likeliest codes would "
                       "make there, and prints their probabilities. --json: {\"out\", \"count\", "
                       "\"rows\", \"columns\", \"codes\": [[..], ..], \"next\": [[{\"code\", "
                       "\"prob\"}, ..], ..]}."},
    .run = run};
