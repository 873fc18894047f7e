/* train_recognize.c - `qkv train classify` on pictures: they become a transformer that tells their
 * classes. */
#include <stdio.h>
#include <string.h>

#include "cli/classify.h"
#include "cli/job.h"
#include "cli/pictures.h"
#include "cli/texts.h"
#include "io/file.h"
#include "model/vit.h"
#include "qkv/mae.h"
#include "qkv/recognize.h"

enum { COMPACT_BELOW = 64, MOST_SIDE = 224, PATCH = 16, SMALL_PATCH = 4, SMALL = 96 };
#define TRAIN "train/train.pixels"
#define VALID "train/valid.pixels"
static const double MOST_RATE = 1e-3; /* when none is given */
static const double TUNING = 0.25; /* a model that knows pictures learns in smaller steps */

typedef struct {
    size_t size;
    int type, split; /* KIND_..; a qkv_held_out_by */
} settings;
enum { KIND_AUTO, KIND_CCT, KIND_VIT };

static const char *const kinds[] = {"auto", "cct", "vit", NULL};
static const char *const splits[] = {"auto", "last", "class", "name", NULL};
#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "size", .type = QKV_OPT_SIZE, .max = 4096, FIELD(size), .initial = "0",
     .help = "side that pictures get, in pixels; 0: the first one's, at most 224"},
    {.flag = "type", .type = QKV_OPT_ENUM, FIELD(type), .names = kinds, .initial = "auto",
     .help = "convolutions or patches at first; auto: cct below 64 pixels"},
    {.flag = "split", .type = QKV_OPT_ENUM, FIELD(split), .names = splits, .initial = "auto",
     .help = "what --valid-last takes: the last, the last of each class, files whose names begin "
             "alike; auto: of each class where they lie sorted by it"},
};
const qkv_option_table cli_recognize_table = {"Pictures", rows, sizeof rows / sizeof *rows};
#undef FIELD

/* The fields of either type; what --set gives goes into the chosen one's. */
#define CONFIG qkv_vit_config
#include "model/config_rows.h"
static const qkv_option model_rows[] = {
    SIZE_ROW("patch_size", trunk.patch, 1, "16", "vit: side of a patch; below 96 pixels 4"),
    SIZE_ROW("num_conv_layers", convolutions, 1, "2", "cct: convolutions; each halves the picture"),
    SIZE_ROW("conv_channels", conv_channels, 1, "64", "cct: channels of all of them but the last"),
    BOOL_ROW("use_positions", positions, "true", "cct: learn a vector for every place"),
    SIZE_ROW("hidden_size", trunk.width, 1, "128", "width of the residual stream"),
    SIZE_ROW("num_hidden_layers", trunk.layers, 1, "4", "transformer blocks"),
    SIZE_ROW("num_attention_heads", trunk.heads, 1, "4", "attention heads"),
    SIZE_ROW("intermediate_size", trunk.ff_width, 0, "0",
             "feed-forward width; 0: 4 times hidden_size, of cct twice"),
    ENUM_ROW("hidden_act", trunk.act, qkv__activation_names, "gelu",
             "activation of the feed-forward layer"),
    BOOL_ROW("qkv_bias", trunk.qkv_bias, "true", "biases of query, key and value; cct: false"),
    RATE_ROW("hidden_dropout_prob", trunk.dropout, "0", "dropout of each sublayer's output"),
    RATE_ROW("attention_probs_dropout_prob", trunk.attention_dropout, "0",
             "dropout of attention weights"),
    RATE_ROW("drop_path_rate", trunk.drop_path, "0",
             "share of the last block's branches left out; less before it"),
};
const qkv_option_table cli_recognizer_table = {"Model of pictures", model_rows,
                                               sizeof model_rows / sizeof *model_rows};

typedef struct {
    cli_job base;
    cli_classify_options o;
    settings s;
    qkv_augment_options augment;
    qkv_vit_config given; /* what --set says */
    qkv_picture_format format;
    qkv_pixels *all, *held; /* as read */
    qkv_held_out split;
    qkv_pixels *train, *valid; /* in OUT/train */
} job;

