/* watchdog/sample.h - copies of the inputs and outputs of single executions of regions.
 *
 * An observer of a context's runs, which chooses steps at random and copies their inputs and outputs. All other steps
 * run as without the option. */
#ifndef WATCHDOG_SAMPLE_H
#define WATCHDOG_SAMPLE_H
#include "exec/run/run.h"

/* A tensor of an execution, row-major in host memory. */
typedef struct sample_tensor {
    uint32_t dtype, rank;
    int64_t dims[INLAY_MAX_RANK];
    uint64_t offset, bytes; /* in sample.memory */
} sample_tensor;

/* An execution of a region. */
struct sample {
    const struct program *program;
    const program_step *step;
    sample_tensor *tensors; /* [input_count + output_count] of the region; its memory is reused by the next sample */
    uint32_t tensor_room;
    char *memory; /* of the tensors; reused likewise */
    uint64_t memory_room;
};

/* What receives samples. Any thread. */
typedef struct sample_sink {
    void *ctx;
    double rate; /* share of executions, above 0, at most 1 */
    /* A sample to fill, whose program and step are set; NULL: this execution is not wanted. */
    struct sample *(*begin)(void *ctx, const struct program *program, const program_step *step);
    /* complete: all tensors are in the sample. */
    void (*end)(void *ctx, struct sample *sample, bool complete);
    uint64_t max_bytes; /* of the tensors of one sample */
} sample_sink;

/* The observer of one context. The sink must outlive it. */
INLAY_NODISCARD inlay_status sampler_create(const sample_sink *sink, run_observer **out_sampler, inlay_diag *diag);
#endif
