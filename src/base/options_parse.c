/* options_parse.c - tables bound to structs: filled from command lines and from JSON.
 * Prints nothing and knows no exit code: a failure is one sentence in the context. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"

enum { MAX_TABLES = 16 };

typedef struct {
    const qkv_option_table *table;
    void *target;
    bool *given; /* one per row; also true once the field's flag has the default replaced */
} binding;

struct qkv_options {
    qkv_context *ctx;
    qkv__arena *arena; /* strings, lists and the given flags */
    binding bound[MAX_TABLES];
    size_t count;
    qkv_strings pairs; /* what --set said */
};

typedef struct {
    binding *b;
    const qkv_option *row; /* NULL: not found */
} place;

static bool has_key(const qkv_option *row, const char *name)
{
    char key[QKV_OPTION_TEXT];
    for (size_t n = 0; qkv_option_key(row, n, key); n++)
        if (strcmp(key, name) == 0)
            return true;
    return false;
}

/* underscores: '_' in the name may stand for '-'. */
static bool has_flag(const qkv_option *row, const char *name, bool underscores)
{
    const char *flag = row->flag;
    for (; flag && *flag; flag++, name++)
        if (*flag != *name && !(underscores && *flag == '-' && *name == '_'))
            return false;
    return flag && !*name;
}

/* By flag, or by key or flag. Later tables do not hide earlier ones. */
static place options_parse_find(const qkv_options *o, const char *name, bool by_key)
{
    for (size_t t = 0; t < o->count; t++) {
        const qkv_option_table *table = o->bound[t].table;
        for (size_t i = 0; i < table->count; i++) {
            const qkv_option *row = &table->rows[i];
            if (has_flag(row, name, by_key) || (by_key && has_key(row, name)))
                return (place){(binding *)(uintptr_t)&o->bound[t], row};
        }
    }
    return (place){0};
}

/* Small distance counts per word: 2 changes, or a third of a long word. */
bool qkv_option_nearer(const char *word, const char *candidate, size_t *best)
{
    size_t length = strlen(word);
    size_t limit = length < 4 ? 1 : length < 9 ? 2 : length / 3;
    size_t d = qkv__edit_distance(word, candidate);
    if (length >= 2 && strncmp(word, candidate, length) == 0)
        d = 1; /* the beginning of a long name */
    if (d > limit || d >= *best)
        return false;
    *best = d;
    return true;
}

/* "unknown option --stesp; did you mean --steps?" */
static qkv_status options_parse_unknown(qkv_options *o, const char *name, bool by_key)
{
    char nearest[QKV_OPTION_TEXT] = "", key[QKV_OPTION_TEXT];
    size_t best = SIZE_MAX;
    for (size_t t = 0; t < o->count; t++) {
        const qkv_option_table *table = o->bound[t].table;
        for (size_t i = 0; i < table->count; i++) {
            const qkv_option *row = &table->rows[i];
            if (row->flag && qkv_option_nearer(name, row->flag, &best))
                snprintf(nearest, sizeof nearest, "%s%s", by_key ? "" : "--", row->flag);
            for (size_t n = 0; by_key && qkv_option_key(row, n, key); n++)
                if (qkv_option_nearer(name, key, &best))
                    memcpy(nearest, key, sizeof nearest);
        }
    }
    const char *what = by_key ? "unknown field " : "unknown option --";
    if (!*nearest)
        return qkv_fail(o->ctx, QKV_E_ARGUMENT, "%s%s", what, name);
    return qkv_fail(o->ctx, QKV_E_ARGUMENT, "%s%s; did you mean %s?", what, name, nearest);
}

