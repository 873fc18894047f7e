/* eval.c - `qkv eval`: what a model is judged by, on held-out data. */
#include <stdio.h>

#include "core/commands.h"
#include "eval/kinds.h"
#include "io/file.h"
#include "qkv/forecast.h"
#include "qkv/hub.h"
#include "qkv/marian.h"
#include "qkv/run.h"
#include "qkv/vit.h"

/* What data is named with. */
enum { ON_FILE, ON_PAIRS, ON_MASKS };
static const char *const data_flags[] = {"--file", "--source and --target", "--images and --masks"};

/* Who judges what: the first row whose `takes` is true. */
typedef struct {
    bool (*takes)(const qkv_model *m);
    eval_fn *judge;
    const char *unit;
    bool has_text; /* there is a tokenizer */
    int data;      /* ON_FILE, .. */
} judge;
static const judge judges[] = {
    {eval_takes_grids, eval_grids, "codes", false, ON_FILE},
    {qkv_model_is_lm, eval_lm, "tokens", true, ON_FILE},
    {qkv_model_is_translator, eval_translate, "tokens", true, ON_PAIRS},
    {eval_takes_mlm, eval_mlm, "words", true, ON_FILE},
    {eval_takes_classify, eval_classify, "texts", true, ON_FILE},
    {qkv_model_is_vit, eval_recognize, "pictures", false, ON_FILE},
    {qkv_model_is_forecaster, eval_forecast, "windows", false, ON_FILE},
    {eval_takes_colorize, eval_colorize, "pictures", false, ON_FILE},
    {eval_takes_reconstruct, eval_reconstruct, "pictures", false, ON_FILE},
    {eval_takes_segment, eval_segment, "pictures", false, ON_MASKS},
    {eval_takes_codes, eval_codes, "pictures", false, ON_FILE},
    {eval_takes_looks, eval_looks, "pictures", false, ON_FILE},
};
enum { JUDGES = sizeof judges / sizeof *judges };

#define FIELD(member) .offset = offsetof(eval, member)
static const qkv_option rows[] = {
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .help = "data to judge on; else what was held out in training"},
    {.flag = "source", .type = QKV_OPT_STRING, FIELD(source), .value = "FILE",
     .help = "the same for translators: sentences to translate"},
    {.flag = "target", .type = QKV_OPT_STRING, FIELD(target), .value = "FILE",
     .help = "and their translations"},
    {.flag = "images", .type = QKV_OPT_STRING, FIELD(images), .value = "D",
     .help = "the same for models of pixels' classes: pictures"},
    {.flag = "masks", .type = QKV_OPT_STRING, FIELD(masks), .value = "D",
     .help = "and their masks"},
    {.flag = "lpips", .type = QKV_OPT_STRING, FIELD(lpips), .value = "DIR",
     .help = "of models that code pictures: a network that looks at what comes back"},
    {.flag = "beam", .type = QKV_OPT_SIZE, .max = QKV_BEAMS, FIELD(beam), .value = "N",
     .initial = "0", .help = "hypotheses kept in translating; 0: as the directory says"},
    {.flag = "tokenized", .type = QKV_OPT_BOOL, FIELD(tokenized),
     .help = "BLEU counts words between blanks, as `qkv score bleu --tokenized`"},
    {.flag = "lines", .type = QKV_OPT_BOOL, FIELD(lines),
     .help = "of models that guess hidden words: each line of the file is a text"},
    {.flag = "mask", .type = QKV_OPT_REAL, .flags = QKV_OPT_BELOW, .min = -1, .max = 100,
     FIELD(mask), .initial = "-1", .value = "R",
     .help = "of models that fill in pictures: share hidden, 0.75 or 75 (per cent); below 0: as in "
             "training"},
};
static const qkv_option_table table = {"Evaluation", rows, sizeof rows / sizeof *rows};

