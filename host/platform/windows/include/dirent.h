/* dirent.h with functions of POSIX and GNU; in files.c. */
#ifndef WINDOWS_DIRENT_H
#define WINDOWS_DIRENT_H
#include_next <dirent.h>

int scandir(const char *path, struct dirent ***out_list, int (*selects)(const struct dirent *entry),
            int (*compare)(const struct dirent **a, const struct dirent **b));
int alphasort(const struct dirent **a, const struct dirent **b);
int versionsort(const struct dirent **a, const struct dirent **b);
#endif
