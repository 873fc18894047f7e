/* settings.c - the settings of a run, in its checkpoint: a resumed run with others is told. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "train/train.h"

enum { TABLES = 3 };

static const qkv_option_table *table_at(const qkv__loop *l, int i, const void **target)
{
    const qkv_option_table *const tables[TABLES] = {&qkv_train_table, &qkv_optimizer_table,
                                                    &qkv_schedule_table};
    const void *const targets[TABLES] = {&l->o, &l->optimizer_options, &l->schedule};
    *target = targets[i];
    return tables[i];
}

void qkv__settings_put(const qkv__loop *l, qkv__json_out *w)
{
    qkv__json_begin_object(w, "settings");
    for (int i = 0; i < TABLES; i++) {
        const void *target;
        const qkv_option_table *table = table_at(l, i, &target);
        for (size_t r = 0; r < table->count; r++) {
            char text[QKV__OPTION_TEXT];
            if (!table->rows[r].flag)
                continue;
            qkv__option_text(&table->rows[r], target, text);
            qkv__json_put_string(w, table->rows[r].flag, text);
        }
    }
    qkv__json_end_object(w);
}

static void tell(const qkv__loop *l, const char *flag, const char *was, const char *is)
{
    char text[3 * QKV__OPTION_TEXT];
    snprintf(text, sizeof text, "note: --%s is %s, was %s when this run was saved", flag, is, was);
    if (l->event)
        l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step,
                                             .text = text});
}

qkv_status qkv__settings_compare(const qkv__loop *l, const qkv__json *place)
{
    qkv__json saved;
    qkv_status status = qkv__json_get_object(place, "settings", &saved);
    for (int i = 0; i < TABLES && !status; i++) {
        const void *target;
        const qkv_option_table *table = table_at(l, i, &target);
        for (size_t r = 0; r < table->count && !status; r++) {
            const char *flag = table->rows[r].flag, *was = NULL;
            char is[QKV__OPTION_TEXT];
            if (!flag)
                continue;
            qkv__option_text(&table->rows[r], target, is);
            status = qkv__json_opt_string(&saved, flag, &was);
            if (!status && was && strcmp(was, is) != 0)
                tell(l, flag, was, is);
        }
    }
    return status;
}
