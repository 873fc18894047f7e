/* classify.c - `qkv train classify`: labelled texts become a BERT that labels others;
 * pictures: train_recognize.c. */
#include <string.h>

#include "train/bert.h"
#include "use/classify.h"
#include "core/commands.h"
#include "eval/eval.h"
#include "use/pictures.h"
#include "train/vocabulary.h"
#include "model/bert.h"
#include "qkv/augment.h"
#include "qkv/corpus.h"

typedef struct {
    size_t length;
    double drop, agreement;
} settings;

#define FIELD(member) .offset = offsetof(cli_classify_options, member)
static const qkv_option common_rows[] = {
    {.flag = "data", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(data),
     .value = "DATA", .help = "lines of label, tab, text; perhaps tab, second text. Or pictures: a "
                              "folder with a folder for each class, a tar of such, an idx file"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "DATA",
     .help = "the same to judge on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: lines, pictures or share held out at the end of the data"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "tiny",
     .help = "size, of texts: nano tiny mini small medium base large; of pictures, where micro is "
             "the default: nano micro mini tiny small, with patches base large"},
    {.flag = "smoothing", .key = "smoothing", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(smoothing),
     .initial = "0", .help = "label smoothing"},
};
const qkv_option_table cli_classify_table = {"Classifier", common_rows,
                                             sizeof common_rows / sizeof *common_rows};
#undef FIELD

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 3, .max = 1048576, FIELD(length),
     .initial = "128", .help = "tokens that are read of a text"},
    {.flag = "drop-words", .key = "drop_words", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW,
     .max = 1, FIELD(drop),
     .initial = "0", .help = "share of the words that training hides"},
    {.flag = "agreement", .key = "agreement", .type = QKV_OPT_REAL, .max = 1000,
     FIELD(agreement), .initial = "0",
     .help = "read each text twice, with other dropout, and pull both readings together "
             "(R-Drop): about 1"},
};
static const qkv_option_table table = {"Texts", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli_job base;
    cli_classify_options c;
    settings s;
    cli_vocabulary vocabulary;
    qkv_bert_config config;
    cli_split texts;
    qkv_labels labels;
} job;

/* ---- texts ------------------------------------------------------------------------------- */

/* The texts of all lines, without their labels: two for each line, the second perhaps empty.
 * parts NULL: only counted. */
static qkv_status list_texts(job *j, qkv_text_part *parts, size_t *count)
{
    *count = 0;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->texts.train_count && !status; i++) {
        const qkv_text_part *part = &j->texts.data.parts[i];
        qkv_labelled_reader r;
        qkv_labelled_text x;
        qkv_labelled_begin(&r, j->base.c->ctx, part);
        while (!(status = qkv_labelled_next(&r, &x)) && x.label) {
            if (parts) {
                parts[*count] = (qkv_text_part){x.pair.text, x.pair.len, part->name, 0};
                parts[*count + 1] = (qkv_text_part){x.pair.second, x.pair.second_len, part->name,
                                                    0};
            }
            *count += x.pair.second ? 2 : 1;
        }
    }
    return status;
}

static qkv_status make_vocabulary(job *j)
{
    cli *c = j->base.c;
    size_t count;
    qkv_status status = list_texts(j, NULL, &count);
    qkv_text_part *parts = status ? NULL : qkv__calloc(c->ctx, count + 1, sizeof *parts);
    if (!status && !parts)
        status = QKV_E_MEMORY;
    if (!status)
        status = list_texts(j, parts, &count);
    if (!status)
        status = cli_vocabulary_train(c, &j->vocabulary, CLI_BERT_ROLES, parts, count, NULL, 0,
                                      &j->base.tokenizer);
    qkv__free(c->ctx, parts);
    return status;
}

static qkv_status collect_labels(job *j)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->texts.train_count && !status; i++)
        status = qkv_labels_collect(&j->labels, &j->texts.data.parts[i]);
    if (!status && j->labels.count < 2)
        status = qkv__fail(j->base.c->ctx, QKV_E_FORMAT, "%s: at least 2 labels expected to learn "
                           "from, found %zu", j->c.data, j->labels.count);
    return status;
}

/* ---- the run ----------------------------------------------------------------------------- */

static qkv_status make_model(job *j)
{
    cli_job *base = &j->base;
    j->config.positions = j->s.length;
    if (base->o.init)
        return cli_bert_init(base, &qkv_bert_classifier_type, &j->config, j->labels.count);
    j->config.classes = j->labels.count;
    qkv_status status = make_vocabulary(j);
    return status ? status
                  : cli_bert_create(base, &qkv_bert_classifier_type, &j->config, j->c.model);
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    const qkv_strings data = {.items = &j->c.data, .count = 1};
    j->labels.ctx = base->c->ctx;
    qkv_status status = cli_split_open(&j->texts, base->c, &data, j->c.valid, j->c.valid_last);
    if (!status)
        status = collect_labels(j);
    if (!status)
        status = make_model(j);
    if (!status && !qkv_model_label_count(base->model)) /* else they are those of --init */
        status = qkv_model_set_labels(base->model, (const char *const *)j->labels.names,
                                      j->labels.count);
    return status;
}

