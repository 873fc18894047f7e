/* imagine.c - `qkv imagine`: images that a prior draws, code by code. */
#include <stdio.h>

#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED,
     .offset = offsetof(settings, out), .value = "F.png",
     .help = "where the images go, side by side"},
};
static const qkv_option_table table = {"Imagining", rows, sizeof rows / sizeof *rows, 0};

/* The candidates of image i, the drawn one last if it is none of them: NULL past the last. */
static const qkv_next_code *imagine_next(const qkv_sampled_images *s, size_t i, size_t k)
{
    const qkv_next_code *next = &s->next[i * s->shown];
    bool listed = false;
    for (size_t j = 0; j < s->next_count[i]; j++)
        listed = listed || next[j].drawn;
    if (k < s->next_count[i])
        return &next[k];
    return k == s->next_count[i] && !listed ? &s->drawn[i] : NULL;
}

static void put_next(qkv_json_writer *w, const qkv_sampled_images *s, size_t i)
{
    const qkv_next_code *next;
    qkv_json_begin_array(w, NULL);
    for (size_t k = 0; (next = imagine_next(s, i, k)) != NULL; k++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_int(w, "code", next->code);
        qkv_json_put_real(w, "prob", next->probability);
        qkv_json_put_bool(w, "drawn", next->drawn);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
}

static int imagine_answer_json(const cli *c, const qkv_sampled_images *s, const char *out)
{
    size_t all = s->rows * s->columns;
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "out", out);
    qkv_json_put_int(&w, "count", (int64_t)s->count);
    qkv_json_put_int(&w, "rows", (int64_t)s->rows);
    qkv_json_put_int(&w, "columns", (int64_t)s->columns);
    qkv_json_begin_array(&w, "codes");
    for (size_t i = 0; i < s->count; i++)
        qkv_json_put_ids(&w, NULL, s->codes + i * all, all);
    qkv_json_end_array(&w);
    if (s->shown) {
        qkv_json_begin_array(&w, "next");
        for (size_t i = 0; i < s->count; i++)
            put_next(&w, s, i);
        qkv_json_end_array(&w);
    }
    return cli_answer(c, &w);
}

static int imagine_answer(const cli *c, const qkv_sampled_images *s, const char *out)
{
    if (c->common.json)
        return imagine_answer_json(c, s, out);
    for (size_t i = 0; i < s->count && s->shown; i++) {
        printf("row %zu, column %zu:", s->row, s->column);
        const qkv_next_code *next;
        for (size_t k = 0; (next = imagine_next(s, i, k)) != NULL; k++)
            printf("  %s%.1f%% %d", next->drawn ? "*" : "", 100 * next->probability,
                   (int)next->code);
        printf("\n");
    }
    return CLI_DONE;
}

static int imagine_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_pipeline_sample_options o = qkv_pipeline_sample_defaults();
    qkv_sampled_images drawn = {0};
    qkv_pipeline *p = NULL;
    qkv_status status = QKV_OK;
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_pipeline_sample_table(), &o);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (!refused)
        refused = cli_png_only(c, s.out);
    if (refused)
        return refused;
    cli_catch_signals();
    o.seed = c->common.seed;
    if (qkv_options_given(c->options, "keep") && !o.complete.path)
        status = qkv_fail(c->ctx, QKV_E_ARGUMENT, "--keep: --complete expected beside it, with "
                          "the image of which a share stays");
    if (!status)
        status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_pipeline_sample_images(p, &o, &drawn);
    if (!status)
        status = qkv_image_write(&drawn.sheet, c->ctx, s.out);
    int code = status ? cli_error(c) : imagine_answer(c, &drawn, s.out);
    qkv_sampled_images_free(&drawn);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {
    "qkv imagine runs/prior --count 16 --out grid.png",
    "qkv imagine runs/animals --class cat --top-k 100 --out cats.png",
    "qkv imagine runs/prior --complete half.png --count 4 --out completed.png",
    "qkv imagine runs/prior --width 128 --height 64 --out wide.png",
    "qkv imagine runs/prior --complete half.png --show-next 8 --out next.png", NULL};

CLI_COMMAND(cli_imagine, 500) = {
    .manual = {.name = "imagine", .summary = "draw images that never were",
               .usage = "DIR --out grid.png [options]", .examples = examples,
               .text = "A prior of train imagine draws codes, row by row from the top, and its "
                       "VQGAN makes images of them, which are written in a grid with two white "
                       "pixels between. The same --seed gives the same images. --complete takes "
                       "the upper part of an image as its codes show it and draws the rest. "
                       "Images larger than those it learnt from are drawn through a window of "
                       "that size about each code. --show-next writes, for each image, what "
                       "there is of it at a place and the patches that the likeliest codes would "
                       "make there, and prints their probabilities: the model's own, "
                       "before --temperature and the like change them; * marks the code that was "
                       "drawn. --json: {\"out\", \"count\", "
                       "\"rows\", \"columns\", \"codes\": [[..], ..], \"next\": [[{\"code\", "
                       "\"prob\", \"drawn\"}, ..], ..]}."},
    .library[CLI_BEHIND] = qkv_pipeline_sample_table, .own = {&table},
    .opens = true, .run = imagine_run};
