/* same_bits.h - runs a script with given providers and thread counts, and compares two runs bit by bit. */
#ifndef EXEC_SAME_BITS_H
#define EXEC_SAME_BITS_H
#include "graph_script.h"
#include <sched.h>

enum { SAME_BITS_THREADS = 4 };

/* Reports four CPUs on every machine: a session uses at most one thread per CPU. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < SAME_BITS_THREADS; i++)
        CPU_SET_S(i, bytes, set);
    return 0;
}

/* Options in pairs of name and value, ended by NULL. */
struct variant {
    const char *name;
    const char *const options[10];
};

/* Runs the script on `threads` threads. more: options in addition to the variant's, in the same form; NULL = none. */
static inline struct rig same_bits_run(const char *script, int64_t opset, const struct variant *variant,
                                       const char *threads, const char *const *more)
{
    const char *options[20] = { "intra_threads", threads };
    uint32_t n = 2;
    struct wire wire = { 0 };
    struct rig rig;

    for (int i = 0; variant->options[i] != NULL; i++)
        options[n++] = variant->options[i];
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        options[n++] = more[i];
    script_model(&wire, opset, script);
    rig = rig_open(&wire, options);
    script_feed(&rig, 5);
    rig_run(&rig);
    return rig;
}

/* Compares the outputs of two runs. other: describes the second run in the message. */
static inline void same_bits_compare(const struct rig *one, const struct rig *many, const struct variant *variant,
                                     const char *other, const char *script)
{
    for (uint32_t o = 0; o < inlay_session_output_count(one->session); o++) {
        const inlay_value *left = inlay_context_output(one->context, o),
                          *right = inlay_context_output(many->context, o);
        const uint32_t *input = inlay_value_data(left), *output = inlay_value_data(right);
        int64_t count = inlay_value_count(left), differ = 0, first = -1;

        assert_int_equal(inlay_value_bytes(left), inlay_value_bytes(right));
        assert_int_equal(inlay_value_bytes(left), count * 4);
        for (int64_t i = 0; i < count; i++) {
            first = first < 0 && input[i] != output[i] ? i : first;
            differ += input[i] != output[i];
        }
        if (differ > 0)
            fail_msg("%s, %s: %lld of %lld elements differ, the first is %lld (%.9g, %.9g), in\n%s\n", variant->name,
                     other, (long long)differ, (long long)count, (long long)first,
                     (double)((const float *)inlay_value_data(left))[first],
                     (double)((const float *)inlay_value_data(right))[first], script);
    }
}
#endif
