/* embed_captions.c - `qkv train embed` on images with captions: a CLIPModel that gives both vectors
 * in one space. */
#include <math.h>
#include <string.h>

#include "image/augment_steps.h"
#include "job/embed.h"
#include "job/image_job.h"
#include "job/vocabulary.h"
#include "model/tables.h"
#include "pipeline/captioned.h"
#include "qkv/clip.h"
#include "qkv/embed.h"
#include "text/texts.h"

enum { MOST_SIDE = 224, SMALL = 64, PATCH = 16, PATCHES = 8, OLD_EOS = 2 };
static const double MOST_RATE = 1e-3; /* when none is given */

typedef struct {
    const char *captions, *valid_captions;
    size_t size, length;
    int split; /* a qkv_held_out_by */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "captions", .type = QKV_OPT_STRING, FIELD(captions), .value = "FILE",
     .help = "of the images: a table of file and caption (CSV or TSV), or a folder with a text "
             "file NAME.txt for each; several captions an image are allowed"},
    {.flag = "valid-captions", .type = QKV_OPT_STRING, FIELD(valid_captions), .value = "FILE",
     .help = "of the images of --valid"},
    QKV__IMAGE_SIZE_ROW,
    QKV__IMAGE_SPLIT_ROW,
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 3, .max = 1048576, FIELD(length),
     .initial = "77", .help = "most tokens that are read of a caption"},
};
static const qkv_option_table table = {"Images with captions", rows, sizeof rows / sizeof *rows,
                                       0};

typedef struct {
    qkv__image_job p; /* with options as in o and s */
    qkv__embed_options o;
    settings s;
    qkv_augment_options augment;
    qkv_vocabulary vocabulary;
    qkv_clip_config config;
    qkv__captioned all, held; /* as read; their images are p.all's and p.held's */
} job;

/* ---- the model ----------------------------------------------------------------------------- */

static qkv_status captions_format(const job *j, qkv_image_format *f)
{
    size_t size = j->s.size;
    qkv_status status = qkv__images_format(f, j->p.base.ctx, j->o.data, size ? size : MOST_SIDE);
    size_t side = f->height, step = side <= SMALL ? PATCHES : PATCH;
    if (j->p.base.model) { /* that of --init */
        const qkv_patches_config *c = &((const qkv_clip_config *)
                                            qkv_model_config(j->p.base.model))->vision;
        const qkv_image_format *had = qkv_model_image_format(j->p.base.model);
        *f = had ? *had : qkv__images_square(c->image, c->channels);
        return status;
    }
    f->height = f->width = size ? size : side > step ? side - side % step : side;
    f->crop = true;
    f->resize = f->height;
    f->resample = 3;
    return status;
}

/* The smallest that cuts a small side into 8 at most; 16 of a larger one, if it cuts that. */
static size_t choose_patch(size_t side)
{
    size_t patch = 1;
    if (side > SMALL && side % PATCH == 0)
        return PATCH;
    while (side % patch || side / patch > PATCHES)
        patch++;
    return patch;
}

/* The token behind every text. */
static qkv_status find_end(const job *j, int32_t *end)
{
    qkv_tokenizer *t = j->p.base.tokenizer;
    qkv_context *ctx = j->p.base.ctx;
    qkv_ids ids = {0};
    qkv_status status = qkv_tokenizer_encode(t, "a", 1, QKV_ENCODE_ADD_SPECIAL, &ids);
    *end = !status && ids.count ? ids.data[ids.count - 1] : -1;
    qkv_ids_free(&ids, ctx);
    bool ends = *end >= 0 && (*end == qkv_tokenizer_special(t, QKV_TOKEN_EOS) ||
                              *end == qkv_tokenizer_special(t, QKV_TOKEN_SEP));
    if (!status && (!ends || *end == OLD_EOS))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the tokenizer: texts that end in eos_token or "
                          "sep_token, with another id than %d, expected; found the id %d", OLD_EOS,
                          (int)*end);
    return status;
}

