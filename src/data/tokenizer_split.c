/* tokenizer_split.c - pre-tokenizers: what a model may join ends at their cuts.
 *
 * GPT-2's pattern and single characters are scanned by hand; other patterns by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "data/tokenizer.h"

/* What becomes of a Split's matches. */
typedef enum { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS } behavior;

static const char *const behavior_names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous"};

struct qkv__stage {
    bool prefix_space;   /* ByteLevel: a space before a text that does not begin with one */
    qkv__scan_fn *scan;  /* set: every piece is what it says; */
    pcre2_code *code;    /* else set: a Split; neither: the text is one piece */
    pcre2_match_data *found;
    behavior behavior;
    bool invert;
};

/* Patterns with a scanner of their own, as tokenizer.json writes them. */
static const struct {
    const char *pattern;
    qkv__scan_fn *scan;
} scanners[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     qkv__scan_gpt2},
    {"[\\s\\S]", qkv__scan_char},
};

/* ---- scanners ------------------------------------------------------------------------ */

#define O QKV__OTHER
#define L QKV__LETTER
#define N QKV__NUMBER
#define S QKV__SPACE
static const uint8_t ascii_class[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
};
#undef O
#undef L
#undef N
#undef S

static inline size_t next_class(const char *s, size_t len, qkv__char_class *class)
{
    unsigned char c = (unsigned char)*s;
    if (c < 128) {
        *class = (qkv__char_class)ascii_class[c];
        return 1;
    }
    int32_t cp;
    size_t n = qkv__utf8_next(s, len, &cp);
    *class = qkv__class_of(cp);
    return n;
}

/* End of the run of one class that holds s[from]; *last: where its last character starts. */
static size_t run_end(const char *s, size_t len, size_t from, qkv__char_class class, size_t *last)
{
    size_t i = from;
    while (i < len) {
        qkv__char_class here;
        size_t n = next_class(s + i, len - i, &here);
        if (here != class)
            break;
        *last = i;
        i += n;
    }
    return i;
}

/* 's 't 're 've 'm 'll 'd at s[0] == '\''; 0: none. */
static size_t contraction(const char *s, size_t len)
{
    if (len < 2)
        return 0;
    if (memchr("stmd", s[1], 4))
        return 2;
    if (len < 3)
        return 0;
    bool two = (s[1] == 'r' && s[2] == 'e') || (s[1] == 'v' && s[2] == 'e') ||
               (s[1] == 'l' && s[2] == 'l');
    return two ? 3 : 0;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t qkv__scan_gpt2(const char *s, size_t len)
{
    qkv__char_class class;
    size_t last = 0, from = 0;
    if (*s == '\'') {
        size_t n = contraction(s, len);
        if (n)
            return n;
    }
    size_t n = next_class(s, len, &class);
    if (*s == ' ' && len > 1) {
        qkv__char_class second;
        size_t m = next_class(s + 1, len - 1, &second);
        if (second != QKV__SPACE) {
            class = second;
            n = 1 + m;
        }
    }
    if (class != QKV__SPACE)
        return run_end(s, len, n, class, &last);
    /* A run of space leaves its last character to what follows, unless it ends the text or
     * is that character alone. */
    size_t end = run_end(s, len, from, class, &last);
    return end == len || last == 0 ? end : last;
}

size_t qkv__scan_char(const char *s, size_t len)
{
    int32_t cp;
    return qkv__utf8_next(s, len, &cp);
}

/* ---- stages -------------------------------------------------------------------------- */

typedef struct {
    const qkv__splitter *splitter;
    qkv_context *ctx;
    const qkv__sink *sink;
} run;

static qkv_status run_stage(const run *r, size_t stage, const char *text, size_t len);

static qkv_status run_scan(const run *r, size_t stage, const char *text, size_t len)
{
    qkv__scan_fn *scan = r->splitter->stages[stage].scan;
    qkv_status status = QKV_OK;
    bool final = stage + 1 == r->splitter->count;
    for (size_t at = 0; at < len && !status;) {
        size_t n = scan(text + at, len - at);
        status = final ? r->sink->piece(r->sink->user, text + at, n)
                       : run_stage(r, stage + 1, text + at, n);
        at += n;
    }
    return status;
}

/* A piece being put together from matches and what lies between them. */
typedef struct {
    const run *r;
    size_t stage;
    const char *text;
    size_t start, end; /* of the piece not yet given on; empty: none */
    bool open_match;   /* it is a match (MERGED_WITH_NEXT, CONTIGUOUS) */
} joiner;

static qkv_status flush(joiner *j)
{
    size_t start = j->start, end = j->end;
    j->start = end;
    if (start == end)
        return QKV_OK;
    return run_stage(j->r, j->stage + 1, j->text + start, end - start);
}

/* The stretch from j->end to end, a match or not, in the Split's way. */
static qkv_status take(joiner *j, size_t end, bool match)
{
    qkv_status status = QKV_OK;
    bool pending = j->start < j->end, joins = false;
    behavior how = j->r->splitter->stages[j->stage].behavior;
    if (end == j->end)
        return QKV_OK;
    if (how == MERGED_WITH_PREVIOUS)
        joins = match && !j->open_match;
    else if (how == MERGED_WITH_NEXT)
        joins = !match && j->open_match;
    else if (how == CONTIGUOUS)
        joins = match == j->open_match;
    if (pending && !joins)
        status = flush(j);
    if (how == REMOVED && match)
        j->start = end;
    j->end = end;
    j->open_match = match;
    return status;
}

static qkv_status run_split(const run *r, size_t stage, const char *text, size_t len)
{
    const qkv__stage *st = &r->splitter->stages[stage];
    joiner j = {.r = r, .stage = stage, .text = text};
    qkv_status status = QKV_OK;
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(st->found);
    size_t at = 0;
    while (!status && at < len) {
        int found = pcre2_match(st->code, (PCRE2_SPTR)text, len, at, 0, st->found, NULL);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0) {
            PCRE2_UCHAR why[120];
            pcre2_get_error_message(found, why, sizeof why);
            status = qkv__fail(r->ctx, QKV_E_UNSUPPORTED, "a Split pattern failed on the text: %s",
                               (const char *)why);
            break;
        }
        if (span[1] <= span[0]) { /* an empty match cuts nothing: go on behind the character */
            int32_t cp;
            at = span[0] < len ? span[0] + qkv__utf8_next(text + span[0], len - span[0], &cp) : len;
            continue;
        }
        status = take(&j, span[0], st->invert);
        if (!status)
            status = take(&j, span[1], !st->invert);
        at = span[1];
    }
    if (!status)
        status = take(&j, len, st->invert);
    return status ? status : flush(&j);
}

