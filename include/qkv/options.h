/* options.h - option tables: one row per field gives flag, help, range, default, JSON key.
 * Layer: base
 *
 * A table describes a struct. From it come the defaults, the parsing of command lines
 * (--steps 100, --set n_head=8), --help, the man page, shell completion, and the reading and
 * writing of config.json. Nothing else in qkv lists the fields of such a struct.
 *
 *     typedef struct { size_t steps; double lr; } plan;
 *     static const qkv_option rows[] = {
 *         {.flag = "steps", .key = "steps", .type = QKV_OPT_SIZE, .min = 1, .max = 1e9,
 *          .offset = offsetof(plan, steps), .initial = "1000", .help = "updates to make"},
 *         {.flag = "lr", .key = "learning_rate", .type = QKV_OPT_REAL, .max = 10,
 *          .offset = offsetof(plan, lr), .initial = "1e-3", .help = "peak learning rate"},
 *     };
 *     static const qkv_option_table table = {"Training", rows, 2, sizeof(plan)};           */
#ifndef QKV_OPTIONS_H
#define QKV_OPTIONS_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* The type of a field, and of the member of the struct that holds it. */
typedef enum {
    QKV_OPT_INT,    /* int */
    QKV_OPT_SIZE,   /* size_t, at most 2^53 */
    QKV_OPT_U64,    /* uint64_t, below 2^63 */
    QKV_OPT_REAL,   /* double, finite */
    QKV_OPT_BOOL,   /* bool; --flag, --no-flag */
    QKV_OPT_STRING, /* const char *; NULL: none */
    QKV_OPT_ENUM,   /* an enum with values 0, 1, ..: one of names */
    QKV_OPT_LIST,   /* qkv_strings; --data a b c, up to the next flag */
    QKV_OPT_SIZES   /* qkv_sizes; 1,2,4, in JSON as such a text */
} qkv_option_type;

/* Strings in order; memory as whoever filled it says. */
typedef struct {
    const char **items;
    size_t count;
} qkv_strings;

/* A few whole numbers in order, each in the row's range. */
enum { QKV_SIZES = 8 };
typedef struct {
    size_t count, item[QKV_SIZES];
} qkv_sizes;

enum {
    QKV_OPT_REQUIRED = 1u << 0, /* must be given on the command line */
    QKV_OPT_ABOVE = 1u << 1,    /* the value must be above min, not at it */
    QKV_OPT_BELOW = 1u << 2,    /* the value must be below max, not at it */
    QKV_OPT_NULL = 1u << 3,     /* JSON null stands for 0; for less, where min is less */
    QKV_OPT_HIDDEN = 1u << 4    /* not in --help */
};

typedef struct {
    const char *flag;    /* "steps" for --steps; NULL: reached by --set and JSON only */
    const char *key;     /* in JSON and for --set; NULL: never stored. "n_embd|hidden_size":
                            written as the first, read as any. "a.b" is read inside object a */
    qkv_option_type type;
    unsigned flags;      /* QKV_OPT_* bits */
    size_t offset;       /* of the member in the struct */
    double min, max;     /* numbers only; both 0: whatever the type holds */
    const char *initial; /* the default, as text; NULL: 0, false, none, the first name */
    const char *const *names; /* of an enum, NULL at the end */
    const char *value;   /* what help calls the value: "DIR"; NULL: from the type */
    const char *help;    /* one line with the unit; no capital, no full stop */
} qkv_option;

typedef struct {
    const char *title; /* of the group in --help */
    const qkv_option *rows;
    size_t count;
    size_t bytes; /* the struct's size: defaults clear all of it first, so that fields without a
                     row are 0; 0: the table describes a part, and only its rows' fields change */
} qkv_option_table;

/* A default in place of a table's own, for one use of it. Lists of these end with flag NULL. */
typedef struct {
    const char *flag;  /* or the key of a field without one */
    const char *value; /* as the command line would give it; NULL: worked out when it runs */
    const char *said;  /* how help says it; NULL: as value */
} qkv_preset;

/* Sets every field of target to its default, and to 0 what has no row (see bytes). Strings then
 * point into the table; lists are empty. */
void qkv_option_defaults(const qkv_option_table *table, void *target);

/* ---- rows ------------------------------------------------------------------------------------ */

/* The value of one field as text: what --set would take. "" for none. Lists are joined by
 * spaces; longer text is cut. */
enum { QKV_OPTION_TEXT = 256 };
void qkv_option_text(const qkv_option *row, const void *target, char out[QKV_OPTION_TEXT]);

/* "an integer from 1 to 8", "one of char, bpe": what the row takes. */
void qkv_option_expects(const qkv_option *row, char out[QKV_OPTION_TEXT]);

/* The numbers that the row takes, type and range together. */
void qkv_option_range(const qkv_option *row, double *min, double *max);

