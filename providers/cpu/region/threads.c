/* Sets the number of OpenMP threads of parallel regions that the calling thread starts. */
#include "cpu/region/region.h"

/* Functions of libgomp, whose threads are the host's. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

int cpu_threads_set(uint32_t threads)
{
    int before = omp_get_max_threads();

    INLAY_CHECK(threads > 0);
    if (before == (int)threads)
        return 0;
    omp_set_num_threads((int)threads);
    return before;
}

void cpu_threads_restore(int before)
{
    if (before > 0)
        omp_set_num_threads(before);
}

bool cpu_threads_several(void)
{
    return omp_get_max_threads() > 1;
}
