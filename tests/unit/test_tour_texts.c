/* Dates and numbers in words, as the tour makes them: every text has one meaning. The readers here
 * know nothing of the writers but the conventions that the writers state. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tour/dates.c"
#include "tour/numbers.c"
#include "fixture.h"

enum { TEXTS = 60000, KNOWN_TEXTS = 3000, WORDS = 24, WORD = 24 };

/* ---- words -------------------------------------------------------------------------------- */

typedef struct {
    char word[WORDS][WORD];
    int count;
} words;

/* Runs of letters and digits, as they are. */
static words split(const char *text)
{
    words w = {.count = 0};
    for (size_t n; *text; text += n) {
        for (n = 0; isalnum((unsigned char)text[n]);)
            n++;
        if (n && n < WORD && w.count < WORDS)
            memcpy(w.word[w.count++], text, n);
        n += n == 0;
    }
    return w;
}

static int find(const char *word, const char *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return -1;
}

/* zero .. nineteen, twenty, thirty .. ninety; -1: none of them */
static int small_number(const char *word)
{
    static const char *const list[] = {
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
        "nineteen", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
    int i = find(word, list, 28);
    return i > 20 ? 10 * (i - 18) : i;
}

/* ---- reading numbers ------------------------------------------------------------------------ */

static bool is_spelt(const words *w)
{
    for (int i = 0; i < w->count; i++)
        if (strcmp(w->word[i], "oh") != 0 && (small_number(w->word[i]) < 0 ||
                                              small_number(w->word[i]) > 9))
            return false;
    return w->count > 1;
}

static long read_number(const char *text)
{
    words w = split(text);
    long all = 0, part = 0;
    bool spelt = is_spelt(&w);
    for (int i = 0; i < w.count; i++) {
        const char *word = w.word[i];
        int n = small_number(word);
        if (spelt)
            part = 10 * part + (n < 0 ? 0 : n);
        else if (isdigit((unsigned char)word[0]))
            part += atol(word);
        else if (n >= 0)
            part += n;
        else if (strcmp(word, "a") == 0)
            part = 1;
        else if (strcmp(word, "hundred") == 0)
            part *= 100;
        else if (strcmp(word, "thousand") == 0)
            all += 1000 * part, part = 0;
        else if (strcmp(word, "and") != 0)
            return -1;
    }
    return all + part;
}

/* ---- reading dates -------------------------------------------------------------------------- */

typedef struct {
    int year, month, day, weekday; /* weekday -1: not said */
} reading;

static int full_year(const char *digits)
{
    int y = atoi(digits);
    return strlen(digits) == 4 ? y : y < 50 ? 2000 + y : 1900 + y;
}

/* The index of a name or of its first three letters, in whatever case. */
static int name_of(const char *word, const char *const *list, int count)
{
    char lower[WORD] = "";
    for (size_t i = 0; word[i]; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    for (int i = 0; i < count; i++)
        if (strcmp(lower, list[i]) == 0 ||
            (strlen(lower) == 3 && strncmp(lower, list[i], 3) == 0))
            return i;
    return -1;
}

static int ordinal(const char *word)
{
    static const char *const list[] = {
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
        "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
        "seventeenth", "eighteenth", "nineteenth", "twentieth"};
    return strcmp(word, "thirtieth") == 0 ? 30 : find(word, list, 20) + 1;
}

/* "nineteen" "ninety" "eight", "two" "thousand" "and" "five", "twenty" "oh" "five" */
static int year_in_words(const words *w, int from)
{
    bool thousand = from + 1 < w->count && strcmp(w->word[from + 1], "thousand") == 0;
    int year = thousand ? 1000 * small_number(w->word[from])
                        : 100 * small_number(w->word[from]);
    for (int i = from + 1 + thousand; i < w->count; i++)
        year += small_number(w->word[i]) > 0 ? small_number(w->word[i]) : 0;
    return year;
}

static reading read_words(const words *w)
{
    static const char *const month_names[] = {
        "january", "february", "march", "april", "may", "june", "july", "august", "september",
        "october", "november", "december"};
    static const char *const day_names[] = {"sunday", "monday", "tuesday", "wednesday",
                                            "thursday", "friday", "saturday"};
    static const char *const roman[] = {"I", "II", "III", "IV", "V", "VI",
                                        "VII", "VIII", "IX", "X", "XI", "XII"};
    reading r = {.weekday = -1};
    int tens_ = 0;
    for (int i = 0; i < w->count && !r.year; i++) {
        const char *word = w->word[i];
        bool digits = strspn(word, "0123456789") == strlen(word);
        if (digits && (strlen(word) == 4 || r.day))
            r.year = full_year(word);
        else if (isdigit((unsigned char)word[0]))
            r.day = atoi(word);
        else if (name_of(word, day_names, 7) >= 0)
            r.weekday = name_of(word, day_names, 7);
        else if (find(word, roman, 12) >= 0)
            r.month = find(word, roman, 12) + 1;
        else if (name_of(word, month_names, 12) >= 0)
            r.month = name_of(word, month_names, 12) + 1;
        else if (ordinal(word))
            r.day = tens_ + ordinal(word);
        else if (!r.day && small_number(word) >= 20)
            tens_ = small_number(word);
        else if (small_number(word) > 0)
            r.year = year_in_words(w, i);
    }
    /* The year came first: the rest is behind it. */
    for (int i = 1; i < w->count && !r.month; i++)
        if (name_of(w->word[i], month_names, 12) >= 0) {
            r.month = name_of(w->word[i], month_names, 12) + 1;
            r.day = atoi(w->word[i + 1]);
        }
    return r;
}

static reading read_date(const char *text)
{
    words w = split(text);
    if (strchr(text, '/') && strlen(w.word[0]) == 4)
        return (reading){atoi(w.word[0]), atoi(w.word[1]), atoi(w.word[2]), -1};
    if (strchr(text, '/'))
        return (reading){full_year(w.word[2]), atoi(w.word[0]), atoi(w.word[1]), -1};
    if (strchr(text, '.'))
        return (reading){full_year(w.word[2]), atoi(w.word[1]), atoi(w.word[0]), -1};
    if (w.count == 1)
        return (reading){atoi(text) / 10000, atoi(text) / 100 % 100, atoi(text) % 100, -1};
    return read_words(&w);
}

/* Sakamoto's: 0 is Sunday. */
static int weekday_of(int y, int m, int d)
{
    static const int shift[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
    y -= m < 3;
    return (y + y / 4 - y / 100 + y / 400 + shift[m - 1] + d) % 7;
}

/* ---- tests ---------------------------------------------------------------------------------- */

typedef struct {
    qkv_str text, answer;
    qkv_rng r;
} fixture;

static fixture open_fixture(void)
{
    fixture f;
    qkv_str_init(&f.text, ctx);
    qkv_str_init(&f.answer, ctx);
    qkv_rng_init(&f.r, 1, 2);
    return f;
}

static void close_fixture(fixture *f)
{
    qkv_str_free(&f->text);
    qkv_str_free(&f->answer);
}

static void make(fixture *f, const tour_script *s, uint32_t value, size_t form)
{
    qkv_str_clear(&f->text);
    qkv_str_clear(&f->answer);
    s->write(&f->text, value, form, &f->r);
    s->answer(&f->answer, value);
}

static void every_text_means_one_day(void **state)
{
    (void)state;
    fixture fixed = open_fixture(), *f = &fixed;
    for (int i = 0; i < TEXTS; i++) {
        char expected[40];
        uint32_t value = tour_dates_script.draw(&f->r);
        make(f, &tour_dates_script, value, (size_t)i % tour_dates_script.forms);
        reading r = read_date(f->text.data);
        (void)snprintf(expected, sizeof expected, "%d-%02d-%02d", r.year, r.month, r.day);
        if (strcmp(expected, f->answer.data) != 0)
            fail_msg("\"%s\" reads %s, its answer is %s", f->text.data, expected, f->answer.data);
        if (r.weekday >= 0 && r.weekday != weekday_of(r.year, r.month, r.day))
            fail_msg("\"%s\" has the wrong weekday", f->text.data);
    }
    close_fixture(f);
}

static void every_text_means_one_number(void **state)
{
    (void)state;
    fixture fixed = open_fixture(), *f = &fixed;
    for (int i = 0; i < TEXTS; i++) {
        uint32_t value = tour_numbers_script.draw(&f->r);
        make(f, &tour_numbers_script, value, (size_t)i % tour_numbers_script.forms);
        if (read_number(f->text.data) != (long)value || atol(f->answer.data) != (long)value)
            fail_msg("\"%s\" reads %ld, is %u, its answer is %s", f->text.data,
                     read_number(f->text.data), (unsigned)value, f->answer.data);
    }
    close_fixture(f);
}

/* The days follow each other as the calendar has it, leap days and all. */
static void days_follow_the_calendar(void **state)
{
    (void)state;
    fixture fixed = open_fixture(), *f = &fixed;
    const struct {
        uint32_t value;
        const char *answer;
    } known[] = {{0, "1950-01-01"},     {31 + 28, "1950-03-01"}, {365 * 2 + 31 + 28, "1952-02-29"},
                 {18321, "2000-02-29"}, {18322, "2000-03-01"},   {36524, "2049-12-31"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        make(f, &tour_dates_script, known[i].value, 0);
        assert_string_equal(f->answer.data, known[i].answer);
    }
    assert_int_equal(tour_dates_script.values, 36525);
    close_fixture(f);
}

/* Whether text is among those that the script writes of the value. */
static bool writes(fixture *f, const tour_script *s, uint32_t value, const char *text)
{
    for (size_t i = 0; i < KNOWN_TEXTS; i++) {
        make(f, s, value, i % s->forms);
        if (strcmp(f->text.data, text) == 0)
            return true;
    }
    return false;
}

static void known_texts_are_written(void **state)
{
    static const char *const days[] = {
        "Tuesday 3 March 1998", "the 3rd of march, 1998", "03/03/98", "3.3.1998", "Mar 3, 1998",
        "3-mar-98", "3 III 1998", "19980303", "1998/3/3",
        "the third of March, nineteen ninety-eight"};
    static const struct {
        uint32_t value;
        const char *text;
    } numbers[] = {{0, "zero"},
                   {7, "seven"},
                   {100, "a hundred"},
                   {101, "one hundred one"},
                   {1000, "a thousand"},
                   {1001, "one thousand and one"},
                   {1900, "nineteen hundred"},
                   {4207, "forty-two hundred and seven"},
                   {80042, "eighty thousand, and forty two"},
                   {100000, "a hundred thousand"},
                   {412007, "four hundred and twelve thousand and seven"},
                   {412007, "four hundred twelve thousand seven"},
                   {412007, "four one two oh oh seven"},
                   {412007, "412 thousand and seven"},
                   {999999, "nine hundred and ninety-nine thousand nine hundred and ninety-nine"}};
    (void)state;
    fixture fixed = open_fixture(), *f = &fixed;
    enum { THE_DAY = 17593 }; /* 1998-03-03 */
    make(f, &tour_dates_script, THE_DAY, 0);
    assert_string_equal(f->answer.data, "1998-03-03");
    for (size_t i = 0; i < sizeof days / sizeof *days; i++)
        if (!writes(f, &tour_dates_script, THE_DAY, days[i]))
            fail_msg("nobody writes \"%s\"", days[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!writes(f, &tour_numbers_script, numbers[i].value, numbers[i].text))
            fail_msg("nobody writes \"%s\"", numbers[i].text);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_means_one_day), cmocka_unit_test(every_text_means_one_number),
        cmocka_unit_test(days_follow_the_calendar), cmocka_unit_test(known_texts_are_written)};
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
