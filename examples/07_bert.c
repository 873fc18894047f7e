/* 07_bert.c - a BERT from a Hugging Face directory: fills in a blank, or names a text's class.
 *
 *     07_bert DIR "the capital of france is [MASK]."     BertForMaskedLM
 *     07_bert DIR "what a lovely film"                   BertForSequenceClassification
 *
 * Without arguments it first makes such a directory, ./bert-sounds: a BERT that learns, from
 * sentences with hidden words, which animal makes which sound. transformers opens it as well.  */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { TOP = 3, ANIMALS = 8 };

static const char *const animals[ANIMALS] = {"cat", "dog", "cow", "sheep",
                                             "duck", "owl", "lion", "frog"};
static const char *const sounds[ANIMALS] = {"meows", "barks", "moos", "bleats",
                                            "quacks", "hoots", "roars", "croaks"};

/* ---- using one -------------------------------------------------------------------------- */

/* The likeliest words for the blank at `row`; *best gets the first. */
static void print_words(const qkv_tokenizer *words, const qkv_real *logits, int32_t *best)
{
    const size_t vocab = qkv_tokenizer_vocab_size(words);
    int32_t top[TOP] = {-1, -1, -1};
    for (size_t v = 0; v < vocab; v++)
        for (int i = 0; i < TOP; i++)
            if (top[i] < 0 || logits[v] > logits[top[i]]) {
                for (int k = TOP - 1; k > i; k--) top[k] = top[k - 1];
                top[i] = (int32_t)v;
                break;
            }
    for (int i = 0; i < TOP && top[i] >= 0; i++)
        printf("  %-12s %8.3f\n", qkv_tokenizer_token(words, top[i], NULL),
               (double)logits[top[i]]);
    *best = top[0];
}

static void print_classes(const qkv_model *m, const qkv_real *probabilities, size_t classes)
{
    for (size_t i = 0; i < classes; i++)
        printf("  %-12s %8.3f\n", i < qkv_model_label_count(m) ? qkv_model_label(m, i) : "?",
               (double)probabilities[i]);
}

/* *best: the word for the (first) blank; unchanged when the model is a classifier. */
static qkv_status ask(qkv_model *m, qkv_tape *t, qkv_tokenizer *words, const char *text,
                      int32_t *best)
{
    const size_t one = 1;
    qkv_context *ctx = qkv_model_context(m);
    qkv_ids ids = {NULL, 0, 0};
    qkv_bert_input in;
    int32_t row = 0; /* a classifier looks at the first token, [CLS] */
    int classifier = qkv_model_type_of(m) == &qkv_bert_classifier_type;
    qkv_status status = qkv_tokenizer_encode(words, text, strlen(text), QKV_ENCODE_ADD_SPECIAL,
                                             &ids);
    if (status) return status;
    const int32_t mask = qkv_tokenizer_special(words, QKV_TOKEN_MASK);
    while (!classifier && row < (int32_t)ids.count && ids.data[row] != mask) row++;
    if (row == (int32_t)ids.count) {
        qkv_ids_free(&ids, ctx);
        printf("%s\n  has no %s to fill in\n", text, qkv_tokenizer_token(words, mask, NULL));
        return QKV_OK;
    }
    const size_t shape[2] = {1, ids.count};
    memset(&in, 0, sizeof in);
    qkv_tape_reset(t);
    in.ids = qkv_tensor_ids(t, ids.data, 2, shape);
    qkv_tensor *hidden = qkv_bert_hidden(m, t, &in), *at = qkv_tensor_ids(t, &row, 1, &one);
    printf("%s\n", text);
    if (classifier) {
        qkv_tensor *p = qkv_softmax(t, qkv_bert_class_logits(m, t, hidden, at));
        const qkv_real *data = qkv_data(t, p);
        if (data) print_classes(m, data, qkv_dim(p, 1));
    } else {
        const qkv_real *data = qkv_data(t, qkv_bert_word_logits(m, t, hidden, at));
        if (data) print_words(words, data, best);
    }
    qkv_ids_free(&ids, ctx);
    return qkv_tape_status(t);
}

static qkv_status use(qkv_context *ctx, const char *dir, const char *text, char *word, size_t room)
{
    qkv_model *m = NULL;
    qkv_tokenizer *words = NULL;
    qkv_tape *t = NULL;
    int32_t best = -1;
    qkv_status status = qkv_hub_load(&m, ctx, dir);
    if (!status) status = qkv_tokenizer_load(&words, ctx, dir);
    if (!status) status = qkv_tape_create(&t, ctx);
    if (!status) {
        qkv_tape_mode(t, false, false); /* no backward pass, no dropout */
        status = ask(m, t, words, text, &best);
    }
    if (word && best >= 0) (void)snprintf(word, room, "%s", qkv_tokenizer_token(words, best, NULL));
    qkv_tape_destroy(t);
    qkv_tokenizer_destroy(words);
    qkv_model_destroy(m);
    return status;
}

/* ---- making one ------------------------------------------------------------------------- */