static char *copy_text(qkv_options *o, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = qkv__arena_alloc(o->arena, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* Lets the list's first `count` items be followed by a copy of text. */
static qkv_status options_parse_add_text(qkv_options *o, qkv_strings *list, size_t count,
                                         const char *text)
{
    const char **items = qkv__arena_alloc(o->arena, (count + 1) * sizeof *items);
    char *copy = copy_text(o, text);
    if (!items || !copy)
        return QKV_E_MEMORY;
    if (count)
        memcpy(items, list->items, count * sizeof *items);
    items[count] = copy;
    *list = (qkv_strings){items, count + 1};
    return QKV_OK;
}

static qkv_status append_item(qkv_options *o, place p, const char *text)
{
    qkv_strings *list = (qkv_strings *)(void *)((char *)p.b->target + p.row->offset);
    bool *given = &p.b->given[p.row - p.b->table->rows];
    qkv_status status = options_parse_add_text(o, list, *given ? list->count : 0,
                                               text); /* no default stays */
    *given = *given || !status;
    return status;
}

/* said: how the user named the field, "--steps" or "--set steps". */
static qkv_status assign(qkv_options *o, place p, const char *said, const char *text)
{
    char expects[QKV_OPTION_TEXT];
    if (p.row->type == QKV_OPT_LIST)
        return append_item(o, p, text);
    if (p.row->type == QKV_OPT_STRING && !(text = copy_text(o, text)))
        return QKV_E_MEMORY;
    if (!qkv_option_assign(p.row, p.b->target, text)) {
        qkv_option_expects(p.row, expects);
        return qkv_fail(o->ctx, QKV_E_ARGUMENT, "%s: expected %s, found \"%s\"", said, expects,
                        text);
    }
    p.b->given[p.row - p.b->table->rows] = true;
    return QKV_OK;
}

/* before: what stands before the name in a message. */
static qkv_status options_parse_set(qkv_options *o, const char *before, const char *name,
                                    const char *value)
{
    char said[QKV_OPTION_TEXT];
    place p = options_parse_find(o, name, true);
    if (!p.row)
        return options_parse_unknown(o, name, true);
    snprintf(said, sizeof said, "%s%s", before, name);
    return assign(o, p, said, value);
}

/* ---- command lines -------------------------------------------------------------------------- */

typedef struct {
    qkv_options *o;
    int argc, i; /* argv[i] comes next */
    char *const *argv;
    const char **rest;
    size_t rest_count;
} scanner;

static bool looks_like_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] == '-' && arg[2];
}

static qkv_status set_pair(scanner *s, const char *pair)
{
    char key[QKV_OPTION_TEXT];
    size_t length = strcspn(pair, "=");
    if (!pair[length] || length == 0 || length >= sizeof key)
        return qkv_fail(s->o->ctx, QKV_E_ARGUMENT, "--set: expected key=value, found \"%s\"",
                        pair);
    memcpy(key, pair, length);
    key[length] = 0;
    qkv_status status = options_parse_set(s->o, "--set ", key, pair + length + 1);
    return status ? status : options_parse_add_text(s->o, &s->o->pairs, s->o->pairs.count, pair);
}

/* The value of --flag: after '=' or the next argument. NULL after recording what is missing. */
static const char *take_value(scanner *s, const char *flag, const char *attached,
                              const char *expects)
{
    if (attached)
        return attached;
    if (s->i < s->argc && !looks_like_flag(s->argv[s->i]))
        return s->argv[s->i++];
    qkv_fail(s->o->ctx, QKV_E_ARGUMENT, "--%s: expected %s, found %s", flag, expects,
             s->i < s->argc ? s->argv[s->i] : "nothing");
    return NULL;
}

static qkv_status take_list(scanner *s, place p, const char *flag, const char *attached)
{
    const char *value = take_value(s, flag, attached, qkv_option_value_name(p.row));
    qkv_status status = value ? append_item(s->o, p, value) : QKV_E_ARGUMENT;
    while (!status && !attached && s->i < s->argc && !looks_like_flag(s->argv[s->i]) &&
           strcmp(s->argv[s->i], "--") != 0)
        status = append_item(s->o, p, s->argv[s->i++]);
    return status;
}

static qkv_status take_flag(scanner *s, const char *arg)
{
    char flag[QKV_OPTION_TEXT], said[QKV_OPTION_TEXT + 2], expects[QKV_OPTION_TEXT];
    size_t length = strcspn(arg, "=");
    const char *attached = arg[length] ? arg + length + 1 : NULL;
    if (length >= sizeof flag)
        return qkv_fail(s->o->ctx, QKV_E_ARGUMENT, "unknown option --%.60s...", arg);
    memcpy(flag, arg, length);
    flag[length] = 0;
    if (strcmp(flag, "set") == 0) {
        const char *pair = take_value(s, flag, attached, "key=value");
        return pair ? set_pair(s, pair) : QKV_E_ARGUMENT;
    }
    place p = options_parse_find(s->o, flag, false);
    if (!p.row && strncmp(flag, "no-", 3) == 0 && !attached) {
        p = options_parse_find(s->o, flag + 3, false);
        if (p.row && p.row->type == QKV_OPT_BOOL)
            return assign(s->o, p, flag, "false");
        p.row = NULL;
    }
    if (!p.row)
        return options_parse_unknown(s->o, flag, false);
    if (p.row->type == QKV_OPT_LIST)
        return take_list(s, p, flag, attached);
    qkv_option_expects(p.row, expects);
    const char *value = attached;
    if (p.row->type == QKV_OPT_BOOL && !attached)
        value = "true";
    else if (!attached)
        value = take_value(s, flag, NULL, expects);
    snprintf(said, sizeof said, "--%s", flag);
    return value ? assign(s->o, p, said, value) : QKV_E_ARGUMENT;
}

