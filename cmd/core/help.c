/* help.c - the commands by name, and everything that is said about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cli.h"

enum { MAX_TABLES = 16, MAX_SIZES = 400 };

static const qkv_option_table *const program_tables[] = {&cli_common_table, NULL};
static const cli_manual program = {
    .name = "qkv",
    .summary = "transformers, trained, run and looked into",
    .usage = "COMMAND [options]",
    .text = "qkv trains, runs and looks inside transformers. Models are directories as Hugging "
            "Face's transformers writes and reads them.",
    .tables = program_tables};

/* A command's manual with the common options behind its own. */
typedef struct {
    cli_manual manual;
    const qkv_option_table *tables[MAX_TABLES + CLI_TABLES + 3];
    const char *about[MAX_TABLES + CLI_TABLES + 3];
    char sizes[MAX_SIZES];
} full_manual;

/* "nano tiny base", the presets of the job's type; of several: "bert nano tiny; vit nano base". */
static const char *list_sizes(const char *job, char out[MAX_SIZES])
{
    const qkv_model_type *type;
    const char *name;
    size_t n = 0;
    for (size_t k = 0; (type = qkv_job_model_type(job, k)) && n < MAX_SIZES; k++) {
        if (qkv_job_model_type(job, 1))
            n += (size_t)snprintf(out + n, MAX_SIZES - n, "%s%s", k ? "; " : "",
                                  qkv_model_type_name(type));
        for (size_t i = 0; (name = qkv_model_type_preset_name(type, i, NULL)) && n < MAX_SIZES; i++)
            n += (size_t)snprintf(out + n, MAX_SIZES - n, "%s%s", n ? " " : "", name);
    }
    return n ? out : NULL;
}

static void help_complete(full_manual *full, const cli_command *command)
{
    size_t n = 0;
    *full = (full_manual){.manual = command->manual};
    if (command->library[CLI_BEFORE])
        full->tables[n++] = command->library[CLI_BEFORE]();
    if (command->job) {
        full->manual.presets = qkv_job_presets(command->job);
        full->manual.recipes = qkv_job_recipes(command->job);
        full->manual.sizes = list_sizes(command->job, full->sizes);
        for (; n < MAX_TABLES && (full->tables[n] = qkv_job_table(command->job, n)); n++)
            full->about[n] = qkv_job_table_about(command->job, n);
    }
    for (size_t i = 0; i < CLI_TABLES && command->own[i]; i++)
        full->tables[n++] = command->own[i];
    if (command->library[CLI_BEHIND])
        full->tables[n++] = command->library[CLI_BEHIND]();
    if (command->opens)
        full->tables[n++] = qkv_pipeline_table();
    full->tables[n] = command->job ? &cli_job_common_table : &cli_common_table;
    full->tables[n + 1] = NULL;
    full->manual.tables = full->tables;
    full->manual.about = full->about;
}

/* Prints what make wrote into a growing string; the context is made for it alone. */
typedef void make_fn(qkv_str *out, const void *user);
static int print_made(make_fn *make, const void *user)
{
    qkv_context *ctx;
    qkv_str out;
    if (qkv_context_create(&ctx, NULL))
        return cli_fail("out of memory");
    qkv_str_init(&out, ctx);
    make(&out, user);
    bool failed = out.failed || fputs(out.data, stdout) == EOF;
    qkv_str_free(&out);
    qkv_context_destroy(ctx);
    return failed ? cli_fail("the help cannot be written") : CLI_DONE;
}

static void make_help(qkv_str *out, const void *command)
{
    full_manual full;
    help_complete(&full, command);
    cli_manual_help(out, program.name, &full.manual);
}

static void make_overview(qkv_str *out, const void *unused)
{
    (void)unused;
    qkv_str_printf(out, "Usage: %s %s\n\n", program.name, program.usage);
    cli_wrap(out, program.text, 0, 0);
    qkv_str_puts(out, "\nCommands:\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const cli_manual *m = &cli_commands[i]->manual;
        qkv_str_printf(out, "  %-18s", m->name);
        cli_wrap(out, m->summary, 21, 20 > strlen(m->name) + 2 ? 20 : strlen(m->name) + 2);
    }
    qkv_str_puts(out, "\nqkv help COMMAND shows its options and examples; qkv --version the "
                       "version.\n");
}

