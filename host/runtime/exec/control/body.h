/* exec/control/body.h - what If, Loop, Scan and SequenceMap have in common: bodies that are run again and again, values
 * that are carried from one iteration to the next, results that are stacked. For control.c and scan.c; errors name the
 * node. */
#ifndef EXEC_BODY_H
#define EXEC_BODY_H
#include "exec/control/host_node.h"

/* ------------------------------------------------------------------ bodies */

/* The runner of a body, made when it is first asked for; it stays the context's. */
INLAY_NODISCARD inlay_status body_runner(host_call *call, uint32_t body, struct runner **out_runner);
/* The number of the body that is attribute `attr`; INLAY_NONE: there is none. */
uint32_t find_body(const host_call *call, const char *attr);
/* Scratch of the node for the inputs of a body, with the captured ones filled in. NULL: no memory. */
rt_value *body_inputs(host_call *call, uint32_t body);
/* Passes the body's result on as output o of the node. */
void pass_output(host_call *call, uint32_t o, const struct runner *body, uint32_t body_output);
/* INLAY_INVALID_MODEL unless the body has that many inputs and outputs. */
INLAY_NODISCARD inlay_status body_arity(const host_call *call, const struct graph *graph, uint32_t inputs,
                                        uint32_t outputs);

/* ------------------------------------------------------------------ stacking results */

/* Results of iterations, laid one after the other along a new axis. */
struct stack {
    inlay_dtype dtype;
    uint32_t rank; /* of one result */
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *room; /* a tensor of bytes, taken anew when it gets too small; NULL at first. On a device where the
                          results lie there and are as long as its alignment asks for */
    size_t used;
    int64_t count;
};

/* No iteration: what inference knows of one result, with 0 where it knows nothing. */
void stack_shape_unseen(struct stack *stack, const struct graph *body, uint32_t output);
/* Moves elements between [outer, length, inner] and one slice [outer, inner] of it; inner in bytes. */
void move_slice(char *whole, char *slice, int64_t outer, int64_t length, int64_t at, size_t inner, bool to_slice);
/* The stack as a tensor with the new axis at `axis` (of the result's rank), in reverse order on request: value v of the
 * graph, or INLAY_NONE. */
INLAY_NODISCARD inlay_status stack_pop(host_call *call, struct stack *stack, uint32_t axis, bool reverse, uint32_t v,
                                       inlay_value **out_value);

/* ------------------------------------------------------------------ loops */

struct loop {
    host_call *call;
    struct runner *body;
    const struct graph *graph;
    rt_value *in;
    uint32_t carried;     /* loop-carried values */
    uint32_t scans;       /* scan outputs */
    inlay_value **held;   /* [carried] references to what `in` shows, NULL for the node's own inputs */
    struct stack *stacks; /* [scans] */
    uint32_t first_input; /* of the body that is carried */
    uint32_t *homes;      /* [carried + scans] domains that they stay in; NULL: the host's */
    bool lifts;           /* some are to go there before the first iteration, so that all iterations are alike */
};

/* Finds the body "body" of the node; loop_deinit is called whether it succeeds or not. */
INLAY_NODISCARD inlay_status loop_init(struct loop *loop, host_call *call, uint32_t carried, uint32_t scans);
/* The same for the body of that number; loop->c is set. */
INLAY_NODISCARD inlay_status loop_enter(struct loop *loop, uint32_t body, uint32_t carried, uint32_t scans);
/* What is carried stays on the device whose regions make it; its numbers among the body's inputs and outputs. stacks:
 * what is stacked, along the first axis, stays where it is read next. */
void loop_stay(struct loop *loop, uint32_t first_input, uint32_t first_output, bool stacks);
/* The results of a branch stay where they are read next. */
void branch_stay(struct loop *loop);
/* Takes it there before the first iteration, and home again where a device has no room: these are loop_run's. */
INLAY_NODISCARD inlay_status loop_lift(struct loop *loop);
INLAY_NODISCARD inlay_status loop_ground(struct loop *loop);
/* Runs the body on loop->in; what it captures is the same in all iterations. */
INLAY_NODISCARD inlay_status loop_run(struct loop *loop);
void loop_deinit(struct loop *loop);
/* The body's results become the next iteration's inputs; those that are stacked are pushed. */
INLAY_NODISCARD inlay_status loop_advance(struct loop *loop, uint32_t first_input, uint32_t first_output);
/* Carried values as they are now become the node's outputs. */
INLAY_NODISCARD inlay_status loop_finish_carried(struct loop *loop, uint32_t first_input);

/* ------------------------------------------------------------------ Scan, scan.c */

INLAY_NODISCARD inlay_status run_scan(host_call *call);  /* Scan-9 and later */
INLAY_NODISCARD inlay_status run_scan8(host_call *call); /* with a batch */
#endif
