/* 08_train_translator.c - an encoder-decoder learns to translate and is evaluated on sentences that
 * it never saw.
 *
 *     08_train_translator SOURCE TARGET [MINUTES]     two files, a line for a line
 *
 * Without arguments the sentences are made here: "seventy-three" is "dreiundsiebzig". A tenth of
 * the pairs is held out. translator/run is a Hugging Face directory, MarianMTModel to
 * transformers. */
#include <stdio.h>
#include <stdlib.h>

#include <qkv.h>

static const char *const ones[][2] = {{"", ""}, {"-one", "einund"}, {"-two", "zweiund"},
    {"-three", "dreiund"}, {"-four", "vierund"}, {"-five", "fünfund"}, {"-six", "sechsund"},
    {"-seven", "siebenund"}, {"-eight", "achtund"}, {"-nine", "neunund"}};
static const char *const tens[][2] = {{"twenty", "zwanzig"}, {"thirty", "dreißig"},
    {"forty", "vierzig"}, {"fifty", "fünfzig"}, {"sixty", "sechzig"}, {"seventy", "siebzig"}};
static const char *const nouns[][2] = {{"apples", "Äpfel"}, {"houses", "Häuser"}, {"days", "Tage"},
    {"books", "Bücher"}, {"cats", "Katzen"}, {"geese", "Gänse"}, {"trees", "Bäume"}};

/* Each sentence once, in no order. */
static qkv_status write_pairs(qkv_context *ctx, const char *source, const char *target)
{
    qkv_status status = qkv_dir_create(ctx, "translator");
    FILE *a = status ? NULL : fopen(source, "w"), *b = status ? NULL : fopen(target, "w");
    for (size_t i = 0; a && b && i < 420; i++) {
        const size_t k = i * 143 % 420, one = k % 10, ten = k / 10 % 6, noun = k / 60;
        (void)fprintf(a, "%s%s %s\n", tens[ten][0], ones[one][0], nouns[noun][0]);
        (void)fprintf(b, "%s%s %s\n", ones[one][1], tens[ten][1], nouns[noun][1]);
    }
    if (a) (void)fclose(a);
    if (b) (void)fclose(b);
    return status;
}

static bool show(void *user, const qkv_train_event *e)
{
    (void)user;
    if (e->kind == QKV_TRAIN_EVAL)
        printf("step %4d  held out: %.3f nats\n", (int)e->step, e->metrics->item[0].value);
    return true;
}

int main(int argc, char **argv)
{
    const bool own = argc > 2;
    const char *source = own ? argv[1] : "translator/en.txt";
    const char *target = own ? argv[2] : "translator/de.txt";
    const char *const settings[][2] = {
        {"source", source}, {"target", target}, {"valid-last", "10%"}, {"out", "translator/run"},
        {argc > 3 ? "minutes" : "steps", argc > 3 ? argv[3] : "300"}, {"model", "nano"},
        {"vocab", own ? "8000" : "120"}, {"tokens", "512"}, {"lr", "4e-3"},
        {"max_position_embeddings", own ? "512" : "24"}}; /* tokens of a sentence */
    qkv_context *ctx;
    qkv_job *job = NULL;
    qkv_pipeline *p = NULL;
    qkv_metrics m;
    qkv_context_options c = qkv_context_defaults();
    if (!own) c.threads = 1; /* so little work is not worth sharing */
    if (system("rm -rf translator") || qkv_context_create(&ctx, &c)) return 1;
    qkv_status status = own ? QKV_OK : write_pairs(ctx, source, target);
    if (!status) status = qkv_job_create(&job, ctx, "translate");
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !status; i++)
        status = qkv_job_set(job, settings[i][0], settings[i][1]);
    if (status || qkv_job_run(job, show, NULL, NULL) ||
        qkv_pipeline_open(&p, ctx, "translator/run") || qkv_pipeline_evaluate(p, NULL, &m))
        return fprintf(stderr, "%s\n", qkv_context_message(ctx)), 1;
    for (int i = 0; i < m.count; i++) printf("%s %.2f\n", m.item[i].name, m.item[i].value);
    qkv_pipeline_close(p);
    qkv_job_destroy(job);
    qkv_context_destroy(ctx);
    return !own && !(m.item[m.count - 1].value > 90); /* chrF, at most 100 */
}
