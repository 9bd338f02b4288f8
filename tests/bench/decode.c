/* Measures decoding with states that the context keeps: bench_decode MODEL [--prompt N] [--tokens N] [--threads N]
 * [--room N] [--every N] [--window N] [--batch N] [--past N]
 *
 * MODEL is a decoder with inputs input_ids, attention_mask and optionally position_ids, like those of
 * decoder_models.py. Prints the time of the prompt, and after each `every` steps of one token: the median of the
 * wall-clock time, CPU time per token, calls of the allocator per token, and the resident memory of the process.
 * --window N rewinds to the prompt after N tokens. --past N begins with states of N rows of zeros, which take as long
 * as others; INLAY_KV_CACHE_BITS=8 times caches of bytes. */
#include "counting.h"
#include "inlay/inlay.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_EVERY = 4096 };

struct decoder {
    inlay_session *session;
    inlay_context *context;
    uint32_t ids, mask, positions;
    int64_t batch;
};

static double seconds(clockid_t clock)
{
    struct timespec timespec;

    (void)clock_gettime(clock, &timespec);
    return (double)timespec.tv_sec + 1e-9 * (double)timespec.tv_nsec;
}

static double resident_mib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all = 0, resident = 0;

    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &all, &resident) != 2)
            resident = 0;
        (void)fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static int stop(const char *what, const inlay_diag *diag)
{
    fprintf(stderr, "bench_decode: %s: %s\n", what, diag->text);
    return 1;
}

/* Sets an input to [batch, count] integers: from, from + step, ... */
static bool set(struct decoder *decoder, uint32_t input, int64_t count, int64_t from, int64_t step, inlay_diag *diag)
{
    inlay_value *value = NULL;
    bool ok;

    if (input == INLAY_NONE)
        return true;
    if (inlay_value_create(INLAY_INT64, 2, (const int64_t[]){ decoder->batch, count }, &value, diag) != INLAY_OK)
        return false;
    for (int64_t i = 0; i < decoder->batch * count; i++)
        ((int64_t *)inlay_value_data(value))[i] = from + i % count * step;
    ok = inlay_context_set_input(decoder->context, input, value, diag) == INLAY_OK;
    inlay_value_unref(value);
    return ok;
}

static bool read_tokens(struct decoder *decoder, int64_t count, inlay_diag *diag)
{
    const int64_t past = inlay_context_state_length(decoder->context);
    bool ok;

    atomic_store(&counting, false);
    ok = set(decoder, decoder->ids, count, past * 31 % 256, 0, diag) &&
         set(decoder, decoder->mask, past + count, 1, 0, diag) &&
         set(decoder, decoder->positions, count, past, 1, diag);
    atomic_store(&counting, true);
    ok = ok && inlay_context_run(decoder->context, NULL, diag) == INLAY_OK;
    atomic_store(&counting, false);
    return ok;
}

/* Sets all states to `rows` rows of zeros. */
static bool set_past(struct decoder *decoder, int64_t rows, inlay_diag *diag)
{
    inlay_state_info state = { .struct_size = sizeof state };
    inlay_io_info io = { .struct_size = sizeof io };
    bool ok = true;

    for (uint32_t k = 0; ok && inlay_session_state(decoder->session, k, &state) == INLAY_OK; k++) {
        int64_t dims[INLAY_MAX_RANK];
        inlay_value *value = NULL;

        ok = inlay_session_input(decoder->session, state.input, &io) == INLAY_OK;
        for (uint32_t d = 0; ok && d < io.rank; d++)
            dims[d] = d == state.axis ? rows : io.dims[d] < 0 ? decoder->batch : io.dims[d];
        ok = ok && inlay_value_create(io.dtype, io.rank, dims, &value, diag) == INLAY_OK;
        if (ok)
            memset(inlay_value_data(value), 0, (size_t)inlay_value_bytes(value));
        ok = ok && inlay_context_state_set(decoder->context, k, value, diag) == INLAY_OK;
        inlay_value_unref(value);
    }
    return ok;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static long number(int argc, char **argv, const char *name, long otherwise)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return atol(argv[i + 1]);
    return otherwise;
}

