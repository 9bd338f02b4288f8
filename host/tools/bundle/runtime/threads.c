/* The OpenMP functions that providers call: a bundle computes on the caller's thread. */
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
int omp_in_parallel(void);

int omp_get_max_threads(void)
{
    return 1;
}

void omp_set_num_threads(int threads)
{
    (void)threads;
}

int omp_in_parallel(void)
{
    return 0;
}
