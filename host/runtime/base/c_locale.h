/* base/c_locale.h - numbers are written with a point, although the locale of the application may have a decimal comma.
 *
 *     const locale_t before = c_locale_begin();
 *     ... strtof, snprintf ...
 *     c_locale_end(before); */
#ifndef BASE_C_LOCALE_H
#define BASE_C_LOCALE_H
#include <locale.h>
#include <stdlib.h>

/* Sets the C locale for this thread and returns the locale before. The C library has this locale as a static object, so
 * nothing is allocated. */
static inline locale_t c_locale_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static inline void c_locale_end(locale_t before)
{
    (void)uselocale(before);
}

/* strtod() of the C locale. */
static inline double c_locale_number(const char *text, char **end)
{
    const locale_t before = c_locale_begin();
    const double number = strtod(text, end);

    c_locale_end(before);
    return number;
}
#endif
