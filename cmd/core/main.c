/* main.c - finds the command, gives it what it needs, and is the only place that exits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cli.h"

/* "train lm" of argv[1] and argv[2], or argv[1] alone. *words: how many were taken. */
static const cli_command *main_find(int argc, char **argv, int *words)
{
    char name[64];
    if (argc > 2) {
        (void)snprintf(name, sizeof name, "%s %s", argv[1], argv[2]);
        const cli_command *command = cli_find(name);
        *words = 2;
        if (command)
            return command;
    }
    *words = 1;
    return cli_find(argv[1]);
}

static int unknown_command(int argc, char **argv)
{
    char pair[CLI_NAME], nearest[CLI_NAME], kinds[512];
    bool complete = argc > 2 && argv[2][0] != '-'; /* has a second word of a name */
    (void)snprintf(pair, sizeof pair, "%s %s", argv[1], complete ? argv[2] : "");
    if (cli_kinds(argv[1], kinds, sizeof kinds))
        cli_fail("no command \"%s\"; expected after %s: %s", complete ? pair : argv[1], argv[1],
                 kinds);
    else if ((complete && cli_nearest(pair, nearest)) || cli_nearest(argv[1], nearest))
        cli_fail("no command \"%s\"; did you mean qkv %s?", argv[1], nearest);
    else
        cli_fail("no command \"%s\"; qkv --help lists them all", argv[1]);
    return CLI_USAGE;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* GCC's OpenMP lets waiting threads spin for milliseconds, which on a busy machine takes the core
 * from the very thread that is waited for: training ran four times slower there. It reads its
 * setting before main, so the command starts itself once more with a short spin, unless the user
 * has chosen. Returns when that is done or cannot be. */
static void shorten_spin(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    char path[4096]; /* not the link itself: ps and top show the name that was started */
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || setenv("GOMP_SPINCOUNT", "10000", 1) != 0)
        return;
    path[length] = 0;
    execv(path, argv);
}

static int main_run(const cli_command *command, int argc, char **argv)
{
    cli c = {.command = command, .began = qkv_now()};
    if (qkv_context_create(&c.ctx, NULL) || qkv_options_create(&c.options, c.ctx))
        return cli_fail("out of memory");
    qkv_context_on_event(c.ctx, cli_listen, &c);
    cli_bind(&c, &cli_common_table, &c.common);
    if (command->opens)
        cli_bind(&c, qkv_pipeline_table(), &c.opening);
    int code = cli_join(&c);
    if (code == CLI_DONE)
        code = command->run(&c, argc, argv);
    if (code == CLI_DONE) { /* before a launcher sees that any rank has ended */
        code = cli_flush();
    } else {
        (void)fflush(stdout);
        cli_speak_for_the_lost(&c);
    }
    qkv_dist_leave(c.ctx, code != CLI_DONE);
    qkv_options_destroy(c.options);
    qkv_context_destroy(c.ctx);
    return code;
}

int main(int argc, char **argv)
{
    int words;
    if (argc < 2) {
        cli_print_overview();
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("qkv %s\n", qkv_version(NULL));
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_help(0, NULL);
    if (strcmp(argv[1], "help") == 0)
        return cli_help(argc - 2, argv + 2);
    const cli_command *command = main_find(argc, argv, &words);
    if (!command)
        return unknown_command(argc, argv);
    if (wants_help(argc - 1 - words, argv + 1 + words)) {
        cli_print_help(command);
        return CLI_DONE;
    }
    shorten_spin(argv);
    cli_watch_signals();
    argc -= 1 + words;
    argv += 1 + words;
    return main_run(command, argc, argv);
}