static int answer(const eval *e, const qkv_measures *m, const char *unit)
{
    if (!e->c->common.json) {
        for (int i = 0; i < m->count; i++)
            printf("%-15s%.4f\n", m->item[i].name, m->item[i].value);
        if (e->lpips)
            printf("%-15s%s\n", "network", e->lpips);
        printf("%-15s%zu\n", unit, m->scored);
        return CLI_DONE;
    }
    qkv_json_writer w;
    qkv_json_writer_init(&w, e->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    for (int i = 0; i < m->count; i++)
        qkv_json_put_real(&w, m->item[i].name, m->item[i].value);
    if (e->lpips) /* whose measures they are */
        qkv_json_put_string(&w, "network", e->lpips);
    qkv_json_put_int(&w, unit, (int64_t)m->scored);
    qkv_json_end_object(&w);
    return cli_answer(e->c, &w);
}

/* NULL, and the context says why, when nobody judges such a model. */
static const judge *find_judge(const eval *e)
{
    for (int i = 0; i < JUDGES; i++)
        if (judges[i].takes(e->model))
            return &judges[i];
    qkv_fail(e->c->ctx, QKV_E_UNSUPPORTED, "%s: there is no judge for a %s model", e->dir,
             qkv_model_type_name(qkv_model_type_of(e->model)));
    return NULL;
}

/* Data that would not be read, or a network that would not be asked, is a mistake. */
static qkv_status check_data(const eval *e, const judge *j)
{
    if (e->lpips && j->judge != eval_codes)
        return qkv_fail(e->c->ctx, QKV_E_ARGUMENT, "--lpips: a model that codes pictures "
                        "expected, %s holds a %s", e->dir,
                        qkv_model_type_name(qkv_model_type_of(e->model)));
    const char *const named[] = {e->file, e->source ? e->source : e->target,
                                 e->images ? e->images : e->masks};
    int other = 0;
    while (other <= ON_MASKS && (other == j->data || !named[other]))
        other++;
    if (other > ON_MASKS)
        return QKV_OK;
    return qkv_fail(e->c->ctx, QKV_E_ARGUMENT, "%s is a %s model: %s expected, found %s", e->dir,
                    qkv_model_type_name(qkv_model_type_of(e->model)),
                    data_flags[j->data], data_flags[other]);
}

static int run(cli *c, int argc, char **argv)
{
    eval e = {.c = c};
    cli_bind(c, &table, &e);
    if (cli_parse(c, argc, argv, 1, 1))
        return CLI_USAGE;
    e.dir = c->args.items[0];
    e.mask = e.mask >= 1 ? e.mask / 100 : e.mask; /* per cent */
    qkv_measures m = {0};
    qkv_status status = qkv_hub_load(&e.model, c->ctx, e.dir);
    const judge *j = status ? NULL : find_judge(&e);
    if (j)
        status = check_data(&e, j);
    if (j && !status && j->has_text)
        status = qkv_tokenizer_load(&e.tokenizer, c->ctx, e.dir);
    if (j && !status)
        status = qkv_tape_create(&e.tape, c->ctx);
    if (j && !status)
        status = j->judge(&e, &m);
    int code = !j || status ? cli_error(c) : answer(&e, &m, j->unit);
    qkv_tape_destroy(e.tape);
    qkv_tokenizer_destroy(e.tokenizer);
    qkv_model_destroy(e.model);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv eval runs/book", "qkv eval runs/book --file other.txt --json",
    "qkv eval runs/ende --source en.txt --target de.txt",
    "qkv eval runs/load --file new.csv",
    "qkv eval runs/seg --images photos --masks masks --json",
    "qkv eval runs/codes --lpips runs/codes/train/looks", NULL};

const cli_command cli_eval = {
    .manual = {.name = "eval", .summary = "judge a model on held-out data",
               .usage = "DIR [--file DATA | --source FILE --target FILE]", .examples = examples,
               .tables = tables,
               .text = "Models that continue text: scores every token but the first once, each "
                       "from the tokens before it in its window of the training length. loss: "
                       "mean -log p of a token, in nats; perplexity: e^loss; bits per byte of "
                       "the text, which compares models with different tokens.\n\n"
                       "Translators: loss and perplexity of the references' tokens, each given "
                       "the source and the right tokens before it; BLEU and chrF2 of the "
                       "translations that beam search finds.\n\n"
                       "Models that guess hidden words: loss, perplexity and accuracy of 15 % of "
                       "the words, the same each time.\n\n"
                       "Classifiers of texts: lines of label, tab, text, perhaps tab, second "
                       "text. Loss, accuracy, and F1: with two classes of the second, else the "
                       "plain mean over the classes.\n\n"
                       "Classifiers of pictures: a folder, a tar or idx file as in training. "
                       "Accuracy and loss.\n\n"
                       "Forecasters: from every row on, the first of which are only looked back "
                       "on; squared error in deviations of the training rows (loss) and in the "
                       "data's units (mse), absolute error (mae), the squared errors of the "
                       "naive forecasts, and the ratio of loss to the better one's.\n\n"
                       "Colourers: squared error of a and b of Lab in dB below 255^2, without "
                       "hints (psnr) and with 10 random ones (psnr_hints); that of the training "
                       "pictures' mean colour, and of the nearest hint's.\n\n"
                       "Models of pixels' classes: mean intersection over union of the classes "
                       "(miou), share of the pixels (accuracy), loss; pictures and masks are "
                       "judged at the model's size.\n\n"
                       "Models that fill in pictures: squared error of the hidden patches, the "
                       "same each time, in dB below that of black for white (psnr), as training "
                       "has it (loss); dB of each picture's mean visible colour (psnr_mean) and "
                       "of the nearest visible pixel (psnr_nearest).\n\n"
                       "Models that code pictures: mean absolute error of values in [-1, 1] "
                       "(loss), 8-bit values in dB (psnr), structural similarity (ssim), share "
                       "of the codes that occur (codes_used), 2^entropy of their frequencies "
                       "(perplexity); where they are 2000 or fewer, the share to which, of "
                       "all, what comes back is nearest (found_again). With --lpips, how unlike "
                       "the true pictures they look to that network (lpips), and the Frechet "
                       "distance of what its last stage makes of both (frechet); which one it "
                       "is stands beside them (network).\n\n"
                       "Networks that say how unlike pictures look, as train vqgan teaches one "
                       "in OUT/train/looks: the share of the pictures that look the less like "
                       "themselves the more they are blurred, by 0.5, 1, 2 and 4 pixels "
                       "(ranks_blur), or the more noise there is, 0.02, 0.05, 0.1 and 0.2 of all "
                       "values (ranks_noise).\n\n"
                       "Priors on codes: -log2 p of a code of held-out pictures, each told from "
                       "those before it (bits_per_code) and from its left neighbour alone, as "
                       "the training pictures' codes were counted (bits_bigram)."},
    .run = run};