/* All manuals, for what describes the whole program. */
typedef void make_all_fn(qkv_str *out, const cli_manual *const *all, size_t count);
static void make_all(qkv_str *out, const void *user)
{
    size_t count = 0;
    while (cli_commands[count])
        count++;
    full_manual *full = qkv_calloc(out->ctx, count, sizeof *full);
    const cli_manual **all = qkv_calloc(out->ctx, count, sizeof *all);
    for (size_t i = 0; i < count && full && all; i++) {
        help_complete(&full[i], cli_commands[i]);
        all[i] = &full[i].manual;
    }
    make_all_fn *const *make = user;
    if (full && all)
        (*make)(out, all, count);
    out->failed = out->failed || !full || !all;
    qkv_free(out->ctx, full);
    qkv_free(out->ctx, all);
}

static void make_roff(qkv_str *out, const cli_manual *const *all, size_t count)
{
    cli_manual_roff(out, &program, all, count, qkv_version(NULL));
}

static void make_bash(qkv_str *out, const cli_manual *const *all, size_t count)
{
    cli_manual_bash(out, program.name, all, count);
}

static void make_zsh(qkv_str *out, const cli_manual *const *all, size_t count)
{
    cli_manual_zsh(out, program.name, all, count);
}

const cli_command *cli_find(const char *name)
{
    for (size_t i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->manual.name, name) == 0)
            return cli_commands[i];
    return NULL;
}

bool cli_nearest(const char *word, char out[CLI_NAME])
{
    size_t best = SIZE_MAX;
    *out = 0;
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->manual.name;
        char first[CLI_NAME];
        (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(name, " "), name);
        if (qkv_option_nearer(word, name, &best))
            (void)snprintf(out, CLI_NAME, "%s", name);
        if (qkv_option_nearer(word, first, &best))
            memcpy(out, first, sizeof first);
    }
    for (size_t i = 0; cli_commands[i]; i++) { /* a second word, where nothing else is as near */
        const char *name = cli_commands[i]->manual.name, *second = strchr(name, ' ');
        if (second && qkv_option_nearer(word, second + 1, &best))
            (void)snprintf(out, CLI_NAME, "%s", name);
    }
    return *out != 0;
}

bool cli_kinds(const char *first, char *out, size_t size)
{
    size_t length = strlen(first), used = 0;
    *out = 0;
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->manual.name;
        if (strncmp(name, first, length) != 0 || name[length] != ' ' || used >= size)
            continue;
        int more = snprintf(out + used, size - used, "%s%s", used ? ", " : "", name + length + 1);
        used += more > 0 ? (size_t)more : 0;
    }
    return used > 0;
}

void cli_print_overview(void)
{
    print_made(make_overview, NULL);
}

void cli_print_help(const cli_command *command)
{
    print_made(make_help, command);
}

int cli_help(int argc, char **argv)
{
    static const struct {
        const char *first, *second;
        make_all_fn *make;
    } whole[] = {{"--man", NULL, make_roff},
                 {"--completion", "bash", make_bash},
                 {"--completion", "zsh", make_zsh}};
    char name[64];
    if (argc == 0) {
        cli_print_overview();
        return CLI_DONE;
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(argv[0], whole[i].first) == 0 &&
            (!whole[i].second || (argc > 1 && strcmp(argv[1], whole[i].second) == 0)))
            return print_made(make_all, &whole[i].make);
    (void)snprintf(name, sizeof name, "%s%s%s", argv[0], argc > 1 ? " " : "",
                   argc > 1 ? argv[1] : "");
    const cli_command *command = cli_find(name);
    if (command) {
        cli_print_help(command);
        return CLI_DONE;
    }
    char nearest[CLI_NAME], kinds[512];
    bool near = cli_nearest(name, nearest);
    if (cli_kinds(argv[0], kinds, sizeof kinds))
        cli_fail("no command \"%s\"; expected after %s: %s", name, argv[0], kinds);
    else
        cli_fail("no command \"%s\"%s%s%s", name, near ? "; did you mean qkv help " : "",
                 nearest, near ? "?" : "");
    return CLI_USAGE;
}