static qkv_status run_stage(const run *r, size_t stage, const char *text, size_t len)
{
    if (stage == r->splitter->count)
        return len ? r->sink->piece(r->sink->user, text, len) : QKV_OK;
    const qkv__stage *st = &r->splitter->stages[stage];
    char *spaced = NULL;
    if (st->prefix_space && len > 0 && *text != ' ') {
        spaced = qkv__malloc(r->ctx, len + 1);
        if (!spaced)
            return QKV_E_MEMORY;
        spaced[0] = ' ';
        memcpy(spaced + 1, text, len);
        text = spaced;
        len++;
    }
    qkv_status status = st->scan   ? run_scan(r, stage, text, len)
                        : st->code ? run_split(r, stage, text, len)
                                   : run_stage(r, stage + 1, text, len);
    if (spaced)
        qkv__free(r->ctx, spaced);
    return status;
}

/* ---- reading ------------------------------------------------------------------------- */

static qkv_status read_byte_level(qkv__splitter *s, qkv__stage *st, const qkv__json *at)
{
    bool use_regex = true;
    qkv_status status = qkv__json_get_bool(at, "add_prefix_space", &st->prefix_space);
    if (!status)
        status = qkv__json_opt_bool(at, "use_regex", &use_regex);
    st->scan = use_regex ? qkv__scan_gpt2 : NULL;
    s->byte_level = true;
    return status;
}

/* PCRE2's \s has U+180E, the reference's has not, and PCRE2's Unicode may be older: \s, \S,
 * \p{L} and \p{N} are spelled out. \S within [...] stays, which has no such spelling. */
static const struct {
    const char *escape;
    qkv__char_class class;
    bool negated;
} spelled_out[] = {
    {"\\s", QKV__SPACE, false},
    {"\\S", QKV__SPACE, true},
    {"\\p{L}", QKV__LETTER, false},
    {"\\p{N}", QKV__NUMBER, false},
};

/* Appends what the escape at p stands for; returns its bytes in the pattern. */
static size_t spell_escape(qkv__str *out, const char *p, bool in_class)
{
    for (size_t i = 0; i < sizeof spelled_out / sizeof *spelled_out; i++) {
        const char *escape = spelled_out[i].escape;
        size_t n = strlen(escape);
        if (strncmp(p, escape, n) != 0 || (in_class && spelled_out[i].negated))
            continue;
        if (!in_class)
            qkv__str_puts(out, spelled_out[i].negated ? "[^" : "[");
        if (spelled_out[i].class != QKV__SPACE)
            qkv__str_puts(out, escape);
        qkv__class_ranges(out, spelled_out[i].class);
        if (!in_class)
            qkv__str_puts(out, "]");
        return n;
    }
    size_t n = p[1] ? 2 : 1;
    qkv__str_add(out, p, n);
    return n;
}

static void spell_out(qkv__str *out, const char *p)
{
    bool in_class = false;
    while (*p) {
        if (*p == '\\') {
            p += spell_escape(out, p, in_class);
            continue;
        }
        size_t n = 1;
        if (!in_class && *p == '[') { /* a ']' that comes first is a member */
            in_class = true;
            n += p[n] == '^';
            n += p[n] == ']';
        } else if (in_class && p[0] == '[' && p[1] == ':' && strstr(p, ":]")) {
            n = (size_t)(strstr(p, ":]") + 2 - p);
        } else if (*p == ']') {
            in_class = false;
        }
        qkv__str_add(out, p, n);
        p += n;
    }
}

