/* dates.c - dates of 1950 to 2049 the way people write them, in two dozen forms.
 *
 * Every text means one day: with slashes the month comes first unless the year does, with dots
 * and dashes the day, and of two digits of a year 50 to 99 are of the last century. */
#include <stdio.h>

#include "tour/chapter.h"

enum { DAYS = 36525, FIRST_YEAR = 1950, FIRST_WEEKDAY = 0 /* 1950-01-01 was a Sunday */ };

typedef struct {
    int year, month, day; /* 1950 .. 2049, 1 .. 12, 1 .. 31 */
    int weekday;          /* 0: Sunday */
} date;

/* %a weekday   %b month   %d 3   %D 03   %o 3rd   %O third   %m 4   %M 04   %r IV
 * %Y 1998   %y 98   %W nineteen ninety-eight */
static const char *const forms[] = {
    "%d %b %Y",           "%b %d, %Y",         "%b %o, %Y",        "%o %b %Y",
    "the %o of %b, %Y",   "the %o of %b %Y",   "%a %d %b %Y",      "%a, %b %d, %Y",
    "%a the %o of %b %Y", "%Y, %b %o",         "%Y %b %d",         "%d-%b-%y",
    "%d %b '%y",          "%b %d '%y",         "%d %r %Y",         "%d.%m.%Y",
    "%D.%M.%y",           "%m/%d/%Y",          "%M/%D/%y",         "%Y/%m/%d",
    "%Y%M%D",             "the %O of %b, %W",  "%b the %O, %W",    "%a the %O of %b %W",
};
enum { FORMS = sizeof forms / sizeof *forms, SHORT_NAME = 3 };

static const char *const months[] = {"january", "february", "march",     "april",
                                     "may",     "june",     "july",      "august",
                                     "september", "october", "november", "december"};
static const char *const weekdays[] = {"sunday",   "monday", "tuesday", "wednesday",
                                       "thursday", "friday", "saturday"};
static const char *const romans[] = {"I",   "II",   "III", "IV", "V",  "VI",
                                     "VII", "VIII", "IX",  "X",  "XI", "XII"};
static const char *const ordinals[] = {
    "first",       "second",      "third",        "fourth",      "fifth",       "sixth",
    "seventh",     "eighth",      "ninth",        "tenth",       "eleventh",    "twelfth",
    "thirteenth",  "fourteenth",  "fifteenth",    "sixteenth",   "seventeenth", "eighteenth",
    "nineteenth",  "twentieth",   "twenty-first", "twenty-second", "twenty-third",
    "twenty-fourth", "twenty-fifth", "twenty-sixth", "twenty-seventh", "twenty-eighth",
    "twenty-ninth", "thirtieth",  "thirty-first"};

static date date_of(uint32_t value)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int left = (int)value, length;
    date d = {FIRST_YEAR, 1, 1, (left + FIRST_WEEKDAY) % 7};
    /* Between 1901 and 2099 every fourth year has a leap day. */
    while (left >= (length = d.year % 4 ? 365 : 366)) {
        left -= length;
        d.year++;
    }
    while (left >= (length = lengths[d.month - 1] + (d.month == 2 && d.year % 4 == 0))) {
        left -= length;
        d.month++;
    }
    d.day = left + 1;
    return d;
}

/* The first `length` characters of a name (0: all), perhaps with a capital. */
static void dates_put_name(qkv_str *out, const char *name, bool capital, int length)
{
    char first = capital ? (char)(name[0] - 'a' + 'A') : name[0];
    qkv_str_printf(out, "%c%.*s", first, length ? length - 1 : 80, name + 1);
}

static void put_ordinal(qkv_str *out, int day)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    int last = day / 10 == 1 || day % 10 > 3 ? 0 : day % 10;
    qkv_str_printf(out, "%d%s", day, endings[last]);
}

/* "nineteen ninety-eight", "two thousand and five", "twenty oh five", "twenty twenty-four" */
static void put_year(qkv_str *out, int year, qkv_rng *r)
{
    uint32_t rest = (uint32_t)year % 100;
    bool thousand = year == 2000 || (year > 2000 && qkv_rng_below(r, 2));
    if (thousand)
        qkv_str_puts(out, rest ? "two thousand and " : "two thousand");
    else
        qkv_str_puts(out, year < 2000 ? "nineteen " : rest < 10 ? "twenty oh " : "twenty ");
    if (rest || !thousand)
        tour_put_below_100(out, rest, '-');
}

static void put_part(qkv_str *out, char code, const date *d, bool capital, int length,
                     qkv_rng *r)
{
    switch (code) {
    case 'a': dates_put_name(out, weekdays[d->weekday], capital, length); break;
    case 'b': dates_put_name(out, months[d->month - 1], capital, length); break;
    case 'd': qkv_str_printf(out, "%d", d->day); break;
    case 'D': qkv_str_printf(out, "%02d", d->day); break;
    case 'o': put_ordinal(out, d->day); break;
    case 'O': qkv_str_puts(out, ordinals[d->day - 1]); break;
    case 'm': qkv_str_printf(out, "%d", d->month); break;
    case 'M': qkv_str_printf(out, "%02d", d->month); break;
    case 'r': qkv_str_puts(out, romans[d->month - 1]); break;
    case 'Y': qkv_str_printf(out, "%d", d->year); break;
    case 'y': qkv_str_printf(out, "%02d", d->year % 100); break;
    default: put_year(out, d->year, r); break;
    }
}

static void write_date(qkv_str *out, uint32_t value, size_t form, qkv_rng *r)
{
    date d = date_of(value);
    bool capital = qkv_rng_below(r, 2) == 0;
    int length = qkv_rng_below(r, 2) ? SHORT_NAME : 0;
    for (const char *f = forms[form]; *f; f++)
        if (*f == '%')
            put_part(out, *++f, &d, capital, length, r);
        else
            qkv_str_add(out, f, 1);
}

static void answer_date(qkv_str *out, uint32_t value)
{
    date d = date_of(value);
    qkv_str_printf(out, "%d-%02d-%02d", d.year, d.month, d.day);
}

static uint32_t draw_date(qkv_rng *r) { return qkv_rng_below(r, DAYS); }

const tour_script tour_dates_script = {
    "day",
    "People write days in many ways; computers want 2049-12-31. Here are two dozen ways, with "
    "days of 1950 to 2049: in words, in digits with the year or the month or the day first, with "
    "weekdays or Roman months, with two digits of the year or with four.",
    DAYS, FORMS, draw_date, write_date, answer_date};
