/* options.h - option tables: each row defines a field's flag, help, range, default and JSON key.
 * Layer: base
 *
 * A table describes a struct. It supplies the defaults, the parsing of command lines (--steps 100,
 * --set n_head=8), --help, the man page, shell completion, and the reading and writing of
 * config.json. It is the only list of the struct's fields.
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

/* The type of an option, and of the struct member that holds it. */
typedef enum {
    QKV_OPT_INT,    /* int */
    QKV_OPT_SIZE,   /* size_t, at most 2^53 */
    QKV_OPT_U64,    /* uint64_t, below 2^63 */
    QKV_OPT_REAL,   /* double, finite */
    QKV_OPT_BOOL,   /* bool; --flag and --no-flag */
    QKV_OPT_STRING, /* const char *; NULL: none */
    QKV_OPT_ENUM,   /* an enum with values 0, 1, ..; given as one of `names` */
    QKV_OPT_LIST,   /* qkv_strings; --data a b c, up to the next flag */
    QKV_OPT_SIZES   /* qkv_sizes; "1,2,4", also in JSON */
} qkv_option_type;

/* A list of strings. Each use says who owns the memory. */
typedef struct {
    const char **items;
    size_t count;
} qkv_strings;

/* A list of at most 8 integers, each in the option's range. */
enum { QKV_SIZES = 8 };
typedef struct {
    size_t count, item[QKV_SIZES];
} qkv_sizes;

enum {
    QKV_OPT_REQUIRED = 1u << 0, /* must be given on the command line */
    QKV_OPT_ABOVE = 1u << 1,    /* value > min, instead of >= */
    QKV_OPT_BELOW = 1u << 2,    /* value < max, instead of <= */
    QKV_OPT_NULL = 1u << 3,     /* 0 (below 0, if min < 0) is written as JSON null */
    QKV_OPT_HIDDEN = 1u << 4,   /* not in --help */
    QKV_OPT_UNWRITTEN = 1u << 5 /* read from JSON, and not written: whoever writes the file does */
};

typedef struct {
    const char *flag;    /* "steps" for --steps; NULL: set by --set and JSON only */
    const char *key;     /* for JSON and --set; NULL: not stored. "n_embd|hidden_size": written by
                            the first name, read by any. "a.b": member b of object a */
    qkv_option_type type;
    unsigned flags;      /* QKV_OPT_* bits */
    size_t offset;       /* of the member in the struct */
    double min, max;     /* of numbers; both 0: the range of the type */
    const char *initial; /* the default, as text; NULL: 0, false, none, the first name */
    const char *const *names; /* of an enum; ends with NULL */
    const char *value;   /* placeholder in --help, "DIR"; NULL: from the type */
    const char *help;    /* one line with the unit; no capital, no full stop */
} qkv_option;

typedef struct {
    const char *title; /* heading of the group in --help */
    const qkv_option *rows;
    size_t count;
    size_t bytes; /* size of the struct: defaults first set all of it to 0; 0: the table covers part
                     of a struct, and only the fields with a row change */
} qkv_option_table;

/* A default that replaces a table's for one use. A list of presets ends with flag NULL. */
typedef struct {
    const char *flag;  /* or the key, for a field without a flag */
    const char *value; /* as on the command line; NULL: computed at run time */
    const char *said;  /* text in --help; NULL: value */
} qkv_preset;

/* Sets every field of target to its default, and fields without a row to 0 (see bytes). Strings
 * point into the table. Lists are empty. */
void qkv_option_defaults(const qkv_option_table *table, void *target);

/* ---- rows ------------------------------------------------------------------------------------ */

/* The field's value as text, as --set takes it; "" for none. List items are joined by spaces.
 * Longer text is truncated. */
enum { QKV_OPTION_TEXT = 256 };
void qkv_option_text(const qkv_option *row, const void *target, char out[QKV_OPTION_TEXT]);

/* What the row accepts: "an integer from 1 to 8", "one of char, bpe". */
void qkv_option_expects(const qkv_option *row, char out[QKV_OPTION_TEXT]);

/* The range of the row: the intersection of the type's range and the row's. */
void qkv_option_range(const qkv_option *row, double *min, double *max);

/* Sets a field, except a list, from text. Returns false if the text does not fit. The field of a
 * string keeps the pointer, which must stay valid. */
bool qkv_option_assign(const qkv_option *row, void *target, const char *text);

const char *qkv_option_value_name(const qkv_option *row); /* "N", "DIR"; "" for bool */

/* Copies alternative n (from 0) of a key "a|b" to out; false if there is none. */
bool qkv_option_key(const qkv_option *row, size_t n, char out[QKV_OPTION_TEXT]);

