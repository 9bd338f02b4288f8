/* defect.h - plugins with a planted defect that the name of the file selects, so that copies of one file are enough. */
#ifndef DEFECT_H
#define DEFECT_H
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static char defect[64]; /* the name of the file, without folder and ".so" */

static bool is(const char *name)
{
    return strcmp(defect, name) == 0;
}

/* Called before the others. */
static void read_defect(void)
{
    Dl_info info;
    const char *base;

    if (defect[0] != '\0' || dladdr(defect, &info) == 0)
        return;
    base = strrchr(info.dli_fname, '/');
    (void)snprintf(defect, sizeof defect, "%s", base != NULL ? base + 1 : info.dli_fname);
    defect[strcspn(defect, ".")] = '\0';
}
#endif
