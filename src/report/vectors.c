/* vectors.c - looking inside encoders, whose answer is a vector: of texts, of images, and of both.
 * What patching measures of a vector is its cosine with another. */
#include <stdio.h>
#include <string.h>

#include "report/patches.h"
#include "report/looking.h"
#include "qkv/bert.h"
#include "qkv/clip.h"
#include "qkv/image_list.h"
#include "qkv/pipeline_embed.h"
#include "task/vectors.h"

static const double EPS = 1e-12;

static qkv_status pass_alone(qkv__looking *l, qkv_tensor *(*vectors)(qkv__looking *l, size_t n))
{
    qkv_tape_reset(l->p->tape);
    qkv_tape_mode(l->p->tape, false, false);
    (void)vectors(l, 1);
    return qkv_tape_status(l->p->tape);
}

/* ---- cosines --------------------------------------------------------------------------------- */

/* Cosines (n, l->toward_count) of vectors (n, width); without l->toward the vectors, of length
 * 1. */
static qkv_tensor *cosines(const qkv__looking *l, qkv_tensor *vectors)
{
    qkv_tape *t = l->p->tape;
    qkv_tensor *x = vectors ? qkv_l2_normalize(t, vectors, EPS) : NULL;
    if (!l->toward || !x)
        return x;
    const size_t shape[] = {l->toward_count, qkv_dim(x, 1)};
    return qkv_linear(t, x, qkv_tensor_from(t, l->toward, 2, shape), NULL, QKV_ACT_NONE);
}

static qkv_status own_vector(qkv__looking *l, qkv_real *out)
{
    qkv_tape *t = l->p->tape;
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    const qkv_tensor *x = l->kind->patch->outputs(l, 1, 0);
    const qkv_real *data = qkv_data(t, x);
    if (data)
        memcpy(out, data, qkv_count(x) * sizeof *out);
    return data ? QKV_OK : qkv_tape_status(t) ? qkv_tape_status(t) : QKV_E_MEMORY;
}

/* The vector of a text or of an image's file. */
static qkv_status other_vector(qkv_pipeline *p, const char *what, qkv_real *out)
{
    qkv_vectors v = {0};
    bool image = !qkv_model_can(p->model, QKV_CAN_EMBED_TEXT) && qkv_is_image_list(what);
    bool text = qkv_model_can(p->model, QKV_CAN_EMBED_TEXT | QKV_CAN_EMBED_BOTH) && !image;
    qkv_status status = text ? qkv_pipeline_embed_texts(p, &what, 1, &v)
                             : qkv_pipeline_embed_images(p, &what, 1, &v);
    if (!status && v.count != 1)
        status = qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: one image expected, found %zu", what,
                          v.count);
    if (!status)
        memcpy(out, v.data, v.width * sizeof *out);
    qkv_vectors_free(&v);
    return status;
}

/* The vector of option "answer", or the clean input's; behind it that of option "other". */
static qkv_status share_vectors(qkv__looking *clean, qkv__looking *corrupt,
                                const qkv_pipeline_patch_options *o)
{
    qkv_pipeline *p = clean->p;
    size_t width = qkv__vector_width(p->model), count = o->other ? 2 : 1;
    qkv_real *toward = qkv_calloc(p->ctx, count, width * sizeof *toward);
    corrupt->toward = qkv_calloc(p->ctx, count, width * sizeof *toward);
    qkv_status status = !toward || !corrupt->toward ? QKV_E_MEMORY
                        : o->answer                 ? other_vector(p, o->answer, toward)
                                                    : own_vector(clean, toward);
    if (!status && o->other)
        status = other_vector(p, o->other, toward + width);
    if (!status)
        memcpy(corrupt->toward, toward, count * width * sizeof *toward);
    clean->toward = toward;
    for (qkv__looking *l = clean; l; l = l == clean ? corrupt : NULL) {
        l->toward_count = count;
        l->toward_names[0] = o->answer;
        l->toward_names[1] = o->other;
    }
    return status;
}

/* The options' own, in their places. */
static qkv_status vector_choice(const qkv__looking *l, const char *flag, const char *text,
                                size_t choices, size_t *choice)
{
    (void)text;
    (void)choices;
    *choice = strcmp(flag, "--other") == 0;
    return *choice < l->toward_count ? QKV_OK : QKV_E_ARGUMENT;
}

