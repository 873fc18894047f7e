/* text.c - `qkv train` on texts and series: what is said of each kind of job. */
#include "train/train.h"

static const char *const lm_examples[] = {
    "qkv train lm --data book.txt --tokenizer char --minutes 5 --out runs/book",
    "qkv train lm --data book.txt --minutes 5 --out runs/book --resume",
    "qkv train lm --data *.txt --vocab 8192 --model tiny --steps 500 --out runs/all",
    "qkv train lm --data book.txt --init runs/all --minutes 2 --out runs/tuned",
    "qkv train lm --data book.txt --set num_hidden_layers=2 --out runs/shallow",
    "qkv train lm --conversations talks.jsonl --init SmolLM2-Instruct --out runs/t",
    NULL};

CLI_COMMAND(cli_train_lm, 200) = {
    .manual = {.name = "train lm", .summary = "train a GPT on text",
               .usage = "--data FILE... --out DIR [options]", .examples = lm_examples,
               .text = "Trains on UTF-8 text and evaluates on what it holds out. --conversations "
                       "learns what the assistant says in conversations, lines of JSON: "
                       "{\"messages\": [{\"role\": \"user\", \"content\": TEXT}, ..]}, which a "
                       "chat template makes into text; `qkv chat` then answers. --out becomes a "
                       "model directory as Hugging Face lays it out; train/ in it keeps what "
                       "--resume needs. Without --steps or --minutes it takes 5 minutes."},
    .job = "lm", .ranks = true, .run = train_run};

static const char *const translate_examples[] = {
    "qkv train translate --source en.txt --target de.txt --minutes 60 --out runs/m",
    "qkv train translate --source en.txt --target de.txt --out runs/m --resume",
    "qkv train translate --source en.txt --target de.txt --model base --out runs/b",
    NULL};

CLI_COMMAND(cli_train_translate, 210) =
    {.manual = {.name = "train translate",
                .summary = "train a translator on pairs of sentences",
                .usage = "--source FILE --target FILE --out DIR [options]",
                .examples = translate_examples,
                .text = "Line i of the target is the translation of line i of the source. Trains "
                        "an encoder-decoder, with one vocabulary for both, and evaluates on what "
                        "it "
                        "holds out. --out becomes a model directory as Hugging Face lays it out; "
                        "train/ in it keeps what --resume needs. Without --steps or --minutes it "
                        "takes 5 minutes."},
     .job = "translate",
     .ranks = true, .run = train_run};

static const char *const mlm_examples[] = {
    "qkv train mlm --data book.txt --minutes 5 --out runs/words",
    "qkv train mlm --data book.txt --minutes 5 --out runs/words --resume",
    "qkv train mlm --data lines.txt --lines --vocab 8192 --steps 500 --out runs/l",
    "qkv train mlm --data other.txt --init runs/words --minutes 2 --out runs/other", NULL};

CLI_COMMAND(cli_train_mlm, 220) = {
    .manual = {.name = "train mlm", .summary = "train a BERT to guess hidden words",
               .usage = "--data FILE... --out DIR [options]", .examples = mlm_examples,
               .text = "Hides words of UTF-8 text, other ones each time a text comes along, and "
                       "learns to guess them from both sides. Evaluates on what it holds out: loss "
                       "and perplexity of the hidden words, accuracy of the best guess. qkv fill "
                       "and qkv train classify --init use the model. Without --steps or "
                       "--minutes it takes 5 minutes."},
    .job = "mlm", .ranks = true, .run = train_run};

static const char *const embed_examples[] = {
    "qkv train embed --source en.txt --target de.txt --minutes 30 --out runs/e",
    "qkv train embed --source en.txt --target de.txt --out runs/e --resume",
    "qkv train embed --data questions.tsv --valid held.tsv --out runs/q",
    "qkv train embed --data questions.tsv --init runs/words --out runs/q",
    "qkv train embed --data photos --minutes 60 --out runs/photos",
    "qkv train embed --data photos --captions names.csv --out runs/named", NULL};

CLI_COMMAND(cli_train_embed, 225) = {
    .manual = {.name = "train embed", .summary = "train vectors: of texts or images that are alike",
               .usage = "--source FILE --target FILE | --data DATA [--captions FILE], --out "
                        "DIR [options]",
               .examples = embed_examples,
               .text = "Learns from pairs of texts that belong together: sentences and their "
                       "translations, questions and answers. One encoder reads both; a text's "
                       "vector is the mean over its tokens. Each text is to find its partner among "
                       "the --batch partners of the step (InfoNCE, both ways), so a larger batch "
                       "is a harder question. Evaluates on what it holds out: the share of "
                       "the texts whose partner is the most similar of all, or among the 5 most "
                       "similar. --out becomes a BertModel directory that sentence-transformers "
                       "opens too; qkv embed uses it.\n\n"
                       "With images for --data, learns that two random views of an image are alike "
                       "(SimCLR): parts, mirrored, with other colours, or none: --crop-scale 0.2, "
                       "--flip, --jitter 0.5, --grey 0.2. Classes are not learnt from; where every "
                       "image has one, the evaluation shows the share whose 10 most similar images "
                       "have its class most often (knn). Below 64 pixels --out is a compact "
                       "transformer without head, else a ViTModel; train classify --init begins "
                       "with either.\n\n"
                       "With --captions too, a table of image files and texts or a folder of text "
                       "files, learns which text belongs to which image (CLIP): two encoders whose "
                       "vectors lie in one space, so that a text finds images and an image finds "
                       "its name. Evaluates by recall in both directions. --out becomes a "
                       "CLIPModel directory; --init begins with one.\n\n"
                       "Without --steps or --minutes it takes 5 minutes."},
    .job = "embed", .ranks = true, .run = train_run};

