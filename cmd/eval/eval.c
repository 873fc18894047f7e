/* eval.c - `qkv eval`: what a model is evaluated by, on held-out data. */
#include <stdio.h>

#include "core/cli.h"

static int eval_answer(cli *c, const qkv_metrics *m, const char *network)
{
    if (!c->common.json) {
        for (int i = 0; i < m->count; i++)
            printf("%-15s%.4f\n", m->item[i].name, m->item[i].value);
        if (network)
            printf("%-15s%s\n", "network", network);
        printf("%-15s%zu\n", m->unit, m->scored);
        return CLI_DONE;
    }
    qkv_json_writer w = cli_object(c);
    for (int i = 0; i < m->count; i++)
        qkv_json_put_real(&w, m->item[i].name, m->item[i].value);
    if (network) /* whose metrics they are */
        qkv_json_put_string(&w, "network", network);
    qkv_json_put_int(&w, m->unit, (int64_t)m->scored);
    return cli_answer(c, &w);
}

static int eval_run(cli *c, int argc, char **argv)
{
    qkv_pipeline_evaluate_options o;
    qkv_pipeline *p = NULL;
    qkv_metrics m = {0};
    cli_bind(c, qkv_pipeline_evaluate_table(), &o);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_pipeline_evaluate(p, &o, &m);
    int code = status ? cli_error(c) : eval_answer(c, &m, o.lpips);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {
    "qkv eval runs/book", "qkv eval runs/book --file other.txt --json",
    "qkv eval runs/tutor --file talks.jsonl",
    "qkv eval runs/ende --source en.txt --target de.txt",
    "qkv eval runs/load --file new.csv",
    "qkv eval runs/seg --images photos --masks masks --json",
    "qkv eval runs/codes --lpips runs/codes/train/perceptual", NULL};

CLI_COMMAND(cli_eval, 600) = {
    .manual = {.name = "eval", .summary = "evaluate a model on held-out data",
               .usage = "DIR [--file DATA | --source FILE --target FILE]", .examples = examples,
               .text = "Models that continue text: scores every token but the first once, each "
                       "from the tokens before it in its window of the training length. loss: "
                       "mean -log p of a token, in nats; perplexity: e^loss; bits per byte of "
                       "the text, which compares models with different tokens. Of conversations "
                       "(FILE.jsonl, as in training) the answers alone are scored: loss, "
                       "perplexity, and the share of their tokens that is the most likely one "
                       "(accuracy).\n\n"
                       "Translators: loss and perplexity of the references' tokens, each given "
                       "the source and the right tokens before it; BLEU and chrF2 of the "
                       "translations that beam search finds.\n\n"
                       "Models that guess hidden words: loss, perplexity and accuracy of 15 % of "
                       "the words, the same each time.\n\n"
                       "Classifiers of texts: lines of label, tab, text, perhaps tab, second "
                       "text. Loss, accuracy, and F1: with two classes of the second, else the "
                       "plain mean over the classes.\n\n"
                       "Encoders of texts: of pairs, --file of lines of two texts with a tab "
                       "between, or --source and --target, the share whose partner is the most "
                       "similar of all (recall_1) or among the 5 most similar (recall_5): the mean "
                       "over both directions, and each, from texts of the source to those of the "
                       "target (to_target_1, to_target_5) and back.\n\n"
                       "Encoders of images: the share of the images of which one random view finds "
                       "the other among all (recall_1, recall_5). Where images have classes: the "
                       "share whose 10 nearest training images have its class most often (knn), "
                       "and the accuracy of a linear classifier of the training images' vectors "
                       "(probe), and of one of their pixels, learnt alike (probe_pixels).\n\n"
                       "Models of images with captions, of --file and --captions: the share of "
                       "the images one of whose captions is the most similar of all (to_caption_1) "
                       "or among the 5 most similar, of the captions whose image is (to_image_1, "
                       "to_image_5), and the means of both (recall_1, recall_5).\n\n"
                       "Classifiers of images: a folder, a tar or idx file as in training. "
                       "Accuracy and loss.\n\n"
                       "Forecasters: from every row on, the first of which are only looked back "
                       "on; squared error in standard deviations of the training rows (loss) and "
                       "in the "
                       "data's units (mse), absolute error (mae), the squared errors of the "
                       "naive forecasts, and the ratio of loss to the better one's.\n\n"
                       "Colourers: squared error of a and b of Lab in dB below 255^2, without "
                       "hints (psnr) and with 10 random ones (psnr_hints); that of the training "
                       "images' mean colour, and of the nearest hint's.\n\n"
                       "Models of pixels' classes: mean intersection over union of the classes "
                       "(miou), share of the pixels (accuracy), loss; images and masks are "
                       "evaluated at the model's size.\n\n"
                       "Models that fill in images: squared error of the hidden patches, the "
                       "same each time, in dB below that of black for white (psnr), as training "
                       "has it (loss); dB of each image's mean visible colour (psnr_mean) and "
                       "of the nearest visible pixel (psnr_nearest).\n\n"
                       "Models that code images: mean absolute error of values in [-1, 1] "
                       "(loss), 8-bit values in dB (psnr), structural similarity (ssim), share "
                       "of the codes that occur (codes_used), 2^entropy of their frequencies "
                       "(perplexity); where they are 2000 or fewer, the share to which, of "
                       "all, what comes back is nearest (found_again). With --lpips, how unlike "
                       "the true images they look to that network (lpips), and the Frechet "
                       "distance of what its last stage makes of both (frechet); which one it "
                       "is stands beside them (network).\n\n"
                       "Perceptual networks, as train vqgan trains one "
                       "in OUT/train/perceptual: the share of the images that look the less like "
                       "themselves the more they are blurred, by 0.5, 1, 2 and 4 pixels "
                       "(ranks_blur), or the more noise there is, 0.02, 0.05, 0.1 and 0.2 of all "
                       "values (ranks_noise).\n\n"
                       "Priors on codes: -log2 p of a code of held-out images, each told from "
                       "those before it (bits_per_code) and from its left neighbour alone, as "
                       "the training images' codes were counted (bits_bigram)."},
    .library = {qkv_pipeline_evaluate_table},
    .opens = true, .ranks = true, .run = eval_run};
