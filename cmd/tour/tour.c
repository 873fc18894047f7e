/* tour.c - `qkv tour`: every system, small, one chapter after another. A chapter is a row
 * here and a file tour_NAME.c. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cli.h"
#include "tour/images.h"

/* X(name, seconds that it is worth, title) */
#define TOUR_CHAPTERS(X)                                                                       \
    X(attention, 1, "Attention, by numbers: The cat sat on the mat")                           \
    X(contrastive, 30, "Texts of one day find each other: the loss is attention")              \
    X(dates, 150, "An encoder-decoder reads dates, however they are written")                  \
    X(numbers, 160, "An encoder-decoder reads numbers in words")                               \
    X(bert, 150, "A BERT fills in blanks, and tells code from prose")                          \
    X(forecast, 40, "A transformer forecasts a series, beside the naive forecasts")            \
    X(classify, 90, "A small transformer tells what is in an image")                           \
    X(segment, 80, "Which pixels are the image, and which the background")                     \
    X(reconstruct, 120, "A masked autoencoder fills in what is hidden of images")              \
    X(colorize, 90, "Patches that lack their colour attend to the others")                     \
    X(imagine, 270, "Images become codes, and a GPT imagines new ones")                        \
    X(gpt, 300, "A GPT reads source code and writes some")

static const struct {
    const char *name;
    double seconds;
    const char *title;
    tour_fn *show;
} chapters[] = {
#define TOUR_ROW(name, seconds, title) {#name, seconds, title, tour_##name},
    TOUR_CHAPTERS(TOUR_ROW)
#undef TOUR_ROW
};
#define TOUR_NAME(name, seconds, title) " " #name
enum { CHAPTERS = sizeof chapters / sizeof *chapters };

static const char marker[] = "tour.txt"; /* only a folder with this file is made anew */

typedef struct {
    const char *out, *source, *images;
    double minutes;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, FIELD(out), .value = "DIR", .initial = "runs/tour",
     .help = "where the chapters' models go; made anew"},
    {.flag = "minutes", .type = QKV_OPT_REAL, .max = 1e4, FIELD(minutes), .initial = "0",
     .help = "time for all chapters together; 0: what each is worth, up to 5"},
    {.flag = "source", .type = QKV_OPT_STRING, FIELD(source), .value = "DIR",
     .help = "folder of .c, .h and .md files to learn from; else this command's own help"},
    {.flag = "images", .type = QKV_OPT_STRING, FIELD(images), .value = "PATH",
     .help = "images to learn from, with classes: a folder, an archive, a font; else the emoji "
             "font of this machine, or drawn ones"},
};
static const qkv_option_table table = {"Tour", rows, sizeof rows / sizeof *rows, 0};

/* ---- the folder ------------------------------------------------------------------------------ */

/* Removes what the tour wrote. Links are removed, not followed. */
static qkv_status remove_all(qkv_context *ctx, const char *path)
{
    qkv_names names = {0};
    if (unlink(path) == 0 || errno == ENOENT)
        return QKV_OK;
    qkv_status status = qkv_dir_list(&names, ctx, path);
    for (size_t i = 0; i < names.count && !status; i++)
        status = remove_all(ctx, qkv_path_in(path, names.names[i]).text);
    qkv_names_free(&names);
    if (!status && rmdir(path) != 0)
        status = qkv_fail(ctx, QKV_E_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return status;
}

/* Makes the tour's folder, or takes one that an earlier tour made. */
static qkv_status tour_open_folder(qkv_context *ctx, const char *out)
{
    static const char text[] = "This folder was made by qkv tour, which makes it anew each time.\n";
    qkv_names names = {0};
    const qkv_path path = qkv_path_in(out, marker);
    qkv_status status = QKV_OK;
    if (qkv_dir_exists(out) && !qkv_file_exists(path.text)) {
        status = qkv_dir_list(&names, ctx, out);
        if (!status && names.count)
            status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s is not empty and no tour made it: give "
                                                    "another --out", out);
        qkv_names_free(&names);
    }
    if (!status)
        status = qkv_dir_create(ctx, out);
    if (!status)
        status = qkv_file_write(ctx, path.text, text, sizeof text - 1);
    return status;
}

/* ---- chapters -------------------------------------------------------------------------------- */

typedef struct {
    char text[40];
} time_text;

static time_text in_words(double seconds)
{
    time_text t;
    if (seconds < 1.5)
        (void)snprintf(t.text, sizeof t.text, "a second");
    else if (seconds < 90)
        (void)snprintf(t.text, sizeof t.text, "%.0f seconds", seconds);
    else
        (void)snprintf(t.text, sizeof t.text, "%.1f minutes", seconds / 60);
    return t;
}

