/* convert.c - `qkv convert`: a model directory, read and written again in another number type or
 * in shards, or as a file with another library's names, or as GGUF; or a file of PyTorch's, with
 * such names, or of GGUF, made such a directory. It changes how a model is stored, never what it
 * is. */
#include "core/cli.h"

static int convert_run(cli *c, int argc, char **argv)
{
    qkv_convert_options o = qkv_convert_defaults();
    cli_bind(c, qkv_convert_table(), &o);
    int refused = cli_parse(c, argc, argv, 2, 2);
    if (refused)
        return refused;
    const char *from = c->args.items[0], *to = c->args.items[1];
    if (qkv_convert_check(c->ctx, from, to, &o))
        return cli_usage(c, "%s", qkv_context_message(c->ctx));
    return qkv_convert(c->ctx, from, to, &o) ? cli_error(c) : CLI_DONE;
}

static const char *const examples[] = {
    "qkv convert runs/book runs/book-bf16 --dtype bf16",
    "qkv convert runs/book runs/book-shards --shard 1",
    "qkv convert runs/letters runs/whole --merge",
    "qkv convert gpt2/pytorch_model.bin gpt2-new",
    "qkv convert last.ckpt runs/vqgan --skip-objects",
    "qkv convert runs/vqgan vqgan.ckpt --to taming",
    "qkv convert vgg16-397923af.pth runs/lpips --lpips vgg.pth",
    "qkv convert vit_tiny.safetensors runs/tiny",
    "qkv convert runs/digits digits.safetensors --to timm",
    "qkv convert runs/mae mae.pth --to mae",
    "qkv convert runs/book book.gguf --to gguf --dtype q8_0",
    "qkv convert SmolLM2-135M-Q4_K_M.gguf smollm", NULL};

CLI_COMMAND(cli_convert, 640) = {
    .manual = {.name = "convert", .summary = "store a model in another number type, or in shards",
               .usage = "DIR|FILE OUT [options]",
               .text = "Reads a model directory and writes it to another, which must be empty or "
                       "missing. Tokeniser files are copied. A FILE is one that PyTorch saved "
                       "(.bin, .pth, .pt, .ckpt): its tensors become model.safetensors, named by "
                       "the keys that lead to them with dots between, and config.json and "
                       "tokeniser files beside it are copied. Code in it is never run: a file "
                       "that asks for any class or function but those that make tensors and "
                       "containers is refused by that name, or with --skip-objects read without "
                       "what it asked for. A FILE whose tensors have the names of timm's Vision "
                       "Transformer, of facebookresearch/mae or of taming-transformers (VQGAN, the "
                       "prior on its codes, LPIPS), .safetensors too, becomes a directory with a "
                       "config.json derived from shapes; --to timm, --to mae and --to taming write "
                       "such a file. With --lpips VGG16's own file becomes the network that qkv "
                       "train vqgan --lpips asks. A GGUF file becomes a directory, tokenizer and "
                       "chat template included; --to gguf writes one, which llama.cpp runs.",
               .examples = examples},
    .library[CLI_BEHIND] = qkv_convert_table, .run = convert_run};