static qkv_status learn_words(qkv_tokenizer **out, qkv_context *ctx, const char *text)
{
    qkv_tokenizer_trainer *tr = NULL;
    qkv_tokenizer_options o = qkv_tokenizer_defaults(QKV_TOKENIZER_WORDPIECE);
    qkv_status status = qkv_tokenizer_trainer_create(&tr, ctx, &o);
    if (!status) status = qkv_tokenizer_trainer_add(tr, text, strlen(text));
    if (!status) status = qkv_tokenizer_trainer_finish(tr, out);
    qkv_tokenizer_trainer_destroy(tr);
    return status;
}

/* A record for every line. */
static qkv_status encode_lines(qkv_records **out, qkv_context *ctx, qkv_tokenizer *words,
                               const char *text)
{
    qkv_records_writer *w = NULL;
    qkv_ids ids = {NULL, 0, 0};
    qkv_status status = qkv_records_create(&w, ctx, NULL, 1);
    for (const char *end; !status && *text; text = end + 1) {
        end = strchr(text, '\n');
        ids.count = 0;
        status = qkv_tokenizer_encode(words, text, (size_t)(end - text), QKV_ENCODE_ADD_SPECIAL,
                                      &ids);
        if (!status) status = qkv_records_add(w, ids.data, ids.count);
    }
    qkv_ids_free(&ids, ctx);
    if (!status) return qkv_records_finish(w, out);
    qkv_records_abandon(w);
    return status;
}

static qkv_status train(qkv_model *m, const qkv_records *texts, const qkv_tokenizer *words)
{
    qkv_task task;
    qkv_train_result result;
    qkv_mlm_options masking = qkv_mlm_defaults();
    qkv_train_options o = qkv_train_defaults();
    const qkv_optimizer_options adamw = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_schedule schedule = qkv_schedule_defaults(QKV_SCHEDULE_COSINE);
    o.steps = schedule.steps = 150;
    o.batch = 1;
    schedule.lr = 3e-3;
    schedule.warmup = 20;
    masking.budget = 1024; /* all of the text */
    masking.share = 0.3;
    qkv_status status = qkv_task_mlm(&task, m, texts, NULL, words, &masking, 1);
    if (status) return status;
    status = qkv_train(&task, &o, &adamw, &schedule, NULL, false, NULL, NULL, &result);
    if (!status) printf("trained: loss %.3f nats\n", result.train_loss);
    qkv_task_destroy(&task);
    return status;
}

/* A directory with config.json, model.safetensors and the tokenizer's files. */
static qkv_status make(qkv_context *ctx, const char *dir)
{
    static const char *const frames[] = {"the %s %s\n", "listen, the %s %s in the night\n",
                                         "a young %s %s\n", "every %s %s when it is hungry\n"};
    char text[4096];
    size_t used = 0;
    qkv_tokenizer *words = NULL;
    qkv_records *texts = NULL;
    qkv_model *m = NULL;
    qkv_bert_config c;
    for (size_t i = 0; i < 4 * ANIMALS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, frames[i / ANIMALS],
                                 animals[i % ANIMALS], sounds[i % ANIMALS]);
    qkv_option_defaults(qkv_model_type_config(&qkv_bert_masked_type), &c);
    c.positions = 16;
    c.width = 64;
    c.layers = 2;
    c.heads = 4;
    c.ff_width = 128;
    c.dropout = c.attention_dropout = 0;
    qkv_status status = learn_words(&words, ctx, text);
    if (!status) c.vocab = qkv_tokenizer_vocab_size(words);
    if (!status) status = encode_lines(&texts, ctx, words, text);
    if (!status) status = qkv_model_create(&m, ctx, &qkv_bert_masked_type, &c);
    if (!status) status = qkv_model_init(m, 1);
    if (!status) status = train(m, texts, words);
    if (!status) status = qkv_hub_save(m, dir, NULL);
    if (!status) status = qkv_tokenizer_save(words, dir);
    qkv_model_destroy(m);
    qkv_records_close(texts);
    qkv_tokenizer_destroy(words);
    return status;
}

int main(int argc, char **argv)
{
    qkv_context *ctx = NULL;
    qkv_context_options options = qkv_context_defaults();
    char word[64] = "";
    int wrong = 0;
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: %s [DIR TEXT]\n", argv[0]);
        return 2;
    }
    if (argc == 1) options.threads = 1; /* so little work is not worth sharing */
    if (qkv_context_create(&ctx, &options) != QKV_OK) return 1;
    qkv_status status = QKV_OK;
    if (argc == 3) {
        status = use(ctx, argv[1], argv[2], NULL, 0);
    } else {
        status = make(ctx, "bert-sounds");
        for (size_t i = 0; i < ANIMALS && !status; i += 3) {
            char text[64];
            (void)snprintf(text, sizeof text, "listen, the %s [MASK] in the night", animals[i]);
            status = use(ctx, "bert-sounds", text, word, sizeof word);
            wrong += strcmp(word, sounds[i]) != 0;
        }
    }
    if (status) fprintf(stderr, "%s\n", qkv_context_message(ctx));
    if (wrong) fprintf(stderr, "an animal has the wrong voice\n");
    qkv_context_destroy(ctx);
    return status ? 1 : wrong ? 2 : 0;
}
