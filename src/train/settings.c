/* settings.c - the settings of a run, in its checkpoint: a resumed run with others is told. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "train/loop.h"
#include "opt/tables.h"

enum { OWN = 3 };

/* The i-th table, and what it describes; NULL past the last. */
static const qkv_option_table *settings_table_at(const qkv__loop *l, size_t i, const void **target)
{
    const qkv_train_settings own[OWN] = {{&qkv__train_table, &l->o},
                                         {&qkv__optimizer_table, &l->optimizer_options},
                                         {&qkv__schedule_table, &l->schedule}};
    if (i >= OWN + l->o.also_count)
        return NULL;
    const qkv_train_settings *s = i < OWN ? &own[i] : &l->o.also[i - OWN];
    *target = s->target;
    return s->table;
}

/* The settings one after another. Begin with zeros. */
typedef struct {
    size_t table, row;
    const char *flag;
    char value[QKV_OPTION_TEXT];
} setting;

static bool settings_next(const qkv__loop *l, setting *s)
{
    const void *target;
    for (const qkv_option_table *t; (t = settings_table_at(l, s->table, &target)); s->table++,
         s->row = 0)
        for (; s->row < t->count; s->row++) {
            const qkv_option *row = &t->rows[s->row];
            if (!row->flag || !row->key)
                continue;
            s->flag = row->flag;
            qkv_option_text(row, target, s->value);
            s->row++;
            return true;
        }
    bool seed = s->table == OWN + l->o.also_count;
    s->table += seed;
    s->flag = "seed";
    snprintf(s->value, sizeof s->value, "%llu", (unsigned long long)l->task->seed);
    return seed;
}

void qkv__settings_put(const qkv__loop *l, qkv_json_writer *w)
{
    qkv_json_begin_object(w, "settings");
    for (setting s = {0}; settings_next(l, &s);)
        qkv_json_put_string(w, s.flag, s.value);
    qkv_json_end_object(w);
}

static void settings_tell(const qkv__loop *l, const char *flag, const char *was, const char *is)
{
    char text[3 * QKV_OPTION_TEXT];
    snprintf(text, sizeof text, "note: --%s is %s, was %s when this run was saved", flag, is, was);
    if (l->event)
        l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step,
                                             .text = text});
}

qkv_status qkv__settings_compare(const qkv__loop *l, const qkv__json *place)
{
    qkv__json saved;
    qkv_status status = qkv__json_get_object(place, "settings", &saved);
    for (setting s = {0}; !status && settings_next(l, &s);) {
        const char *was = NULL;
        status = qkv__json_opt_string(&saved, s.flag, &was);
        if (!status && was && strcmp(was, s.value) != 0)
            settings_tell(l, s.flag, was, s.value);
    }
    return status;
}
