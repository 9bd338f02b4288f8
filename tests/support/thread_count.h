/* thread_count.h - the number of threads of this process. */
#ifndef SUPPORT_THREAD_COUNT_H
#define SUPPORT_THREAD_COUNT_H
#include "cmocka_all.h"
#include <dirent.h>

static inline int thread_count(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}
#endif
