/* sample_options.c - what images are asked for of a prior. */
#include "pipeline/sampling_run.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/options.h"
#include "pipeline/image.h"
#include "qkv/codes.h"
#include "qkv/gpt.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_sample_options, member)
static const qkv_option rows[] = {
    {.flag = "count", .key = "count", .type = QKV_OPT_SIZE, .min = 1, .max = 1e4, FIELD(count),
     .initial = "16", .help = "images"},
    {.flag = "class", .key = "class", .type = QKV_OPT_STRING, FIELD(class_), .value = "NAME",
     .help = "of what, where classes were learnt, a number where they have no names; else of each "
             "in turn"},
    {.flag = "condition", .key = "condition", .type = QKV_OPT_STRING, FIELD(condition.path),
     .value = "IMG", .help = "the image they hang on, where that was learnt"},
    {.flag = "complete", .key = "complete", .type = QKV_OPT_STRING, FIELD(complete.path),
     .value = "IMG", .help = "the upper part is this image's"},
    {.flag = "keep", .key = "keep", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .max = 1,
     FIELD(keep), .initial = "0.5", .value = "X",
     .help = "share of it that stays, in whole rows of codes"},
    {.flag = "height", .key = "height", .type = QKV_OPT_SIZE, .max = 65536, FIELD(height),
     .initial = "0", .help = "of an image in pixels; 0: as trained"},
    {.flag = "width", .key = "width", .type = QKV_OPT_SIZE, .max = 65536, FIELD(width),
     .initial = "0", .help = "the same across, at least as trained"},
    {.flag = "temperature", .key = "temperature", .type = QKV_OPT_REAL, .max = 100,
     FIELD(sampling.temperature), .initial = "1",
     .help = "above 1 wilder, below 1 tamer; 0: always the likeliest code"},
    {.flag = "top-k", .key = "top_k", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(sampling.top_k),
     .initial = "0", .help = "only the k likeliest codes; 0: all"},
    {.flag = "top-p", .key = "top_p", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     FIELD(sampling.top_p), .initial = "1", .help = "only the likeliest that make up p together"},
    {.flag = "show-next", .key = "show_next", .type = QKV_OPT_SIZE, .max = QKV_SAMPLE_NEXT,
     FIELD(show_next), .value = "K", .initial = "0",
     .help = "show the K likeliest codes of a place instead, as patches"},
    {.flag = "at", .key = "at", .type = QKV_OPT_STRING, FIELD(at), .value = "ROW,COLUMN",
     .help = "that place, from 0; else the first that is drawn or, of whole images, the middle"},
    {.key = "seed", .type = QKV_OPT_U64, .flags = QKV_OPT_HIDDEN, FIELD(seed), .initial = "0",
     .help = "of what is drawn"},
};
QKV__OPTIONS(qkv_pipeline_sample, "Imagining")

size_t qkv__sample_vocab(const qkv__sampling_run *r)
{
    return ((const qkv_gpt_config *)qkv_model_config(r->p->model))->vocab;
}

size_t qkv__sample_bytes(const qkv_sampled_images *s)
{
    return s->height * s->width * s->channels;
}

static bool named(const qkv_image_source *image) { return image->path || image->image; }

/* What a table would refuse, and what only goes with something else. */
static qkv_status sample_options_check_options(const qkv_pipeline *p,
                                               const qkv_pipeline_sample_options *o)
{
    if (!o->count || o->count > 10000 || o->show_next > QKV_SAMPLE_NEXT || !(o->keep >= 0) ||
        o->keep >= 1 || o->height > 65536 || o->width > 65536)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "1 to 10000 images of 65536 pixels a side, "
                        "at most %d codes to show and a kept share in [0, 1) expected",
                        (int)QKV_SAMPLE_NEXT);
    if (o->at && !o->show_next)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--at: --show-next expected beside it, with the "
                        "number of codes to show at that place");
    return QKV_OK;
}

static qkv_status choose_size(const qkv__sampling_run *r)
{
    const qkv__prior *c = &r->p->codecs;
    qkv_sampled_images *out = r->out;
    out->height = r->o.height ? r->o.height : c->rows * c->factor;
    out->width = r->o.width ? r->o.width : c->columns * c->factor;
    out->channels = c->colors;
    out->rows = out->height / c->factor;
    out->columns = out->width / c->factor;
    if (out->height % c->factor || out->width % c->factor)
        return qkv_fail(r->p->ctx, QKV_E_ARGUMENT, "--width and --height: multiples of %zu "
                        "expected, the side of a code, found %zu and %zu", c->factor, out->width,
                        out->height);
    return qkv__codec_size(c->vqgan, r->p->ctx, "--width and --height", out->rows, out->columns);
}

