/* sample.c - images that a prior draws, code by code. */
#include "pipeline/sampling_run.h"

#include <string.h>

#include "qkv/codes.h"
#include "qkv/gpt.h"
#include "qkv/sample_codes.h"

enum { AT_ONCE = 64 }; /* images drawn side by side */

static size_t sample_part_of(const qkv__sampling_run *r)
{
    return r->o.count - r->first < AT_ONCE ? r->o.count - r->first : AT_ONCE;
}

static qkv_status sample_tell(const qkv__sampling_run *r, size_t done)
{
    return qkv__progress(r->p->ctx, "sampling", "codes", done,
                         r->o.count * r->out->rows * r->out->columns);
}

static bool on_place(void *user, size_t row, size_t column, const qkv_real *probabilities,
                     const qkv_real *model)
{
    (void)probabilities;
    qkv__sampling_run *r = user;
    size_t V = qkv__sample_vocab(r), n = sample_part_of(r), all = r->out->rows * r->out->columns;
    if (model && row == r->out->row && column == r->out->column)
        memcpy(r->chances + r->first * V, model, n * V * sizeof *model);
    return !sample_tell(r, r->first * all + (row * r->out->columns + column) * n);
}

static qkv_status sample_draw(qkv__sampling_run *r)
{
    size_t all = r->out->rows * r->out->columns;
    qkv_status status = QKV_OK;
    for (r->first = 0; r->first < r->o.count && !status; r->first += AT_ONCE) {
        const qkv_sample_codes_options o = {
            .count = sample_part_of(r), .rows = r->out->rows, .columns = r->out->columns,
            .given = r->given, .conditions = r->conditions + r->first * r->tokens,
            .codes = qkv__codec_config(r->p->codecs.vqgan)->codes, .seed = r->o.seed,
            .first = r->first, .sampling = r->o.sampling,
            .model_distribution = r->chances != NULL};
        status = qkv_sample_codes(r->p->model, &o, on_place, r, r->out->codes + r->first * all);
    }
    return status ? status : sample_tell(r, r->o.count * all);
}

/* The drawn codes as pixels; above them what was given. */
static qkv_status sample_decode(const qkv__sampling_run *r)
{
    const qkv__prior *c = &r->p->codecs;
    const qkv_sampled_images *out = r->out;
    size_t above = r->given_rows * c->factor * out->width * c->colors;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < r->o.count && !status; i++) {
        uint8_t *image = out->images + i * qkv__sample_bytes(out);
        status = qkv_images_decode(c->vqgan, c->tape, out->codes + i * out->rows * out->columns,
                                   1, out->rows, out->columns, image);
        if (!status && r->kept)
            memcpy(image, r->kept, above);
    }
    return status;
}

static qkv_status sample_make_room(qkv__sampling_run *r)
{
    qkv_context *ctx = r->p->ctx;
    qkv_sampled_images *out = r->out;
    size_t n = out->count = r->o.count;
    out->codes = qkv_calloc(ctx, n, out->rows * out->columns * sizeof *out->codes);
    out->images = qkv_calloc(ctx, n, qkv__sample_bytes(out));
    if (!out->codes || !out->images)
        return QKV_E_MEMORY;
    if (!(out->shown = r->o.show_next))
        return QKV_OK;
    r->chances = qkv_calloc(ctx, n, qkv__sample_vocab(r) * sizeof *r->chances);
    out->next = qkv_calloc(ctx, n, out->shown * sizeof *out->next);
    out->next_count = qkv_calloc(ctx, n, sizeof *out->next_count);
    out->drawn = qkv_calloc(ctx, n, sizeof *out->drawn);
    return r->chances && out->next && out->next_count && out->drawn ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv_pipeline_sample_images(qkv_pipeline *p, const qkv_pipeline_sample_options *options,
                                      qkv_sampled_images *out)
{
    qkv__sampling_run r = {.p = p, .out = out};
    r.o = options ? *options : qkv_pipeline_sample_defaults();
    *out = (qkv_sampled_images){.ctx = p->ctx};
    if (!qkv_model_can(p->model, QKV_CAN_SAMPLE_CODES))
        return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: a %s samples no images", p->dir,
                        qkv_model_type_name(qkv_model_type_of(p->model)));
    qkv_status status = qkv__sample_prepare(&r);
    if (!status)
        status = sample_make_room(&r);
    if (!status)
        status = sample_draw(&r);
    if (!status)
        status = sample_decode(&r);
    if (!status && r.chances)
        qkv__sample_rank(&r);
    if (!status)
        status = qkv__sample_sheet(&r);
    qkv_free(p->ctx, r.given);
    qkv_free(p->ctx, r.kept);
    qkv_free(p->ctx, r.conditions);
    qkv_free(p->ctx, r.chances);
    if (status)
        qkv_sampled_images_free(out);
    return status;
}

void qkv_sampled_images_free(qkv_sampled_images *s)
{
    void *const parts[] = {s->codes, s->images, s->next, s->next_count, s->drawn};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && s->ctx; i++)
        qkv_free(s->ctx, parts[i]);
    if (s->ctx)
        qkv_image_free(&s->sheet, s->ctx);
    *s = (qkv_sampled_images){0};
}