static qkv_status compile(qkv__stage *st, const qkv__json *at, const char *pattern, bool literal)
{
    int error;
    PCRE2_SIZE place;
    uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
    qkv__str spelled;
    qkv__str_init(&spelled, at->ctx);
    if (literal)
        qkv__str_puts(&spelled, pattern);
    else
        spell_out(&spelled, pattern);
    flags |= literal ? PCRE2_LITERAL : PCRE2_UCP;
    if (!spelled.failed)
        st->code = pcre2_compile((PCRE2_SPTR)(spelled.data ? spelled.data : ""), spelled.len,
                                 flags, &error, &place, NULL);
    bool failed = spelled.failed;
    qkv__str_free(&spelled);
    if (failed)
        return QKV_E_MEMORY;
    if (!st->code) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(error, why, sizeof why);
        return qkv__json_fail(at, NULL, "the pattern \"%.80s\" cannot be used: %s", pattern,
                              (const char *)why);
    }
    st->found = pcre2_match_data_create_from_pattern(st->code, NULL);
    if (!st->found)
        return qkv__fail(at->ctx, QKV_E_MEMORY, "out of memory while compiling a pattern");
    (void)pcre2_jit_compile(st->code, PCRE2_JIT_COMPLETE); /* slower without: no error */
    return QKV_OK;
}

static qkv_status read_split(qkv__splitter *s, qkv__stage *st, const qkv__json *at)
{
    qkv__json pattern;
    const char *text = NULL, *how = NULL;
    (void)s;
    qkv_status status = qkv__json_get_object(at, "pattern", &pattern);
    if (!status)
        status = qkv__json_get_string(at, "behavior", &how);
    if (!status)
        status = qkv__json_opt_bool(at, "invert", &st->invert);
    if (status)
        return status;
    bool literal = qkv__json_has(&pattern, "String");
    status = qkv__json_get_string(&pattern, literal ? "String" : "Regex", &text);
    if (status)
        return status;
    size_t b = 0;
    while (b <= CONTIGUOUS && strcmp(how, behavior_names[b]) != 0)
        b++;
    if (b > CONTIGUOUS)
        return qkv__json_fail(at, "behavior", "\"%.40s\" is none that qkv knows", how);
    st->behavior = (behavior)b;
    for (size_t i = 0; i < sizeof scanners / sizeof *scanners; i++)
        if (!literal && st->behavior == ISOLATED && strcmp(text, scanners[i].pattern) == 0) {
            st->scan = scanners[i].scan;
            return QKV_OK;
        }
    return compile(st, &pattern, text, literal);
}

static const struct {
    const char *name;
    qkv_status (*read)(qkv__splitter *s, qkv__stage *st, const qkv__json *at);
} stage_kinds[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
};

static qkv_status read_stage(qkv__splitter *s, qkv_context *ctx, const qkv__json *at)
{
    const char *type;
    qkv_status status = qkv__json_get_string(at, "type", &type);
    if (status)
        return status;
    if (s->byte_level)
        return qkv__json_fail(at, NULL, "\"%.40s\" after \"ByteLevel\" is not supported", type);
    for (size_t i = 0; i < sizeof stage_kinds / sizeof *stage_kinds; i++) {
        if (strcmp(type, stage_kinds[i].name) != 0)
            continue;
        if (!qkv__grow(ctx, &s->stages, &s->capacity, s->count + 1, sizeof *s->stages))
            return QKV_E_MEMORY;
        qkv__stage *st = &s->stages[s->count++];
        *st = (qkv__stage){0};
        return stage_kinds[i].read(s, st, at);
    }
    return qkv__json_fail(at, "type", "\"%.40s\" is no pre-tokenizer that qkv knows", type);
}

qkv_status qkv__splitter_read(qkv__splitter *s, qkv_context *ctx, const qkv__json *at)
{
    const char *type;
    qkv__json list;
    qkv_status status = qkv__json_get_string(at, "type", &type);
    if (status || strcmp(type, "Sequence") != 0)
        return status ? status : read_stage(s, ctx, at);
    status = qkv__json_get_array(at, "pretokenizers", &list);
    for (size_t i = 0; !status && i < qkv__json_count(&list); i++) {
        qkv__json item;
        qkv__json_item(&list, i, &item);
        status = read_stage(s, ctx, &item);
    }
    return status;
}

void qkv__splitter_free(qkv__splitter *s, qkv_context *ctx)
{
    for (size_t i = 0; i < s->count; i++) {
        pcre2_match_data_free(s->stages[i].found);
        pcre2_code_free(s->stages[i].code);
    }
    qkv__free(ctx, s->stages);
    *s = (qkv__splitter){0};
}

qkv_status qkv__split(const qkv__splitter *s, qkv_context *ctx, const char *text, size_t len,
                      const qkv__sink *sink)
{
    const run r = {s, ctx, sink};
    return run_stage(&r, 0, text, len);
}

qkv__scan_fn *qkv__splitter_scan(const qkv__splitter *s)
{
    return s->count == 1 && !s->stages[0].prefix_space ? s->stages[0].scan : NULL;
}