/* The upper rows of the image's codes, and the image that all its codes make. */
static qkv_status read_given(qkv__sampling_run *r)
{
    qkv_context *ctx = r->p->ctx;
    const qkv__prior *c = &r->p->codecs;
    const qkv_sampled_images *out = r->out;
    size_t n = out->rows * out->columns;
    qkv_image image = {0};
    if (!named(&r->o.complete))
        return QKV_OK;
    r->given_rows = (size_t)(r->o.keep * (double)out->rows + 0.5);
    r->given_rows = r->given_rows < out->rows ? r->given_rows : out->rows - 1;
    r->given = qkv_calloc(ctx, n, sizeof *r->given);
    r->kept = qkv_calloc(ctx, 1, qkv__sample_bytes(out));
    qkv_status status = r->given && r->kept ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__image_fit(&image, ctx, &r->o.complete, out->height, out->width,
                                c->colors);
    if (!status)
        status = qkv_images_encode(c->vqgan, c->tape, image.data, 1, out->height, out->width,
                                   r->given);
    if (!status)
        status = qkv_images_decode(c->vqgan, c->tape, r->given, 1, out->rows, out->columns,
                                   r->kept);
    for (size_t i = r->given_rows * out->columns; i < n && !status; i++)
        r->given[i] = -1;
    qkv_image_free(&image, ctx);
    return status;
}

/* Where classes have no names, as in a model from elsewhere, their numbers are the tokens. */
static qkv_status read_class(const qkv__sampling_run *r, int32_t *out)
{
    size_t count = qkv__sample_vocab(r);
    const char *text = r->o.class_;
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number >= count)
        return qkv_fail(r->p->ctx, QKV_E_ARGUMENT, "--class: %s has no names of classes: a number "
                        "from 0 to %zu expected, found \"%.60s\"", r->p->dir, count - 1, text);
    *out = (int32_t)number;
    return QKV_OK;
}

qkv_status qkv__sample_class(const qkv__sampling_run *r, int32_t *out)
{
    const qkv_model *m = r->p->model;
    const char *name = r->o.class_;
    *out = -1;
    for (size_t i = 0; name && i < qkv_model_label_count(m); i++)
        if (strcmp(qkv_model_label(m, i), name) == 0)
            *out = (int32_t)i;
    if (!name || *out >= 0)
        return QKV_OK;
    if (!qkv_model_label_count(m) && r->p->codecs.before == 1 && !r->p->codecs.condition)
        return read_class(r, out);
    if (!qkv_model_label_count(m))
        return qkv_fail(r->p->ctx, QKV_E_ARGUMENT, "--class: %s knows no classes", r->p->dir);
    return qkv_fail(r->p->ctx, QKV_E_ARGUMENT, "--class: %s knows no \"%.60s\"; \"%.60s\", say",
                    r->p->dir, name, qkv_model_label(m, 0));
}

/* The codes of the image that all hang on, (count, rows x columns). */
static qkv_status code_condition(qkv__sampling_run *r, size_t rows_, size_t columns)
{
    qkv_context *ctx = r->p->ctx;
    qkv_image image = {0};
    qkv_status status = qkv__image_load(&image, ctx, &r->o.condition);
    if (!status)
        status = qkv__prior_condition(&r->p->codecs, &image, rows_, columns, r->conditions);
    for (size_t i = 1; i < r->o.count && !status; i++)
        memcpy(r->conditions + i * r->tokens, r->conditions, r->tokens * sizeof *r->conditions);
    qkv_image_free(&image, ctx);
    return status;
}

/* A class each; or the codes of the other image, the same ones for all. */
static qkv_status read_conditions(qkv__sampling_run *r)
{
    qkv__prior *c = &r->p->codecs;
    size_t classes = qkv_model_label_count(r->p->model), high = 1, wide = 1;
    int32_t class_;
    qkv_status status = qkv__sample_class(r, &class_);
    if (!status && !named(&r->o.condition) != !c->condition)
        return qkv_fail(r->p->ctx, QKV_E_ARGUMENT, "--condition: %s", c->condition
                        ? "an image expected: those of this model hang on one"
                        : "none expected: this model's images hang on no other");
    if (status)
        return status;
    if (c->condition) {
        bool larger = r->out->rows > c->rows || r->out->columns > c->columns;
        high = larger ? r->out->rows : qkv__prior_condition_side(c);
        wide = larger ? r->out->columns : high;
    }
    r->tokens = high * wide;
    r->conditions = qkv_calloc(r->p->ctx, r->o.count, r->tokens * sizeof *r->conditions);
    if (!r->conditions)
        return QKV_E_MEMORY;
    if (c->condition)
        return code_condition(r, high, wide);
    for (size_t i = 0; i < r->o.count; i++)
        r->conditions[i] = class_ >= 0 ? class_ : classes ? (int32_t)(i % classes) : 0;
    return QKV_OK;
}

static qkv_status find_place(const qkv__sampling_run *r)
{
    qkv_sampled_images *out = r->out;
    const char *at = r->o.at;
    out->row = r->given ? r->given_rows : out->rows / 2;
    out->column = r->given ? 0 : out->columns / 2;
    if (!at)
        return QKV_OK;
    if (!qkv__image_place(&at, &out->row, &out->column) || *at || out->row >= out->rows ||
        out->column >= out->columns || out->row < r->given_rows)
        return qkv_fail(r->p->ctx, QKV_E_ARGUMENT, "--at: row,column expected, from %zu,0 to "
                        "%zu,%zu, found %.60s", r->given_rows, out->rows - 1, out->columns - 1,
                        r->o.at);
    return QKV_OK;
}

qkv_status qkv__sample_prepare(qkv__sampling_run *r)
{
    qkv_status status = sample_options_check_options(r->p, &r->o);
    if (!status)
        status = qkv__pipeline_codecs(r->p);
    if (!status)
        status = choose_size(r);
    if (!status)
        status = read_given(r);
    if (!status)
        status = read_conditions(r);
    return status ? status : find_place(r);
}
