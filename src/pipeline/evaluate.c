/* evaluate.c - what a model is evaluated by: the data it takes, and who evaluates it. */
#include "pipeline/evaluators.h"
#include "pipeline/options.h"


/* ---- options ------------------------------------------------------------------------------- */

#define FIELD(member) .offset = offsetof(qkv_pipeline_evaluate_options, member)
static const qkv_option rows[] = {
    {.flag = "file", .key = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "data to evaluate on; else what was held out in training"},
    {.flag = "source", .key = "source", .type = QKV_OPT_STRING, FIELD(source), .value = "FILE",
     .help = "the same for translators: sentences to translate; for vectors: texts"},
    {.flag = "target", .key = "target", .type = QKV_OPT_STRING, FIELD(target), .value = "FILE",
     .help = "and their translations, or the texts that belong to them"},
    {.flag = "images", .key = "images", .type = QKV_OPT_STRING, FIELD(images), .value = "D",
     .help = "the same for models of pixels' classes: images"},
    {.flag = "masks", .key = "masks", .type = QKV_OPT_STRING, FIELD(masks), .value = "D",
     .help = "and their masks"},
    {.flag = "captions", .key = "captions", .type = QKV_OPT_STRING, FIELD(captions),
     .value = "FILE", .help = "of models of images with captions: those of the images of --file"},
    {.flag = "lpips", .key = "lpips", .type = QKV_OPT_STRING, FIELD(lpips), .value = "DIR",
     .help = "of VQGANs: a perceptual network that compares images and their decoded codes"},
    {.flag = "beam", .key = "beam", .type = QKV_OPT_SIZE, .max = QKV_BEAMS, FIELD(beam),
     .value = "N", .initial = "0",
     .help = "hypotheses kept in translating; 0: as the directory says"},
    {.flag = "tokenized", .key = "tokenized", .type = QKV_OPT_BOOL, FIELD(tokenized),
     .help = "BLEU counts words between blanks, as `qkv score bleu --tokenized`"},
    {.flag = "lines", .key = "lines", .type = QKV_OPT_BOOL, FIELD(lines),
     .help = "of models that guess hidden words: each line of the file is a text"},
    {.flag = "mask", .key = "mask", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .min = -1,
     .max = 100, FIELD(mask), .initial = "-1", .value = "R",
     .help = "of models that fill in images: share hidden, 0.75 or 75 (per cent); below 0: as in "
             "training"},
};
QKV__OPTIONS(qkv_pipeline_evaluate, "Evaluation")

/* ---- who evaluates what ---------------------------------------------------------------------- */

static const char *const data_flags[] = {"--file", "--source and --target", "--images and --masks",
                                         "--file, or --source and --target,"};

static const qkv__evaluator *find_evaluator(const qkv_pipeline *p)
{
    const qkv__evaluator *j;
    for (size_t i = 0; (j = qkv__evaluators[i]); i++)
        if (j->can ? qkv_model_can(p->model, j->can) && !qkv_model_can(p->model, j->unless)
                   : qkv_model_type_of(p->model) == j->type())
            return j;
    return NULL;
}

/* Data that would not be read, or a network that would not be asked, is a mistake. */
static qkv_status evaluate_check_data(const qkv_pipeline *p, const qkv_pipeline_evaluate_options *o,
                                      const qkv__evaluator *j)
{
    const char *kind = qkv_model_type_name(qkv_model_type_of(p->model));
    if (o->lpips && !j->lpips)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--lpips: a model that codes images expected, "
                        "%s holds a %s", p->dir, kind);
    if (o->captions && j->can != QKV_CAN_EMBED_BOTH)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "--captions: a model of images with captions "
                        "expected, %s holds a %s", p->dir, kind);
    const char *const named[] = {o->file, o->source ? o->source : o->target,
                                 o->images ? o->images : o->masks};
    for (int other = 0; other <= QKV__ON_MASKS; other++)
        if (named[other] && other != j->data &&
            (j->data != QKV__ON_TEXT_PAIRS || other == QKV__ON_MASKS))
            return qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s is a %s model: %s expected, found %s",
                            p->dir, kind, data_flags[j->data], data_flags[other]);
    return QKV_OK;
}

qkv_status qkv_pipeline_evaluate(qkv_pipeline *p, const qkv_pipeline_evaluate_options *options,
                                 qkv_metrics *out)
{
    qkv_pipeline_evaluate_options o = options ? *options : qkv_pipeline_evaluate_defaults();
    const qkv__evaluator *j = find_evaluator(p);
    *out = (qkv_metrics){0};
    if (!j)
        return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: there is no evaluation of a %s model",
                        p->dir, qkv_model_type_name(qkv_model_type_of(p->model)));
    if (o.mask >= 1)
        o.mask /= 100;
    out->unit = j->unit;
    qkv_status status = evaluate_check_data(p, &o, j);
    if (!status && j->text)
        status = qkv__pipeline_text(p);
    return status ? status : j->evaluate(p, &o, out);
}