/* ---- the model ----------------------------------------------------------------------------- */

/* Puts what was given on the command line into the fields of a type's configuration. */
static qkv_status take_given(job *j, const qkv_model_type *type, qkv_vit_config *c)
{
    qkv_context *ctx = j->base.c->ctx;
    const qkv_option_table *table = qkv_model_type_config(type);
    qkv_options *o = NULL;
    char text[QKV__OPTION_TEXT];
    qkv_status status = qkv_options_create(&o, ctx);
    if (!status)
        status = qkv_options_bind(o, table, c);
    if (!status && !qkv_vit_preset(type, j->o.model, c))
        status = qkv__fail(ctx, QKV_E_ARGUMENT, "--model: %s has no size \"%.40s\"",
                           qkv_model_type_name(type), j->o.model);
    for (size_t i = 0; i < cli_recognizer_table.count && !status; i++) {
        const qkv_option *row = &cli_recognizer_table.rows[i];
        if (!qkv_options_given(j->base.c->options, row->key))
            continue;
        qkv__option_text(row, &j->given, text);
        status = qkv_options_set(o, row->key, text);
    }
    qkv_options_destroy(o);
    return status;
}

static qkv_status label(job *j)
{
    qkv_context *ctx = j->base.c->ctx;
    size_t count = qkv_pixels_classes(j->all);
    const char **names = qkv__calloc(ctx, count + 1, sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        names[i] = qkv_pixels_class_name(j->all, i);
    qkv_status status = names ? qkv_model_set_labels(j->base.model, names, count) : QKV_E_MEMORY;
    qkv__free(ctx, names);
    return status;
}

/* Normalised by the pictures that are learnt from. */
static void measure_colours(job *j)
{
    qkv_picture_format *f = &j->format;
    qkv_pixels_stats(j->all, j->split.train, j->split.train_count, f->mean, f->std);
    for (size_t i = 0; i < 3; i++)
        f->std[i] = f->std[i] > 1e-3 ? f->std[i] : 1;
}

static const qkv_model_type *choose_type(const job *j)
{
    if (j->s.type == KIND_AUTO)
        return j->format.height < COMPACT_BELOW ? &qkv_cct_type : &qkv_vit_type;
    return j->s.type == KIND_CCT ? &qkv_cct_type : &qkv_vit_type;
}

static qkv_status make_model(job *j)
{
    cli_job *base = &j->base;
    const qkv_model_type *type = choose_type(j);
    qkv_vit_config c;
    qkv_status status = take_given(j, type, &c);
    if (status)
        return status;
    c.trunk.image = j->format.height;
    c.trunk.channels = j->format.channels;
    c.classes = qkv_pixels_classes(j->all);
    if (type == &qkv_vit_type && !qkv_options_given(base->c->options, "patch_size"))
        c.trunk.patch = j->format.height < SMALL ? SMALL_PATCH : PATCH;
    status = qkv_model_create(&base->model, base->c->ctx, type, &c);
    if (!status)
        status = qkv_model_init(base->model, base->c->common.seed);
    if (!status)
        measure_colours(j);
    return status ? status : label(j);
}

/* The trunk of a model that a classifier can begin with; NULL: there is none. */
static const qkv_patches_config *trunk_of(const qkv_model *m)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    if (qkv_model_is_vit(m))
        return &((const qkv_vit_config *)qkv_model_config(m))->trunk;
    if (type == &qkv_mae_type)
        return &((const qkv_mae_config *)qkv_model_config(m))->trunk;
    return NULL;
}

