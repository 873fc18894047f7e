/* 08_train_translator.c - an encoder-decoder learns to translate, is saved, opened and used.
 *
 *     08_train_translator SOURCE TARGET [MINUTES]     two files, a line for a line
 *
 * Without arguments the sentences are made here: "seventy three geese" is "dreiundsiebzig Gänse".
 * The last tenth of the pairs is held out and translated at the end. ./translator is a Hugging
 * Face directory, MarianMTModel to transformers, and `qkv translate translator` reads it too.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

enum { NUMBERS = 99, NOUNS = 12, PAIRS = NUMBERS * NOUNS, LONGEST = 64, SHOWN = 8 };
#define DIR "translator"

/* Lines of both sides; all but the last tenth are to learn from. */
typedef struct {
    char *source, *target; /* each ends in a newline */
    const char *held_source, *held_target;
    size_t lines;
} sentences;

/* ---- sentences -------------------------------------------------------------------------- */

static const char *const english_ones[] = {
    "", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const german_ones[] = {
    "", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf",
    "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
static const char *const english_tens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty",
                                           "seventy", "eighty", "ninety"};
static const char *const german_tens[] = {"", "", "zwanzig", "dreißig", "vierzig", "fünfzig",
                                          "sechzig", "siebzig", "achtzig", "neunzig"};
static const char *const english_nouns[NOUNS] = {
    "apples", "houses", "days", "books", "friends", "cats", "geese", "trees", "ships", "songs",
    "mice", "words"};
static const char *const german_nouns[NOUNS] = {
    "Äpfel", "Häuser", "Tage", "Bücher", "Freunde", "Katzen", "Gänse", "Bäume", "Schiffe",
    "Lieder", "Mäuse", "Wörter"};

static int make_sentences(sentences *s)
{
    char *a = s->source = (char *)malloc(PAIRS * LONGEST);
    char *b = s->target = (char *)malloc(PAIRS * LONGEST);
    if (!a || !b) return 0;
    for (size_t i = 0; i < PAIRS; i++) {
        const size_t k = i * 427 % PAIRS; /* each pair once, in no order */
        const size_t number = 1 + k % NUMBERS, noun = k / NUMBERS;
        const size_t tens = number < 20 ? 0 : number / 10, ones = tens ? number % 10 : number;
        a += snprintf(a, LONGEST, "%s%s%s %s\n", english_tens[tens], tens && ones ? " " : "",
                      english_ones[ones], english_nouns[noun]);
        b += snprintf(b, LONGEST, "%s%s%s %s\n", german_ones[ones], tens && ones ? "und" : "",
                      german_tens[tens], german_nouns[noun]);
    }
    return 1;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t used = 0, room = 0, n = 1;
    while (f && n > 0) {
        if (room - used < 2) {
            char *larger = (char *)realloc(text, room = 2 * room + 65536);
            if (!larger) break;
            text = larger;
        }
        n = fread(text + used, 1, room - used - 2, f);
        used += n;
    }
    if (text && used && text[used - 1] != '\n') text[used++] = '\n';
    if (text) text[used] = 0;
    if (f) fclose(f);
    else perror(path);
    return text;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) lines++;
    return lines;
}

/* The start of the line that is `lines` behind text. */
static const char *skip_lines(const char *text, size_t lines)
{
    while (lines--) text = strchr(text, '\n') + 1;
    return text;
}

static int hold_out(sentences *s)
{
    if (!s->source || !s->target) return 0;
    s->lines = count_lines(s->source);
    if (s->lines < 10 || count_lines(s->target) != s->lines) {
        fprintf(stderr, "as many lines on both sides expected, 10 at least; found %zu and %zu\n",
                s->lines, count_lines(s->target));
        return 0;
    }
    s->held_source = skip_lines(s->source, s->lines - s->lines / 10);
    s->held_target = skip_lines(s->target, s->lines - s->lines / 10);
    return 1;
}

/* ---- learning --------------------------------------------------------------------------- */

