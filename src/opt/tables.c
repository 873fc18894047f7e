/* tables.c - the fields of optimisers and schedules as option rows: flags, help, JSON keys. */
#include <string.h>

#include "qkv/opt.h"
#include "opt/tables.h"

static const char *const optimizers[QKV_OPTIMIZER_COUNT + 1] = {
    [QKV_OPTIMIZER_SGD] = "sgd",
    [QKV_OPTIMIZER_RMSPROP] = "rmsprop",
    [QKV_OPTIMIZER_ADAM] = "adam",
    [QKV_OPTIMIZER_ADAMW] = "adamw",
    [QKV_OPTIMIZER_MUON] = "muon",
};
static const char *const adjustments[QKV_MUON_ADJUST_COUNT + 1] = {
    [QKV_MUON_MATCH_RMS_ADAMW] = "match-rms-adamw",
    [QKV_MUON_ORIGINAL] = "original",
    [QKV_MUON_SPECTRAL] = "spectral",
};
static const char *const schedules[QKV_SCHEDULE_COUNT + 1] = {
    [QKV_SCHEDULE_CONSTANT] = "constant",
    [QKV_SCHEDULE_LINEAR] = "linear",
    [QKV_SCHEDULE_COSINE] = "cosine",
    [QKV_SCHEDULE_INVERSE_SQRT] = "inverse-sqrt",
    [QKV_SCHEDULE_NOAM] = "noam",
    [QKV_SCHEDULE_WSD] = "wsd",
};

