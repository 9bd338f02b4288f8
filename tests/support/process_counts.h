/* process_counts.h - the numbers of threads and open descriptors of this process. */
#ifndef SUPPORT_PROCESS_COUNTS_H
#define SUPPORT_PROCESS_COUNTS_H
#include "cmocka_all.h"
#include <dirent.h>

static inline int process_count(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

static inline int thread_count(void)
{
    return process_count("/proc/self/task");
}

/* The descriptor that reads the folder is counted. */
static inline int descriptor_count(void)
{
    return process_count("/proc/self/fd");
}
#endif
