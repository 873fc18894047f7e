/* commands.h - every command, in the order of `qkv --help`: X(NAME) for cli_NAME. */
#ifndef QKV_CMD_CORE_COMMANDS_H
#define QKV_CMD_CORE_COMMANDS_H

#include "core/cli.h"

#define CLI_COMMANDS(X) \
    X(explain) \
    X(train_lm) \
    X(train_translate) \
    X(train_mlm) \
    X(train_classify) \
    X(train_forecast) \
    X(train_colorize) \
    X(train_segment) \
    X(train_reconstruct) \
    X(train_vqgan) \
    X(train_imagine) \
    X(train_tokenizer) \
    X(generate) \
    X(translate) \
    X(fill) \
    X(classify) \
    X(colorize) \
    X(segment) \
    X(forecast) \
    X(reconstruct) \
    X(encode) \
    X(decode) \
    X(imagine) \
    X(eval)     \
    X(score)    \
    X(tokenize) \
    X(info)     \
    X(convert)  \
    X(bench)    \
    X(bench_train) \
    X(bench_attention) \
    X(bench_decode) \
    X(bench_image)   \
    X(bench_translate) \
    X(bench_tokenize)  \
    X(tour)

#define CLI_DECLARE(name) extern const cli_command cli_##name;
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

#endif
