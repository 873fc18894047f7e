/* listen.c - what the library tells of long work, as notes and a progress line. */
#include <stdio.h>
#include <string.h>

#include "core/cli.h"

bool cli_listen(void *user, const qkv_event *event)
{
    cli *c = user;
    if (event->kind == QKV_EVENT_NOTE) {
        cli_progress_hide(&c->line);
        cli_note(c, "%s", event->text);
        return !cli_stopped();
    }
    if (event->kind == QKV_EVENT_WORKING)
        return !cli_stopped();
    if (!event->done || strcmp(c->label, event->text) != 0) {
        cli_progress_end(&c->line);
        (void)snprintf(c->label, sizeof c->label, "%s", event->text);
        (void)snprintf(c->unit, sizeof c->unit, "%s", event->unit);
        cli_progress_begin(&c->line, c, c->label, c->unit, event->done);
    }
    cli_progress_show(&c->line, event->done, event->total, NULL);
    if (event->total && event->done >= event->total) {
        cli_progress_end(&c->line);
        c->label[0] = 0;
    }
    return !cli_stopped();
}

static bool listen_notes(void *user, const qkv_event *event)
{
    if (event->kind == QKV_EVENT_NOTE)
        (void)cli_listen(user, event);
    return true;
}

void cli_listen_notes(cli *c)
{
    qkv_context_on_event(c->ctx, listen_notes, c);
}