static qkv_status pack(job *j, const qkv_text_part *parts, size_t count, const char *name,
                       qkv_records **out)
{
    qkv_context *ctx = j->base.c->ctx;
    const qkv_model *m = j->base.model;
    const qkv_bert_config *c = qkv_model_config(m);
    size_t length = j->s.length < c->positions ? j->s.length : c->positions, cut = 0;
    char *path = cli_job_path(&j->base, name);
    const char **labels = qkv__calloc(ctx, c->classes, sizeof *labels);
    qkv_records_writer *w = NULL;
    qkv_status status = path && labels ? qkv_records_create(&w, ctx, path, 3) : QKV_E_MEMORY;
    for (size_t i = 0; i < c->classes && labels; i++)
        labels[i] = qkv_model_label(m, i);
    for (size_t i = 0; i < count && !status; i++)
        status = qkv_corpus_add_labelled(w, ctx, j->base.tokenizer, &parts[i], labels, c->classes,
                                         length, &cut);
    if (status)
        qkv_records_abandon(w);
    else
        status = qkv_records_finish(w, out);
    if (!status && cut)
        cli_note(j->base.c, "%zu of %zu texts are longer than %zu tokens: their ends are not read",
                 cut, qkv_records_count(*out), length);
    qkv__free(ctx, labels);
    qkv__free(ctx, path);
    return status;
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    const cli_split *x = &j->texts;
    qkv_status status =
        pack(j, x->data.parts, x->train_count, CLI_JOB_TRAIN, &base->train);
    if (!status && x->held_count)
        status = pack(j, x->held, x->held_count, CLI_JOB_VALID, &base->valid);
    return status;
}

/* A model that knows its words learns in smaller steps. */
static const double TUNING = 0.25;

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_classify_options o = {j->c.smoothing, j->s.drop, j->s.agreement};
    qkv_status status = qkv_task_classify(&base->task, base->model, base->train, base->valid,
                                          base->tokenizer, &o, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, j->c.data);
    const qkv_bert_config *config = qkv_model_config(base->model);
    double rate = cli_training_rate(config->width);
    cli_job_rate(base, config->width, base->o.init ? TUNING * rate : rate);
    cli_note(c, "bert, %zu parameters, %zu tokens in its vocabulary, %zu classes; %zu texts to "
             "learn from, %zu held out", qkv_params_elements(qkv_model_params(base->model)),
             config->vocab, config->classes, qkv_records_count(base->train),
             base->valid ? qkv_records_count(base->valid) : 0);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    if (j->labels.ctx)
        qkv_labels_free(&j->labels);
    cli_split_close(&j->texts);
}

static const qkv_option_table *const lesson[] = {&cli_classify_table, &table, NULL};
static const char *const decided[] = {"vocab_size", "max_position_embeddings",
                                      "pad_token_id", "num_labels", NULL};
static const char *const fixed[] = {"model", NULL};
static const cli_job_type job_type = {
    .name = "classify", .takes = eval_takes_classify, .read = read_data, .write = write_data,
    .fields = 3, .begin = begin, .close = close_data, .has_text = true, .fixed = fixed,
    .lesson = lesson, .decided = decided};

/* What --data names, looked for before options are read: they depend on it. "" for nothing. */
static const char *data_of(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--data=", 7) == 0)
            return argv[i] + 7;
        if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            return argv[i + 1];
    }
    return "";
}

static int run(cli *c, int argc, char **argv)
{
    if (cli_is_pictures(data_of(argc, argv)))
        return cli_train_recognize(c, argc, argv);
    job j = {.base.c = c};
    cli_bind(c, &cli_classify_table, &j.c);
    cli_bind(c, &table, &j.s);
    cli_bind(c, &cli_vocabulary_table, &j.vocabulary);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__bert_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_classify_table, &table, &cli_vocabulary_table, &cli_recognize_table,
    &qkv_augment_table, &qkv_mix_table, &cli_job_table, &qkv_train_table,
    &qkv_optimizer_table, &qkv_schedule_table, &qkv__bert_config, &cli_recognizer_table, NULL};
static const char *const examples[] = {
    "qkv train classify --data reviews.tsv --minutes 5 --out runs/reviews",
    "qkv train classify --data reviews.tsv --init runs/words --out runs/tuned",
    "qkv train classify --data pairs.tsv --valid held.tsv --out runs/pairs",
    "qkv train classify --data photos --minutes 60 --out runs/photos",
    "qkv train classify --data train-images-idx3-ubyte.gz --no-flip --out digits",
    NULL};

static const qkv_preset presets[] = {
    {"tokenizer", "wordpiece", NULL},
    {"batch", "32", NULL},
    {"weight-decay", "0.01", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size, a quarter of it with --init"},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

const cli_command cli_train_classify = {
    .manual = {.name = "train classify", .summary = "train a model to label texts or pictures",
               .usage = "--data TSV|DIR|TAR|IDX --out DIR [options]", .examples = examples,
               .text = "Texts: learns from lines of a label, a tab and a text, or a label and two "
                       "texts; labels are any words. --init goes on from a model that learnt to "
                       "guess hidden words (qkv train mlm) or from a classifier. Judges on what it "
                       "holds out: accuracy, by which the model is chosen; loss; F1, with two "
                       "classes of the second in the order of their labels' bytes, else the plain "
                       "mean over the classes.\n\n"
                       "Pictures: their classes are the folders they lie in, or an idx file's "
                       "numbers. A compact transformer with convolutions at first (qkv_cct) "
                       "below 64 pixels, else a Vision Transformer (vit) as others load it. All "
                       "are brought to one size. --init goes on from such a model, whatever its "
                       "classes, or from one that learnt to reconstruct (qkv train reconstruct). "
                       "Here --model is micro, --batch 128, --weight-decay 0.05, --warmup 200, "
                       "--lr 0.384 / hidden_size, but 1e-3 at most, and pictures are changed each "
                       "time: --crop-pad 4, --flip (--no-flip where left and right differ, as in "
                       "letters), --cutmix 1 for half of them (--mix 0.5). Judges on accuracy "
                       "and loss.\n\n"
                       "Without --steps or --minutes it takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
