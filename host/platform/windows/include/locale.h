/* locale.h with locales of threads, of which only "C" exists; in libc.c. */
#ifndef WINDOWS_LOCALE_H
#define WINDOWS_LOCALE_H
#include_next <locale.h>

#define LC_ALL_MASK 63
typedef const char *locale_t; /* a name for setlocale() */

locale_t newlocale(int mask, const char *name, locale_t base);
/* Returns the locale before; valid until the thread's next call but one. */
locale_t uselocale(locale_t locale);
static inline void freelocale(locale_t locale)
{
    (void)locale;
}
#endif