/* A model for these classes that begins with what the one of --init has. */
static qkv_status tune_model(job *j, qkv_model *old)
{
    cli_job *base = &j->base;
    qkv_context *ctx = base->c->ctx;
    const qkv_model_type *type =
        qkv_model_is_vit(old) ? qkv_model_type_of(old) : &qkv_vit_type;
    qkv_vit_config c;
    qkv_option_defaults(qkv_model_type_config(type), &c);
    if (qkv_model_is_vit(old))
        c = *(const qkv_vit_config *)qkv_model_config(old);
    c.trunk = *trunk_of(old);
    c.classes = qkv_pixels_classes(j->all);
    if (qkv_options_given(base->c->options, "hidden_dropout_prob"))
        c.trunk.dropout = j->given.trunk.dropout;
    if (qkv_options_given(base->c->options, "attention_probs_dropout_prob"))
        c.trunk.attention_dropout = j->given.trunk.attention_dropout;
    if (qkv_options_given(base->c->options, "drop_path_rate"))
        c.trunk.drop_path = j->given.trunk.drop_path;
    qkv_status status = qkv_model_create(&base->model, ctx, type, &c);
    if (!status)
        status = qkv_model_init(base->model, base->c->common.seed);
    if (status)
        return status;
    qkv_model_copy(base->model, old);
    if (!qkv_model_pictures(old))
        measure_colours(j);
    return label(j);
}

/* ---- pictures ------------------------------------------------------------------------------ */

/* The format that the model of --init wants, or that of the data. */
static qkv_status choose_format(job *j, const qkv_model *old)
{
    cli *c = j->base.c;
    const qkv_picture_format *had = old ? qkv_model_pictures(old) : NULL;
    size_t most = j->s.size ? j->s.size : MOST_SIDE;
    qkv_status status = cli_pictures_format(&j->format, c, j->o.data, most);
    if (status)
        return status;
    if (had)
        j->format = *had;
    if (old && !had) {
        j->format.channels = trunk_of(old)->channels;
        j->format.height = j->format.width = trunk_of(old)->image;
    }
    if (j->s.size)
        j->format.height = j->format.width = j->s.size;
    size_t side = j->format.height, step = side < COMPACT_BELOW ? 1 : PATCH;
    if (!old && !j->s.size && side > step)
        j->format.height = j->format.width = side - side % step;
    return QKV_OK;
}