static qkv_status show_chapter(page *p, qkv_page *index, const settings *s, int i,
                               double seconds)
{
    const qkv_path dir = qkv_path_in(s->out, chapters[i].name);
    qkv_status status = remove_all(p->c->ctx, dir.text);
    if (!status)
        status = qkv_dir_create(p->c->ctx, dir.text);
    if (!status) {
        tour t = {p, index, s->out, dir.text, s->source, s->images, seconds, qkv_now()};
        qkv_page_heading(index, 2, chapters[i].name, chapters[i].title);
        page_begin(p, chapters[i].name, chapters[i].title);
        page_text(p, "(chapter %s: up to %s)", chapters[i].name, in_words(seconds).text);
        qkv_tape_reset(p->t);
        qkv_tape_mode(p->t, false, false);
        status = chapters[i].show(&t);
        page_end(p);
    }
    return status;
}

/* What a chapter leaves of its time goes to those after it. */
static qkv_status show_chapters(page *p, qkv_page *index, const settings *s,
                                const bool wanted[CHAPTERS])
{
    double worth = 0;
    qkv_status status = QKV_OK;
    for (int i = 0; i < CHAPTERS; i++)
        worth += wanted[i] ? chapters[i].seconds : 0;
    double begin = qkv_now(), time = s->minutes > 0 ? 60 * s->minutes : worth;
    for (int i = 0; i < CHAPTERS && !status && !cli_stopped(); i++) {
        if (!wanted[i])
            continue;
        double left = fmax(1, begin + time - qkv_now());
        status = show_chapter(p, index, s, i, left * chapters[i].seconds / worth);
        worth -= chapters[i].seconds;
    }
    if (!status && !cli_stopped()) {
        double spent = qkv_now() - begin;
        page_text(p, "The tour took %s, of %s.", in_words(spent).text, in_words(time).text);
        page_number(p, "seconds", spent);
    }
    return status;
}

static qkv_status save_index(const page *p, const qkv_page *index, const settings *s)
{
    const qkv_path path = qkv_path_in(s->out, "index.html");
    qkv_status status = qkv_page_save(index, path.text);
    if (!status)
        page_text(p, "All of it on one page, with what each model attends to: %s", path.text);
    return status;
}

static bool tour_choose(const cli *c, bool wanted[CHAPTERS])
{
    for (int i = 0; i < CHAPTERS; i++)
        wanted[i] = c->args.count == 0;
    for (size_t k = 0; k < c->args.count; k++) {
        bool known = false;
        for (int i = 0; i < CHAPTERS; i++)
            if (strcmp(c->args.items[k], chapters[i].name) == 0)
                wanted[i] = known = true;
        if (!known)
            return false;
    }
    return true;
}

static int tour_unknown(const cli *c)
{
    char names[256] = "";
    for (int i = 0; i < CHAPTERS; i++) {
        size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", chapters[i].name);
    }
    return cli_usage(c, "no such chapter; there are %s", names);
}

static int tour_run(cli *c, int argc, char **argv)
{
    settings s;
    bool wanted[CHAPTERS];
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 0, CHAPTERS);
    if (refused)
        return refused;
    if (!tour_choose(c, wanted))
        return tour_unknown(c);
    qkv_json_writer json;
    page p;
    qkv_page *index;
    if (tour_open_folder(c->ctx, s.out) ||
        qkv_page_create(&index, c->ctx, &(qkv_page_options){
            .title = "A tour of transformers", .subtitle = qkv_machine_cpu()}))
        return cli_error(c);
    int code = page_open(&p, c, &json);
    if (!code) {
        if (!s.images)
            s.images = tour_images_find(c->ctx);
        cli_catch_signals();
        qkv_status status = show_chapters(&p, index, &s, wanted);
        if (!status && cli_stopped())
            cli_note(c, "the tour was stopped");
        if (!status)
            status = save_index(&p, index, &s);
        code = page_close(&p, status != QKV_OK);
    }
    qkv_page_destroy(index);
    return !code && fflush(stdout) ? cli_fail("the tour cannot be written") : code;
}

static const char *const examples[] = {"qkv tour", "qkv tour dates", "qkv tour gpt --minutes 10",
                                       "qkv tour reconstruct --images photos",
                                       "qkv tour --minutes 2 --out runs/short", NULL};

CLI_COMMAND(cli_tour, 800) = {
    .manual = {.name = "tour", .summary = "watch small models learn, chapter by chapter",
               .usage = "[CHAPTER...] [options]",
               .text = "Shows what qkv does with nothing but what is here: attention by numbers, "
                       "embeddings that find each other, an encoder-decoder that learns to read "
                       "dates and numbers, a GPT that learns from source text and writes, and "
                       "small models of images. "
                       "Each chapter says what was learnt, and against what. Chapters:"
                       TOUR_CHAPTERS(TOUR_NAME),
               .examples = examples},
    .own = {&table}, .run = tour_run};
