/* cli.h - what every command shares: its shape, its options, how it answers and fails.
 *
 * A command is a CLI_COMMAND in a file of a room; the build lists them all. Its run function binds
 * its tables, parses, works and answers:
 *
 *     static int run(cli *c, int argc, char **argv)
 *     {
 *         settings s;
 *         cli_bind(c, &table, &s);
 *         int refused = cli_parse(c, argc, argv, 1, 1);
 *         if (refused)
 *             return refused;
 *         if (qkv_do_something(c->ctx, c->args.items[0], &s))
 *             return cli_error(c);
 *         ...
 *         return cli_answer(c, &w);
 *     }
 *
 * Answers go to the standard output, all else to the standard error. */
#ifndef QKV_CLI_H
#define QKV_CLI_H

#include "core/manual.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 }; /* exit codes */

/* Options of every command. */
typedef struct {
    bool json, quiet;
    uint64_t seed;
    int threads; /* 0: one per core */
    int isa;     /* an index: the names of QKV_ISA_LIST, then all */
    const char *device;
} cli_common;

typedef struct cli_command cli_command;

/* One line on the standard error that is written over (a terminal, ten times a second) or
 * repeated (a file, every ten seconds). */
typedef struct {
    const char *label, *unit; /* "training", "steps" */
    double begun, shown;      /* seconds */
    size_t first;             /* what was done before: a resumed run's rate is its own */
    bool terminal, silent, open;
    double rate; /* units/s: 0: found here; negative: not shown */
    double left; /* seconds to go, from callers that know; 0: found here */
    const char *above; /* lines above it, each ends in a newline and fits the terminal; NULL: none.
                          Not copied; shown on a terminal alone */
    int rows;          /* of the terminal that are in use above the line */
} cli_progress;

/* One run of a command. */
typedef struct {
    qkv_context *ctx; /* of the asked threads and instruction sets once cli_parse succeeded */
    cli_common common;
    qkv_strings args;     /* what was no flag */
    qkv_options *options;
    const cli_command *command;
    qkv_pipeline_options opening; /* of commands that open a directory */
    qkv_status bind_status;
    double began; /* qkv_now() when the command started */
    cli_progress line; /* of what the library is at */
    char label[40], unit[40]; /* of that */
} cli;

/* A table that the library describes settings with. */
typedef const qkv_option_table *cli_table_fn(void);
enum { CLI_BEFORE, CLI_BEHIND, CLI_LIBRARY }; /* the command's own tables */
enum { CLI_TABLES = 2 };

struct cli_command {
    cli_manual manual; /* its tables are put together of what follows and the common one */
    cli_table_fn *library[CLI_LIBRARY]; /* NULL: none there */
    const qkv_option_table *own[CLI_TABLES]; /* NULL: no more */
    const char *job; /* the kind of training job whose settings it has; NULL: none */
    bool ranks; /* several may run it together; others refuse to */
    bool opens; /* a model directory: has qkv_pipeline_table, whose values are in cli.opening */
    const struct bench_measure *measure; /* of bench_run; NULL: none */
    int (*run)(cli *c, int argc, char **argv); /* without the command's name; an exit code */
};

/* Begins the definition of a command; `qkv --help` shows those of lower places first. */
#define CLI_COMMAND(name, place) const cli_command name
extern const cli_command *const cli_commands[]; /* all, by place; NULL at the end */

extern const qkv_option_table cli_common_table;
/* The same but the seed, which is a setting of each training job. */
extern const qkv_option_table cli_job_common_table;

/* ---- options -------------------------------------------------------------------------------- */

/* Defaults now, values in cli_parse. A failure shows up in cli_parse. */
void cli_bind(cli *c, const qkv_option_table *table, void *target);

/* Fills what was bound, collects args (min to max of them; their names are in manual.usage) and
 * configures c->ctx. On failure prints the sentence and returns the exit code. */
int cli_parse(cli *c, int argc, char **argv, size_t min, size_t max);

/* Joins the ranks that a launcher started: from then on rank 0 alone speaks. An exit code. */
int cli_join(cli *c);
/* After a failure: prints the context's sentence if this rank alone can, since rank 0 is lost. */
void cli_speak_for_the_lost(cli *c);

