/* Decoding with states that the context keeps: bench_decode MODEL [--prompt N] [--tokens N] [--threads N] [--room N]
 * [--every N] [--window N] [--batch N]
 *
 * MODEL is a decoder with inputs input_ids, attention_mask and perhaps position_ids, as those of decoder_models.py.
 * Says what the prompt takes, and of steps of one token, each `every` tokens: the median of the wall clock, CPU time a
 * token, calls of the allocator a token, and the memory that the process holds. --window N rewinds to the prompt after
 * N tokens. */
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
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double resident_mib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long all = 0, resident = 0;

    if (f != NULL) {
        if (fscanf(f, "%ld %ld", &all, &resident) != 2)
            resident = 0;
        (void)fclose(f);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static int stop(const char *what, const inlay_diag *diag)
{
    fprintf(stderr, "bench_decode: %s: %s\n", what, diag->text);
    return 1;
}

/* [batch, count] integers for an input: `from` and what follows it, or all the same. */
static bool set(struct decoder *d, uint32_t input, int64_t count, int64_t from, int64_t step, inlay_diag *diag)
{
    inlay_value *v = NULL;
    bool ok;

    if (input == INLAY_NONE)
        return true;
    if (inlay_value_create(INLAY_INT64, 2, (const int64_t[]){ d->batch, count }, &v, diag) != INLAY_OK)
        return false;
    for (int64_t i = 0; i < d->batch * count; i++)
        ((int64_t *)inlay_value_data(v))[i] = from + i % count * step;
    ok = inlay_context_set_input(d->context, input, v, diag) == INLAY_OK;
    inlay_value_unref(v);
    return ok;
}

static bool read_tokens(struct decoder *d, int64_t count, inlay_diag *diag)
{
    const int64_t past = inlay_context_state_length(d->context);
    bool ok;

    atomic_store(&counting, false);
    ok = set(d, d->ids, count, past * 31 % 256, 0, diag) && set(d, d->mask, past + count, 1, 0, diag) &&
         set(d, d->positions, count, past, 1, diag);
    atomic_store(&counting, true);
    ok = ok && inlay_context_run(d->context, NULL, diag) == INLAY_OK;
    atomic_store(&counting, false);
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

static bool open_decoder(const char *path, const char *threads, uint64_t room, struct decoder *d, inlay_diag *diag)
{
    inlay_options *options = NULL;
    const bool ok = inlay_options_create(&options, diag) == INLAY_OK &&
                    inlay_options_load_environment(options, diag) == INLAY_OK &&
                    inlay_options_set(options, "intra_threads", threads, diag) == INLAY_OK &&
                    inlay_options_set(options, "assume", "sequence=1", diag) == INLAY_OK &&
                    inlay_options_set(options, "assume", "batch=1", diag) == INLAY_OK &&
                    inlay_options_set(options, "assume", "past=512", diag) == INLAY_OK &&
                    inlay_options_set(options, "assume", "total=513", diag) == INLAY_OK &&
                    inlay_session_create(path, options, &d->session, diag) == INLAY_OK &&
                    inlay_context_create(d->session, &d->context, diag) == INLAY_OK &&
                    inlay_context_keep_states(d->context, room, diag) == INLAY_OK;

    inlay_options_destroy(options);
    return ok;
}

int main(int argc, char **argv)
{
    const long prompt = number(argc, argv, "--prompt", 128), tokens = number(argc, argv, "--tokens", 256);
    const long every = number(argc, argv, "--every", 64), window = number(argc, argv, "--window", 0);
    const long threads = number(argc, argv, "--threads", 1);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct decoder d = { .batch = number(argc, argv, "--batch", 1) };
    static double took[MOST_EVERY];
    inlay_state_info info = { .struct_size = sizeof info };
    char count[16];
    double begin, cpu;

    if (argc < 2 || every < 1 || every > MOST_EVERY || prompt < 1) {
        fprintf(stderr, "usage: bench_decode MODEL [--prompt N] [--tokens N] [--threads N] [--room N] [--every N] "
                        "[--window N] [--batch N]\n");
        return 2;
    }
    (void)snprintf(count, sizeof count, "%ld", threads);
    if (!open_decoder(argv[1], count, (uint64_t)number(argc, argv, "--room", 512), &d, &diag))
        return stop(argv[1], &diag);
    d.ids = inlay_session_find_input(d.session, "input_ids");
    d.mask = inlay_session_find_input(d.session, "attention_mask");
    d.positions = inlay_session_find_input(d.session, "position_ids");
    begin = seconds(CLOCK_MONOTONIC);
    if (!read_tokens(&d, prompt, &diag))
        return stop("the prompt", &diag);
    (void)inlay_session_state(d.session, 0, &info);
    printf("prompt of %ld: %.2f ms; states %s\n", prompt, 1e3 * (seconds(CLOCK_MONOTONIC) - begin),
           info.in_place ? "in place" : "copied");
    for (long t = 0; t < tokens;) {
        const long n = tokens - t < every ? tokens - t : every;

        atomic_store(&allocations, 0);
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 0; i < n; i++, t++) {
            begin = seconds(CLOCK_MONOTONIC);
            if (!read_tokens(&d, 1, &diag))
                return stop("a token", &diag);
            took[i] = seconds(CLOCK_MONOTONIC) - begin;
            if (window > 0 && (t + 1) % window == 0 && inlay_context_state_rewind(d.context, prompt, &diag) != INLAY_OK)
                return stop("rewind", &diag);
        }
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        qsort(took, (size_t)n, sizeof *took, by_size);
        printf("%6ld tokens, past %6lld: median %.3f ms, least %.3f, cpu %.3f a token, %.1f allocations, %.1f MiB\n", t,
               (long long)inlay_context_state_length(d.context), 1e3 * took[n / 2], 1e3 * took[0],
               1e3 * cpu / (double)n, (double)atomic_load(&allocations) / (double)n, resident_mib());
    }
    inlay_context_destroy(d.context);
    inlay_session_destroy(d.session);
    return 0;
}