qkv_status qkv__options_complete(qkv_options *o)
{
    for (size_t t = 0; t < o->count; t++) {
        const binding *b = &o->bound[t];
        for (size_t i = 0; i < b->table->count; i++) {
            const qkv_option *row = &b->table->rows[i];
            if (row->flags & QKV_OPT_REQUIRED && !b->given[i])
                return qkv_fail(o->ctx, QKV_E_ARGUMENT, "--%s %s is missing: %s", row->flag,
                                qkv_option_value_name(row), row->help);
        }
    }
    return QKV_OK;
}

/* "-", "-3" and what follows "--" are no flags. */
static qkv_status take_word(scanner *s, const char *arg, bool only_words)
{
    bool number = arg[0] == '-' && (arg[1] == '.' || (arg[1] >= '0' && arg[1] <= '9'));
    if (arg[0] == '-' && arg[1] && !number && !only_words)
        return qkv_fail(s->o->ctx, QKV_E_ARGUMENT, "unknown option %s", arg);
    if (!s->rest)
        return qkv_fail(s->o->ctx, QKV_E_ARGUMENT, "unexpected argument \"%s\"", arg);
    s->rest[s->rest_count++] = arg;
    return QKV_OK;
}

/* ---- public ---------------------------------- */

qkv_status qkv_options_create(qkv_options **out, qkv_context *ctx)
{
    *out = NULL;
    qkv_options *o = qkv_calloc(ctx, 1, sizeof *o);
    if (!o)
        return QKV_E_MEMORY;
    o->ctx = ctx;
    qkv_status status = qkv__arena_create(&o->arena, ctx, "options");
    if (status) {
        qkv_free(ctx, o);
        return status;
    }
    *out = o;
    return QKV_OK;
}

void qkv_options_destroy(qkv_options *o)
{
    if (!o)
        return;
    qkv__arena_destroy(o->arena);
    qkv_free(o->ctx, o);
}

qkv_status qkv_options_bind(qkv_options *o, const qkv_option_table *table, void *target)
{
    if (o->count == MAX_TABLES)
        return qkv_fail(o->ctx, QKV_E_ARGUMENT, "options: more than %d tables", MAX_TABLES);
    bool *given = qkv__arena_zalloc(o->arena, table->count);
    if (!given)
        return QKV_E_MEMORY;
    o->bound[o->count++] = (binding){table, target, given};
    qkv_option_defaults(table, target);
    return QKV_OK;
}

qkv_status qkv_options_set(qkv_options *o, const char *name, const char *value)
{
    return options_parse_set(o, "", name, value);
}

qkv_status qkv_options_parse(qkv_options *o, int argc, char *const *argv, qkv_strings *rest)
{
    scanner s = {.o = o, .argc = argc, .argv = argv};
    bool only_words = false;
    qkv_status status = QKV_OK;
    if (rest) {
        *rest = (qkv_strings){0};
        s.rest = qkv__arena_alloc(o->arena, ((size_t)argc + 1) * sizeof *s.rest);
        if (!s.rest)
            return QKV_E_MEMORY;
    }
    while (!status && s.i < argc) {
        const char *arg = argv[s.i++];
        if (!only_words && strcmp(arg, "--") == 0)
            only_words = true;
        else if (!only_words && looks_like_flag(arg))
            status = take_flag(&s, arg + 2);
        else
            status = take_word(&s, arg, only_words);
    }
    if (status)
        return status;
    if (rest)
        *rest = (qkv_strings){s.rest, s.rest_count};
    return qkv__options_complete(o);
}

qkv_strings qkv_options_pairs(const qkv_options *o)
{
    return o->pairs;
}

const void *qkv_options_target(const qkv_options *o, const qkv_option_table *table)
{
    for (size_t t = 0; t < o->count; t++)
        if (o->bound[t].table == table)
            return o->bound[t].target;
    return NULL;
}