static qkv_status captions_create(job *j, const qkv_image_format *f)
{
    qkv__run *r = &j->p.base;
    qkv_clip_config *c = &j->config;
    int32_t end = -1;
    qkv_status status = qkv__run_preset(r, qkv_clip_type(), j->o.model, &qkv__clip_config, c);
    if (!status)
        status = find_end(j, &end);
    if (status)
        return status;
    c->text.vocab = qkv_tokenizer_vocab_size(r->tokenizer);
    c->text.positions = j->s.length;
    c->text.eos = end;
    c->text.pad = qkv_tokenizer_special(r->tokenizer, QKV_TOKEN_PAD);
    c->text.bos = qkv_tokenizer_special(r->tokenizer, QKV_TOKEN_BOS);
    if (c->text.bos < 0)
        c->text.bos = qkv_tokenizer_special(r->tokenizer, QKV_TOKEN_CLS);
    c->vision.image = f->height;
    c->vision.channels = f->channels;
    if (!qkv__run_given(r, "vision_config.patch_size"))
        c->vision.patch = choose_patch(f->height);
    if (!qkv__run_given(r, "text_config.intermediate_size"))
        c->text.ff_width = 4 * c->text.width;
    if (!qkv__run_given(r, "vision_config.intermediate_size"))
        c->vision.ff_width = 4 * c->vision.width;
    if (!qkv__run_given(r, "logit_scale_init_value"))
        c->log_scale = -log(j->o.temperature);
    return qkv__run_create(r, qkv_clip_type(), c);
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Captions of images (NULL: the first count), one a line. */
static qkv_status caption_lines(const job *j, const qkv__captioned *c, const size_t *numbers,
                                size_t count, qkv_str *out)
{
    qkv_str_init(out, j->p.base.ctx);
    for (size_t i = 0; i < count; i++) {
        size_t image = numbers ? numbers[i] : i;
        for (size_t k = c->begins[image]; k < c->ends[image]; k++)
            qkv_str_printf(out, "%s\n", c->captions.items[k].text);
    }
    return out->data ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status captions_tokenizer(job *j)
{
    const qkv_held_out *s = &j->p.split;
    const qkv__captioned *held = j->held.images ? &j->held : &j->all;
    qkv__run *r = &j->p.base;
    qkv_str train, valid;
    unsigned roles = j->vocabulary.from                             ? 0
                     : j->vocabulary.kind == QKV_TOKENIZER_WORDPIECE ? QKV__BERT_ROLES
                                                                     : QKV__TRANSLATE_ROLES;
    qkv_status status = caption_lines(j, &j->all, s->train, s->train_count, &train);
    size_t count = j->held.images ? qkv_pixels_count(j->held.images) : s->valid_count;
    (void)caption_lines(j, held, j->held.images ? NULL : s->valid, count, &valid);
    const qkv_text_span learnt = {.data = train.data, .len = train.len, .name = j->s.captions};
    const qkv_text_span other = {.data = valid.data, .len = valid.len, .name = j->s.captions};
    if (!status)
        status = qkv__vocabulary_train(r->ctx, &j->vocabulary, r->options, roles, &learnt, 1,
                                       &other, valid.data != NULL, &r->tokenizer);
    qkv_str_free(&train);
    qkv_str_free(&valid);
    return status;
}

static qkv_status captions_load(job *j, const qkv_image_format *f)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_status status = qkv__captioned_load(&j->all, ctx, j->o.data, j->s.captions, f);
    j->p.all.images = j->all.images;
    if (!status)
        status = qkv__image_split(&j->p);
    if (!status && j->o.valid)
        status = qkv__captioned_load(&j->held, ctx, j->o.valid, j->s.valid_captions, f);
    j->p.held.images = j->held.images;
    return status;
}

static qkv_status captions_read(qkv__run *base)
{
    job *j = (job *)base;
    qkv_image_format f;
    qkv_status status = QKV_OK;
    if (base->o.init) {
        status = qkv__run_load_able(base, QKV_CAN_EMBED_BOTH, "CLIP");
        if (!status)
            status = qkv_hub_load_tokenizer(&base->tokenizer, base->ctx, base->o.init);
    }
    if (!status)
        status = captions_format(j, &f);
    if (!status)
        status = captions_load(j, &f);
    if (!status && !base->o.init)
        status = captions_tokenizer(j);
    if (!status && !base->o.init)
        status = captions_create(j, &f);
    if (status)
        return status;
    if (!qkv_model_image_format(base->model))
        qkv__image_measure(&j->p, &f);
    qkv_model_set_image_format(base->model, &f);
    return QKV_OK;
}

static qkv_status captions_write(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_held_out *s = &j->p.split;
    const qkv_clip_config *c = qkv_model_config(base->model);
    bool apart = j->held.images != NULL;
    size_t count = apart ? qkv_pixels_count(j->held.images) : s->valid_count;
    qkv_status status = qkv__captioned_records(&base->train, &j->all, base->tokenizer,
                                               c->text.positions, s->train, s->train_count,
                                               qkv__run_path(base, QKV__TRAIN_RECORDS).text);
    if (!status && count)
        status = qkv__captioned_records(&base->valid, apart ? &j->held : &j->all, base->tokenizer,
                                        c->text.positions, apart ? NULL : s->valid, count,
                                        qkv__run_path(base, QKV__VALID_RECORDS).text);
    j->all.images = j->held.images = NULL; /* the image job closes them */
    return status ? status : qkv__image_write(base);
}

static qkv_status captions_open(qkv__run *base)
{
    enum { FIELDS = 3 };
    const qkv_path train = qkv__run_path(base, QKV__TRAIN_RECORDS);
    const qkv_path valid = qkv__run_path(base, QKV__VALID_RECORDS);
    const job *j = (const job *)base;
    qkv_status status = qkv__image_open(base);
    if (!status)
        status = qkv__records_open_of(&base->train, base->ctx, train.text, FIELDS,
                                      base->tokenizer);
    if (!status && j->p.valid.images)
        status = qkv__records_open_of(&base->valid, base->ctx, valid.text, FIELDS,
                                      base->tokenizer);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------- */

static qkv_status captions_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_captions_options o = {.augment = j->augment};
    const qkv_captioned train = {j->p.train.images, base->train};
    const qkv_captioned valid = {j->p.valid.images, base->valid};
    qkv_status status = qkv_task_captions(&base->task, base->model, &train,
                                          valid.images ? &valid : NULL, &o, base->o.seed);
    if (status)
        return qkv_fail_prefix(base->ctx, j->p.s.images);
    const qkv_clip_config *c = qkv_model_config(base->model);
    size_t width = c->text.width > c->vision.width ? c->text.width : c->vision.width;
    qkv__run_tuned_rate(base, width, MOST_RATE);
    qkv__image_tell(&j->p, "images of %zu x %zu in patches of %zu, %zu captions, %zu tokens in "
                    "the vocabulary", qkv_pixels_width(j->p.train.images),
                    qkv_pixels_height(j->p.train.images), c->vision.patch,
                    qkv_records_count(base->train), c->text.vocab);
    return QKV_OK;
}

static qkv_status captions_check_settings(qkv__run *base)
{
    job *j = (job *)base;
    const char *wrong = NULL;
    if (!j->o.data)
        wrong = "--captions: --data, their images, expected too";
    else if (!j->o.valid != !j->s.valid_captions)
        wrong = "--valid and --valid-captions: both or none expected, found one";
    j->p.s = QKV__IMAGE_OPTIONS(j->o, j->s);
    return wrong ? qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s", wrong) : QKV_OK;
}

static void captions_close(qkv__run *base)
{
    job *j = (job *)base;
    if (j->all.images == j->p.all.images)
        j->all.images = NULL;
    if (j->held.images == j->p.held.images)
        j->held.images = NULL;
    qkv__captioned_close(&j->all);
    qkv__captioned_close(&j->held);
    qkv__image_close(base);
}

static const qkv_option_table *const task_tables[] = {&qkv__embed_table, &table,
                                                      &qkv__augment_table, NULL};
static const char *const decided[] = {
    "text_config.vocab_size", "text_config.max_position_embeddings", "text_config.pad_token_id",
    "text_config.bos_token_id", "text_config.eos_token_id", "vision_config.image_size",
    "vision_config.num_channels", NULL};
static const char *const fixed[] = {"model", "size", "length", "temperature", NULL};
static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"model", "micro", NULL},
    {"temperature", "0.07", NULL},
    {"batch", "128", NULL},
    {"weight-decay", "0.1", NULL},
    {"beta2", "0.98", NULL},
    {"crop-scale", "0.5", NULL},
    {"valid-last", "10%", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / hidden_size, 1e-3 at most; a quarter of it with --init"},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};
static const qkv__job_table tables[] = {
    {&qkv__embed_table, offsetof(job, o)}, {&table, offsetof(job, s)},
    {&qkv__augment_table, offsetof(job, augment)},
    {&qkv__vocabulary_table, offsetof(job, vocabulary)}, QKV__RUN_TABLES,
    {&qkv__clip_config, offsetof(job, config)}, {NULL, 0}};

const qkv__job_kind qkv__embed_captions = {
    .name = "embed", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = qkv__embed_decides, .variant = qkv__embed_variant, .about = "captions",
    .can = QKV_CAN_EMBED_BOTH, .check = captions_check_settings, .read = captions_read,
    .write = captions_write, .open = captions_open, .begin = captions_begin,
    .close = captions_close, .has_text = true, .fixed = fixed, .task_tables = task_tables,
    .decided = decided, .sizes = {qkv_clip_type}};
