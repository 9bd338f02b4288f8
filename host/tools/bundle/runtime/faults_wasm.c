/* Faults of a first run, which run.mjs catches. */
#include "bundle.h"

static void (*reporter)(int signal);

void faults_report(void (*report)(int signal))
{
    reporter = report;
}

void faults_limit_time(void)
{
}

__attribute__((export_name("fault"))) void faults_caught(void);
void faults_caught(void)
{
    reporter(0);
}