static bool open_decoder(const char *path, const char *threads, uint64_t room, struct decoder *decoder,
                         inlay_diag *diag)
{
    inlay_options *options = NULL;
    const bool ok = inlay_options_create(&options, diag) == INLAY_OK &&
                    inlay_options_load_environment(options, diag) == INLAY_OK &&
                    inlay_options_set(options, "intra_threads", threads, diag) == INLAY_OK &&
                    inlay_options_set(options, "dim", "sequence~=1", diag) == INLAY_OK &&
                    inlay_options_set(options, "dim", "batch~=1", diag) == INLAY_OK &&
                    inlay_options_set(options, "dim", "past~=512", diag) == INLAY_OK &&
                    inlay_options_set(options, "dim", "total~=513", diag) == INLAY_OK &&
                    inlay_session_create(path, options, &decoder->session, diag) == INLAY_OK &&
                    inlay_context_create(decoder->session, &decoder->context, diag) == INLAY_OK &&
                    inlay_context_keep_states(decoder->context, room, diag) == INLAY_OK;

    inlay_options_destroy(options);
    return ok;
}

int main(int argc, char **argv)
{
    const long prompt = number(argc, argv, "--prompt", 128), tokens = number(argc, argv, "--tokens", 256);
    const long every = number(argc, argv, "--every", 64), window = number(argc, argv, "--window", 0);
    const long threads = number(argc, argv, "--threads", 1);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct decoder decoder = { .batch = number(argc, argv, "--batch", 1) };
    static double took[MOST_EVERY];
    inlay_state_info info = { .struct_size = sizeof info };
    uint32_t in_place = 0;
    char count[16];
    double begin, cpu;

    if (argc < 2 || every < 1 || every > MOST_EVERY || prompt < 1) {
        fprintf(stderr, "usage: bench_decode MODEL [--prompt N] [--tokens N] [--threads N] [--room N] [--every N] "
                        "[--window N] [--batch N] [--past N]\n");
        return 2;
    }
    (void)snprintf(count, sizeof count, "%ld", threads);
    if (!open_decoder(argv[1], count, (uint64_t)number(argc, argv, "--room", 512), &decoder, &diag))
        return stop(argv[1], &diag);
    decoder.ids = inlay_session_find_input(decoder.session, "input_ids");
    decoder.mask = inlay_session_find_input(decoder.session, "attention_mask");
    decoder.positions = inlay_session_find_input(decoder.session, "position_ids");
    if (number(argc, argv, "--past", 0) > 0 && !set_past(&decoder, number(argc, argv, "--past", 0), &diag))
        return stop("the states", &diag);
    begin = seconds(CLOCK_MONOTONIC);
    if (!read_tokens(&decoder, prompt, &diag))
        return stop("the prompt", &diag);
    begin = seconds(CLOCK_MONOTONIC) - begin;
    for (uint32_t k = 0; inlay_session_state(decoder.session, k, &info) == INLAY_OK; k++)
        in_place += info.in_place;
    printf("prompt of %ld: %.2f ms; %u of %u states in place\n", prompt, 1e3 * begin, in_place,
           inlay_session_state_count(decoder.session));
    for (long t = 0; t < tokens;) {
        const long n = tokens - t < every ? tokens - t : every;

        atomic_store(&allocations, 0);
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 0; i < n; i++, t++) {
            begin = seconds(CLOCK_MONOTONIC);
            if (!read_tokens(&decoder, 1, &diag))
                return stop("a token", &diag);
            took[i] = seconds(CLOCK_MONOTONIC) - begin;
            if (window > 0 && (t + 1) % window == 0 &&
                inlay_context_state_rewind(decoder.context, prompt, &diag) != INLAY_OK)
                return stop("rewind", &diag);
        }
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        qsort(took, (size_t)n, sizeof *took, by_size);
        printf(
            "%6ld tokens, past %6lld: median %.3f ms, minimum %.3f, CPU %.3f per token, %.1f allocations, %.1f MiB\n",
            t, (long long)inlay_context_state_length(decoder.context), 1e3 * took[n / 2], 1e3 * took[0],
            1e3 * cpu / (double)n, (double)atomic_load(&allocations) / (double)n, resident_mib());
    }
    inlay_context_destroy(decoder.context);
    inlay_session_destroy(decoder.session);
    return 0;
}
