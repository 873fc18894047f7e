/* options.c - rows of option tables: text to value and back, ranges, defaults, JSON.
 * Command lines are in options_parse.c. */
#include "base/options.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double max_size = 9007199254740992.0;    /* 2^53: exact as a double */
static const double max_u64 = 9223372036854774784.0; /* the last double below 2^63 */

static bool options_is_number(const qkv_option *row)
{
    return row->type <= QKV_OPT_REAL;
}

void qkv_option_range(const qkv_option *row, double *min, double *max)
{
    double low = -DBL_MAX, high = DBL_MAX;
    switch (row->type) {
    case QKV_OPT_INT: low = INT_MIN, high = INT_MAX; break;
    case QKV_OPT_SIZE:
    case QKV_OPT_SIZES: low = 0, high = max_size; break;
    case QKV_OPT_U64: low = 0, high = max_u64; break;
    default: break;
    }
    if (row->min != 0 || row->max != 0) {
        low = fmax(low, row->min);
        high = fmin(high, row->max);
    }
    *min = low;
    *max = high;
}

static bool in_range(const qkv_option *row, double value)
{
    double min, max;
    qkv_option_range(row, &min, &max);
    bool above = row->flags & QKV_OPT_ABOVE ? value > min : value >= min;
    bool below = row->flags & QKV_OPT_BELOW ? value < max : value <= max;
    return above && below;
}

static void *member(const qkv_option *row, void *target)
{
    return (char *)target + row->offset;
}

static const void *const_member(const qkv_option *row, const void *target)
{
    return (const char *)target + row->offset;
}

/* Whole numbers of any of the integer types, through the widest. */
static int64_t options_get_integer(const qkv_option *row, const void *target)
{
    const void *p = const_member(row, target);
    if (row->type == QKV_OPT_SIZE)
        return (int64_t) * (const size_t *)p;
    if (row->type == QKV_OPT_U64)
        return (int64_t) * (const uint64_t *)p;
    return *(const int *)p;
}

static void options_put_integer(const qkv_option *row, void *target, int64_t value)
{
    void *p = member(row, target);
    if (row->type == QKV_OPT_SIZE)
        *(size_t *)p = (size_t)value;
    else if (row->type == QKV_OPT_U64)
        *(uint64_t *)p = (uint64_t)value;
    else
        *(int *)p = (int)value;
}

/* The enum's own type may be any integer as wide as int. */
static int get_enum(const qkv_option *row, const void *target)
{
    int value;
    memcpy(&value, const_member(row, target), sizeof value);
    return value;
}

static void put_enum(const qkv_option *row, void *target, int value)
{
    memcpy(member(row, target), &value, sizeof value);
}

static int find_name(const qkv_option *row, const char *text)
{
    for (int i = 0; row->names[i]; i++)
        if (strcmp(row->names[i], text) == 0)
            return i;
    return -1;
}

static bool assign_integer(const qkv_option *row, void *target, const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || !in_range(row, (double)value))
        return false;
    options_put_integer(row, target, value);
    return true;
}

static bool assign_real(const qkv_option *row, void *target, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || !in_range(row, value))
        return false;
    *(double *)member(row, target) = value;
    return true;
}

static bool assign_bool(const qkv_option *row, void *target, const char *text)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i], text) == 0) {
            *(bool *)member(row, target) = i & 1;
            return true;
        }
    }
    return false;
}

static bool assign_sizes(const qkv_option *row, void *target, const char *text)
{
    qkv_sizes sizes = {0};
    for (bool more = *text != 0; more; text++) {
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno || end == text || (*end && *end != ',') || !in_range(row, (double)value) ||
            sizes.count == QKV_SIZES)
            return false;
        sizes.item[sizes.count++] = (size_t)value;
        more = *end == ',';
        text = end;
    }
    *(qkv_sizes *)member(row, target) = sizes;
    return true;
}

