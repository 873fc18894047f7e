/* split.c - pre-tokenizers: what a model may join ends at their cuts.
 *
 * GPT-2's pattern and single characters are scanned by hand; other patterns are searched. */
#include "tokenizer/split.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/bert.h"
#include "tokenizer/parts.h"
#include "tokenizer/pattern.h"
#include "tokenizer/spm.h"

/* What becomes of a Split's matches. */
typedef enum { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS } behavior;

static const char *const behavior_names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous"};

/* What a character does to pieces: those of one class stand together, but for these two. */
typedef enum { GONE, ALONE, WORD, MARK } cut_class;

/* When a Metaspace puts its mark before a text that has none. */
typedef enum { ALWAYS, FIRST, NEVER } prepend;

static const char *const prepend_names[] = {"always", "first", "never"};

struct qkv__stage {
    bool prefix_space;   /* ByteLevel: a space before a text that does not begin with one */
    qkv__scan_fn *scan;  /* set: every piece is what it says; */
    qkv__pattern *pattern; /* else set: a Split; */
    behavior behavior;
    bool invert;
    cut_class (*class_of)(int32_t cp); /* else set: cuts where it changes; */
    char *mark;                        /* else set: a Metaspace; none: the text is one piece */
    prepend prepend;
    bool split_words;
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
    const char *text; /* what is split */
    size_t first;     /* bytes of it that come from the first character */
} run;

static qkv_status split_run_stage(const run *r, size_t stage, const char *text, size_t len);

