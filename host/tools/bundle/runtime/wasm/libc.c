/* Functions of the C library for modules, which import nothing: those of wasi-libc would import functions of WASI. */
#include <locale.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

char *secure_getenv(const char *name);

char *secure_getenv(const char *name)
{
    (void)name;
    return NULL;
}

/* The clock stands still: kernels measure time only to profile it. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){ 0 };
    return 0;
}

/* There is one locale, that of C; wasi-libc would look for others in the environment. */
locale_t newlocale(int mask, const char *name, locale_t base)
{
    static char c_only;

    (void)mask, (void)name, (void)base;
    return (locale_t)&c_only;
}

void freelocale(locale_t locale)
{
    (void)locale;
}

double strtod_l(const char *text, char **end, locale_t locale)
{
    (void)locale;
    return strtod(text, end);
}
