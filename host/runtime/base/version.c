#include "base/version.h"
#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The rank of a character that is not a digit: a pre-release is lower than the end of the text or the next number,
 * which is lower than a letter, which is lower than every other character. */
static int rank_of(const char *at)
{
    if (*at == '~' || (*at == '-' && is_letter(at[1])))
        return -1;
    if (*at == '\0' || is_digit(*at))
        return 0;
    return is_letter(*at) ? *at : 256 + (unsigned char)*at;
}

/* Moves *text after the number at its start, and returns the number's digits without leading zeros. */
static size_t take_number(const char **text, const char **out_digits)
{
    *text += strspn(*text, "0");
    *out_digits = *text;
    *text += strspn(*text, "0123456789");
    return (size_t)(*text - *out_digits);
}

int version_compare(const char *a, const char *b)
{
    const char *digits[2];

    if (*a == '\0' || *b == '\0')
        return (*a != '\0') - (*b != '\0');
    a += *a == 'v';
    b += *b == 'v';
    while (*a != '\0' || *b != '\0') {
        size_t lengths[2];
        int order;

        while ((*a != '\0' && !is_digit(*a)) || (*b != '\0' && !is_digit(*b))) {
            order = rank_of(a) - rank_of(b);
            if (order != 0)
                return order;
            a++, b++;
        }
        lengths[0] = take_number(&a, &digits[0]);
        lengths[1] = take_number(&b, &digits[1]);
        if (lengths[0] != lengths[1])
            return lengths[0] < lengths[1] ? -1 : 1;
        order = memcmp(digits[0], digits[1], lengths[0]);
        if (order != 0)
            return order;
    }
    return 0;
}