bool qkv_options_know(const qkv_options *o, const char *name)
{
    return options_parse_find(o, name, true).row;
}

bool qkv_options_given(const qkv_options *o, const char *name)
{
    place p = options_parse_find(o, name, true);
    return p.row && p.b->given[p.row - p.b->table->rows];
}

qkv_status qkv_recipe_apply(qkv_options *o, const qkv_preset *const *recipes)
{
    place p = options_parse_find(o, "recipe", false);
    qkv_status status = QKV_OK;
    int chosen = 0;
    if (p.row)
        memcpy(&chosen, (const char *)p.b->target + p.row->offset, sizeof chosen);
    for (const qkv_preset *r = recipes[chosen]; r && r->flag && !status; r++)
        if (r->value && !qkv_options_given(o, r->flag))
            status = qkv_options_set(o, r->flag, r->value);
    return status;
}

/* ---- from JSON ---------------------------------- */

static qkv_status options_parse_read_list(qkv_options *o, place p, const char *key,
                                          const qkv_option_source *src)
{
    qkv_strings *list = (qkv_strings *)(void *)((char *)p.b->target + p.row->offset);
    size_t count;
    qkv_status status = src->length(src->user, key, &count);
    if (status)
        return status;
    const char **items = qkv__arena_alloc(o->arena, (count + 1) * sizeof *items);
    if (!items)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const char *text;
        status = src->item(src->user, key, i, &text);
        if (status)
            return status;
        items[i] = copy_text(o, text);
        if (!items[i])
            return QKV_E_MEMORY;
    }
    *list = (qkv_strings){items, count};
    return QKV_OK;
}

/* Numbers go through text, so that ranges are checked in one place. */
static qkv_status options_parse_read_text(qkv_options *o, place p, const char *key,
                                          const qkv_option_source *src,
                                          char buffer[QKV_OPTION_TEXT], const char **text)
{
    double min, max, real;
    int64_t whole;
    bool truth;
    qkv_status status;
    qkv_option_range(p.row, &min, &max);
    *text = buffer;
    switch (p.row->type) {
    case QKV_OPT_REAL:
        status = src->real(src->user, key, min, max, &real);
        if (!status)
            snprintf(buffer, QKV_OPTION_TEXT, "%.17g", real);
        return status;
    case QKV_OPT_BOOL:
        status = src->boolean(src->user, key, &truth);
        if (!status)
            memcpy(buffer, truth ? "1" : "0", 2);
        return status;
    case QKV_OPT_STRING:
    case QKV_OPT_ENUM:
    case QKV_OPT_SIZES:
        status = src->text(src->user, key, text);
        if (!status && p.row->type == QKV_OPT_STRING && !(*text = copy_text(o, *text)))
            return QKV_E_MEMORY;
        return status;
    default:
        status = src->integer(src->user, key, (int64_t)min, (int64_t)max, &whole);
        if (!status)
            snprintf(buffer, QKV_OPTION_TEXT, "%lld", (long long)whole);
        return status;
    }
}

static qkv_status read_field(qkv_options *o, place p, const char *key,
                             const qkv_option_source *src)
{
    char buffer[QKV_OPTION_TEXT], expects[QKV_OPTION_TEXT], message[3 * QKV_OPTION_TEXT];
    const char *text;
    if (p.row->type == QKV_OPT_LIST)
        return options_parse_read_list(o, p, key, src);
    qkv_status status = options_parse_read_text(o, p, key, src, buffer, &text);
    if (status || qkv_option_assign(p.row, p.b->target, text))
        return status;
    qkv_option_expects(p.row, expects);
    snprintf(message, sizeof message, "expected %s, found \"%.200s\"", expects, text);
    return src->fail(src->user, key, message);
}

qkv_status qkv_options_read(qkv_options *o, const qkv_option_table *table,
                            const qkv_option_source *source)
{
    char key[QKV_OPTION_TEXT];
    for (size_t t = 0; t < o->count; t++) {
        binding *b = &o->bound[t];
        if (table && b->table != table)
            continue;
        for (size_t i = 0; i < b->table->count; i++) {
            place p = {b, &b->table->rows[i]};
            for (size_t n = 0; qkv_option_key(p.row, n, key); n++) {
                if (!source->has(source->user, key))
                    continue;
                qkv_status status = read_field(o, p, key, source);
                if (status)
                    return status;
                break;
            }
        }
    }
    return QKV_OK;
}
