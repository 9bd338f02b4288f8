/* qsort_r() for C libraries that lack it. */
#include <stdlib.h>

/* The comparison of the thread's sort in progress. */
static _Thread_local struct {
    int (*compare)(const void *a, const void *b, void *user);
    void *user;
} sorting;

static int compare_now(const void *a, const void *b)
{
    return sorting.compare(a, b, sorting.user);
}

void qsort_r(void *list, size_t count, size_t bytes, int (*compare)(const void *a, const void *b, void *user),
             void *user)
{
    sorting.compare = compare;
    sorting.user = user;
    qsort(list, count, bytes, compare_now);
}