static const char *const classify_examples[] = {
    "qkv train classify --data reviews.tsv --minutes 5 --out runs/reviews",
    "qkv train classify --data reviews.tsv --init runs/words --out runs/tuned",
    "qkv train classify --data pairs.tsv --valid held.tsv --out runs/pairs",
    "qkv train classify --data photos --minutes 60 --out runs/photos",
    "qkv train classify --data train-images-idx3-ubyte.gz --no-flip --out digits",
    "qkv train classify --data walks.csv --channels 3 --out runs/steps",
    NULL};

CLI_COMMAND(cli_train_classify, 230) = {
    .manual = {.name = "train classify",
               .summary = "train a model to label texts, images or series",
               .usage = "--data TSV|DIR|TAR|IDX|CSV --out DIR [options]",
               .examples = classify_examples,
               .text = "Texts: learns from lines of a label, a tab and a text, or a label and two "
                       "texts; labels are any words. --init goes on from a model that learnt to "
                       "guess hidden words (qkv train mlm) or from a classifier. Evaluates on what "
                       "it "
                       "holds out: accuracy, by which the model is chosen; loss; F1, with two "
                       "classes of the second in the order of their labels' bytes, else the plain "
                       "mean over the classes.\n\n"
                       "Images: their classes are the folders they lie in, or an idx file's "
                       "numbers. A compact transformer with convolutions at first (qkv_cct) "
                       "below 64 pixels, else a Vision Transformer (vit) as others load it. All "
                       "are brought to one size. --init goes on from such a model, whatever its "
                       "classes, or from one that learnt to reconstruct (qkv train reconstruct). "
                       "Here --model is micro, --batch 128, --weight-decay 0.05, --warmup 200, "
                       "--lr 0.384 / hidden_size, but 1e-3 at most, and images are changed each "
                       "time: --crop-pad 4, --flip (--no-flip where left and right differ, as in "
                       "letters), --cutmix 1 for half of them (--mix 0.5). Evaluates on accuracy "
                       "and loss.\n\n"
                       "Series: learns from a .csv file's lines of a label and the values of a "
                       "series, step after step (--channels of each), of any length. Evaluates on "
                       "accuracy and loss.\n\n"
                       "Without --steps or --minutes it takes 5 minutes."},
    .job = "classify", .ranks = true, .run = train_run};

static const char *const forecast_examples[] = {
    "qkv train forecast --data load.csv --context 168 --minutes 2 --out runs/a",
    "qkv train forecast --data load.csv --columns load,wind --target load --out b",
    "qkv train forecast --data load.csv --decoder --patch 8 --out runs/c",
    "qkv train forecast --data load.csv --minutes 2 --out runs/a --resume", NULL};

CLI_COMMAND(cli_train_forecast, 240) = {
    .manual = {.name = "train forecast", .summary = "train a forecaster on rows of numbers",
               .usage = "--data CSV --out DIR [options]", .examples = forecast_examples,
               .text = "Learns to predict the rows that follow a window of rows, and evaluates on "
                       "the last rows of the data, beside the naive forecasts: the last row "
                       "again, and the row of a season before. The first line may name the "
                       "columns. --out becomes a model directory; train/ in it keeps what "
                       "--resume needs. Without --steps or --minutes it takes 5 minutes."},
    .job = "forecast", .ranks = true, .run = train_run};

static const char *const fill_examples[] = {
    "qkv train fill --data load.csv --context 168 --minutes 2 --out runs/gaps",
    "qkv train fill --data load.csv --columns load,wind --mask-span 24 --out runs/b",
    "qkv train fill --data load.csv --minutes 2 --out runs/gaps --resume", NULL};

CLI_COMMAND(cli_train_fill, 245) = {
    .manual = {.name = "train fill", .summary = "train a model to fill gaps in rows of numbers",
               .usage = "--data CSV --out DIR [options]", .examples = fill_examples,
               .text = "Hides spans of known values, other ones each time, and learns to predict "
                       "them from what is before and behind. The data may have gaps of their own: "
                       "empty cells, NaN, NA. Evaluates on the last rows of the data, beside "
                       "linear interpolation and the last value again. The first line may name "
                       "the columns. qkv fill uses the model. --out becomes a model "
                       "directory; train/ in it keeps what --resume needs. Without --steps or "
                       "--minutes it takes 5 minutes."},
    .job = "fill", .ranks = true, .run = train_run};