static qkv_status hold_out(job *j)
{
    cli *c = j->base.c;
    size_t held = 0, count = qkv_pixels_count(j->all);
    j->split.ctx = c->ctx;
    qkv_status status = j->o.valid ? QKV_OK
                                   : cli_held_out(c, j->o.valid_last, count, "pictures", &held);
    if (status)
        return status;
    if (held)
        return qkv_pixels_split(&j->split, c->ctx, j->all, held, (qkv_held_out_by)j->s.split,
                                true);
    j->split.train = qkv__calloc(c->ctx, count, sizeof *j->split.train);
    for (size_t i = 0; i < count && j->split.train; i++)
        if (qkv_pixels_class(j->all, i) >= 0)
            j->split.train[j->split.train_count++] = i;
    return j->split.train ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status read_pictures(job *j)
{
    cli *c = j->base.c;
    qkv_status status = cli_pictures_read(&j->all, c, j->o.data, &j->format);
    if (!status && qkv_pixels_classes(j->all) < 2)
        status = qkv__fail(c->ctx, QKV_E_FORMAT, "%s: at least 2 classes (folders of pictures) "
                           "expected to learn from, found %zu", j->o.data,
                           qkv_pixels_classes(j->all));
    if (!status)
        status = hold_out(j);
    return status;
}

/* Before anything is written: its classes must be the model's. */
static qkv_status read_valid(job *j)
{
    cli *c = j->base.c;
    qkv_pixels *read = NULL;
    qkv_status status = cli_pictures_read(&read, c, j->o.valid, &j->format);
    if (!status)
        status = cli_pictures_copy(&j->held, c, NULL, read, NULL, qkv_pixels_count(read),
                                   j->base.model, j->o.valid);
    qkv_pixels_close(read);
    return status;
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->c->ctx;
    qkv_model *old = NULL;
    qkv_status status = base->o.init ? qkv_hub_load(&old, ctx, base->o.init) : QKV_OK;
    if (!status && old && !trunk_of(old))
        status = qkv__fail(ctx, QKV_E_ARGUMENT, "--init: a model of pictures expected, %s holds a "
                           "%s", base->o.init, qkv_model_type_name(qkv_model_type_of(old)));
    if (!status)
        status = choose_format(j, old);
    if (!status)
        status = read_pictures(j);
    if (!status)
        status = old ? tune_model(j, old) : make_model(j);
    if (!status)
        qkv_model_set_pictures(base->model, &j->format);
    if (!status && j->o.valid)
        status = read_valid(j);
    qkv_model_destroy(old);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------- */

static qkv_status write_set(const job *j, const char *name, const qkv_pixels *from,
                            const size_t *numbers, size_t count, const char *where,
                            qkv_pixels **out)
{
    char *path = cli_job_path(&j->base, name);
    qkv_status status = path ? cli_pictures_copy(out, j->base.c, path, from, numbers, count,
                                                 j->base.model, where)
                             : QKV_E_MEMORY;
    qkv__free(j->base.c->ctx, path);
    return status;
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    const qkv_held_out *s = &j->split;
    qkv_status status =
        write_set(j, TRAIN, j->all, s->train, s->train_count, j->o.data, &j->train);
    if (!status && s->valid_count)
        status = write_set(j, VALID, j->all, s->valid, s->valid_count, j->o.data, &j->valid);
    if (!status && j->held)
        status = write_set(j, VALID, j->held, NULL, qkv_pixels_count(j->held), j->o.valid,
                           &j->valid);
    return status;
}

static qkv_status open_set(const job *j, const char *name, bool required, qkv_pixels **out)
{
    char *path = cli_job_path(&j->base, name);
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status && (required || qkv__file_exists(path)))
        status = qkv_pixels_open(out, j->base.c->ctx, path);
    qkv__free(j->base.c->ctx, path);
    return status;
}

static qkv_status open_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = open_set(j, TRAIN, true, &j->train);
    return status ? status : open_set(j, VALID, false, &j->valid);
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_recognize_options o = {.smoothing = j->o.smoothing, .augment = j->augment};
    qkv_status status = qkv_task_recognize(&base->task, base->model, j->train, j->valid, &o,
                                           c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, j->o.data);
    const qkv_vit_config *config = qkv_model_config(base->model);
    double rate = cli_training_rate(config->trunk.width);
    rate = rate < MOST_RATE ? rate : MOST_RATE;
    cli_job_rate(base, config->trunk.width, base->o.init ? TUNING * rate : rate);
    cli_note(c, "%s, %zu parameters, pictures of %zu x %zu, %zu classes; %zu pictures to learn "
             "from, %zu held out", qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), qkv_pixels_width(j->train),
             qkv_pixels_height(j->train), config->classes, qkv_pixels_count(j->train),
             j->valid ? qkv_pixels_count(j->valid) : 0);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_pixels_close(j->all);
    qkv_pixels_close(j->held);
    qkv_held_out_free(&j->split);
    qkv_pixels_close(j->train);
    qkv_pixels_close(j->valid);
}

static const char *const fixed[] = {"model", "type", NULL};
static const cli_job_type job_type = {
    .name = "classify", .takes = qkv_model_is_vit, .read = read_data, .write = write_data,
    .open = open_data, .begin = begin, .close = close_data, .fixed = fixed};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &cli_classify_table, &j.o);
    cli_bind(c, &cli_recognize_table, &j.s);
    cli_bind(c, &qkv_augment_table, &j.augment);
    cli_job_bind(&j.base);
    cli_bind(c, &cli_recognizer_table, &j.given);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

/* What these defaults are the manual of `train classify` says in words. */
static const qkv__preset presets[] = {
    {"model", "micro", NULL},
    {"batch", "128", NULL},
    {"weight-decay", "0.05", NULL},
    {"warmup", "200", NULL},
    {NULL, NULL, NULL},
};

static const cli_command pictures = {
    .manual = {.name = "train classify", .usage = "--data DIR|TAR|IDX --out DIR [options]",
               .presets = presets},
    .run = run};

int cli_train_recognize(cli *c, int argc, char **argv)
{
    c->command = &pictures;
    return run(c, argc, argv);
}
