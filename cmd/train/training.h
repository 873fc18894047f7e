/* training.h - what every `qkv train ...` shares: options, the output directory, the loop's
 * progress and its last words. */
#ifndef QKV_CMD_TRAIN_TRAINING_H
#define QKV_CMD_TRAIN_TRAINING_H

#include "core/cli.h"
#include "qkv/train.h"

typedef struct {
    qkv_train_options loop;
    qkv_optimizer_options optimizer;
    qkv_schedule schedule;
} cli_training;

/* What these commands have in place of the tables' defaults: for their manuals. */
extern const qkv_preset cli_training_presets[];

/* The peak learning rate when none is given: narrow models take larger steps. */
double cli_training_rate(size_t width);

void cli_training_defaults(cli_training *t); /* presets and all; where there is no command line */
void cli_training_bind(cli *c, cli_training *t);

/* Is there a checkpoint in dir? */
bool cli_training_exists(cli *c, const char *dir);

/* Refuses a directory with something in it, unless resume and that is a run; fills settings that
 * depend on others. 0, or an exit code after a message. */
int cli_training_check(cli *c, cli_training *t, const char *dir, bool resume);

/* Makes dir and dir/train, and keeps other runs out until the process ends. */
qkv_status cli_training_dir(cli *c, const char *dir);

/* Removes what a run has written that fails before its first checkpoint; existed: leave the
 * directory itself. Call it only after cli_training_dir has succeeded. */
void cli_training_undo(cli *c, const char *dir, bool existed);

/* Trains a part of what a command makes, in dir, which is there; goes on where it was. what: the
 * progress line's word. QKV_E_CANCELLED, with a sentence, when it was stopped. */
qkv_status cli_training_lesson(cli *c, const cli_training *t, qkv_task *task, const char *dir,
                               const char *what);

/* Trains, shows progress, answers. An exit code. */
int cli_training_run(cli *c, const cli_training *t, qkv_task *task, const char *dir, bool resume);

#endif