bool qkv_option_assign(const qkv_option *row, void *target, const char *text)
{
    int found;
    switch (row->type) {
    case QKV_OPT_INT:
    case QKV_OPT_SIZE:
    case QKV_OPT_U64: return assign_integer(row, target, text);
    case QKV_OPT_REAL: return assign_real(row, target, text);
    case QKV_OPT_BOOL: return assign_bool(row, target, text);
    case QKV_OPT_STRING: *(const char **)member(row, target) = text; return true;
    case QKV_OPT_ENUM:
        found = find_name(row, text);
        if (found >= 0)
            put_enum(row, target, found);
        return found >= 0;
    case QKV_OPT_SIZES: return assign_sizes(row, target, text);
    case QKV_OPT_LIST: break;
    }
    return false;
}

static void options_append(char out[QKV_OPTION_TEXT], const char *text)
{
    size_t used = strlen(out);
    while (*text && used + 1 < QKV_OPTION_TEXT)
        out[used++] = *text++;
    out[used] = 0;
}

/* The fewest digits that read back as the same number. */
static void real_text(double value, char out[QKV_OPTION_TEXT])
{
    if (value == floor(value) && fabs(value) < 1e6) {
        snprintf(out, QKV_OPTION_TEXT, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, QKV_OPTION_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
}

static void sizes_text(const qkv_sizes *sizes, char out[QKV_OPTION_TEXT])
{
    char number[32];
    for (size_t i = 0; i < sizes->count; i++) {
        snprintf(number, sizeof number, "%s%zu", i ? "," : "", sizes->item[i]);
        options_append(out, number);
    }
}

void qkv_option_text(const qkv_option *row, const void *target, char out[QKV_OPTION_TEXT])
{
    const void *p = const_member(row, target);
    const qkv_strings *list = p;
    out[0] = 0;
    switch (row->type) {
    case QKV_OPT_INT:
    case QKV_OPT_SIZE:
    case QKV_OPT_U64:
        snprintf(out, QKV_OPTION_TEXT, "%lld", (long long)options_get_integer(row, target));
        break;
    case QKV_OPT_REAL: real_text(*(const double *)p, out); break;
    case QKV_OPT_BOOL: options_append(out, *(const bool *)p ? "true" : "false"); break;
    case QKV_OPT_STRING: options_append(out, *(const char *const *)p ? *(const char *const *)p
                                                                     : ""); break;
    case QKV_OPT_ENUM: options_append(out, row->names[get_enum(row, target)]); break;
    case QKV_OPT_LIST:
        for (size_t i = 0; i < list->count; i++) {
            options_append(out, i ? " " : "");
            options_append(out, list->items[i]);
        }
        break;
    case QKV_OPT_SIZES: sizes_text(p, out); break;
    }
}

static void number_expects(const qkv_option *row, char out[QKV_OPTION_TEXT])
{
    double min, max;
    char low[QKV_OPTION_TEXT], high[QKV_OPTION_TEXT];
    qkv_option_range(row, &min, &max);
    real_text(min, low);
    real_text(max, high);
    bool whole = row->type != QKV_OPT_REAL;
    bool has_low = min > (whole ? -2147483648.0 : -DBL_MAX);
    bool has_high = max < (row->type == QKV_OPT_INT ? 2147483647.0 : max_size);
    options_append(out, whole ? "an integer" : "a number");
    if (has_low && has_high && !(row->flags & (QKV_OPT_ABOVE | QKV_OPT_BELOW))) {
        options_append(out, " from ");
        options_append(out, low);
        options_append(out, " to ");
        options_append(out, high);
        return;
    }
    if (has_low) {
        options_append(out, row->flags & QKV_OPT_ABOVE ? " above " : " of at least ");
        options_append(out, low);
    }
    if (has_high) {
        options_append(out, has_low ? " and " : " ");
        options_append(out, row->flags & QKV_OPT_BELOW ? "below " : "at most ");
        options_append(out, high);
    }
}

void qkv_option_expects(const qkv_option *row, char out[QKV_OPTION_TEXT])
{
    out[0] = 0;
    if (options_is_number(row)) {
        number_expects(row, out);
    } else if (row->type == QKV_OPT_ENUM) {
        options_append(out, "one of ");
        for (size_t i = 0; row->names[i]; i++) {
            options_append(out, i ? ", " : "");
            options_append(out, row->names[i]);
        }
    } else if (row->type == QKV_OPT_SIZES) {
        options_append(out, "up to 8 integers with commas between them");
    } else {
        options_append(out, row->type == QKV_OPT_BOOL ? "true or false" : "text");
    }
}

static bool options_fits(const qkv_option *row, const void *target)
{
    const qkv_sizes *sizes = const_member(row, target);
    int names = 0;
    switch (row->type) {
    case QKV_OPT_INT:
    case QKV_OPT_SIZE:
    case QKV_OPT_U64: return in_range(row, (double)options_get_integer(row, target));
    case QKV_OPT_REAL: {
        double value = *(const double *)const_member(row, target);
        return isfinite(value) && in_range(row, value);
    }
    case QKV_OPT_ENUM:
        while (row->names[names])
            names++;
        return get_enum(row, target) >= 0 && get_enum(row, target) < names;
    case QKV_OPT_SIZES:
        for (size_t i = 0; sizes->count <= QKV_SIZES && i < sizes->count; i++)
            if (!in_range(row, (double)sizes->item[i]))
                return false;
        return sizes->count <= QKV_SIZES;
    default: return true;
    }
}

qkv_status qkv__options_check(qkv_context *ctx, const qkv_option_table *table, const void *target,
                              const char *what)
{
    char key[QKV_OPTION_TEXT] = "?", expected[QKV_OPTION_TEXT], found[QKV_OPTION_TEXT];
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *row = &table->rows[i];
        if (options_fits(row, target))
            continue;
        (void)qkv_option_key(row, 0, key);
        qkv_option_expects(row, expected);
        if (row->type == QKV_OPT_ENUM || row->type == QKV_OPT_SIZES)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %s: %s expected", what, key, expected);
        qkv_option_text(row, target, found);
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %s: %s expected, found %s", what, key, expected,
                        found);
    }
    return QKV_OK;
}

