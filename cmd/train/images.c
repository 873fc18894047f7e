/* images.c - `qkv train` on images: what is said of each kind of job. */
#include "train/train.h"

static const char *const colorize_examples[] = {
    "qkv train colorize --images photos --minutes 15 --out runs/color",
    "qkv train colorize --images emoji --split name --size 64 --out runs/emoji",
    "qkv train colorize --images photos --minutes 15 --out runs/color --resume", NULL};

CLI_COMMAND(cli_train_colorize, 250) = {
    .manual = {.name = "train colorize", .summary = "train a model to colour grey images",
               .usage = "--images D --out DIR [options]", .examples = colorize_examples,
               .text = "Learns to tell each pixel's colour (a and b of Lab) from lightness and "
                       "from hints: cells of the image, a 16th of its side, whose colour is "
                       "known. Training gives a random number of them, often none. Evaluates on "
                       "held-out images, by the squared error of a and b in dB below 255^2: "
                       "without hints (psnr) and with 10 random ones (psnr_hints), by whose "
                       "mean (psnr_both) the model is chosen; beside them the mean colour of the "
                       "training images and the nearest hint's. Without --steps or --minutes it "
                       "takes 5 minutes."},
    .job = "colorize", .ranks = true, .run = train_run};

static const char *const segment_examples[] = {
    "qkv train segment --images photos --masks masks --minutes 15 --out runs/seg",
    "qkv train segment --images a --masks b --size 64 --model mini --out runs/seg",
    "qkv train segment --images a --masks b --valid c --valid-masks d --out runs/s", NULL};

CLI_COMMAND(cli_train_segment, 260) = {
    .manual = {.name = "train segment", .summary = "train a model to tell each pixel's class",
               .usage = "--images D --masks D --out DIR [options]", .examples = segment_examples,
               .text = "Learns from images and masks, which are paired by the names of their "
                       "files without what is behind the last dot: photos/a.jpg and masks/a.png. "
                       "Each colour of the masks is a class, in the order of its number: "
                       "levels of grey are named 0 to 255, colours #rrggbb. --init goes on from "
                       "such a model, or begins with one that learnt to reconstruct or to tell "
                       "classes (vit_mae, vit). Evaluates on held-out images: mean intersection "
                       "over union of the classes (miou), by which the model is chosen; share of "
                       "the pixels (accuracy); loss. Without --steps or --minutes it takes 5 "
                       "minutes."},
    .job = "segment", .ranks = true, .run = train_run};

static const char *const reconstruct_examples[] = {
    "qkv train reconstruct --images photos --minutes 15 --out runs/mae",
    "qkv train reconstruct --images emoji --split name --out runs/emoji",
    "qkv train reconstruct --images photos --set norm_pix_loss=true --out runs/n",
    "qkv train classify --data labelled --init runs/mae --out runs/classes", NULL};

CLI_COMMAND(cli_train_reconstruct, 270) = {
    .manual = {.name = "train reconstruct", .summary = "train a model to fill in images",
               .usage = "--images D --out DIR [options]", .examples = reconstruct_examples,
               .text = "A masked autoencoder: three quarters of each image's patches are hidden, "
                       "other ones each time it comes along; an encoder reads the rest, a smaller "
                       "decoder fills in what is missing. Evaluates on held-out images by the "
                       "squared error of what was hidden, in dB (psnr). qkv reconstruct shows "
                       "what it has learnt, and train classify --init begins with its encoder. "
                       "Without --steps or --minutes it takes 5 minutes."},
    .job = "reconstruct", .ranks = true, .run = train_run};

static const char *const vqgan_examples[] = {
    "qkv train vqgan --images photos --minutes 60 --out runs/codes",
    "qkv train vqgan --images emoji --model mini --split name --out runs/emoji",
    "qkv train vqgan --images photos --recipe taming --lpips runs/lpips --out f16", NULL};

CLI_COMMAND(cli_train_vqgan, 280) = {
    .manual = {.name = "train vqgan", .summary = "learn codes for images",
               .usage = "--images D --out DIR [options]", .examples = vqgan_examples,
               .text = "An encoder makes a small grid of vectors of an image; each becomes the "
                       "nearest of a table of codes; a decoder makes an image of the codes "
                       "again. A discriminator, which learns to tell decoded patches from real "
                       "ones, makes it sharp. Evaluates on held-out images; the model that is "
                       "least "
                       "unlike them is kept, but once the discriminator takes part the "
                       "newest is. qkv encode and qkv decode go between images and codes."},
    .job = "vqgan", .ranks = true, .run = train_run};

static const char *const imagine_examples[] = {
    "qkv train imagine --vqgan runs/codes --images photos --out runs/prior",
    "qkv train imagine --vqgan runs/codes --images animals --classes --out runs/zoo",
    "qkv train imagine --vqgan runs/codes --images photos \\\n"
    "      --condition-vqgan runs/grey --out runs/tint", NULL};

CLI_COMMAND(cli_train_imagine, 290) = {
    .manual = {.name = "train imagine", .summary = "learn what images' codes are like",
               .usage = "--vqgan DIR --images D --out DIR [options]", .examples = imagine_examples,
               .text = "A GPT reads the codes that a model of train vqgan has for images, row by "
                       "row, and learns to tell each from those before it. qkv imagine then draws "
                       "new ones. Evaluates on held-out images: bits_per_code, beside those of "
                       "telling a code from its left neighbour alone (bits_bigram). The models "
                       "that code are copied into OUT."},
    .job = "imagine", .ranks = true, .run = train_run};