/* Sets a field other than a list from text. false when it does not fit. Strings are kept as
 * pointers: the caller has copied them. */
bool qkv_option_assign(const qkv_option *row, void *target, const char *text);

const char *qkv_option_value_name(const qkv_option *row); /* "N", "DIR"; "" for a bool */

/* The first n'th alternative of "a|b": copies it to out, false when there is none. */
bool qkv_option_key(const qkv_option *row, size_t n, char out[QKV_OPTION_TEXT]);

/* The one for the row, or NULL; presets may be NULL. */
const qkv_preset *qkv_preset_find(const qkv_preset *presets, const qkv_option *row);
/* Sets the fields that the table has; other presets are passed over. */
void qkv_preset_apply(const qkv_preset *presets, const qkv_option_table *table, void *target);

/* Whether candidate is near enough to word to be suggested, and nearer than *best; keeps
 * *best. Start with *best = SIZE_MAX. */
bool qkv_option_nearer(const char *word, const char *candidate, size_t *best);

/* ---- JSON, through callbacks: what a table does not know is where the text comes from ----- */

/* Gets every field that has a key, in the order of rows. */
typedef struct {
    void *user;
    void (*integer)(void *user, const char *key, int64_t value);
    void (*real)(void *user, const char *key, double value);
    void (*boolean)(void *user, const char *key, bool value);
    void (*text)(void *user, const char *key, const char *value);
    void (*list)(void *user, const char *key, const qkv_strings *value);
    void (*null)(void *user, const char *key);
} qkv_option_sink;

void qkv_option_write(const qkv_option_table *table, const void *target,
                      const qkv_option_sink *sink);

/* Asked for every field that has a key. has is false for null too, and the field keeps what it
 * holds. The others record a sentence that names file and key when they fail. */
typedef struct {
    void *user;
    bool (*has)(void *user, const char *key);
    qkv_status (*integer)(void *user, const char *key, int64_t min, int64_t max, int64_t *out);
    qkv_status (*real)(void *user, const char *key, double min, double max, double *out);
    qkv_status (*boolean)(void *user, const char *key, bool *out);
    qkv_status (*text)(void *user, const char *key, const char **out);
    qkv_status (*length)(void *user, const char *key, size_t *out); /* of a list */
    qkv_status (*item)(void *user, const char *key, size_t i, const char **out);
    /* Records that the value is not what message says and returns QKV_E_FORMAT. */
    qkv_status (*fail)(void *user, const char *key, const char *message);
} qkv_option_source;

/* ---- tables bound to structs -------------------------------------------------------------- */

/* Owns the strings and lists that it puts into the structs: they live as long as it does. */
typedef struct qkv_options qkv_options;

/* On failure *out is NULL. */
qkv_status qkv_options_create(qkv_options **out, qkv_context *ctx);
void qkv_options_destroy(qkv_options *o); /* NULL is allowed */

/* Sets target to the defaults, as qkv_option_defaults does, and lets later calls fill it: a struct
 * goes before the structs inside it that have tables of their own. At most 16 tables; both
 * arguments must outlive o. */
qkv_status qkv_options_bind(qkv_options *o, const qkv_option_table *table, void *target);

/* Sets the field of that key or flag from text. QKV_E_ARGUMENT when there is none (the
 * sentence suggests the nearest) or the value does not fit. */
qkv_status qkv_options_set(qkv_options *o, const char *name, const char *value);

/* Reads arguments: --flag value, --flag=value, --no-flag, --set key=value, -- before what
 * would look like a flag. What is no flag goes to rest (may be NULL: then it is an error) and
 * points into argv. Required flags are checked. Fails with QKV_E_ARGUMENT and one sentence. */
qkv_status qkv_options_parse(qkv_options *o, int argc, char *const *argv, qkv_strings *rest);

/* Whether the field was set by parse or set. */
bool qkv_options_given(const qkv_options *o, const char *name);
/* Every "key=value" that parse found behind --set; o owns them. */
qkv_strings qkv_options_pairs(const qkv_options *o);

/* What the table is bound to; NULL: it is not. */
const void *qkv_options_target(const qkv_options *o, const qkv_option_table *table);

/* Whether qkv_options_set finds the field. */
bool qkv_options_know(const qkv_options *o, const char *name);

/* recipes: lists of such, one for each name that the option --recipe has, in its order; NULL for a
 * name that says nothing. Sets the fields that the chosen one has a value for and that nothing has
 * set yet. */
qkv_status qkv_recipe_apply(qkv_options *o, const qkv_preset *const *recipes);

/* Fills the fields of one bound table (NULL: of all) from JSON. */
qkv_status qkv_options_read(qkv_options *o, const qkv_option_table *table,
                            const qkv_option_source *source);

QKV_END_DECLS
#endif
