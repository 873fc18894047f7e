/* 07_bert.c - a BERT from a Hugging Face directory: fills in a blank, or names a text's class.
 *
 *     07_bert DIR "the capital of france is [MASK]."     BertForMaskedLM
 *     07_bert DIR "what a lovely film"                   BertForSequenceClassification
 *
 * Without arguments it first makes such a directory, bert-sounds/run: a BERT that learns, from
 * sentences with hidden words, which animal makes which sound. transformers opens it as well.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

/* Trains one with the settings of `qkv train mlm`; each line is a text. */
static qkv_status make(qkv_context *ctx)
{
    static const char text[] =
        "the cat meows\nthe dog barks\nthe cow moos\nthe sheep bleats\nthe duck quacks\n"
        "the owl hoots\nthe lion roars\nthe frog croaks\n";
    static const char settings[] =
        "{\"data\": [\"bert-sounds/text.txt\"], \"out\": \"bert-sounds/run\", \"lines\": true, "
        "\"valid-last\": \"0\", \"model\": \"nano\", \"mask\": 0.3, \"tokens\": 1024, "
        "\"batch\": 1, \"steps\": 300, \"lr\": 3e-3, \"hidden_dropout_prob\": 0, \"ema\": 0}";
    qkv_job *job;
    qkv_status status = qkv_dir_create(ctx, "bert-sounds");
    if (!status) status = qkv_file_write(ctx, "bert-sounds/text.txt", text, sizeof text - 1);
    if (status || qkv_job_create(&job, ctx, "mlm")) return qkv_context_status(ctx);
    status = qkv_job_set_json(job, settings, sizeof settings - 1);
    if (!status) status = qkv_job_run(job, NULL, NULL, NULL);
    qkv_job_destroy(job);
    return status;
}

static bool print_words(void *best, const qkv_filled *found)
{
    for (size_t i = found->count; i-- > 0;) { /* the likeliest last */
        (void)snprintf((char *)best, 32, "%.*s", (int)found->best[i].len, found->best[i].text);
        printf("  %-12s %8.3f\n", (char *)best, found->best[i].prob);
    }
    return true;
}

static bool print_classes(void *pipeline, const qkv_classified *found)
{
    for (size_t i = 0; i < found->classes; i++)
        printf("  %-12s %8.3f\n", qkv_pipeline_label((qkv_pipeline *)pipeline, i),
               (double)found->probabilities[i]);
    return true;
}

int main(int argc, char **argv)
{
    const char *dir = argc == 3 ? argv[1] : "bert-sounds/run";
    const char *text = argc == 3 ? argv[2] : "the dog [MASK]";
    const qkv_text_pair pair = {text, strlen(text), NULL, 0};
    char best[32] = "";
    qkv_context *ctx;
    qkv_pipeline *p = NULL;
    qkv_context_options c = qkv_context_defaults();
    if (argc < 3) c.threads = 1; /* so little work is not worth sharing */
    if ((argc < 3 && system("rm -rf bert-sounds")) || qkv_context_create(&ctx, &c)) return 1;
    qkv_status status = argc == 3 ? QKV_OK : make(ctx);
    if (!status) status = qkv_pipeline_open(&p, ctx, dir);
    if (!status) status = qkv_model_can(qkv_pipeline_model(p), QKV_CAN_FILL_MASK)
                              ? qkv_pipeline_fill(p, &text, 1, NULL, print_words, best)
                              : qkv_pipeline_classify_texts(p, &pair, 1, print_classes, p);
    if (status) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    qkv_pipeline_close(p);
    qkv_context_destroy(ctx);
    return status || (argc == 1 && strcmp(best, "barks"));
}