/* One vocabulary for both languages, cut from what there is to learn from. */
static qkv_status learn_words(qkv_tokenizer **out, qkv_context *ctx, const sentences *s)
{
    qkv_tokenizer_trainer *tr = NULL;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_UNIGRAM);
    o.vocab = s->lines > PAIRS ? 8000 : 120;
    qkv_status status = qkv_tokenizer_trainer_create(&tr, ctx, &o);
    if (!status)
        status = qkv_tokenizer_trainer_add(tr, s->source, (size_t)(s->held_source - s->source));
    if (!status)
        status = qkv_tokenizer_trainer_add(tr, s->target, (size_t)(s->held_target - s->target));
    if (!status) status = qkv_tokenizer_trainer_finish(tr, out);
    qkv_tokenizer_trainer_destroy(tr);
    return status;
}

/* Appends the ids of the line and moves on to the next one. */
static qkv_status encode_line(qkv_tokenizer *words, const char **text, unsigned flags, qkv_ids *out)
{
    const char *line = *text, *end = strchr(line, '\n');
    *text = end + 1;
    out->count = 0;
    return qkv_tokenizer_encode(words, line, (size_t)(end - line), flags, out);
}

/* A record for every pair that the model has positions for: source, target, each with its end. */
static qkv_status encode(qkv_records **out, qkv_context *ctx, qkv_tokenizer *words,
                         const sentences *s)
{
    const char *a = s->source, *b = s->target;
    qkv_ids source = {NULL, 0, 0}, target = {NULL, 0, 0};
    qkv_records_writer *w = NULL;
    qkv_status status = qkv_records_create(&w, ctx, NULL, 2);
    while (!status && a < s->held_source) {
        status = encode_line(words, &a, QKV_ENCODE_ADD_SPECIAL, &source);
        if (!status)
            status = encode_line(words, &b, QKV_ENCODE_ADD_SPECIAL | QKV_ENCODE_TARGET, &target);
        if (status || source.count > LONGEST || target.count > LONGEST) continue;
        status = qkv_records_add(w, source.data, source.count);
        if (!status) status = qkv_records_add(w, target.data, target.count);
    }
    qkv_ids_free(&source, ctx);
    qkv_ids_free(&target, ctx);
    if (!status) return qkv_records_finish(w, out);
    qkv_records_abandon(w);
    return status;
}

static bool show(void *user, const qkv_train_event *e)
{
    (void)user;
    if (e->kind == QKV_TRAIN_STEP && e->step % 100 == 0)
        printf("step %4d  loss %.3f nats\n", (int)e->step, e->loss);
    return true;
}

/* minutes 0: 400 steps. */
static qkv_status train(qkv_model *m, const qkv_records *pairs, double minutes)
{
    qkv_task task;
    qkv_train_result result;
    qkv_translate_options reading;
    qkv_train_options o = qkv_train_defaults();
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    memset(&reading, 0, sizeof reading);
    reading.budget = 512;
    reading.smoothing = 0.1;
    o.batch = 1; /* a pack of about 40 pairs */
    o.minutes = minutes;
    o.steps = schedule.steps = minutes > 0 ? 0 : 400;
    schedule.lr = 4e-3;
    schedule.warmup = 40;
    qkv_status status = qkv_task_translate(&task, m, pairs, NULL, &reading, 1);
    if (status) return status;
    status = qkv_train(&task, &o, &adamw, &schedule, NULL, false, show, NULL, &result);
    qkv_task_destroy(&task);
    return status;
}

