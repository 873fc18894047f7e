/* ranks.c - a command that a launcher (mpirun, srun) started several times. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/cli.h"

static int spoken = -1; /* where this rank would have said what failed */

/* What the other ranks would say is what rank 0 says. */
static void fall_silent(void)
{
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere < 0)
        return;
    (void)fflush(NULL);
    spoken = dup(STDERR_FILENO);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)close(nowhere);
}

void cli_speak_for_the_lost(cli *c)
{
    if (spoken < 0 || qkv_dist_lost(c->ctx) != 0)
        return;
    (void)fflush(NULL);
    (void)dup2(spoken, STDERR_FILENO);
    (void)cli_error(c);
}

int cli_join(cli *c)
{
    if (!qkv_dist_launched())
        return CLI_DONE;
    if (qkv_dist_join(c->ctx))
        return cli_error(c);
    if (qkv_dist_rank(c->ctx) > 0)
        fall_silent();
    if (qkv_dist_size(c->ctx) > 1 && !c->command->ranks) {
        cli_fail("%s does not run on several ranks: start it without a launcher",
                 c->command->manual.name);
        return CLI_USAGE;
    }
    return CLI_DONE;
}