const char *qkv_option_value_name(const qkv_option *row)
{
    static const char *const names[] = {"N", "N", "N", "X", "", "TEXT", "NAME", "TEXT...",
                                        "N,N.."};
    return row->value ? row->value : names[row->type];
}

bool qkv_option_key(const qkv_option *row, size_t n, char out[QKV_OPTION_TEXT])
{
    const char *key = row->key;
    for (; key && n; n--) {
        key = strchr(key, '|');
        key = key ? key + 1 : NULL;
    }
    if (!key)
        return false;
    size_t length = strcspn(key, "|");
    length = length < QKV_OPTION_TEXT ? length : QKV_OPTION_TEXT - 1;
    memcpy(out, key, length);
    out[length] = 0;
    return true;
}

/* ---- public -------------------------------------------------------------------------------- */

void qkv_option_defaults(const qkv_option_table *table, void *target)
{
    memset(target, 0, table->bytes);
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *row = &table->rows[i];
        switch (row->type) {
        case QKV_OPT_REAL: *(double *)member(row, target) = 0; break;
        case QKV_OPT_BOOL: *(bool *)member(row, target) = false; break;
        case QKV_OPT_STRING: *(const char **)member(row, target) = NULL; break;
        case QKV_OPT_ENUM: put_enum(row, target, 0); break;
        case QKV_OPT_LIST: *(qkv_strings *)member(row, target) = (qkv_strings){0}; break;
        case QKV_OPT_SIZES: *(qkv_sizes *)member(row, target) = (qkv_sizes){0}; break;
        default: options_put_integer(row, target, 0); break;
        }
        if (row->initial)
            qkv_option_assign(row, target, row->initial);
    }
}

const qkv_preset *qkv_preset_find(const qkv_preset *presets, const qkv_option *row)
{
    char key[QKV_OPTION_TEXT] = "";
    if (!row->flag)
        qkv_option_key(row, 0, key);
    for (const qkv_preset *p = presets; p && p->flag; p++)
        if (strcmp(p->flag, row->flag ? row->flag : key) == 0)
            return p;
    return NULL;
}