/* Index of name, or -1. */
static int tables_find(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static const qkv_option optimizer_rows[] = {
    {.flag = "optimizer", .key = "optimizer", .type = QKV_OPT_ENUM, .names = optimizers,
     .offset = offsetof(qkv_optimizer_options, kind), .initial = "adamw",
     .help = "rule that turns gradients into updates"},
    {.flag = "weight-decay", .key = "weight_decay", .type = QKV_OPT_REAL, .max = 100,
     .offset = offsetof(qkv_optimizer_options, weight_decay), .initial = "0.01",
     .help = "pull of the weights towards zero; added to the gradient, but for adamw and muon"},
    {.flag = "beta1", .key = "beta1", .type = QKV_OPT_REAL, .max = 1, .flags = QKV_OPT_BELOW,
     .offset = offsetof(qkv_optimizer_options, beta1), .initial = "0.9",
     .help = "adam, adamw, muon's adamw: smoothing of the gradients"},
    {.flag = "beta2", .key = "beta2", .type = QKV_OPT_REAL, .max = 1, .flags = QKV_OPT_BELOW,
     .offset = offsetof(qkv_optimizer_options, beta2), .initial = "0.999",
     .help = "adam, adamw, muon's adamw: smoothing of their squares"},
    {.flag = "eps", .key = "eps", .type = QKV_OPT_REAL, .max = 1,
     .offset = offsetof(qkv_optimizer_options, eps), .initial = "1e-8",
     .help = "rmsprop, adam, adamw, muon's adamw: added to the root of the squares"},
    {.flag = "momentum", .key = "momentum", .type = QKV_OPT_REAL, .max = 10,
     .offset = offsetof(qkv_optimizer_options, momentum), .initial = "0",
     .help = "sgd, rmsprop: how much of the last step goes on"},
    {.flag = "dampening", .key = "dampening", .type = QKV_OPT_REAL, .min = -10, .max = 10,
     .offset = offsetof(qkv_optimizer_options, dampening), .initial = "0",
     .help = "sgd: what momentum leaves out of the new gradient"},
    {.flag = "nesterov", .key = "nesterov", .type = QKV_OPT_BOOL,
     .offset = offsetof(qkv_optimizer_options, nesterov),
     .help = "sgd: momentum that looks one step ahead"},
    {.flag = "alpha", .key = "alpha", .type = QKV_OPT_REAL, .max = 1,
     .offset = offsetof(qkv_optimizer_options, alpha), .initial = "0.99",
     .help = "rmsprop: smoothing of the squares"},
    {.flag = "centered", .key = "centered", .type = QKV_OPT_BOOL,
     .offset = offsetof(qkv_optimizer_options, centered),
     .help = "rmsprop: divide by the standard deviation, not by the root of the squares"},
    {.flag = "muon-momentum", .key = "muon_momentum", .type = QKV_OPT_REAL, .max = 1,
     .flags = QKV_OPT_BELOW, .offset = offsetof(qkv_optimizer_options, muon_momentum),
     .initial = "0.95", .help = "muon: smoothing of the gradients"},
    {.flag = "muon-nesterov", .key = "muon_nesterov", .type = QKV_OPT_BOOL,
     .offset = offsetof(qkv_optimizer_options, muon_nesterov), .initial = "true",
     .help = "muon: momentum that looks one step ahead"},
    {.flag = "muon-adjust", .key = "muon_adjust", .type = QKV_OPT_ENUM, .names = adjustments,
     .offset = offsetof(qkv_optimizer_options, muon_adjust), .initial = "match-rms-adamw",
     .help = "muon: factor of the learning rate for a matrix m x n: 0.2 sqrt(max(m, n)), which "
             "suits the rates of adamw; sqrt(max(1, m / n)); sqrt(m / n)"},
    {.flag = "muon-steps", .key = "muon_steps", .type = QKV_OPT_INT, .min = 1, .max = 99,
     .offset = offsetof(qkv_optimizer_options, muon_steps), .initial = "5",
     .help = "muon: steps of Newton-Schulz, which make a matrix orthogonal"},
    {.flag = "muon-eps", .key = "muon_eps", .type = QKV_OPT_REAL, .max = 1,
     .flags = QKV_OPT_ABOVE, .offset = offsetof(qkv_optimizer_options, muon_eps),
     .initial = "1e-7", .help = "muon: smallest norm of a matrix that is divided by"},
    {.flag = "adamw-lr-scale", .key = "adamw_lr_scale", .type = QKV_OPT_REAL, .max = 1e6,
     .offset = offsetof(qkv_optimizer_options, adamw_lr_scale), .initial = "1",
     .help = "muon: learning rate of what adamw updates (embeddings, output layer, norms, "
             "biases), as a multiple of --lr"},
};

const qkv_option_table qkv__optimizer_table = {
    "Optimiser", optimizer_rows, sizeof optimizer_rows / sizeof *optimizer_rows,
                                               sizeof(qkv_optimizer_options)};
const qkv_option_table *qkv_optimizer_table(void) { return &qkv__optimizer_table; }

static const qkv_option schedule_rows[] = {
    {.flag = "schedule", .key = "schedule", .type = QKV_OPT_ENUM, .names = schedules,
     .offset = offsetof(qkv_schedule, kind), .initial = "cosine",
     .help = "how the learning rate goes after the warm-up"},
    {.flag = "lr", .key = "lr", .type = QKV_OPT_REAL, .max = 1e6,
     .offset = offsetof(qkv_schedule, lr), .initial = "1e-3",
     .help = "highest learning rate (noam: its factor)"},
    {.flag = "min-lr", .key = "min_lr", .type = QKV_OPT_REAL, .max = 1e6,
     .offset = offsetof(qkv_schedule, min_lr), .initial = "0",
     .help = "learning rate that the decay ends at"},
    {.flag = "start-lr", .key = "start_lr", .type = QKV_OPT_REAL, .min = -1, .max = 1e6,
     .offset = offsetof(qkv_schedule, start_lr), .initial = "-1",
     .help = "learning rate of the first step; negative: lr / (warmup + 1)"},
    {.flag = "warmup", .key = "warmup", .type = QKV_OPT_U64,
     .offset = offsetof(qkv_schedule, warmup), .initial = "0",
     .help = "steps until the highest learning rate is reached"},
    {.flag = "decay-steps", .key = "decay_steps", .type = QKV_OPT_U64,
     .offset = offsetof(qkv_schedule, decay), .initial = "0",
     .help = "wsd: steps of the decay at the end; 0: a fifth of all"},
    {.key = "steps", .type = QKV_OPT_U64, .offset = offsetof(qkv_schedule, steps),
     .initial = "0", .help = "step at which the decay ends"},
    {.key = "width", .type = QKV_OPT_SIZE, .offset = offsetof(qkv_schedule, width), .min = 1,
     .max = 1e9, .initial = "512", .help = "noam: the model's width"},
};

const qkv_option_table qkv__schedule_table = {"Learning rate", schedule_rows,
                                             sizeof schedule_rows / sizeof *schedule_rows,
                                              sizeof(qkv_schedule)};
const qkv_option_table *qkv_schedule_table(void) { return &qkv__schedule_table; }

const char *qkv_optimizer_name(qkv_optimizer_kind kind) { return optimizers[kind]; }

bool qkv_optimizer_find(const char *name, qkv_optimizer_kind *out)
{
    int i = tables_find(optimizers, name);
    if (i >= 0)
        *out = (qkv_optimizer_kind)i;
    return i >= 0;
}

const char *qkv_schedule_name(qkv_schedule_kind kind) { return schedules[kind]; }

bool qkv_schedule_find(const char *name, qkv_schedule_kind *out)
{
    int i = tables_find(schedules, name);
    if (i >= 0)
        *out = (qkv_schedule_kind)i;
    return i >= 0;
}