/* A directory with config.json, generation_config.json, model.safetensors, the tokenizer's files */
static qkv_status make(qkv_context *ctx, const sentences *s, double minutes)
{
    qkv_tokenizer *words = NULL;
    qkv_records *pairs = NULL;
    qkv_model *m = NULL;
    qkv_marian_config c;
    qkv_option_defaults(qkv_model_type_config(&qkv_marian_type), &c);
    c.positions = LONGEST;
    c.width = 64;
    c.encoder_layers = c.decoder_layers = 1;
    c.encoder_heads = c.decoder_heads = 4;
    c.encoder_ff_width = c.decoder_ff_width = 128;
    c.dropout = 0;
    qkv_status status = learn_words(&words, ctx, s);
    if (!status) {
        c.vocab = qkv_tokenizer_vocab_size(words);
        c.eos = qkv_tokenizer_special(words, QKV_TOKEN_EOS);
        c.start = c.pad = qkv_tokenizer_special(words, QKV_TOKEN_PAD);
        status = encode(&pairs, ctx, words, s);
    }
    if (!status) status = qkv_model_create(&m, ctx, &qkv_marian_type, &c);
    if (!status) status = qkv_model_init(m, 1);
    if (!status) status = train(m, pairs, minutes);
    if (!status) status = qkv_hub_save(m, DIR, NULL);
    if (!status) status = qkv_tokenizer_save(words, DIR);
    qkv_model_destroy(m);
    qkv_records_close(pairs);
    qkv_tokenizer_destroy(words);
    return status;
}

/* ---- using it --------------------------------------------------------------------------- */

typedef struct {
    const char *source, *target; /* of the line to come */
    size_t right;
} comparison;

/* Compares a translation with the line that the target has. */
static void compare(void *user, size_t line, const qkv_translated *found)
{
    comparison *c = (comparison *)user;
    const char *source = c->source, *target = c->target;
    const qkv_text *text = &found->best[0].text;
    c->source = skip_lines(source, 1);
    c->target = skip_lines(target, 1);
    const size_t length = (size_t)(c->target - target) - 1;
    const int right = text->len == length && (!length || !memcmp(text->data, target, length));
    c->right += right ? 1 : 0;
    if (line < SHOWN)
        printf("%.*s -> %.*s%s\n", (int)(c->source - source) - 1, source, (int)text->len,
               text->len ? text->data : "", right ? "" : "  (wrong)");
}

static qkv_status use(qkv_context *ctx, const sentences *s, size_t *right)
{
    qkv_model *m = NULL;
    qkv_tokenizer *words = NULL;
    qkv_beam_search *search = NULL;
    qkv_generation how; /* generation_config.json: 4 beams */
    comparison c = {s->held_source, s->held_target, 0};
    qkv_status status = qkv_hub_load(&m, ctx, DIR);
    if (!status) status = qkv_tokenizer_load(&words, ctx, DIR);
    if (!status) status = qkv_hub_load_generation(&how, m, DIR);
    if (!status) status = qkv_beam_search_create(&search, m, &how);
    if (!status)
        status = qkv_translate(search, words, s->held_source, strlen(s->held_source), NULL,
                               compare, &c);
    *right = c.right;
    qkv_beam_search_destroy(search);
    qkv_tokenizer_destroy(words);
    qkv_model_destroy(m);
    return status;
}

int main(int argc, char **argv)
{
    qkv_context *ctx = NULL;
    qkv_context_options options = qkv_context_defaults();
    qkv_status status = QKV_E_ARGUMENT;
    sentences s;
    size_t right = 0, held = 0;
    const double minutes = argc < 3 ? 0 : argc == 4 ? atof(argv[3]) : 1;
    memset(&s, 0, sizeof s);
    if ((argc != 1 && argc != 3 && argc != 4) || minutes < 0) {
        fprintf(stderr, "usage: %s [SOURCE TARGET [MINUTES]]\n", argv[0]);
        return 2;
    }
    if (argc == 1) {
        options.threads = 1; /* so little work is not worth sharing */
        (void)make_sentences(&s);
    } else {
        s.source = read_file(argv[1]);
        s.target = read_file(argv[2]);
    }
    if (hold_out(&s) && qkv_context_create(&ctx, &options) == QKV_OK) {
        held = s.lines / 10;
        status = make(ctx, &s, minutes);
        if (!status) status = use(ctx, &s, &right);
        if (status) fprintf(stderr, "%s\n", qkv_context_message(ctx));
        else printf("%zu of %zu held-out sentences as expected\n", right, held);
    }
    qkv_context_destroy(ctx);
    free(s.source);
    free(s.target);
    /* Of real languages, a sentence seldom has one right translation. */
    return status ? 1 : argc == 1 && right * 10 < held * 9 ? 2 : 0;
}
