/* bench_unpack FILE [MiB] [CHUNK KiB] - measures how fast packed tensors (host/runtime/model/packed.h) are unpacked.
 *
 * Packs the last MiB of the file, unpacks them repeatedly, and prints bytes per second of one core. The time includes
 * the first access to the memory of the result. The value is that of the fastest run by CPU time, so that several
 * threads count as one core. */
#include "model/packed.h"
#include "quantize/pack.h"
#include "threads/threads.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 15 };

static double now_ns(void)
{
    struct timespec timespec;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &timespec);
    return (double)timespec.tv_sec * 1e9 + (double)timespec.tv_nsec;
}

int main(int argc, char **argv)
{
    const size_t wanted = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 20;
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    uint8_t *raw = malloc(wanted), *packed = NULL;
    size_t bytes, packed_bytes = 0;
    inlay_diag diag = INLAY_DIAG_INIT;
    double least = 1e18;
    size_t count;
    void *out;
    long end;
    bool smaller;

    if (file == NULL || raw == NULL || fseek(file, 0, SEEK_END) != 0 || (end = ftell(file)) < 0) {
        (void)fprintf(stderr, "usage: bench_unpack FILE [MiB] [CHUNK KiB]\n");
        return 2;
    }
    (void)fseek(file, (size_t)end > wanted ? end - (long)wanted : 0, SEEK_SET);
    bytes = fread(raw, 1, wanted, file);
    (void)fclose(file);
    if (pack_bytes(raw, bytes, (uint32_t)(argc > 3 ? atoi(argv[3]) : 256) << 10, &packed, &packed_bytes, &smaller,
                   &diag) != INLAY_OK ||
        !smaller) {
        (void)printf("%zu bytes: not packed %s\n", bytes, diag.text);
        return 1;
    }
    for (int i = 0; i < RUNS; i++) {
        const double begin = now_ns();
        const inlay_status status = packed_open(packed, packed_bytes, &out, &count, &diag);
        const double ns = now_ns() - begin;

        if (status != INLAY_OK || count != bytes || memcmp(out, raw, bytes) != 0) {
            (void)fprintf(stderr, "%s\n", diag.text);
            return 1;
        }
        least = ns < least ? ns : least;
        free(out);
    }
    (void)printf("%zu bytes, packed %.3f: %.2f GB/s\n", bytes, (double)packed_bytes / (double)bytes,
                 (double)bytes / least);
    free(packed);
    free(raw);
    return 0;
}