static char *vector_name(const qkv__looking *l, size_t choice)
{
    const char *name = l->toward_names[choice];
    char text[120];
    (void)snprintf(text, sizeof text, "cosine with %.100s", name ? name : "the clean input");
    return qkv_strdup(l->p->ctx, text);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static qkv_status prepare_text(qkv__looking *l)
{
    size_t vocab, length;
    qkv__vector_limits(l->p->model, &vocab, &length);
    return qkv__look_read_text(l, length);
}

static qkv_tensor *text_vectors(qkv__looking *l, size_t n)
{
    const qkv_bert_input in = {.ids = qkv__look_ids(l, 0, n)};
    qkv_tape *t = l->p->tape;
    return in.ids ? qkv_bert_vectors(l->p->model, t, &in, qkv_bert_hidden(l->p->model, t, &in))
                  : NULL;
}

static qkv_status run_text_vectors(qkv__looking *l) { return pass_alone(l, text_vectors); }
static qkv_tensor *text_cosines(qkv__looking *l, size_t n, int at)
{
    (void)at;
    return cosines(l, text_vectors(l, n));
}

const qkv__patch_kind qkv__patch_text_vectors = {
    .numbers = true, .share = share_vectors, .outputs = text_cosines,
    .choice = vector_choice, .name = vector_name};

const qkv__look_kind qkv__look_text_vectors = {
    .can = QKV_CAN_EMBED_TEXT, .attentions = {{"layer", "attn", 0, 0, false}},
    .prepare = prepare_text, .run = run_text_vectors, .panels = qkv__look_positions,
    .patch = &qkv__patch_text_vectors};

/* ---- images ---------------------------------------------------------------------------------- */

static qkv_status prepare_image(qkv__looking *l) { return qkv__look_image_classes.prepare(l); }

/* Of the input as its directory says that the model reads it. */
static qkv_status run_image_vectors(qkv__looking *l)
{
    qkv__look_reading r;
    const qkv_image *input = &l->out->images[0].image;
    qkv_tape *t = l->p->tape;
    if (!qkv__look_reading_of(&r, l->p))
        return QKV_E_UNSUPPORTED;
    size_t shape[] = {1, input->height, input->width, r.inputs};
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *x = qkv_tensor_from(t, NULL, 4, shape);
    if (x)
        qkv__look_reading_values(&r, input->data, qkv_tensor_fill(x));
    (void)qkv__image_vectors(l->p->model, t, x);
    return qkv_tape_status(t);
}

static qkv_tensor *image_cosines(qkv__looking *l, size_t n, int at)
{
    (void)n;
    (void)at;
    return cosines(l, qkv__image_vectors(l->p->model, l->p->tape, qkv__patch_image(l)));
}

const qkv__patch_kind qkv__patch_image_vectors = {
    .numbers = true, .inputs = qkv__patch_pixels, .share = share_vectors,
    .outputs = image_cosines, .choice = vector_choice, .name = vector_name};

const qkv__look_kind qkv__look_image_vectors = {
    .can = QKV_CAN_EMBED_IMAGES, .attentions = {{"layer", "attn", 0, 0, false}},
    .prepare = prepare_image, .run = run_image_vectors, .panels = qkv__look_patch_panels,
    .patch = &qkv__patch_image_vectors};

/* ---- texts and images ------------------------------------------------------------------------ */

static bool reads_image(const qkv_look_input *in)
{
    return in->image.image || (in->image.path && qkv_is_image_list(in->image.path));
}

static qkv_status prepare_captioned(qkv__looking *l)
{
    const qkv_patches_config *c = qkv__vector_trunk(l->p->model);
    return qkv__look_read_image(l, 1, c->image / c->patch);
}

const qkv__look_kind qkv__look_caption_images = {
    .can = QKV_CAN_EMBED_BOTH, .reads = reads_image,
    .attentions = {{"vision", "attn", 0, 0, false}}, .prepare = prepare_captioned,
    .run = run_image_vectors, .panels = qkv__look_patch_panels,
    .patch = &qkv__patch_image_vectors};

static qkv_tensor *vectors_of_caption(qkv__looking *l, size_t n)
{
    qkv_tensor *ids = qkv__look_ids(l, 0, n);
    return ids ? qkv_clip_texts(l->p->model, l->p->tape, ids, 0, NULL) : NULL;
}

static qkv_status run_caption(qkv__looking *l) { return pass_alone(l, vectors_of_caption); }
static qkv_tensor *caption_cosines(qkv__looking *l, size_t n, int at)
{
    (void)at;
    return cosines(l, vectors_of_caption(l, n));
}

static qkv_status panels_caption(qkv__looking *l)
{
    const qkv__look_table t = {
        .param = qkv_params_find(qkv_model_params(l->p->model), "text.positions"),
        .name = "positions", .title = "Similarity of positions"};
    return qkv__look_add_table(l, &t);
}

const qkv__patch_kind qkv__patch_caption_texts = {
    .numbers = true, .share = share_vectors, .outputs = caption_cosines,
    .choice = vector_choice, .name = vector_name};

const qkv__look_kind qkv__look_caption_texts = {
    .can = QKV_CAN_EMBED_BOTH, .attentions = {{"text", "attn", 0, 0, true}},
    .prepare = prepare_text, .run = run_caption, .panels = panels_caption,
    .patch = &qkv__patch_caption_texts};
