/* A program that uses a bundle as a library: starts the model in its own buffer, runs it, and counts allocations.
 *
 *     app BYTES    size of the buffer */
#include "mlp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(64) unsigned char arena[mlp_ARENA_BYTES];
static int asked;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    asked++;
    return __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes)
{
    asked++;
    return __real_calloc(count, bytes);
}

int main(int argc, char **argv)
{
    const unsigned long bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : sizeof arena;
    float x[1][64], first[1][10], second[1][10];

    for (int i = 0; i < 64; i++)
        x[0][i] = (float)(i % 7) - 3;
    if (mlp_run_in(arena, bytes < sizeof arena ? bytes : sizeof arena, x, first) != 0) {
        (void)fprintf(stderr, "%s\n", mlp_error());
        return 1;
    }
    for (int i = 0; i < 100; i++)
        if (mlp_run(x, second) != 0 || memcmp(first, second, sizeof first) != 0)
            return 2;
    (void)fprintf(stderr, "asked %d\n", asked);
    for (int i = 0; i < 10; i++)
        (void)printf("%a\n", (double)first[0][i]);
    return 0;
}