void qkv_preset_apply(const qkv_preset *presets, const qkv_option_table *table, void *target)
{
    for (size_t i = 0; i < table->count; i++) {
        const qkv_preset *p = qkv_preset_find(presets, &table->rows[i]);
        if (p && p->value)
            qkv_option_assign(&table->rows[i], target, p->value);
    }
}

/* Whether a QKV_OPT_NULL row holds what stands for nothing. */
static bool is_none(const qkv_option *row, const void *target)
{
    const void *p = const_member(row, target);
    switch (row->type) {
    case QKV_OPT_REAL:
        return row->min < 0 ? *(const double *)p < 0 : *(const double *)p == 0;
    case QKV_OPT_BOOL: return !*(const bool *)p;
    case QKV_OPT_STRING: return !*(const char *const *)p;
    case QKV_OPT_ENUM: return get_enum(row, target) == 0;
    case QKV_OPT_LIST: return ((const qkv_strings *)p)->count == 0;
    case QKV_OPT_SIZES: return ((const qkv_sizes *)p)->count == 0;
    default: return row->min < 0 ? options_get_integer(row, target) < 0
                                 : options_get_integer(row, target) == 0;
    }
}

/* Ends the object that was begun, unless "group.key" is in it, and begins that of the key. Returns
 * what the key is there. */
static const char *enter_group(const qkv_option_sink *sink, const char *key,
                               char group[QKV_OPTION_TEXT])
{
    const char *dot = sink->begin ? strchr(key, '.') : NULL;
    size_t length = dot ? (size_t)(dot - key) : 0;
    if (*group && (strlen(group) != length || memcmp(group, key, length) != 0)) {
        sink->end(sink->user);
        *group = 0;
    }
    if (dot && !*group) {
        memcpy(group, key, length);
        group[length] = 0;
        sink->begin(sink->user, group);
    }
    return dot ? dot + 1 : key;
}

void qkv_option_write(const qkv_option_table *table, const void *target,
                      const qkv_option_sink *sink)
{
    char whole[QKV_OPTION_TEXT], text[QKV_OPTION_TEXT], group[QKV_OPTION_TEXT] = "";
    for (size_t i = 0; i < table->count; i++) {
        const qkv_option *row = &table->rows[i];
        const void *p = const_member(row, target);
        if (row->flags & QKV_OPT_UNWRITTEN || !qkv_option_key(row, 0, whole))
            continue;
        const char *key = enter_group(sink, whole, group);
        bool none = row->type == QKV_OPT_STRING && !*(const char *const *)p;
        if (none || (row->flags & QKV_OPT_NULL && is_none(row, target))) {
            sink->null(sink->user, key);
            continue;
        }
        switch (row->type) {
        case QKV_OPT_REAL: sink->real(sink->user, key, *(const double *)p); break;
        case QKV_OPT_BOOL: sink->boolean(sink->user, key, *(const bool *)p); break;
        case QKV_OPT_STRING: sink->text(sink->user, key, *(const char *const *)p); break;
        case QKV_OPT_ENUM:
            sink->text(sink->user, key, row->names[get_enum(row, target)]);
            break;
        case QKV_OPT_LIST: sink->list(sink->user, key, p); break;
        case QKV_OPT_SIZES:
            qkv_option_text(row, target, text);
            sink->text(sink->user, key, text);
            break;
        default: sink->integer(sink->user, key, options_get_integer(row, target)); break;
        }
    }
    if (*group)
        sink->end(sink->user);
}

/* Optimal string alignment: Levenshtein's table with swaps, three rows kept. */
size_t qkv__edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t rows[3][LONGEST + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);
            d = d < last[j] + 1 ? d : last[j] + 1;
            d = d < now[j - 1] + 1 ? d : now[j - 1] + 1;
            bool swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swap && before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            now[j] = d;
        }
    }
    return rows[n % 3][m];
}
