/* numbers.c - the integers below a million the way people say them. */
#include "tour/chapter.h"

enum { NUMBERS = 1000000, DIGITS = 6 };

/* How a number is said. A number that a way does not suit is said the first way. */
typedef enum {
    BRITISH,  /* four hundred and twelve thousand and seven */
    AMERICAN, /* four hundred twelve thousand seven */
    HUNDREDS, /* forty-two hundred and seven: 1100 to 9999 */
    SPELT,    /* four one two oh oh seven */
    MIXED,    /* 412 thousand and seven */
    WAYS
} way;

/* The small choices within a way. */
typedef struct {
    char hyphen;  /* twenty-one, twenty one */
    bool and;
    bool comma;   /* behind "thousand" */
    bool article; /* a hundred, a thousand: at the beginning */
} manner;

static const char *const ones[] = {
    "zero",    "one",     "two",       "three",    "four",     "five",    "six",
    "seven",   "eight",   "nine",      "ten",      "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen",  "seventeen", "eighteen", "nineteen"};
static const char *const tens[] = {"",      "",      "twenty",  "thirty", "forty",
                                   "fifty", "sixty", "seventy", "eighty", "ninety"};

void tour_put_below_100(qkv_str *out, uint32_t n, char hyphen)
{
    if (n < 20)
        qkv_str_puts(out, ones[n]);
    else if (n % 10)
        qkv_str_printf(out, "%s%c%s", tens[n / 10], hyphen, ones[n % 10]);
    else
        qkv_str_puts(out, tens[n / 10]);
}

/* "and seven" behind hundreds or thousands */
static void put_rest(qkv_str *out, uint32_t n, const manner *m)
{
    if (n == 0)
        return;
    qkv_str_puts(out, m->and ? " and " : " ");
    tour_put_below_100(out, n, m->hyphen);
}

/* 1 to 999, or with hundreds up to 99 as many hundreds. */
static void put_hundreds(qkv_str *out, uint32_t n, const manner *m)
{
    uint32_t hundreds = n / 100;
    if (hundreds == 0) {
        tour_put_below_100(out, n, m->hyphen);
        return;
    }
    if (hundreds == 1 && m->article && out->len == 0)
        qkv_str_puts(out, "a");
    else
        tour_put_below_100(out, hundreds, m->hyphen);
    qkv_str_puts(out, " hundred");
    put_rest(out, n % 100, m);
}

static void numbers_put_words(qkv_str *out, uint32_t n, const manner *m, bool mixed)
{
    uint32_t thousands = n / 1000, rest = n % 1000;
    if (thousands && mixed)
        qkv_str_printf(out, "%u", (unsigned)thousands);
    else if (thousands == 1 && m->article)
        qkv_str_puts(out, "a");
    else if (thousands)
        put_hundreds(out, thousands, m);
    if (thousands)
        qkv_str_puts(out, m->comma && rest ? " thousand," : " thousand");
    if (thousands && rest && rest < 100) {
        put_rest(out, rest, m);
    } else if (rest || !thousands) {
        qkv_str_puts(out, thousands ? " " : "");
        put_hundreds(out, rest, m);
    }
}

static void put_digits(qkv_str *out, uint32_t n, bool oh)
{
    char digits[DIGITS + 1];
    int count = 0;
    do
        digits[count++] = (char)(n % 10);
    while ((n /= 10) > 0);
    while (count-- > 0) {
        bool zero = digits[count] == 0 && oh && out->len;
        qkv_str_puts(out, zero ? "oh" : ones[(size_t)digits[count]]);
        qkv_str_puts(out, count ? " " : "");
    }
}

static void write_number(qkv_str *out, uint32_t value, size_t form, qkv_rng *r)
{
    uint32_t bits = qkv_rng_u32(r);
    manner m = {.hyphen = bits & 1 ? '-' : ' ', .and = form != AMERICAN, .comma = bits & 2,
                .article = bits & 4};
    if (form == SPELT)
        put_digits(out, value, bits & 1);
    else if (form == HUNDREDS && value >= 1100 && value <= 9999 && value / 100 % 10)
        put_hundreds(out, value, &m);
    else
        numbers_put_words(out, value, &m, form == MIXED);
}

static void answer_number(qkv_str *out, uint32_t value)
{
    qkv_str_printf(out, "%u", (unsigned)value);
}

/* Every second one of some number of digits, so that short ones are met as well. */
static uint32_t draw_number(qkv_rng *r)
{
    uint32_t below = NUMBERS;
    if (qkv_rng_below(r, 2))
        for (uint32_t shorter = qkv_rng_below(r, DIGITS); shorter > 0; shorter--)
            below /= 10;
    return qkv_rng_below(r, below);
}

const tour_script tour_numbers_script = {
    "integer",
    "\"four hundred and twelve thousand and seven\" is 412007. Here are the integers below a "
    "million as the British, the Americans and telephone operators say them.",
    NUMBERS, WAYS, draw_number, write_number,
                                         answer_number};
