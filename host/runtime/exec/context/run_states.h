/* exec/context/run_states.h - states that the runs of one context leave for the next one: the past keys and values of
 * attention, the state of recurrent layers.
 *
 * A state whose step appends in place (plan/program/states.c) has one memory with spare rows, where a run only adds
 * rows. Any other state has two row-major memories: a run reads one and writes the other. */
#ifndef EXEC_RUN_STATES_H
#define EXEC_RUN_STATES_H
#include "exec/loop/runner.h"

typedef struct run_states run_states;

/* For runs of prog, whose env has states. memory may be NULL; rows is the initial capacity. */
INLAY_NODISCARD inlay_status run_states_create(const struct program *prog, run_memory *memory, uint64_t rows,
                                               run_states **out_states, inlay_diag *diag);
/* Continues with runs of another version of the program, whose inputs and outputs have the same types. */
void run_states_move(run_states *states, const struct program *prog);
void run_states_destroy(run_states *states); /* NULL is a no-op */

/* The state whose input is graph input i; INLAY_NONE: none. */
uint32_t run_states_of_input(const program_env *env, uint32_t i);
/* Before a run: binds the state inputs that the caller has not bound (kind 0) to the current states. */
INLAY_NODISCARD inlay_status run_states_bind(run_states *states, struct runner *runner, run_value *in,
                                             inlay_diag *diag);
/* Ends a run that returned `status`: makes its outputs the current states if it succeeded. *out_again: the caller must
 * repeat the run, with other memory. */
INLAY_NODISCARD inlay_status run_states_commit(run_states *states, struct runner *runner, inlay_status status,
                                               bool *out_again, inlay_diag *diag);

/* The number of rows of the longest state that grows. */
int64_t run_states_length(const run_states *states);
/* Keeps the first `length` rows of each state. A state that does not grow can only be rewound to 0. */
INLAY_NODISCARD inlay_status run_states_rewind(run_states *states, int64_t length, inlay_diag *diag);
/* Copies all states of `from` to `states`; both must belong to the same program. */
INLAY_NODISCARD inlay_status run_states_fork(run_states *states, const run_states *from, inlay_diag *diag);
/* A row (of axis 0) of states. */
typedef struct states_row {
    run_states *from;     /* source, with the same states; NULL: a row without tokens */
    uint32_t row, rows;   /* position of the row in `from`, and the number of rows of `from` */
    int64_t length, kept; /* number of tokens of the row, and how many of them are copied */
} states_row;
/* Whether a state does not grow. */
bool run_states_fixed(const run_states *states);
/* Replaces the rows of the states by copies of `rows`. at_end: the tokens of a row are the last ones along a state's
 * axis, otherwise the first. If no row keeps tokens, the states are those before the first run. Unchanged after a
 * failure. Long rows share the pages of their first tokens with their source, which thereafter is a copy, too. */
INLAY_NODISCARD inlay_status run_states_join(run_states *states, bool at_end, const states_row *rows, uint32_t count,
                                             inlay_diag *diag);
/* To be called before runs overwrite the entries of a row from `length` on: these are no longer shared. */
void run_states_shorten(run_states *states, uint32_t row, int64_t length);
/* Returns a copy of the state. */
INLAY_NODISCARD inlay_status run_states_get(const run_states *states, uint32_t state, inlay_value **out_value,
                                            inlay_diag *diag);
/* Replaces the state by a copy of the value, which must have the type and rank of the graph input. */
INLAY_NODISCARD inlay_status run_states_set(run_states *states, uint32_t state, const inlay_value *value,
                                            inlay_diag *diag);
#endif
