/* Opens sessions with a library of an execution provider, one after the other, and runs each once: the heap does not
 * grow.
 *     ort_ep_sessions LIBRARY MODEL ENVIRONMENT COUNT     MODEL has float inputs of fixed shapes */
#include "inlay/inlay.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

/* Sessions before the first measurement of the heap, and its permitted growth after that. */
enum { WARM_UP = 100, GROWTH = 32 * 1024 };

static void check(inlay_status status, const inlay_diag *diag)
{
    if (status == INLAY_OK)
        return;
    (void)fprintf(stderr, "%s\n", diag->text);
    exit(1);
}

static void feed(const inlay_session *session, inlay_context *context)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value = NULL;

        check(inlay_session_input(session, i, &info), &diag);
        check(inlay_value_create(info.dtype, info.rank, info.dims, &value, &diag), &diag);
        check(inlay_context_set_input(context, i, value, &diag), &diag);
        inlay_value_unref(value);
    }
}

static void open_and_run(char **args)
{
    const char *const pairs[] = {
        "providers", "ort_ep,reference",   "ort_ep.library", args[1],     "require", "ort_ep", "policy",
        "priority",  "ort_ep.environment", args[3],          "cache_dir", "",        "probe",  "never"
    };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;

    check(inlay_options_create(&options, &diag), &diag);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i += 2)
        check(inlay_options_set(options, pairs[i], pairs[i + 1], &diag), &diag);
    check(inlay_session_create(args[2], options, &session, &diag), &diag);
    check(inlay_context_create(session, &context, &diag), &diag);
    feed(session, context);
    check(inlay_context_run(context, NULL, &diag), &diag);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
}

int main(int argc, char **argv)
{
    size_t before = 0, after;
    long count;

    if (argc != 5)
        return 2;
    count = strtol(argv[4], NULL, 10);
    for (long i = 0; i < count; i++) {
        open_and_run(argv);
        if (i + 1 == WARM_UP)
            before = mallinfo2().uordblks;
    }
    after = mallinfo2().uordblks;
    (void)printf("%ld sessions: %zu bytes after %d, %zu at the end\n", count, before, WARM_UP, after);
    return after > before + GROWTH;
}