/* Gives the context the threads, instruction sets and device of c->common; the exit code, after
 * the sentence that says why. cli_parse has done it. */
int cli_configure(cli *c);

/* Copies the fields of a table that were given from `given`, to which it was bound, to target,
 * which holds a preset, say. Texts and lists stay the command line's. */
void cli_take_given(const cli *c, const qkv_option_table *table, const void *given, void *target);

/* ---- answers ---------------------------------------------------------------------------- */

int cli_error(cli *c); /* prints the context's sentence; CLI_FAILED */
int cli_fail(const char *fmt, ...) QKV_PRINTF(1, 2);  /* prints "qkv: sentence"; CLI_FAILED */
int cli_usage(const cli *c, const char *fmt, ...) QKV_PRINTF(2, 3); /* the same; CLI_USAGE */
void cli_note(const cli *c, const char *fmt, ...) QKV_PRINTF(2, 3); /* to stderr, unless quiet */

/* An image is to be written there: 0, or an exit code after a message if the name says JPEG. */
int cli_png_only(const cli *c, const char *out);

/* An object that has been begun, for cli_answer. */
qkv_json_writer cli_object(const cli *c);
/* Ends the object, prints it and a newline, flushes and frees w. An exit code. */
int cli_answer(const cli *c, qkv_json_writer *w);
/* The fields "columns" (where they have names) and "rows" of a series (rows, columns). */
void cli_put_series(qkv_json_writer *w, const qkv_array *y);

/* Flushes what was printed; CLI_FAILED, with a message, when it cannot be written. */
int cli_flush(void);

/* ---- long work -------------------------------------------------------------------------- */

/* Before any other thread is made: main's part of what follows. */
void cli_watch_signals(void);
/* After this the first SIGINT or SIGTERM only makes cli_stopped true; the second one kills. */
void cli_catch_signals(void);
bool cli_stopped(void);
/* After this a signal kills again. Returns what cli_stopped was, which is false now. */
bool cli_release_signals(void);

void cli_progress_begin(cli_progress *p, const cli *c, const char *label, const char *unit,
                        size_t done_before);
/* "training  120/5000 steps  35.1 steps/s  loss 2.31  ETA 2:19". total 0: unknown. fmt adds
 * words before the ETA; NULL: none. */
void cli_progress_show(cli_progress *p, size_t done, size_t total, const char *fmt, ...)
    QKV_PRINTF(4, 5);
/* Columns of the terminal that may be used, and its rows; COLUMNS and LINES come first. 0 rows:
 * it is no terminal, or one on which nothing can be written over. */
int cli_progress_columns(const cli_progress *p);
int cli_progress_rows(const cli_progress *p);
/* Hides whichever line is open: before anything else is written to the standard error. */
void cli_progress_hide_open(void);
/* Is it time for cli_progress_show to print, other than the last line? */
bool cli_progress_due(const cli_progress *p);
void cli_progress_hide(cli_progress *p); /* until it is shown again: for a note in between */
void cli_progress_end(cli_progress *p);  /* leaves the line */
/* A qkv_event_fn, with a cli: notes and progress of the library; false once cli_stopped. */
bool cli_listen(void *user, const qkv_event *event);
/* From now on the notes alone: for work that shows what it makes. */
void cli_listen_notes(cli *c);

/* 1234567 -> "1.23M"; three digits are what a rate is good for. */
enum { CLI_NUMBER = 32 };
const char *cli_short_number(double value, char out[CLI_NUMBER]);

/* ---- help, in help.c ----------------------------------------------------------------------- */

const cli_command *cli_find(const char *name); /* NULL: none */
enum { CLI_NAME = 64 };
/* A command's name, or the first word that several share ("train"); false, and "", without one. */
bool cli_nearest(const char *word, char out[CLI_NAME]);
/* "lm, translate, ..": what may follow the first word of commands; false, and "", if nothing. */
bool cli_kinds(const char *first, char *out, size_t size);
void cli_print_overview(void);                 /* qkv --help */
void cli_print_help(const cli_command *command);
int cli_help(int argc, char **argv);           /* qkv help ... */

#endif
