/* Faults of a first run. */
#include "bundle.h"
#include <signal.h>
#include <unistd.h>

enum { LONGEST_S = 60 };

void faults_report(void (*report)(int signal))
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM };

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)signal(signals[i], report);
}

void faults_limit_time(void)
{
    (void)alarm(LONGEST_S);
}