static qkv_status run_scan(const run *r, size_t stage, const char *text, size_t len)
{
    qkv__scan_fn *scan = r->splitter->stages[stage].scan;
    qkv_status status = QKV_OK;
    bool final = stage + 1 == r->splitter->count;
    for (size_t at = 0; at < len && !status;) {
        size_t n = scan(text + at, len - at);
        status = final ? r->sink->piece(r->sink->user, text + at, n)
                       : split_run_stage(r, stage + 1, text + at, n);
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

static qkv_status split_flush(joiner *j)
{
    size_t start = j->start, end = j->end;
    j->start = end;
    if (start == end)
        return QKV_OK;
    return split_run_stage(j->r, j->stage + 1, j->text + start, end - start);
}

/* The stretch from j->end to end, a match or not, in the Split's way. */
static qkv_status split_take(joiner *j, size_t end, bool match)
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
        status = split_flush(j);
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
    for (size_t at = 0, start, end; !status && at < len; at = end) {
        status = qkv__pattern_next(st->pattern, r->ctx, text, len, at, &start, &end);
        if (!status)
            status = split_take(&j, start, st->invert);
        if (!status)
            status = split_take(&j, end, !st->invert);
    }
    return status ? status : split_flush(&j);
}

/* Runs of one class of character. */
static qkv_status run_classes(const run *r, size_t stage, const char *text, size_t len)
{
    const qkv__stage *st = &r->splitter->stages[stage];
    joiner j = {.r = r, .stage = stage, .text = text};
    qkv_status status = QKV_OK;
    cut_class last = GONE;
    for (size_t at = 0, n; at < len && !status; at += n) {
        int32_t cp;
        n = qkv__utf8_next(text + at, len - at, &cp);
        cut_class here = st->class_of(cp);
        if (here != last || here == ALONE)
            status = split_flush(&j);
        j.end = at + n;
        if (here == GONE)
            j.start = j.end;
        last = here;
    }
    return status ? status : split_flush(&j);
}

/* A piece in memory of its own, which another stage made, does not. */
static bool begins_text(const run *r, const char *piece)
{
    return (uintptr_t)piece - (uintptr_t)r->text < r->first;
}

/* Spaces become the replacement, a word begins with one. */
static qkv_status run_metaspace(const run *r, size_t stage, const char *text, size_t len)
{
    const qkv__stage *st = &r->splitter->stages[stage];
    size_t mark = strlen(st->mark);
    qkv_str s;
    qkv_str_init(&s, r->ctx);
    bool marked = *text == ' ' || (len >= mark && memcmp(text, st->mark, mark) == 0);
    if (!marked && (st->prepend == ALWAYS || (st->prepend == FIRST && begins_text(r, text))))
        qkv_str_puts(&s, st->mark);
    for (size_t i = 0; i < len; i++)
        qkv_str_add(&s, text[i] == ' ' ? st->mark : text + i, text[i] == ' ' ? mark : 1);
    qkv_status status = s.failed ? QKV_E_MEMORY : QKV_OK;
    for (size_t at = 0, end; at < s.len && !status; at = end) {
        for (end = at + 1; end < s.len; end++)
            if (st->split_words && s.len - end >= mark && memcmp(s.data + end, st->mark, mark) == 0)
                break;
        status = split_run_stage(r, stage + 1, s.data + at, end - at);
    }
    qkv_str_free(&s);
    return status;
}

static qkv_status split_run_stage(const run *r, size_t stage, const char *text, size_t len)
{
    if (stage == r->splitter->count)
        return len ? r->sink->piece(r->sink->user, text, len) : QKV_OK;
    const qkv__stage *st = &r->splitter->stages[stage];
    char *spaced = NULL;
    if (st->prefix_space && len > 0 && *text != ' ') {
        spaced = qkv_malloc(r->ctx, len + 1);
        if (!spaced)
            return QKV_E_MEMORY;
        spaced[0] = ' ';
        memcpy(spaced + 1, text, len);
        text = spaced;
        len++;
    }
    qkv_status status = st->scan       ? run_scan(r, stage, text, len)
                        : st->pattern  ? run_split(r, stage, text, len)
                        : st->class_of ? run_classes(r, stage, text, len)
                        : st->mark     ? run_metaspace(r, stage, text, len)
                                       : split_run_stage(r, stage + 1, text, len);
    if (spaced)
        qkv_free(r->ctx, spaced);
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

static qkv_status read_split(qkv__splitter *s, qkv__stage *st, const qkv__json *at)
{
    const char *text = NULL, *how = NULL;
    bool literal = false;
    (void)s;
    qkv_status status = qkv__pattern_read(at, &text, &literal);
    if (!status)
        status = qkv__json_get_string(at, "behavior", &how);
    if (!status)
        status = qkv__json_opt_bool(at, "invert", &st->invert);
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
    return qkv__pattern_create(&st->pattern, at, text, literal);
}

/* ---- classes of characters ----------------------------------------------------------- */

static cut_class bert_class(int32_t cp)
{
    return qkv__class_of(cp) == QKV__SPACE ? GONE : qkv__bert_punctuation(cp) ? ALONE : WORD;
}

static cut_class space_class(int32_t cp)
{
    return qkv__class_of(cp) == QKV__SPACE ? GONE : WORD;
}

static cut_class word_class(int32_t cp)
{
    return qkv__class_of(cp) == QKV__SPACE ? GONE : qkv__is_word(cp) ? WORD : MARK;
}

static cut_class punctuation_class(int32_t cp)
{
    return qkv__bert_punctuation(cp) ? ALONE : WORD;
}

static cut_class digit_class(int32_t cp)
{
    return qkv__class_of(cp) == QKV__NUMBER ? ALONE : WORD;
}

static cut_class number_class(int32_t cp)
{
    return qkv__class_of(cp) == QKV__NUMBER ? MARK : WORD;
}

static qkv_status read_punctuation(qkv__splitter *s, qkv__stage *st, const qkv__json *at)
{
    const char *how = "Isolated";
    (void)s;
    st->class_of = punctuation_class;
    qkv_status status = qkv__json_opt_string(at, "behavior", &how);
    if (!status && strcmp(how, "Isolated") != 0)
        status = qkv__json_fail(at, "behavior", "expected \"Isolated\", found \"%.40s\"", how);
    return status;
}

static qkv_status read_digits(qkv__splitter *s, qkv__stage *st, const qkv__json *at)
{
    bool individual = false;
    (void)s;
    qkv_status status = qkv__json_opt_bool(at, "individual_digits", &individual);
    st->class_of = individual ? digit_class : number_class;
    return status;
}

static qkv_status split_read_metaspace(qkv__splitter *s, qkv__stage *st, const qkv__json *at)
{
    const char *scheme = NULL, *mark = QKV__SPACE_MARK;
    bool old_prefix = true;
    st->split_words = true;
    qkv_status status = qkv__json_opt_string(at, "replacement", &mark);
    if (!status)
        status = qkv__json_opt_bool(at, "add_prefix_space", &old_prefix);
    if (!status)
        status = qkv__json_opt_string(at, "prepend_scheme", &scheme);
    if (!status)
        status = qkv__json_opt_bool(at, "split", &st->split_words);
    if (status)
        return status;
    if (!*mark)
        return qkv__json_fail(at, "replacement", "expected a character");
    size_t i = !scheme && !old_prefix ? NEVER : ALWAYS;
    while (scheme && i <= NEVER && strcmp(scheme, prepend_names[i]) != 0)
        i++;
    if (i > NEVER)
        return qkv__json_fail(at, "prepend_scheme", "\"%.40s\" is none that qkv knows", scheme);
    st->prepend = (prepend)i;
    s->asks_first = s->asks_first || i == FIRST;
    st->mark = qkv_strdup(at->ctx, mark);
    return st->mark ? QKV_OK : QKV_E_MEMORY;
}

static const struct {
    const char *name;
    qkv_status (*read)(qkv__splitter *s, qkv__stage *st, const qkv__json *at);
    cut_class (*class_of)(int32_t cp); /* without read */
} stage_kinds[] = {
    {"ByteLevel", read_byte_level, NULL},
    {"Split", read_split, NULL},
    {"BertPreTokenizer", NULL, bert_class},
    {"WhitespaceSplit", NULL, space_class},
    {"Whitespace", NULL, word_class},
    {"Punctuation", read_punctuation, NULL},
    {"Digits", read_digits, NULL},
    {"Metaspace", split_read_metaspace, NULL},
};

static qkv_status read_stage(void *splitter, const qkv__json *at, const char *type)
{
    qkv__splitter *s = splitter;
    if (s->byte_level)
        return qkv__json_fail(at, NULL, "\"%.40s\" after \"ByteLevel\" is not supported", type);
    for (size_t i = 0; i < sizeof stage_kinds / sizeof *stage_kinds; i++) {
        if (strcmp(type, stage_kinds[i].name) != 0)
            continue;
        if (!qkv__grow(at->ctx, &s->stages, &s->capacity, s->count + 1, sizeof *s->stages))
            return QKV_E_MEMORY;
        qkv__stage *st = &s->stages[s->count++];
        *st = (qkv__stage){.class_of = stage_kinds[i].class_of};
        return stage_kinds[i].read ? stage_kinds[i].read(s, st, at) : QKV_OK;
    }
    return qkv__json_fail(at, "type", "\"%.40s\" is no pre-tokenizer that qkv knows", type);
}

qkv_status qkv__splitter_read(qkv__splitter *s, const qkv__json *at)
{
    return qkv__parts_read(s, at, "pretokenizers", 1, read_stage);
}

void qkv__splitter_free(qkv__splitter *s, qkv_context *ctx)
{
    for (size_t i = 0; i < s->count; i++) {
        qkv__pattern_destroy(s->stages[i].pattern, ctx);
        qkv_free(ctx, s->stages[i].mark);
    }
    qkv_free(ctx, s->stages);
    *s = (qkv__splitter){0};
}

qkv_status qkv__split(const qkv__splitter *s, qkv_context *ctx, const char *text, size_t len,
                      size_t first, const qkv__sink *sink)
{
    const run r = {s, ctx, sink, text, first};
    return split_run_stage(&r, 0, text, len);
}

qkv__scan_fn *qkv__splitter_scan(const qkv__splitter *s)
{
    return s->count == 1 && !s->stages[0].prefix_space ? s->stages[0].scan : NULL;
}