/* The preset for the row, or NULL. presets may be NULL. */
const qkv_preset *qkv_preset_find(const qkv_preset *presets, const qkv_option *row);
/* Applies the presets for fields of this table and ignores the others. */
void qkv_preset_apply(const qkv_preset *presets, const qkv_option_table *table, void *target);

/* True if candidate is close enough to word to be suggested, and closer than *best, which it then
 * updates. Initialise *best to SIZE_MAX. */
bool qkv_option_nearer(const char *word, const char *candidate, size_t *best);

/* ---- JSON, through callbacks that the caller supplies -------------------------------------- */

/* Receives every field that has a key, in the order of the rows. */
typedef struct {
    void *user;
    void (*integer)(void *user, const char *key, int64_t value);
    void (*real)(void *user, const char *key, double value);
    void (*boolean)(void *user, const char *key, bool value);
    void (*text)(void *user, const char *key, const char *value);
    void (*list)(void *user, const char *key, const qkv_strings *value);
    void (*null)(void *user, const char *key);
    /* Rows with the key "a.b" that follow each other are put between begin(user, "a") and end, with
     * the key "b". begin NULL: they have the key "a.b". */
    void (*begin)(void *user, const char *key);
    void (*end)(void *user);
} qkv_option_sink;

void qkv_option_write(const qkv_option_table *table, const void *target,
                      const qkv_option_sink *sink);

/* Called for every field that has a key. has returns false for a missing key and for null; the
 * field then keeps its value. On failure the others record a message with the file and the key. */
typedef struct {
    void *user;
    bool (*has)(void *user, const char *key);
    qkv_status (*integer)(void *user, const char *key, int64_t min, int64_t max, int64_t *out);
    qkv_status (*real)(void *user, const char *key, double min, double max, double *out);
    qkv_status (*boolean)(void *user, const char *key, bool *out);
    qkv_status (*text)(void *user, const char *key, const char **out);
    qkv_status (*length)(void *user, const char *key, size_t *out); /* of a list */
    qkv_status (*item)(void *user, const char *key, size_t i, const char **out);
    /* Records that the value is not as message describes, and returns QKV_E_FORMAT. */
    qkv_status (*fail)(void *user, const char *key, const char *message);
} qkv_option_source;

/* ---- tables bound to structs -------------------------------------------------------------- */

/* Tables and the structs they fill. Owns the strings and lists in these structs. */
typedef struct qkv_options qkv_options;

/* On failure *out is NULL. */
qkv_status qkv_options_create(qkv_options **out, qkv_context *ctx);
void qkv_options_destroy(qkv_options *o); /* NULL is allowed */

/* Sets target to the defaults, as qkv_option_defaults does, and lets later calls set its fields.
 * Bind a struct before the structs inside it that have their own tables. At most 16 tables. table
 * and target must outlive o. */
qkv_status qkv_options_bind(qkv_options *o, const qkv_option_table *table, void *target);

/* Sets the field with that key or flag from text; '_' may stand for the flag's '-'. QKV_E_ARGUMENT
 * if no field has the name (the message suggests the nearest) or the value does not fit. */
qkv_status qkv_options_set(qkv_options *o, const char *name, const char *value);

/* Parses arguments: --flag value, --flag=value, --no-flag, --set key=value, and -- before
 * positional arguments that look like flags. rest receives the positional arguments as pointers
 * into argv; NULL: they are an error. Checks required flags. QKV_E_ARGUMENT with a message. */
qkv_status qkv_options_parse(qkv_options *o, int argc, char *const *argv, qkv_strings *rest);

/* True if parse or set has set the field. */
bool qkv_options_given(const qkv_options *o, const char *name);
/* Every "key=value" of --set that parse found. o owns them. */
qkv_strings qkv_options_pairs(const qkv_options *o);

/* The struct that the table is bound to; NULL: not bound. */
const void *qkv_options_target(const qkv_options *o, const qkv_option_table *table);

/* True if qkv_options_set accepts the name. */
bool qkv_options_know(const qkv_options *o, const char *name);

/* recipes: a list of presets for each name of the option --recipe, in its order; NULL for a name
 * without presets. Applies the chosen list to the fields that are not yet set. Presets without a
 * value are skipped. */
qkv_status qkv_recipe_apply(qkv_options *o, const qkv_preset *const *recipes);

/* Sets the fields of one bound table (NULL: of all) from JSON. */
qkv_status qkv_options_read(qkv_options *o, const qkv_option_table *table,
                            const qkv_option_source *source);

QKV_END_DECLS
#endif
