/* exec/control/body.h - common parts of If, Loop, Scan and SequenceMap: bodies that run repeatedly, values carried from
 * one iteration to the next, and stacked results. Used by control.c and scan.c. Errors name the node. */
#ifndef EXEC_BODY_H
#define EXEC_BODY_H
#include "exec/control/host_node.h"

/* The index of the body in attribute `attr`; INLAY_NONE: no such attribute. */
uint32_t find_body(const host_call *call, const char *attr);
/* Sets output `output` of the node to output `body_output` of the body. */
void pass_output(host_call *call, uint32_t output, const struct runner *body, uint32_t body_output);
/* INLAY_INVALID_MODEL unless the body has this number of inputs and outputs. */
INLAY_NODISCARD inlay_status body_arity(const host_call *call, const struct graph *graph, uint32_t inputs,
                                        uint32_t outputs);

/* The results of iterations, concatenated along a new axis. */
struct stack {
    inlay_dtype dtype;
    uint32_t rank; /* of one result */
    int64_t dims[INLAY_MAX_RANK];
    /* a tensor of bytes that grows by reallocation; NULL at first. It is on the device that holds the results if their
     * size is a multiple of the device's alignment */
    inlay_value *memory;
    size_t used;
    int64_t count;
};

/* Copies slice `at` of the array [outer, length, inner] to (to_slice) or from the array [outer, inner]; inner in
 * bytes. */
void move_slice(char *whole, char *slice, int64_t outer, int64_t length, int64_t at, size_t inner, bool to_slice);
/* Returns the stack as a tensor whose new axis is `axis`; `reverse`: in reverse order. `value`: the graph value that
 * the tensor will be, or INLAY_NONE. */
INLAY_NODISCARD inlay_status stack_pop(host_call *call, struct stack *stack, uint32_t axis, bool reverse,
                                       uint32_t value, inlay_value **out_value);

struct loop {
    host_call *call;
    struct runner *body;
    const struct graph *graph;
    run_value *in;
    uint32_t carried;     /* loop-carried values */
    uint32_t scans;       /* scan outputs */
    inlay_value **held;   /* [carried] references to the values in `in`; NULL for the node's own inputs */
    struct stack *stacks; /* [scans] */
    uint32_t first_input; /* first carried input of the body */
    uint32_t *domains;    /* [carried + scans] domains of these outputs; NULL: all in host memory */
    /* carried values must be copied to their devices before the first iteration, so that all iterations have the same
     * plan */
    bool needs_upload;
};

/* Finds the body "body" of the node. loop_deinit() must be called whether it succeeds or not. */
INLAY_NODISCARD inlay_status loop_init(struct loop *loop, host_call *call, uint32_t carried, uint32_t scans);
/* The same for the body with that index; loop->call must be set. */
INLAY_NODISCARD inlay_status loop_enter(struct loop *loop, uint32_t body, uint32_t carried, uint32_t scans);
/* Keeps each carried value on the device that computes it. first_input, first_output: index of the first carried value
 * among the body's inputs and outputs. `stacks`: scan outputs are stacked along the first axis, so they can also stay
 * in the domain where they are read next. */
void loop_choose_residency(struct loop *loop, uint32_t first_input, uint32_t first_output, bool stacks);
/* Keeps the results of a branch in the domain where they are read next. */
void branch_choose_residency(struct loop *loop);
/* Upload the carried values before the first iteration, and download them if a device is full; called by loop_run(). */
INLAY_NODISCARD inlay_status loop_upload_carried(struct loop *loop);
INLAY_NODISCARD inlay_status loop_download_carried(struct loop *loop);
/* Runs the body on loop->in; captured values are the same in all iterations. */
INLAY_NODISCARD inlay_status loop_run(struct loop *loop);
void loop_deinit(struct loop *loop);
/* Turns the results of the body into inputs of the next iteration, and appends scan outputs to their stacks. */
INLAY_NODISCARD inlay_status loop_advance(struct loop *loop, uint32_t first_input, uint32_t first_output);
/* For zero iterations: sets the shape of one result of scan output `scan` to the shape that a first iteration on
 * loop->in would give, with 0 for sizes that depend on data. output: index of the scan output among the outputs of the
 * body. */
void loop_set_inferred_shape(struct loop *loop, uint32_t scan, uint32_t output);
/* Makes the current carried values outputs of the node. */
INLAY_NODISCARD inlay_status loop_finish_carried(struct loop *loop, uint32_t first_input);

INLAY_NODISCARD inlay_status run_scan(host_call *call);  /* Scan-9 and later */
INLAY_NODISCARD inlay_status run_scan8(host_call *call); /* with a batch axis */
#endif
