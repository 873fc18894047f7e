/* report.c - the page of a run, made anew as it goes. */
#include <stdio.h>

#include "qkv/file.h"
#include "qkv/machine.h"
#include "qkv/runs.h"
#include "train/loop.h"

static const double REPORT_SHARE = 0.01; /* of the time */
static const double FIRST_TIME = 0.03;   /* seconds that the first one is taken to take */

void qkv__report_write(qkv__loop *l, bool last)
{
    double begun = qkv_now();
    double since = l->last_report > 0 ? begun - l->last_report : qkv__seconds(l);
    double takes = l->last_report > 0 ? l->report_time : FIRST_TIME;
    bool due = takes <= REPORT_SHARE * since;
    if (!l->dir || (!due && !last))
        return;
    const qkv_path path = qkv_path_in(l->dir, "train/report.html");
    if (qkv_run_report(l->ctx, l->dir, path.text) && l->event) {
        char text[512];
        snprintf(text, sizeof text, "warning: no report: %.400s", qkv_context_message(l->ctx));
        l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step,
                                             .text = text});
    }
    l->last_report = qkv_now();
    l->report_time = l->last_report - begun;
}
